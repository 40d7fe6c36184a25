// The choice of convolutions in f32.
#include "infer/cuda/plan/mixed_precision.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "infer/cuda/plan/packing.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {

Graph with_rounded_weights(const Graph& graph) {
  Graph rounded = graph;
  for (Op& op : rounded.ops) {
    const auto* conv = std::get_if<Conv>(&op.operation);
    if (conv == nullptr || !graph.is_constant(op.inputs[1])) continue;
    Value weights = graph.value(op.inputs[1]);
    Constant halves = *weights.constant;
    halves.f32 = round_keeping_sums(std::move(halves.f32), conv->kernel.y * conv->kernel.x);
    weights.constant = std::make_shared<const Constant>(std::move(halves));
    op.inputs[1] = static_cast<ValueId>(rounded.values.size());
    rounded.values.push_back(std::move(weights));
  }
  return rounded;
}

std::vector<float> of_convolutions(const Graph& graph, const Plan& plan, const std::vector<float>& steps) {
  std::vector<float> values;
  std::size_t step = 0;
  for (const Op& op : graph.ops) {
    if (!std::holds_alternative<Conv>(op.operation)) continue;
    std::size_t at = step;
    const auto is_its = [&](const Step& s) {
      const auto* conv = std::get_if<GenericConvArguments>(&s.arguments);
      return conv != nullptr && !conv->transposed && s.origin == op.origin;
    };
    while (at < plan.steps.size() && !is_its(plan.steps[at])) ++at;
    values.push_back(at < plan.steps.size() ? steps[at] : 0.0F);
    if (at < plan.steps.size()) step = at + 1;
  }
  return values;
}

namespace {

// Values of more than one pixel that something reads in another type than they are made in.
int conversions(const Graph& graph, const std::vector<bool>& in_f32) {
  const std::vector<bool> ops = f32_ops(graph, in_f32);
  if (ops.empty()) return 0;
  const std::vector<int> makers = producers(graph);
  std::vector<bool> converted(graph.values.size(), false);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const ValueId in : graph.ops[i].inputs) {
      const int make = in == kNoValue ? -1 : makers[at(in)];
      if (make >= 0 && graph.shape(in).size() == 4 && ops[at(make)] != ops[i]) converted[at(in)] = true;
    }
  }
  return static_cast<int>(std::count(converted.begin(), converted.end(), true));
}

}  // namespace

std::vector<bool> with_fewer_conversions(const Graph& graph, std::vector<bool> in_f32) {
  constexpr std::int64_t kMostProducts = 16'000'000;  // beyond, f32 takes longer than a conversion saves
  // The first convolution reads the camera's picture itself, and the last ones write outputs themselves, in f16 only.
  std::vector<bool> images(graph.values.size(), true);  // values that nothing but operators on images reads
  for (const ValueId id : graph.outputs) images[at(id)] = false;
  for (const Op& op : graph.ops) {
    for (const ValueId in : op.inputs) {
      if (in != kNoValue && graph.shape(op.output).size() != 4) images[at(in)] = false;
    }
  }
  std::vector<std::size_t> small;  // convolutions of f16
  std::size_t convolution = 0;
  for (const Op& op : graph.ops) {
    if (!std::holds_alternative<Conv>(op.operation)) continue;
    const std::int64_t terms = element_count(graph.shape(op.inputs[1])) / graph.shape(op.output)[1];
    const bool between = op.inputs[0] != graph.input && images[at(op.output)];
    if (!in_f32[convolution] && between && element_count(graph.shape(op.output)) * terms <= kMostProducts)
      small.push_back(convolution);
    ++convolution;
  }
  int now = conversions(graph, in_f32);
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::size_t i : small) {
      if (in_f32[i]) continue;
      in_f32[i] = true;
      const int then = conversions(graph, in_f32);
      if (then < now) {
        now = then;
        changed = true;
      } else {
        in_f32[i] = false;
      }
    }
  }
  return in_f32;
}

std::vector<bool> f32_ops(const Graph& graph, const std::vector<bool>& wanted) {
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return {};
  const std::size_t count = graph.ops.size();
  std::vector<bool> ops(count, false);
  std::vector<bool> comes(graph.values.size(), false);  // values that are made in f32
  comes[static_cast<std::size_t>(graph.input)] = true;
  std::size_t convolution = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Op& o = graph.ops[i];
    bool f32 = false;
    if (std::holds_alternative<Conv>(o.operation)) {
      f32 = convolution < wanted.size() && wanted[convolution];
      ++convolution;
    } else {
      for (const ValueId in : o.inputs) f32 = f32 || (in != kNoValue && comes[static_cast<std::size_t>(in)]);
    }
    ops[i] = f32;
    comes[static_cast<std::size_t>(o.output)] = f32;
  }
  // What nobody wants in f32 need not be.
  std::vector<bool> read(graph.values.size(), false);  // values that are read in f32
  for (const ValueId id : graph.outputs) read[static_cast<std::size_t>(id)] = true;
  for (std::size_t i = count; i-- > 0;) {
    const Op& o = graph.ops[i];
    if (!std::holds_alternative<Conv>(o.operation) && !read[static_cast<std::size_t>(o.output)]) ops[i] = false;
    if (!ops[i]) continue;
    for (const ValueId in : o.inputs) {
      if (in != kNoValue) read[static_cast<std::size_t>(in)] = true;
    }
  }
  return ops;
}

}  // namespace camd::infer::cuda
