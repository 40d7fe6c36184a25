#include "infer/cpu/half_trial.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/log.hpp"
#include "infer/cpu/build_conv.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/run.hpp"
#include "infer/graph/trial.hpp"
#include "infer/preprocess.hpp"

namespace camd::infer::cpu {
namespace {

using Outputs = std::vector<std::vector<float>>;

// Of all runs in which one convolution alone is in half precision. Where they would take more, neighbours are measured
// together: a core does some 20,000 million a second.
constexpr std::int64_t kMostMultiplyAdds = 40'000'000'000;

std::vector<float> network_input(const InputOptions& input, const Shape& shape) {
  const int width = std::max(input.width / 4, 1), height = std::max(input.height / 4, 1);
  const std::vector<std::byte> pixels = trial_picture(width, height);
  std::vector<float> planes(static_cast<std::size_t>(element_count(shape)));
  Preprocessor(input).run({pixels.data(), base::tight_layout(base::PixelFormat::kBgr, width, height), false},
                          planes.data());
  return planes;
}

Outputs outputs_of(std::shared_ptr<const Program> program, const std::vector<float>& picture, ThreadPool& threads) {
  Outputs outputs;
  std::vector<float*> places;
  outputs.reserve(program->graph.outputs.size());
  for (const ValueId id : program->graph.outputs) {
    outputs.emplace_back(static_cast<std::size_t>(element_count(program->graph.shape(id))));
    places.push_back(outputs.back().data());
  }
  Run(std::move(program), threads)(picture.data(), places);
  return outputs;
}

}  // namespace

std::shared_ptr<const Program> make_half_program(const Graph& graph, const InputOptions& input, const Kernels& kernels,
                                                 const Kernels& half, ThreadPool& threads, const std::string& path) {
  const TrialGraph measured = trial_graph(graph, false);
  const std::vector<float> picture = network_input(input, graph.shape(graph.input));
  const auto build = [&](const Graph& built, const HalfPrecision& precision) {
    return build_program(built, kernels, threads.size(), path, precision);
  };
  const Outputs want = outputs_of(build(measured.graph, {}), picture, threads);
  const std::vector<OutputKind> kinds = output_kinds(measured.graph);
  std::vector<Shape> shapes;
  for (const ValueId id : measured.graph.outputs) shapes.push_back(measured.graph.shape(id));
  const auto distance_of = [&](const std::vector<bool>& in_f32) {
    const float off =
        distance(outputs_of(build(measured.graph, {&half, in_f32}), picture, threads), want, shapes, kinds);
    base::log().debug("engine cpu: {}: {} convolutions in f32, off by {:.2g}", path,
                      std::count(in_f32.begin(), in_f32.end(), true), off);
    return off;
  };
  std::vector<bool> given = measured.unmeasured;  // in f32 anyway
  std::vector<std::size_t> able;                  // the others
  std::size_t number = 0;
  for (const Op& op : measured.graph.ops) {
    const auto* const conv = std::get_if<Conv>(&op.operation);
    if (conv == nullptr) continue;
    given[number] = given[number] || !suits_half(measured.graph, op, *conv);
    if (!given[number]) able.push_back(number);
    ++number;
  }
  const float off = distance_of(given);
  if (off <= kToleratedDistance) return build(graph, {&half, given});
  const std::size_t together = convolutions_of_a_run(measured.graph, able.size(), kMostMultiplyAdds);
  std::vector<float> alone(given.size(), 0.0F);
  for (std::size_t first = 0; first < able.size(); first += together) {
    const std::span<const std::size_t> members =
        std::span(able).subspan(first, std::min(together, able.size() - first));
    std::vector<bool> others(given.size(), true);
    for (const std::size_t i : members) others[i] = false;
    const float harm = off_by_each(distance_of(others), members.size());
    for (const std::size_t i : members) alone[i] = harm;
  }
  const std::vector<bool> in_f32 =
      choose_f32_convolutions(alone, given, distance_of, f32_choice(measured.graph, kinds, off));
  const auto left = std::count_if(able.begin(), able.end(), [&](std::size_t i) { return in_f32[i]; });
  base::log().info(
      "engine cpu: {}: {} alone would be off by {:.2g} of an output's largest value, so {} of {} dense convolutions "
      "are "
      "computed in f32",
      path, to_string(half.half.value()), off, left, able.size());
  return build(graph, {&half, in_f32});
}

}  // namespace camd::infer::cpu
