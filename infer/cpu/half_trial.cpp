#include "infer/cpu/half_trial.hpp"

#include <algorithm>
#include <vector>

#include "base/log.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/run.hpp"
#include "infer/graph/trial.hpp"
#include "infer/preprocess.hpp"

namespace camd::infer::cpu {
namespace {

using Outputs = std::vector<std::vector<float>>;

constexpr std::size_t kFirst =
    8;  // convolutions in f32 of the first try beyond f16 alone; each try has half as many more

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
  const std::vector<bool> scores = probabilities(measured.graph);
  std::vector<Shape> shapes;
  for (const ValueId id : measured.graph.outputs) shapes.push_back(measured.graph.shape(id));
  HalfPrecision precision{&half, measured.unmeasured};
  const auto distance_now = [&] {
    const float off = distance(outputs_of(build(measured.graph, precision), picture, threads), want, shapes, scores);
    base::log().debug("engine cpu: {}: {} convolutions in f32, off by {:.2g}", path,
                      std::count(precision.in_f32.begin(), precision.in_f32.end(), true), off);
    return off;
  };
  const float alone = distance_now();
  if (alone <= kToleratedDistance) return build(graph, precision);
  const std::size_t count = precision.in_f32.size();
  for (std::size_t first = kFirst; first < count; first += first / 2) {
    std::fill_n(precision.in_f32.begin(), first, true);
    if (distance_now() > kWantedDistance) continue;
    base::log().info(
        "engine cpu: {}: f16 alone would be off by {:.2g} of an output's largest value, so the first {} of {} "
        "convolutions are computed in f32",
        path, alone, first, count);
    return build(graph, precision);
  }
  base::log().info("engine cpu: {}: f16 would be off by {:.2g} of an output's largest value, so all is computed in f32",
                   path, alone);
  return build(graph, {});
}

}  // namespace camd::infer::cpu
