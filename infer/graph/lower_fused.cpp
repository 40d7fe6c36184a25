// Each is taken apart into the operators that it stands for. The engines find again what is worth computing at once.
// Definitions: https://onnx.ai/onnx/operators, and the contributed operators of github.com/microsoft/onnxruntime.
#include "infer/graph/lower_fused.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "infer/graph/lower_elementwise.hpp"

namespace camd::infer {
namespace {

// ---- With an activation behind

ValueId activated(Lowering& l, ValueId x) {
  const std::string name = l.text("activation", "");
  std::vector<float> given;
  if (const auto* parameters = l.attribute("activation_params"); parameters != nullptr) {
    given.assign(parameters->floats().begin(), parameters->floats().end());
  }
  const auto parameter = [&](std::size_t i, float otherwise) { return i < given.size() ? given[i] : otherwise; };
  constexpr float kMost = std::numeric_limits<float>::infinity();
  if (name.empty()) return x;
  if (name == "Relu") return l.unary(x, {Function::kRelu, 0, 0});
  if (name == "Sigmoid") return l.unary(x, {Function::kSigmoid, 0, 0});
  if (name == "Tanh") return l.unary(x, {Function::kTanh, 0, 0});
  if (name == "LeakyRelu") return l.unary(x, {Function::kLeakyRelu, parameter(0, 0.01F), 0});
  if (name == "Clip") return l.unary(x, {Function::kClip, parameter(0, -kMost), parameter(1, kMost)});
  if (name == "HardSigmoid") return l.unary(x, {Function::kHardSigmoid, parameter(0, 0.2F), parameter(1, 0.5F)});
  l.refuse(fmt::format("its activation '{}' is not supported", printable(name)));
}

// activation(conv(x) + bias + z)
void fused_convolution(Lowering& l) {
  std::vector<ValueId> inputs{l.input(0), l.input(1)};
  if (l.has_input(2)) inputs.push_back(l.input(2));
  ValueId y = l.lower_as("Conv", inputs);
  if (l.has_input(3)) y = l.binary(Binary::Kind::kAdd, y, l.input(3));
  l.set_output(0, activated(l, y));
}

// alpha * a * b. Before the last two dimensions are swapped (trans), the first one may be put behind the other
// dimensions of the batch (transBatch).
void fused_product(Lowering& l) {
  const auto operand = [&](std::size_t i, std::string_view trans, std::string_view trans_batch) {
    ValueId x = l.input(i);
    const int rank = l.rank(x);
    std::vector<int> order = Lowering::axes_from(0, rank);
    if (rank >= 2 && l.integer(trans_batch, 0) != 0) {
      order = Lowering::axes_from(1, rank - 1);
      order.insert(order.end(), {0, rank - 1});
    }
    if (rank >= 2 && l.integer(trans, 0) != 0) std::swap(order[order.size() - 2], order.back());
    return order == Lowering::axes_from(0, rank) ? x : l.transpose(x, std::move(order));
  };
  const ValueId a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
  ValueId y = l.lower_as("MatMul", {a, b});
  if (const float alpha = l.number("alpha", 1.0F); alpha != 1.0F)
    y = l.binary(Binary::Kind::kMul, y, l.constant(alpha));
  l.set_output(0, y);
}

// ---- Curves

// x * sigmoid(alpha * x)
template <int kThousandths>
void gated(Lowering& l) {
  const ValueId x = l.input(0);
  const float alpha = l.number("alpha", static_cast<float>(kThousandths) / 1000);
  if (alpha == 1.0F) {
    l.set_output(0, l.unary(x, {Function::kSilu, 0, 0}));
    return;
  }
  const ValueId gate = l.unary(l.binary(Binary::Kind::kMul, x, l.constant(alpha)), {Function::kSigmoid, 0, 0});
  l.set_output(0, l.binary(Binary::Kind::kMul, x, gate));
}

void biased_gelu(Lowering& l) {
  l.set_output(0, l.unary(l.binary(Binary::Kind::kAdd, l.input(0), l.input(1)), {Function::kGelu, 0, 0}));
}

// Gelu by its approximation with tanh, of x and, where there is one, its bias.
void fast_gelu(Lowering& l) {
  const ValueId x = l.has_input(1) ? l.binary(Binary::Kind::kAdd, l.input(0), l.input(1)) : l.input(0);
  l.set_output(0, approximate_gelu(l, x));
}

// ---- Normalisations

// x / sqrt(mean(x^2) + epsilon) * scale
ValueId root_mean_square(Lowering& l, ValueId x, ValueId scale) {
  const int first = l.axis(l.integer("axis", -1), l.rank(x));
  const ValueId mean =
      l.reduce(Reduce::Kind::kMean, l.binary(Binary::Kind::kMul, x, x), Lowering::axes_from(first, l.rank(x)));
  const ValueId shifted = l.binary(Binary::Kind::kAdd, mean, l.constant(l.number("epsilon", 1e-5F)));
  return l.binary(Binary::Kind::kMul, l.binary(Binary::Kind::kDiv, x, l.unary(shifted, {Function::kSqrt, 0, 0})),
                  scale);
}

void rms_normalization(Lowering& l) { l.set_output(0, root_mean_square(l, l.input(0), l.input(1))); }

// Of input + skip + bias, which is also an output.
template <bool kSimplified>
void skip_normalization(Lowering& l) {
  constexpr std::size_t kBias = kSimplified ? 3 : 4;
  ValueId sum = l.binary(Binary::Kind::kAdd, l.input(0), l.input(1));
  if (l.has_input(kBias)) sum = l.binary(Binary::Kind::kAdd, sum, l.input(kBias));
  if constexpr (kSimplified) {
    l.set_output(0, root_mean_square(l, sum, l.input(2)));
  } else {
    std::vector<ValueId> inputs{sum, l.input(2)};
    if (l.has_input(3)) inputs.push_back(l.input(3));
    l.lower_as("LayerNormalization", inputs);
  }
  if (l.output_wanted(3)) l.set_output(3, sum);
}

// ---- Attention

constexpr std::int64_t kMostHeads = 4096;  // a list of so many is made

ValueId product(Lowering& l, ValueId a, ValueId b) {
  const Shape sa = l.shape(a), sb = l.shape(b);
  l.require(sa.back() == sb[sb.size() - 2],
            fmt::format("{} and {} do not fit for a product", to_string(sa), to_string(sb)));
  Shape to = broadcast(l, Shape(sa.begin(), sa.end() - 2), Shape(sb.begin(), sb.end() - 2));
  to.insert(to.end(), {sa[sa.size() - 2], sb.back()});
  return l.emit(MatMul{}, {a, b, kNoValue}, std::move(to));
}

// [batch,length,heads*size] as [batch,heads,length,size]
ValueId by_head(Lowering& l, ValueId x, std::int64_t heads) {
  const Shape in = l.shape(x);
  l.require(in.size() == 3 && heads > 0 && in[2] % heads == 0,
            fmt::format("{} does not fit its {} heads", to_string(in), heads));
  return l.transpose(l.reshape(x, {in[0], in[1], heads, in[2] / heads}), {0, 2, 1, 3});
}

ValueId heads_together(Lowering& l, ValueId x) {
  const Shape in = l.shape(x);
  return l.reshape(l.transpose(x, {0, 2, 1, 3}), {in[0], in[2], in[1] * in[3]});
}

// What is added to the scores: the mask as it is, or of truths nothing where they hold.
ValueId as_addend(Lowering& l, ValueId mask) {
  if (!l.is_whole(mask)) return mask;
  constexpr float kNever = std::numeric_limits<float>::lowest();
  return l.emit(Select{}, {mask, l.constant(0.0F), l.constant(kNever)}, l.shape(mask));
}

// softmax(q * k' * scale + mask) * v, of [batch,heads,length,size] each; `mask` may be kNoValue. Fewer heads of k and v
// serve as many of q each.
ValueId attention(Lowering& l, ValueId q, ValueId k, ValueId v, ValueId mask, float scale) {
  const Shape sq = l.shape(q);
  for (const ValueId x : {q, k, v}) {
    l.require(l.rank(x) == 4 && l.shape(x)[1] > 0, "its queries, keys and values are not of four dimensions");
  }
  const auto for_each_head = [&](ValueId x) {
    const std::int64_t heads = l.shape(x)[1];
    if (heads == sq[1]) return x;
    l.require(sq[1] % heads == 0, fmt::format("{} heads do not serve {}", heads, sq[1]));
    l.require(sq[1] <= kMostHeads, fmt::format("it has more than {} heads", kMostHeads));
    Shape to = l.shape(x);
    to[1] = sq[1];
    std::vector<std::int64_t> of(static_cast<std::size_t>(sq[1]));
    for (std::size_t h = 0; h < of.size(); ++h) of[h] = static_cast<std::int64_t>(h) * heads / sq[1];
    return l.emit(Gather{1, std::move(of)}, {x}, to);
  };
  k = for_each_head(k);
  v = for_each_head(v);
  ValueId scores = product(l, q, l.transpose(k, {0, 1, 3, 2}));
  if (scale != 1.0F) scores = l.binary(Binary::Kind::kMul, scores, l.constant(scale));
  const Shape to = l.shape(scores);
  if (mask != kNoValue) {
    scores = l.binary(Binary::Kind::kAdd, scores, as_addend(l, mask));
    l.require(l.shape(scores) == to, "its mask does not fit its scores");
  }
  return product(l, l.emit(Softmax{3, false}, {scores}, to), v);
}

float usual_scale(const Lowering& l, ValueId q) {
  return 1.0F / std::sqrt(static_cast<float>(std::max<std::int64_t>(l.shape(q)[3], 1)));
}

// onnx.ai/onnx/operators/onnx__Attention.html
void standard_attention(Lowering& l) {
  l.require(!l.has_input(4) && !l.has_input(5), "keys of earlier pictures are not supported");
  l.require(l.integer("is_causal", 0) == 0, "a causal mask is not supported");
  l.require(l.number("softcap", 0.0F) == 0.0F, "softcap is not supported");
  const bool flat = l.rank(l.input(0)) == 3;
  const auto operand = [&](std::size_t i, std::string_view heads) {
    return flat ? by_head(l, l.input(i), l.integer(heads, 0)) : l.input(i);
  };
  const ValueId q = operand(0, "q_num_heads"), k = operand(1, "kv_num_heads"), v = operand(2, "kv_num_heads");
  l.require(l.rank(q) == 4, "its queries are not of three or four dimensions");
  const float given = l.number("scale", 0.0F);
  const ValueId y =
      attention(l, q, k, v, l.has_input(3) ? l.input(3) : kNoValue, given == 0.0F ? usual_scale(l, q) : given);
  l.set_output(0, flat ? heads_together(l, y) : y);
}

// com.microsoft: q, k and v beside each other, of one product with the weights.
void packed_attention(Lowering& l) {
  l.require(!l.has_input(3) && !l.has_input(4), "masks by length and keys of earlier pictures are not supported");
  l.require(l.integer("unidirectional", 0) == 0, "a causal mask is not supported");
  ValueId x = product(l, l.input(0), l.input(1));
  if (l.has_input(2)) x = l.binary(Binary::Kind::kAdd, x, l.input(2));
  const Shape in = l.shape(x);
  l.require(in.size() == 3, "its input is not of three dimensions");
  const std::vector<std::int64_t> sizes =
      l.integers("qkv_hidden_sizes").value_or(std::vector<std::int64_t>(3, in[2] / 3));
  l.require(sizes.size() == 3 && sizes[0] > 0 && sizes[1] > 0 && sizes[2] > 0 && sizes[0] < in[2] && sizes[1] < in[2] &&
                sizes[0] + sizes[1] + sizes[2] == in[2],
            "its sizes of queries, keys and values do not fit its weights");
  std::int64_t before = 0;
  std::vector<ValueId> parts;
  for (const std::int64_t size : sizes) {
    const ValueId part = l.slice(x, {0, 0, before}, {1, 1, 1}, {in[0], in[1], size});
    parts.push_back(by_head(l, part, l.integer("num_heads", 0)));
    before += size;
  }
  const float given = l.number("scale", 0.0F);
  const ValueId bias = l.has_input(5) ? l.input(5) : kNoValue;
  l.set_output(0, heads_together(l, attention(l, parts[0], parts[1], parts[2], bias,
                                              given == 0.0F ? usual_scale(l, parts[0]) : given)));
}

void attention_of_either(Lowering& l) {
  if (l.node().domain() == "com.microsoft") return packed_attention(l);
  standard_attention(l);
}

// com.microsoft: q, k and v by themselves, and their biases beside each other.
void multi_head_attention(Lowering& l) {
  l.require(l.has_input(1) && l.has_input(2), "queries, keys and values in one are not supported");
  l.require(!l.has_input(4) && !l.has_input(6) && !l.has_input(7),
            "masks of keys and keys of earlier pictures are not supported");
  l.require(l.integer("unidirectional", 0) == 0, "a causal mask is not supported");
  std::int64_t before = 0;
  const auto operand = [&](std::size_t i) {
    ValueId x = l.input(i);
    if (l.rank(x) == 4) return x;  // by head already
    if (l.has_input(3)) {
      const std::int64_t size = l.shape(x).back();
      const Shape bias = l.shape(l.input(3));
      l.require(bias.size() == 1 && before + size <= bias[0], "its bias does not fit");
      x = l.binary(Binary::Kind::kAdd, x, l.slice(l.input(3), {before}, {1}, {size}));
      before += size;
    }
    return by_head(l, x, l.integer("num_heads", 0));
  };
  const ValueId q = operand(0), k = operand(1), v = operand(2);
  l.require(l.rank(q) == 4, "its queries are not of three dimensions");
  const float given = l.number("scale", 0.0F);
  const ValueId bias = l.has_input(5) ? l.input(5) : kNoValue;
  l.set_output(0, heads_together(l, attention(l, q, k, v, bias, given == 0.0F ? usual_scale(l, q) : given)));
}

}  // namespace

const std::vector<HandlerEntry>& fused_handlers() {
  constexpr std::string_view kOfRuntime = "ONNX Runtime's own (com.microsoft)";
  constexpr std::string_view kPlain = "no causal mask, no keys of earlier pictures; also ONNX Runtime's own";
  static const std::vector<HandlerEntry> kTable = {
      {"Attention", attention_of_either, kPlain},
      {"BiasGelu", biased_gelu, kOfRuntime},
      {"FastGelu", fast_gelu, kOfRuntime},
      {"FusedConv", fused_convolution, kOfRuntime},
      {"FusedMatMul", fused_product, kOfRuntime},
      {"MultiHeadAttention", multi_head_attention, "ONNX Runtime's own (com.microsoft); as Attention"},
      {"QuickGelu", gated<1702>, kOfRuntime},
      {"RMSNormalization", rms_normalization},
      {"SimplifiedLayerNormalization", rms_normalization, "ONNX Runtime's own"},
      {"SkipLayerNormalization", skip_normalization<false>, kOfRuntime},
      {"SkipSimplifiedLayerNormalization", skip_normalization<true>, kOfRuntime},
      {"Swish", gated<1000>},
  };
  return kTable;
}

}  // namespace camd::infer
