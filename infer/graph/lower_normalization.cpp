// Handlers of the normalisations. What is known beforehand folds away; the others become means, differences and
// products, as their definitions have them.
#include "infer/graph/lower_normalization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace camd::infer {
namespace {

Constant per_channel(std::vector<float> values, int rank) {
  Shape shape(static_cast<std::size_t>(std::max(rank - 1, 1)), 1);
  shape[0] = static_cast<std::int64_t>(values.size());
  return {DataType::kF32, std::move(shape), std::move(values), {}};
}

void batch_normalization(Lowering& l) {
  const ValueId x = l.input(0);
  l.require(l.rank(x) >= 2, "its input has no channels");
  l.require(l.integer("training_mode", 0) == 0, "training mode is not supported");
  l.require(l.integer("spatial", 1) != 0, "spatial = 0 is not supported");
  const std::int64_t channels = l.shape(x)[1];
  std::vector<float> gain, offset;
  const Constant& scale = l.weights_input(1, "scale");
  const Constant& bias = l.weights_input(2, "bias");
  const Constant& mean = l.weights_input(3, "mean");
  const Constant& variance = l.weights_input(4, "variance");
  for (const Constant* c : {&scale, &bias, &mean, &variance}) {
    l.require(c->shape == Shape{channels}, fmt::format("its parameters are not [{}]", channels));
  }
  const auto epsilon = static_cast<double>(l.number("epsilon", 1e-5F));
  for (std::size_t c = 0; c < scale.f32.size(); ++c) {
    const double g = static_cast<double>(scale.f32[c]) / std::sqrt(static_cast<double>(variance.f32[c]) + epsilon);
    gain.push_back(static_cast<float>(g));
    offset.push_back(static_cast<float>(static_cast<double>(bias.f32[c]) - g * static_cast<double>(mean.f32[c])));
  }
  const ValueId scaled = l.binary(Binary::Kind::kMul, x, l.constant(per_channel(std::move(gain), l.rank(x))));
  l.set_output(0, l.binary(Binary::Kind::kAdd, scaled, l.constant(per_channel(std::move(offset), l.rank(x)))));
}

struct Normalized {
  ValueId y;  // (x - mean) / deviation
  ValueId mean;
  ValueId deviation;  // sqrt(variance + epsilon)
};

Normalized normalized(Lowering& l, ValueId x, const std::vector<int>& axes) {
  const ValueId average = l.reduce(Reduce::Kind::kMean, x, axes);
  const ValueId centred = l.binary(Binary::Kind::kSub, x, average);
  const ValueId variance = l.reduce(Reduce::Kind::kMean, l.binary(Binary::Kind::kMul, centred, centred), axes);
  const ValueId shifted = l.binary(Binary::Kind::kAdd, variance, l.constant(l.number("epsilon", 1e-5F)));
  const ValueId deviation = l.unary(shifted, {Function::kSqrt, 0, 0});
  return {l.binary(Binary::Kind::kDiv, centred, deviation), average, deviation};
}

void instance_normalization(Lowering& l) {
  const ValueId x = l.input(0);
  l.require(l.rank(x) >= 3, "its input has no spatial dimensions");
  const ValueId scale = l.constant(per_channel(l.weights_input(1, "scale").f32, l.rank(x)));
  const ValueId bias = l.constant(per_channel(l.weights_input(2, "bias").f32, l.rank(x)));
  const ValueId scaled = l.binary(Binary::Kind::kMul, normalized(l, x, Lowering::axes_from(2, l.rank(x))).y, scale);
  l.set_output(0, l.binary(Binary::Kind::kAdd, scaled, bias));
}

void layer_normalization(Lowering& l) {
  const ValueId x = l.input(0);
  const int first = l.axis(l.integer("axis", -1), l.rank(x));
  const Normalized n = normalized(l, x, Lowering::axes_from(first, l.rank(x)));
  if (l.output_wanted(1)) l.set_output(1, n.mean);
  if (l.output_wanted(2)) l.set_output(2, l.unary(n.deviation, {Function::kReciprocal, 0, 0}));
  ValueId y = l.binary(Binary::Kind::kMul, n.y, l.input(1));
  if (l.has_input(2)) y = l.binary(Binary::Kind::kAdd, y, l.input(2));
  l.set_output(0, y);
}

// scale and bias of each channel, or (before opset 21) of each group.
void group_normalization(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const std::int64_t groups = l.integer("num_groups", 0);
  l.require(in.size() >= 3 && groups > 0 && in[1] % groups == 0, "its groups do not fit its input");
  const std::int64_t channels = in[1];
  const auto spread = [&](std::size_t i, std::string_view what) {
    std::vector<float> given = l.weights_input(i, what).f32;
    const auto count = static_cast<std::int64_t>(given.size());
    l.require(count == channels || count == groups, fmt::format("its {} has {} elements", what, count));
    std::vector<float> values;
    for (std::int64_t c = 0; c < channels; ++c) {
      values.push_back(given[static_cast<std::size_t>(count == channels ? c : c / (channels / groups))]);
    }
    return l.constant(per_channel(std::move(values), l.rank(x)));
  };
  const ValueId grouped = l.reshape(x, {in[0], groups, element_count(in) / (in[0] * groups)});
  const ValueId y = l.reshape(normalized(l, grouped, {2}).y, in);
  const ValueId scaled = l.binary(Binary::Kind::kMul, y, spread(1, "scale"));
  l.set_output(0, l.binary(Binary::Kind::kAdd, scaled, spread(2, "bias")));
}

void lp_normalization(Lowering& l) {
  const ValueId x = l.input(0);
  const std::int64_t p = l.integer("p", 2);
  l.require(p == 1 || p == 2, fmt::format("its p of {} is not supported", p));
  const int axis = l.axis(l.integer("axis", -1), l.rank(x));
  const ValueId norm = l.reduce(p == 1 ? Reduce::Kind::kL1 : Reduce::Kind::kL2, x, {axis});
  l.set_output(0, l.binary(Binary::Kind::kDiv, x, norm));
}

void mean_variance_normalization(Lowering& l) {
  const ValueId x = l.input(0);
  const std::vector<int> axes = l.axes(l.integers("axes").value_or(std::vector<std::int64_t>{0, 2, 3}), l.rank(x));
  const ValueId centred = l.binary(Binary::Kind::kSub, x, l.reduce(Reduce::Kind::kMean, x, axes));
  const ValueId variance = l.reduce(Reduce::Kind::kMean, l.binary(Binary::Kind::kMul, centred, centred), axes);
  const ValueId deviation = l.unary(variance, {Function::kSqrt, 0, 0});
  l.set_output(0, l.binary(Binary::Kind::kDiv, centred, l.binary(Binary::Kind::kAdd, deviation, l.constant(1e-9F))));
}

}  // namespace

const std::vector<HandlerEntry>& normalization_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"BatchNormalization", batch_normalization, "no training mode"},
      {"InstanceNormalization", instance_normalization},
      {"LayerNormalization", layer_normalization},
      {"GroupNormalization", group_normalization},
      {"LpNormalization", lp_normalization},
      {"MeanVarianceNormalization", mean_variance_normalization},
  };
  return kTable;
}

}  // namespace camd::infer
