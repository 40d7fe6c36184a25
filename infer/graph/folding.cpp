#include "infer/graph/folding.hpp"

#include <algorithm>
#include <limits>

#include "infer/graph/reference.hpp"

namespace camd::infer {
namespace {

using Inputs = std::vector<const Constant*>;

bool fits_product(std::int64_t m, std::int64_t k, std::int64_t n) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return m > 0 && k > 0 && n > 0 && m <= kMost && k <= kMost && n <= kMost;
}

// One matrix by one matrix, with one bias for all rows.
bool is_plain_product(const Op& op, const Shape& a, const Shape& b, const Shape* bias, const Shape& out) {
  if (!std::holds_alternative<MatMul>(op.operation) || op.activation.function != Function::kNone) return false;
  if (a.size() < 2 || b.size() < 2 || element_count(b) != b[b.size() - 2] * b.back()) return false;
  if (bias != nullptr && (bias->empty() || element_count(*bias) != bias->back() || bias->back() != out.back()))
    return false;
  return fits_product(element_count(out) / std::max<std::int64_t>(out.back(), 1), a.back(), out.back());
}

bool is_plain_transposed(const Op& op, const Shape& in, const Shape& weight) {
  const auto* conv = std::get_if<ConvTranspose>(&op.operation);
  if (conv == nullptr || conv->groups != 1 || op.activation.function != Function::kNone) return false;
  return fits_product(weight[1] * weight[2] * weight[3], weight[0], in[2] * in[3]);
}

bool is_plain_convolution(const Op& op, const Shape& weight, bool residual, const Shape& out) {
  const auto* conv = std::get_if<Conv>(&op.operation);
  if (conv == nullptr || conv->groups != 1 || residual || op.activation.function != Function::kNone) return false;
  return fits_product(weight[0], weight[1] * weight[2] * weight[3], out[2] * out[3]);
}

bool by_product(const Graph& graph, const Op& op, const Shape& shape) {
  const auto of = [&](std::size_t i) -> const Shape& { return graph.shape(op.inputs[i]); };
  const auto given = [&](std::size_t i) { return op.inputs.size() > i && op.inputs[i] != kNoValue; };
  if (std::holds_alternative<MatMul>(op.operation))
    return is_plain_product(op, of(0), of(1), given(2) ? &of(2) : nullptr, shape);
  if (std::holds_alternative<ConvTranspose>(op.operation)) return is_plain_transposed(op, of(0), of(1));
  return std::holds_alternative<Conv>(op.operation) && is_plain_convolution(op, of(1), given(3), shape);
}

// What the taps of a convolution see of one picture: a row for each tap of each channel, a column for each pixel of the
// output.
std::vector<float> seen_by_taps(const Conv& o, const float* x, const Shape& in, const Shape& out) {
  std::vector<float> seen(static_cast<std::size_t>(in[1] * o.kernel.y * o.kernel.x * out[2] * out[3]), 0.0F);
  float* to = seen.data();
  for (std::int64_t c = 0; c < in[1]; ++c) {
    for (int ky = 0; ky < o.kernel.y; ++ky) {
      for (int kx = 0; kx < o.kernel.x; ++kx) {
        for (std::int64_t y = 0; y < out[2]; ++y, to += out[3]) {
          const std::int64_t row = y * o.stride.y - o.pads.top + std::int64_t{ky} * o.dilation.y;
          if (row < 0 || row >= in[2]) continue;
          const float* const from = x + (c * in[2] + row) * in[3];
          for (std::int64_t i = 0; i < out[3]; ++i) {
            const std::int64_t column = i * o.stride.x - o.pads.left + std::int64_t{kx} * o.dilation.x;
            if (column >= 0 && column < in[3]) to[i] = from[column];
          }
        }
      }
    }
  }
  return seen;
}

// Adds what each tap of a transposed convolution makes of one picture to the pixels of the output: `made` as
// seen_by_taps(), but for the output's channels and the input's pixels.
void add_from_taps(const ConvTranspose& o, const float* made, const Shape& in, float* out, const Shape& shape) {
  for (std::int64_t m = 0; m < shape[1]; ++m) {
    for (int ky = 0; ky < o.kernel.y; ++ky) {
      for (int kx = 0; kx < o.kernel.x; ++kx) {
        for (std::int64_t y = 0; y < in[2]; ++y, made += in[3]) {
          const std::int64_t row = y * o.stride.y - o.pads.top + std::int64_t{ky} * o.dilation.y;
          if (row < 0 || row >= shape[2]) continue;
          float* const to = out + (m * shape[2] + row) * shape[3];
          for (std::int64_t i = 0; i < in[3]; ++i) {
            const std::int64_t column = i * o.stride.x - o.pads.left + std::int64_t{kx} * o.dilation.x;
            if (column >= 0 && column < shape[3]) to[column] += made[i];
          }
        }
      }
    }
  }
}

void transposed(const ConvTranspose& o, const Inputs& inputs, const FoldOptions& options, Constant& result) {
  const Shape &in = inputs[0]->shape, &out = result.shape;
  const std::int64_t channels = in[1], taps = out[1] * o.kernel.y * o.kernel.x, pixels = in[2] * in[3];
  const std::vector<float>& weight = inputs[1]->f32;
  std::vector<float> turned(weight.size()), made(static_cast<std::size_t>(taps * pixels));
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t t = 0; t < taps; ++t)
      turned[static_cast<std::size_t>(t * channels + c)] = weight[static_cast<std::size_t>(c * taps + t)];
  }
  const std::int64_t plane = out[2] * out[3];
  for (std::int64_t n = 0; n < out[0]; ++n) {
    float* const to = result.f32.data() + n * out[1] * plane;
    for (std::int64_t m = 0; m < out[1]; ++m)
      std::fill_n(to + m * plane, plane, inputs[2]->f32[static_cast<std::size_t>(m)]);
    options.product({turned.data(), inputs[0]->f32.data() + n * channels * pixels, nullptr, false, made.data(),
                     static_cast<int>(taps), static_cast<int>(channels), static_cast<int>(pixels)});
    add_from_taps(o, made.data(), in, to, out);
  }
}

}  // namespace

double folding_steps(const Graph& graph, const Op& op, const Shape& shape, const FoldOptions& options) {
  const auto product = [](const Shape& s, std::size_t from) {
    double p = 1;
    for (std::size_t d = from; d < s.size(); ++d) p *= static_cast<double>(s[d]);
    return p;
  };
  const auto area = [](const Pair2& kernel) { return static_cast<double>(kernel.y) * static_cast<double>(kernel.x); };
  const auto of = [&](std::size_t i) -> const Shape& { return graph.shape(op.inputs[i]); };
  double each = 1;
  if (std::holds_alternative<Conv>(op.operation)) each = product(of(1), 1);
  if (const auto* c = std::get_if<ConvTranspose>(&op.operation)) {
    each = static_cast<double>(of(0)[1]) / c->groups * area(c->kernel);
  }
  if (std::holds_alternative<MatMul>(op.operation)) {
    // A third of a nanosecond where other steps take some three, and fifty for each row.
    each = static_cast<double>(of(0).back()) / 8 + 16 / std::max(static_cast<double>(shape.back()), 1.0);
  }
  if (options.product != nullptr && by_product(graph, op, shape)) {
    // Some fifty multiplications a nanosecond.
    if (std::holds_alternative<MatMul>(op.operation)) each = static_cast<double>(of(0).back());
    each /= 128;
  }
  if (const auto* p = std::get_if<Pool>(&op.operation)) each = area(p->kernel);
  if (const auto* r = std::get_if<Resize>(&op.operation)) each = static_cast<double>(r->y.taps) * r->x.taps;
  if (std::holds_alternative<TopK>(op.operation)) each = 32;
  if (std::holds_alternative<GridSample>(op.operation)) each = 64;
  double steps = product(shape, 0) * each;
  for (const ValueId id : op.inputs) {
    if (id != kNoValue) steps += product(graph.shape(id), 0);
  }
  return steps;
}

Constant fold(const Op& op, const Inputs& inputs, const Shape& shape, const FoldOptions& options) {
  const auto input = [&](std::size_t i) { return inputs.size() > i ? inputs[i] : nullptr; };
  const bool numbers = std::all_of(inputs.begin(), inputs.end(),
                                   [](const Constant* c) { return c == nullptr || c->type == DataType::kF32; });
  if (options.product == nullptr || !numbers || element_count(shape) == 0) return evaluate(op, inputs, shape);
  Constant result{DataType::kF32, shape, std::vector<float>(static_cast<std::size_t>(element_count(shape))), {}};
  if (std::holds_alternative<MatMul>(op.operation) &&
      is_plain_product(op, input(0)->shape, input(1)->shape, input(2) != nullptr ? &input(2)->shape : nullptr, shape)) {
    const auto columns = static_cast<int>(shape.back());
    options.product({input(0)->f32.data(), input(1)->f32.data(), input(2) != nullptr ? input(2)->f32.data() : nullptr,
                     false, result.f32.data(), static_cast<int>(element_count(shape) / columns),
                     static_cast<int>(input(0)->shape.back()), columns});
    return result;
  }
  if (const auto* o = std::get_if<ConvTranspose>(&op.operation);
      o != nullptr && is_plain_transposed(op, input(0)->shape, input(1)->shape)) {
    transposed(*o, inputs, options, result);
    return result;
  }
  const auto* conv = std::get_if<Conv>(&op.operation);
  if (conv == nullptr || !is_plain_convolution(op, input(1)->shape, input(3) != nullptr, shape))
    return evaluate(op, inputs, shape);
  const Shape &in = input(0)->shape, &weight = input(1)->shape;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    const std::vector<float> seen = seen_by_taps(*conv, input(0)->f32.data() + n * in[1] * in[2] * in[3], in, shape);
    options.product({input(1)->f32.data(), seen.data(), input(2)->f32.data(), true,
                     result.f32.data() + n * shape[1] * shape[2] * shape[3], static_cast<int>(weight[0]),
                     static_cast<int>(weight[1] * weight[2] * weight[3]), static_cast<int>(shape[2] * shape[3])});
  }
  return result;
}

}  // namespace camd::infer
