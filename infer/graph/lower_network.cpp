// Handlers of the node types that networks are made of: convolutions, matrix products, pooling, softmax.
#include "infer/graph/lower_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "infer/graph/window.hpp"

namespace camd::infer {
namespace {

constexpr std::int64_t kLargestParameter = 1 << 20;  // of a kernel, stride, pad: keeps the arithmetic in range

int bounded(const Lowering& l, std::int64_t value, std::int64_t smallest, std::string_view what) {
  l.require(value >= smallest && value <= kLargestParameter, fmt::format("its {} of {} is out of range", what, value));
  return static_cast<int>(value);
}

// An attribute with one number per spatial dimension; 1-D ones get a leading `first` for the added rows.
Pair2 pair(const Lowering& l, std::string_view name, std::size_t spatial, int first) {
  const auto values = l.integers(name);
  if (!values || values->empty()) return {1, 1};
  l.require(values->size() == spatial, fmt::format("its {} need {} numbers", name, spatial));
  const int last = bounded(l, values->back(), 1, name);
  return {spatial == 1 ? first : bounded(l, values->front(), 1, name), last};
}

struct Window {
  Pair2 kernel, stride{1, 1}, dilation{1, 1};
  Pads pads;
  bool same_upper = false, same_lower = false;
};

Window window(const Lowering& l, std::size_t spatial, Pair2 kernel) {
  Window w;
  w.kernel = kernel;
  w.stride = pair(l, "strides", spatial, 1);
  w.dilation = pair(l, "dilations", spatial, 1);
  const std::string mode = l.text("auto_pad", "NOTSET");
  w.same_upper = mode == "SAME_UPPER";
  w.same_lower = mode == "SAME_LOWER";
  l.require(w.same_upper || w.same_lower || mode == "NOTSET" || mode == "VALID",
            fmt::format("its auto_pad '{}' is not supported", printable(mode)));
  if (const auto pads = l.integers("pads"); pads && mode == "NOTSET") {
    l.require(pads->size() == 2 * spatial, fmt::format("its pads need {} numbers", 2 * spatial));
    const auto at = [&](std::size_t i) { return bounded(l, (*pads)[i], 0, "pad"); };
    w.pads = spatial == 1 ? Pads{0, at(0), 0, at(1)} : Pads{at(0), at(1), at(2), at(3)};
  }
  return w;
}

// SAME: the output has ceil(size / stride) elements; an odd pad goes to the end (UPPER) or the beginning (LOWER).
void same_pads(Window& w, std::int64_t height, std::int64_t width) {
  if (!w.same_upper && !w.same_lower) return;
  const auto split = [&](std::int64_t size, int kernel, int stride, int dilation, int& before, int& after) {
    const std::int64_t out = (size + stride - 1) / stride;
    const auto total = static_cast<int>(std::max<std::int64_t>(window_reach(out, kernel, stride, dilation) - size, 0));
    before = w.same_upper ? total / 2 : total - total / 2;
    after = total - before;
  };
  split(height, w.kernel.y, w.stride.y, w.dilation.y, w.pads.top, w.pads.bottom);
  split(width, w.kernel.x, w.stride.x, w.dilation.x, w.pads.left, w.pads.right);
}

std::int64_t window_count(const Lowering& l, std::int64_t size, int kernel, int stride, int dilation, int before,
                          int after, bool ceil) {
  const std::int64_t room = size + before + after - window_span(kernel, dilation);
  l.require(room >= 0, fmt::format("its kernel of {} does not fit an input of {}", kernel, size));
  std::int64_t count = (ceil ? room + stride - 1 : room) / stride + 1;
  // A last window that would start behind the input sees nothing (as PyTorch and ONNX 1.16 have it).
  if (ceil && (count - 1) * stride >= size + before) --count;
  return count;
}

// [N,C,W] as [N,C,1,W].
ValueId with_rows(Lowering& l, ValueId x) {
  const Shape s = l.shape(x);
  return l.rank(x) == 3 ? l.reshape(x, {s[0], s[1], 1, s[2]}) : x;
}
ValueId without_rows(Lowering& l, ValueId x, bool added) {
  const Shape s = l.shape(x);
  return added ? l.reshape(x, {s[0], s[1], s[3]}) : x;
}

std::size_t spatial_rank(Lowering& l, ValueId x) {
  const int rank = l.rank(x);
  l.require(rank == 3 || rank == 4,
            fmt::format("its input is {}, only one or two spatial dimensions are supported", to_string(l.shape(x))));
  return static_cast<std::size_t>(rank - 2);
}

ValueId bias_of(Lowering& l, std::size_t i, std::int64_t channels) {
  if (!l.has_input(i)) {
    return l.constant(Constant{DataType::kF32, {channels}, std::vector<float>(static_cast<std::size_t>(channels)), {}});
  }
  const Constant& bias = l.weights_input(i, "bias");
  l.require(bias.shape == Shape{channels}, fmt::format("its bias is {}, not [{}]", to_string(bias.shape), channels));
  return l.input(i);
}

// The weight's shape, checked, with rows added to a 1-D one.
ValueId weight_of(Lowering& l, std::size_t spatial) {
  const Constant& weight = l.weights_input(1, "weight");
  l.require(weight.shape.size() == spatial + 2 && element_count(weight.shape) > 0,
            fmt::format("its weight {} does not fit its input", to_string(weight.shape)));
  return with_rows(l, l.input(1));
}

Pair2 kernel_of(Lowering& l, ValueId weight, std::size_t spatial) {
  const Shape s = l.shape(weight);
  const Pair2 kernel{bounded(l, s[2], 1, "kernel"), bounded(l, s[3], 1, "kernel")};
  if (l.integers("kernel_shape")) {
    l.require(pair(l, "kernel_shape", spatial, 1) == kernel, "its kernel_shape is not that of its weight");
  }
  return kernel;
}

void convolution(Lowering& l) {
  const std::size_t spatial = spatial_rank(l, l.input(0));
  const ValueId x = with_rows(l, l.input(0));
  const ValueId weight = weight_of(l, spatial);
  const Shape in = l.shape(x);
  const Shape ws = l.shape(weight);
  const std::int64_t groups = l.integer("group", 1);
  l.require(groups > 0 && groups <= in[1] && in[1] % groups == 0 && in[1] / groups == ws[1] && ws[0] % groups == 0,
            fmt::format("its weight {} and {} groups do not fit its input {}", to_string(ws), groups, to_string(in)));
  Window w = window(l, spatial, kernel_of(l, weight, spatial));
  same_pads(w, in[2], in[3]);
  const Shape out = {in[0], ws[0],
                     window_count(l, in[2], w.kernel.y, w.stride.y, w.dilation.y, w.pads.top, w.pads.bottom, false),
                     window_count(l, in[3], w.kernel.x, w.stride.x, w.dilation.x, w.pads.left, w.pads.right, false)};
  const Conv conv{w.kernel, w.stride, w.dilation, w.pads, static_cast<int>(groups), false};
  const ValueId y = l.emit_pictures(conv, {x, weight, bias_of(l, 2, ws[0]), kNoValue}, out);
  l.set_output(0, without_rows(l, y, spatial == 1));
}

void transposed_convolution(Lowering& l) {
  const std::size_t spatial = spatial_rank(l, l.input(0));
  const ValueId x = with_rows(l, l.input(0));
  const ValueId weight = weight_of(l, spatial);
  const Shape in = l.shape(x);
  const Shape ws = l.shape(weight);
  const std::int64_t groups = l.integer("group", 1);
  l.require(groups > 0 && groups <= in[1] && in[1] == ws[0] && in[1] % groups == 0,
            fmt::format("its weight {} and {} groups do not fit its input {}", to_string(ws), groups, to_string(in)));
  Window w = window(l, spatial, kernel_of(l, weight, spatial));
  Pair2 extra{0, 0};
  if (const auto given = l.integers("output_padding"); given && !given->empty()) {
    l.require(given->size() == spatial, "its output_padding does not fit");
    extra = {spatial == 1 ? 0 : bounded(l, given->front(), 0, "output_padding"),
             bounded(l, given->back(), 0, "output_padding")};
  }
  const auto shape_given = l.integers("output_shape");
  // The given or SAME size decides the pads (onnx.ai: ConvTranspose, output_shape and auto_pad).
  const auto resolve = [&](std::size_t i, std::int64_t size, std::int64_t whole, int stride, int more, int& before,
                           int& after) {
    if (shape_given || w.same_upper || w.same_lower) {
      l.require(!shape_given || shape_given->size() == spatial, "its output_shape does not fit");
      const std::int64_t wanted = !shape_given             ? size * stride
                                  : spatial == 1 && i == 0 ? size
                                                           : (*shape_given)[spatial == 1 ? 0 : i];
      l.require(wanted > 0 && wanted <= kMaxValueElements, "its output_shape is out of range");
      const std::int64_t cut = whole + more - wanted;  // negative: rows beyond the full output
      l.require(cut <= kLargestParameter && cut >= -kLargestParameter, "its output_shape cannot be reached");
      const std::int64_t total = std::max<std::int64_t>(cut, 0);
      before = static_cast<int>(w.same_upper ? total / 2 : total - total / 2);
      after = static_cast<int>(std::min<std::int64_t>(cut, total)) - before - more;
    } else {
      after -= more;
    }
    return whole - before - after;
  };
  const std::int64_t height = resolve(0, in[2], window_reach(in[2], w.kernel.y, w.stride.y, w.dilation.y), w.stride.y,
                                      extra.y, w.pads.top, w.pads.bottom);
  const std::int64_t width = resolve(1, in[3], window_reach(in[3], w.kernel.x, w.stride.x, w.dilation.x), w.stride.x,
                                     extra.x, w.pads.left, w.pads.right);
  l.require(height > 0 && width > 0, "its pads leave no output");
  const std::int64_t channels = ws[1] * groups;
  const ConvTranspose conv{w.kernel, w.stride, w.dilation, w.pads, static_cast<int>(groups)};
  const ValueId y = l.emit_pictures(conv, {x, weight, bias_of(l, 2, channels)}, {in[0], channels, height, width});
  l.set_output(0, without_rows(l, y, spatial == 1));
}

void pool(Lowering& l, Pool::Kind kind) {
  const std::size_t spatial = spatial_rank(l, l.input(0));
  const ValueId x = with_rows(l, l.input(0));
  const Shape in = l.shape(x);
  l.require(l.integers("kernel_shape").has_value(), "its kernel_shape is missing");
  Window w = window(l, spatial, pair(l, "kernel_shape", spatial, 1));
  same_pads(w, in[2], in[3]);
  const bool ceil = l.integer("ceil_mode", 0) != 0;
  l.require(w.pads.top <= (w.kernel.y - 1) * w.dilation.y && w.pads.left <= (w.kernel.x - 1) * w.dilation.x &&
                w.pads.bottom <= (w.kernel.y - 1) * w.dilation.y && w.pads.right <= (w.kernel.x - 1) * w.dilation.x,
            "its pads reach further than its kernel");
  Pool p{kind, w.kernel, w.stride, w.dilation, w.pads, l.integer("count_include_pad", 0) != 0};
  const Shape out = {in[0], in[1],
                     window_count(l, in[2], w.kernel.y, w.stride.y, w.dilation.y, w.pads.top, w.pads.bottom, ceil),
                     window_count(l, in[3], w.kernel.x, w.stride.x, w.dilation.x, w.pads.left, w.pads.right, ceil)};
  l.require(out[2] > 0 && out[3] > 0, "its output would be empty");
  l.set_output(0, without_rows(l, l.emit_pictures(p, {x}, out), spatial == 1));
}

void max_pool(Lowering& l) { pool(l, Pool::Kind::kMax); }
void average_pool(Lowering& l) { pool(l, Pool::Kind::kAverage); }

void global_pool(Lowering& l, Pool::Kind kind) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  l.require(in.size() >= 3, "its input has no spatial dimensions");
  if (in.size() != 4) {
    l.set_output(0, l.reduce(kind == Pool::Kind::kMax ? Reduce::Kind::kMax : Reduce::Kind::kMean, x,
                             Lowering::axes_from(2, l.rank(x))));
    return;
  }
  Pool p;
  p.kind = kind;
  p.kernel = p.stride = {bounded(l, in[2], 1, "input"), bounded(l, in[3], 1, "input")};
  l.set_output(0, l.emit_pictures(p, {x}, {in[0], in[1], 1, 1}));
}

void global_max_pool(Lowering& l) { global_pool(l, Pool::Kind::kMax); }
void global_average_pool(Lowering& l) { global_pool(l, Pool::Kind::kAverage); }

void matrix_product(Lowering& l, ValueId a, ValueId b, ValueId bias) {
  const bool row = l.rank(a) == 1;
  const bool column = l.rank(b) == 1;
  l.require(l.rank(a) > 0 && l.rank(b) > 0, "it multiplies a scalar");
  if (row) a = l.reshape(a, {1, l.shape(a)[0]});
  if (column) b = l.reshape(b, {l.shape(b)[0], 1});
  const Shape sa = l.shape(a);
  const Shape sb = l.shape(b);
  l.require(sa.back() == sb[sb.size() - 2],
            fmt::format("{} and {} do not fit for a product", to_string(sa), to_string(sb)));
  Shape out = broadcast(l, Shape(sa.begin(), sa.end() - 2), Shape(sb.begin(), sb.end() - 2));
  out.push_back(sa[sa.size() - 2]);
  out.push_back(sb.back());
  if (bias != kNoValue) {
    l.require(broadcast(l, out, l.shape(bias)) == out, "its third input does not fit");
  }
  ValueId y = l.emit(MatMul{}, {a, b, bias}, out);
  if (row || column) {
    Shape squeezed(out.begin(), out.end() - 2);
    if (!row) squeezed.push_back(out[out.size() - 2]);
    if (!column) squeezed.push_back(out.back());
    y = l.reshape(y, squeezed);
  }
  l.set_output(0, y);
}

void matmul(Lowering& l) { matrix_product(l, l.input(0), l.input(1), kNoValue); }

void gemm(Lowering& l) {
  ValueId a = l.input(0);
  ValueId b = l.input(1);
  l.require(l.rank(a) == 2 && l.rank(b) == 2, "its inputs are no matrices");
  if (l.integer("transA", 0) != 0) a = l.transpose(a, {1, 0});
  if (l.integer("transB", 0) != 0) b = l.transpose(b, {1, 0});
  if (const float alpha = l.number("alpha", 1.0F); alpha != 1.0F)
    b = l.binary(Binary::Kind::kMul, b, l.constant(alpha));
  ValueId c = l.has_input(2) ? l.input(2) : kNoValue;
  const float beta = l.number("beta", 1.0F);
  if (c != kNoValue && beta != 1.0F) c = l.binary(Binary::Kind::kMul, c, l.constant(beta));
  matrix_product(l, a, b, c);
}

void softmax(Lowering& l, bool log) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  l.require(!in.empty(), "its input is a scalar");
  const int axis = l.axis(l.integer("axis", l.opset() >= 13 ? -1 : 1), l.rank(x));
  if (l.opset() >= 13) {
    l.set_output(0, l.emit(Softmax{axis, log}, {x}, in));
    return;
  }
  // Before opset 13 the axis only said where to flatten into a matrix.
  const Shape matrix = {element_count(Shape(in.begin(), in.begin() + axis)),
                        element_count(Shape(in.begin() + axis, in.end()))};
  if (matrix[1] == in[static_cast<std::size_t>(axis)]) {
    l.set_output(0, l.emit(Softmax{axis, log}, {x}, in));
    return;
  }
  l.set_output(0, l.reshape(l.emit(Softmax{1, log}, {l.reshape(x, matrix)}, matrix), in));
}

void softmax_plain(Lowering& l) { softmax(l, false); }
void softmax_log(Lowering& l) { softmax(l, true); }

}  // namespace

const std::vector<HandlerEntry>& network_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"Conv", convolution, "one or two spatial dimensions"},
      {"ConvTranspose", transposed_convolution, "one or two spatial dimensions"},
      {"MaxPool", max_pool, "one or two spatial dimensions, no indices"},
      {"AveragePool", average_pool, "one or two spatial dimensions"},
      {"GlobalMaxPool", global_max_pool},
      {"GlobalAveragePool", global_average_pool},
      {"MatMul", matmul},
      {"Gemm", gemm},
      {"Softmax", softmax_plain},
      {"LogSoftmax", softmax_log},
  };
  return kTable;
}

}  // namespace camd::infer
