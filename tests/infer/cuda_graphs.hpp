// Graphs built by hand for the tests of the CUDA engine, with random weights.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer::test {

class GraphBuilder {
 public:
  explicit GraphBuilder(Shape input, unsigned seed = 1) : random_(seed) { graph_.input = value(std::move(input)); }

  [[nodiscard]] ValueId input() const { return graph_.input; }
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.shape(id); }

  ValueId value(Shape shape) {
    graph_.values.push_back(Value{"v" + std::to_string(graph_.values.size()), std::move(shape), nullptr});
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }
  ValueId constant(Shape shape, float scale = 1.0F) {
    Constant c;
    c.shape = shape;
    std::uniform_real_distribution<float> spread(-scale, scale);
    for (std::int64_t i = 0; i < element_count(shape); ++i) c.f32.push_back(spread(random_));
    const ValueId id = value(std::move(shape));
    graph_.values.back().constant = std::make_shared<const Constant>(std::move(c));
    return id;
  }
  ValueId op(Operation operation, std::vector<ValueId> inputs, Shape shape, Activation activation = {}) {
    const ValueId out = value(std::move(shape));
    Op made;
    made.origin = std::string(kind_name(operation)) + " (node '" + graph_.value(out).name + "')";
    made.operation = std::move(operation);
    made.inputs = std::move(inputs);
    made.output = out;
    made.activation = activation;
    graph_.ops.push_back(std::move(made));
    return out;
  }

  ValueId conv(ValueId x, int channels, int kernel, int stride = 1, int groups = 1,
               Activation activation = {Function::kRelu}, ValueId residual = kNoValue, bool activation_first = false) {
    Conv c;
    c.kernel = {kernel, kernel};
    c.stride = {stride, stride};
    const int pad = kernel / 2;
    c.pads = {pad, pad, pad, pad};
    c.groups = groups;
    c.activation_first = activation_first;
    const Shape in = shape(x);
    const std::int64_t taps = in[1] / groups * kernel * kernel;
    const float scale = 1.7F / std::sqrt(static_cast<float>(taps));
    const ValueId w = constant({channels, in[1] / groups, kernel, kernel}, scale);
    const ValueId b = constant({channels}, 0.2F);
    const auto size = [&](std::int64_t n) { return (n + std::int64_t{2} * pad - kernel) / stride + 1; };
    return op(c, {x, w, b, residual}, {1, channels, size(in[2]), size(in[3])}, activation);
  }
  ValueId separable(ValueId x, int channels, int stride = 1) {
    const int c = static_cast<int>(shape(x)[1]);
    return conv(conv(x, c, 3, stride, c), channels, 1);
  }
  // Nearest enlargement as ONNX's Resize with asymmetric floor.
  ValueId enlarge(ValueId x, std::int64_t h, std::int64_t w) {
    Resize r;
    const auto fill = [](ResizeAxis& axis, std::int64_t in, std::int64_t out) {
      for (std::int64_t i = 0; i < out; ++i) {
        axis.index.push_back(static_cast<int>(i * in / out));
        axis.weight.push_back(1.0F);
      }
    };
    fill(r.y, shape(x)[2], h);
    fill(r.x, shape(x)[3], w);
    return op(r, {x}, {1, shape(x)[1], h, w});
  }
  ValueId concat(const std::vector<ValueId>& inputs, int axis = 1) {
    Shape s = shape(inputs[0]);
    for (std::size_t i = 1; i < inputs.size(); ++i)
      s[static_cast<std::size_t>(axis)] += shape(inputs[i])[static_cast<std::size_t>(axis)];
    return op(Concat{axis}, inputs, s);
  }
  // The positions of a picture in one line, [1, C, H * W], as detectors join their levels.
  ValueId flat(ValueId picture) {
    const Shape s = shape(picture);
    return op(Reshape{}, {picture}, {1, s[1], s[2] * s[3]});
  }
  ValueId unary(ValueId x, Activation f) { return op(Unary{f}, {x}, shape(x)); }
  ValueId binary(Binary::Kind kind, ValueId a, ValueId b, Activation f = {}) {
    return op(Binary{kind}, {a, b}, shape(a), f);
  }

  [[nodiscard]] Graph& graph() { return graph_; }
  Graph finish(const std::vector<ValueId>& outputs) {
    graph_.outputs = outputs;
    return graph_;
  }
  std::vector<float> random_input() {
    std::uniform_real_distribution<float> spread(0.0F, 1.0F);
    std::vector<float> values(static_cast<std::size_t>(element_count(shape(graph_.input))));
    for (float& v : values) v = spread(random_);
    return values;
  }

 private:
  Graph graph_;
  std::mt19937 random_;
};

// Blocks that shuffle channels as ShuffleNet V2 does, and one that adds what it reads: bottleneck() computes them.
inline Graph shuffled_blocks(GraphBuilder& g, int width) {
  const auto select = [&](ValueId x, std::int64_t first) {
    Shape shape = g.shape(x);
    shape[1] = width;
    std::vector<std::int64_t> channels;
    for (std::int64_t i = first; i < first + width; ++i) channels.push_back(i / 2 + i % 2 * width);
    return g.op(Gather{1, std::move(channels)}, {x}, shape);
  };
  const auto branch = [&](ValueId x, int stride, ValueId residual = kNoValue) {
    const ValueId deep = g.conv(g.conv(x, width, 1), width, 3, stride, width, {});
    return g.conv(deep, width, 1, 1, 1, {Function::kRelu}, residual);
  };
  const ValueId first = g.conv(g.input(), width, 3, 2);
  ValueId whole = g.concat({g.conv(first, width, 1, 2), branch(first, 2)});
  for (int block = 0; block < 3; ++block) whole = g.concat({select(whole, 0), branch(select(whole, width), 1)});
  const ValueId x = g.conv(whole, width, 1);
  return g.finish({g.conv(branch(x, 1, x), 8, 1, 1, 1, {})});
}

// The mean of all pixels.
inline ValueId average(GraphBuilder& g, ValueId x) {
  const Shape s = g.shape(x);
  Pool pool;
  pool.kind = Pool::Kind::kAverage;
  pool.kernel = {static_cast<int>(s[2]), static_cast<int>(s[3])};
  return g.op(pool, {x}, {1, s[1], 1, 1});
}

// Patches of two by two pixels as channels, as YOLOX begins. `chained`: rows and columns are taken one after the other.
inline ValueId patches(GraphBuilder& g, ValueId x, bool chained) {
  const auto part = [&](ValueId from, std::vector<std::int64_t> start, std::vector<std::int64_t> step) {
    Shape out = g.shape(from);
    for (std::size_t d = 0; d < 4; ++d) out[d] /= step[d];
    return g.op(Slice{std::move(start), std::move(step)}, {from}, out);
  };
  std::vector<ValueId> parts;
  for (const auto& [row, column] : {std::pair{0, 0}, {1, 0}, {0, 1}, {1, 1}}) {
    if (chained)
      parts.push_back(part(part(x, {0, 0, row, 0}, {1, 1, 2, 1}), {0, 0, 0, column}, {1, 1, 1, 2}));
    else
      parts.push_back(part(x, {0, 0, row, column}, {1, 1, 2, 2}));
  }
  return g.concat(parts);
}

// What mobile networks are made of: patches, depthwise convolutions of 5x5 and 3x3, squeeze and excitation.
inline Graph mobile_blocks(GraphBuilder& g) {
  const Activation silu{Function::kSilu};
  const auto block = [&](ValueId x, int channels, int side, int stride, ValueId residual = kNoValue) {
    const int from = static_cast<int>(g.shape(x)[1]);
    return g.conv(g.conv(x, from, side, stride, from, silu), channels, 1, 1, 1, silu, residual);
  };
  const ValueId first = g.conv(patches(g, g.input(), false), 16, 3, 1, 1, silu);
  const ValueId x = block(first, 40, 5, 2);
  const ValueId gate = g.conv(g.conv(average(g, x), 10, 1), 40, 1, 1, 1, {Function::kSigmoid});
  const ValueId excited = g.binary(Binary::Kind::kMul, x, gate);
  const ValueId y = block(excited, 40, 5, 1, excited);
  return g.finish({g.conv(block(block(y, 72, 3, 2), 130, 5, 1), 8, 1, 1, 1, {})});
}

// A first convolution and three depthwise blocks, all with this activation.
inline Graph first_blocks(GraphBuilder& g, const Activation& activation) {
  ValueId x = g.conv(g.input(), 8, 3, 2, 1, activation);
  for (const int channels : {16, 24, 24}) {
    const int from = static_cast<int>(g.shape(x)[1]);
    x = g.conv(g.conv(x, from, 3, 1, from, activation), channels, 1, 1, 1, activation);
  }
  return g.finish({g.conv(x, 16, 3, 2, 1, activation)});
}

// The shape of the reference detector, narrower and with any input size: every fusion of the planner happens in it.
inline Graph small_detector(GraphBuilder& g, int width = 8) {
  ValueId x = g.conv(g.input(), width, 3, 2);
  x = g.separable(x, width * 2);
  x = g.separable(x, width * 4, 2);
  const ValueId tap0 = g.separable(x, width * 4);
  const ValueId tap1 = g.separable(tap0, width * 8, 2);
  const ValueId tap2 = g.separable(tap1, width * 16, 2);
  const int pyramid = width * 4;
  const ValueId level2 = g.conv(tap2, pyramid, 1);
  const Shape s1 = g.shape(tap1), s0 = g.shape(tap0);
  const ValueId sum1 = g.conv(tap1, pyramid, 1, 1, 1, {Function::kRelu}, g.enlarge(level2, s1[2], s1[3]), true);
  const ValueId level1 = g.conv(sum1, pyramid, 3);
  const ValueId sum0 = g.conv(tap0, pyramid, 1, 1, 1, {Function::kRelu}, g.enlarge(level1, s0[2], s0[3]), true);
  const ValueId level0 = g.conv(sum0, pyramid, 3);
  std::vector<ValueId> outputs;
  for (const ValueId level : {level0, level1, level2}) {
    const ValueId view3 = g.conv(level, pyramid / 2, 3, 1, 1, {});
    const ValueId reduced = g.conv(level, pyramid / 4, 3);
    const ValueId view5 = g.conv(reduced, pyramid / 4, 3, 1, 1, {});
    const ValueId deep = g.conv(reduced, pyramid / 4, 3);
    const ValueId view7 = g.conv(deep, pyramid / 4, 3, 1, 1, {});
    const ValueId features = g.unary(g.concat({view3, view5, view7}), {Function::kRelu});
    outputs.push_back(g.conv(features, 4, 1, 1, 1, {Function::kSigmoid}));
    outputs.push_back(g.conv(features, 8, 1, 1, 1, {}));
    outputs.push_back(g.conv(features, 20, 1, 1, 1, {}));
  }
  return g.finish(outputs);
}

// Largest difference relative to the largest value wanted; NaN never passes.
inline float relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  float largest = 0.0F, difference = 0.0F;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    const float d = std::abs(got[i] - want[i]);
    if (!(d <= difference)) difference = d;
    if (std::isnan(d)) return INFINITY;
  }
  return difference / std::max(largest, 1e-6F);
}

}  // namespace camd::infer::test
