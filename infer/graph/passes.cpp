#include "infer/graph/passes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "infer/graph/branch_pass.hpp"
#include "infer/graph/choice_pass.hpp"
#include "infer/graph/movement_pass.hpp"
#include "infer/graph/quantized_pass.hpp"
#include "infer/graph/rewriting.hpp"
#include "infer/graph/stack_pass.hpp"

namespace camd::infer {
namespace {

// Applies the line to the producer's weight and bias. False when the producer cannot take it.
bool absorb(Graph& graph, Op& producer, const ChannelLine& line) {
  const auto* transposed = std::get_if<ConvTranspose>(&producer.operation);
  const bool product = std::holds_alternative<MatMul>(producer.operation);
  const ValueId weight_id = producer.inputs[1];
  if (!graph.is_constant(weight_id)) return false;
  const ValueId bias_id = producer.inputs[2];
  const std::size_t channels = line.gain.size();
  std::vector<double> bias(channels, 0.0);
  if (bias_id != kNoValue) {
    if (!graph.is_constant(bias_id)) return false;
    const Shape& out = graph.shape(producer.output);
    bias = product ? along_axis(*graph.value(bias_id).constant, out, out.size() - 1)
                   : along_axis(*graph.value(bias_id).constant, graph.shape(bias_id), 0);
    if (bias.empty()) return false;
  }
  const Constant& weight = *graph.value(weight_id).constant;
  std::vector<float> scaled(weight.f32.size());
  const Shape& ws = weight.shape;
  const auto kernel = product ? std::size_t{1} : static_cast<std::size_t>(ws[2] * ws[3]);
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    std::size_t channel = 0;
    if (product) {
      channel = i % channels;
    } else if (transposed != nullptr) {  // [C, M/groups, kh, kw]
      const auto per_group = static_cast<std::size_t>(ws[1]);
      const std::size_t in_channel = i / kernel / per_group;
      const std::size_t group = in_channel / (static_cast<std::size_t>(ws[0]) / at(transposed->groups));
      channel = group * per_group + i / kernel % per_group;
    } else {
      channel = i / kernel / static_cast<std::size_t>(ws[1]);
    }
    scaled[i] = static_cast<float>(static_cast<double>(weight.f32[i]) * line.gain[channel]);
  }
  std::vector<float> shifted(channels);
  for (std::size_t c = 0; c < channels; ++c) shifted[c] = static_cast<float>(bias[c] * line.gain[c] + line.offset[c]);
  const Shape weight_shape = ws;
  producer.inputs[1] = add_constant(graph, weight_shape, std::move(scaled));
  producer.inputs[2] = add_constant(graph, {static_cast<std::int64_t>(channels)}, std::move(shifted));
  return true;
}

bool is_product_like(const Op& op) {
  return std::holds_alternative<Conv>(op.operation) || std::holds_alternative<ConvTranspose>(op.operation) ||
         std::holds_alternative<MatMul>(op.operation);
}

}  // namespace

void fold_channel_arithmetic(Graph& graph) {
  std::vector<int> maker = producers(graph);
  const std::vector<int> uses = use_counts(graph);
  std::vector<bool> dead(graph.ops.size(), false);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (!std::holds_alternative<Binary>(graph.ops[i].operation)) continue;
    const Op& op = graph.ops[i];
    const ValueId x = graph.is_constant(op.inputs[0]) ? op.inputs[1] : op.inputs[0];
    const int p = maker[at(x)];
    if (p < 0 || uses[at(x)] != 1) continue;
    Op& producer = graph.ops[at(p)];
    if (!is_product_like(producer) || producer.activation.function != Function::kNone) continue;
    if (producer.inputs.size() > 3 && producer.inputs[3] != kNoValue) continue;
    const bool product = std::holds_alternative<MatMul>(producer.operation);
    const std::size_t axis = product ? graph.shape(x).size() - 1 : 1;
    const auto line = channel_line(graph, op, axis);
    if (!line || !absorb(graph, producer, *line)) continue;
    producer.output = op.output;
    maker[at(op.output)] = p;
    dead[i] = true;
  }
  erase_marked(graph, dead);
}

void fold_padding(Graph& graph) {
  const std::vector<int> maker = producers(graph);
  for (Op& op : graph.ops) {
    const int p = op.inputs.empty() || op.inputs[0] == kNoValue ? -1 : maker[at(op.inputs[0])];
    if (p < 0) continue;
    const Op& before = graph.ops[at(p)];
    const auto* pad = std::get_if<Pad>(&before.operation);
    if (pad == nullptr || pad->mode != Pad::Mode::kConstant || pad->before.size() != 4) continue;
    if (pad->before[0] + pad->after[0] + pad->before[1] + pad->after[1] != 0) continue;
    const auto number = [](std::int64_t v) { return static_cast<int>(v); };
    const Pads more{number(pad->before[2]), number(pad->before[3]), number(pad->after[2]), number(pad->after[3])};
    auto* pool = std::get_if<Pool>(&op.operation);
    if (pool != nullptr && pool->kind == Pool::Kind::kMax && pad->value <= std::numeric_limits<float>::lowest()) {
      // No window may lie in the padding alone: only there would the number be seen.
      const bool reaches = std::max(pool->pads.top + more.top, pool->pads.bottom + more.bottom) < pool->kernel.y &&
                           std::max(pool->pads.left + more.left, pool->pads.right + more.right) < pool->kernel.x;
      if (!reaches || std::min({more.top, more.left, more.bottom, more.right}) < 0) continue;
      pool->pads = {pool->pads.top + more.top, pool->pads.left + more.left, pool->pads.bottom + more.bottom,
                    pool->pads.right + more.right};
      op.inputs[0] = before.inputs[0];
      continue;
    }
    if (pad->value != 0.0F) continue;
    if (auto* conv = std::get_if<Conv>(&op.operation)) {
      conv->pads = {conv->pads.top + more.top, conv->pads.left + more.left, conv->pads.bottom + more.bottom,
                    conv->pads.right + more.right};
      op.inputs[0] = before.inputs[0];
    } else if (pool != nullptr && pool->kind == Pool::Kind::kAverage && pool->pads == Pads{}) {
      pool->pads = more;
      pool->count_pads = true;  // the zeros counted as elements of the padded picture
      op.inputs[0] = before.inputs[0];
    }
  }
}

namespace {

// What the patterns of recognise_functions() ask about a value.
class Pattern {
 public:
  explicit Pattern(const Graph& graph) : graph_(graph), maker_(producers(graph)), uses_(use_counts(graph)) {}

  // The Unary that makes the value, read by nobody else.
  [[nodiscard]] const Op* unary(ValueId id, Function function) const {
    const Op* op = single(id);
    const auto* u = op == nullptr ? nullptr : std::get_if<Unary>(&op->operation);
    return u != nullptr && u->function.function == function ? op : nullptr;
  }
  // The Binary with a one-number constant that makes the value; `number` is that constant, `other` the rest.
  [[nodiscard]] bool with_number(ValueId id, Binary::Kind kind, ValueId& other, float& number) const {
    const Op* op = single(id);
    return op != nullptr && with_number(*op, kind, other, number);
  }
  [[nodiscard]] bool with_number(const Op& op, Binary::Kind kind, ValueId& other, float& number) const {
    const auto* b = std::get_if<Binary>(&op.operation);
    if (b == nullptr || b->kind != kind) return false;
    const bool commutes = kind == Binary::Kind::kAdd || kind == Binary::Kind::kMul || kind == Binary::Kind::kMin ||
                          kind == Binary::Kind::kMax;
    for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
      const auto c = scalar(graph_, op.inputs[side]);
      if (!c || (side == 0 && !commutes) || graph_.shape(op.inputs[1 - side]) != graph_.shape(op.output)) continue;
      other = op.inputs[1 - side];
      number = *c;
      return true;
    }
    return false;
  }
  [[nodiscard]] const Op* single(ValueId id) const {
    if (id == kNoValue || maker_[at(id)] < 0 || uses_[at(id)] != 1) return nullptr;
    return &graph_.ops[at(maker_[at(id)])];
  }

 private:
  const Graph& graph_;
  std::vector<int> maker_;
  std::vector<int> uses_;
};

bool near(float a, float b) { return std::abs(a - b) <= 1e-4F * std::abs(b); }

// clip(x + b, 0, m): the inside of hard sigmoid and hard swish.
bool clipped_line(const Pattern& p, ValueId id, ValueId& x, float& b, float& m) {
  const Op* clip = p.unary(id, Function::kClip);
  if (clip == nullptr) return false;
  const Activation& f = std::get<Unary>(clip->operation).function;
  m = f.b;
  return f.a == 0.0F && std::isfinite(m) && p.with_number(clip->inputs[0], Binary::Kind::kAdd, x, b);
}

// x multiplied by a function of itself.
std::optional<Activation> gated(const Pattern& p, ValueId x, ValueId gate) {
  if (const Op* s = p.unary(gate, Function::kSigmoid); s != nullptr && s->inputs[0] == x) {
    return Activation{Function::kSilu, 0, 0};
  }
  if (const Op* s = p.unary(gate, Function::kHardSigmoid); s != nullptr && s->inputs[0] == x) {
    const Activation& f = std::get<Unary>(s->operation).function;
    if (near(f.a, 1.0F / 6) && near(f.b, 0.5F)) return Activation{Function::kHardSwish, 0, 0};
  }
  if (const Op* t = p.unary(gate, Function::kTanh); t != nullptr) {
    const Op* s = p.unary(t->inputs[0], Function::kSoftplus);
    if (s != nullptr && s->inputs[0] == x) return Activation{Function::kMish, 0, 0};
  }
  return std::nullopt;
}

// 1 + erf(x / sqrt(2)).
bool gaussian(const Pattern& p, ValueId id, ValueId& x) {
  constexpr float kRoot = 1.41421356F;
  ValueId inside = kNoValue;
  float number = 0;
  if (!p.with_number(id, Binary::Kind::kAdd, inside, number) || number != 1.0F) return false;
  const Op* erf = p.unary(inside, Function::kErf);
  if (erf == nullptr) return false;
  if (p.with_number(erf->inputs[0], Binary::Kind::kDiv, x, number)) return near(number, kRoot);
  return p.with_number(erf->inputs[0], Binary::Kind::kMul, x, number) && near(number, 1 / kRoot);
}

// x / 2 * (1 + erf(x / sqrt(2))), the half multiplied with either or with both.
std::optional<ValueId> gelu(const Pattern& p, const Op& product) {
  const Op* both = &product;
  ValueId x = kNoValue, half = kNoValue;
  float number = 0;
  const bool last = p.with_number(product, Binary::Kind::kMul, half, number) && number == 0.5F;
  if (last) both = p.single(half);
  const auto* binary = both == nullptr ? nullptr : std::get_if<Binary>(&both->operation);
  if (binary == nullptr || binary->kind != Binary::Kind::kMul) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const ValueId own = both->inputs[side], gate = both->inputs[1 - side];
    if (gaussian(p, gate, x)) {
      if (last && x == own) return x;
      if (!last && p.with_number(own, Binary::Kind::kMul, half, number) && number == 0.5F && x == half) return x;
    }
    if (!last && p.with_number(gate, Binary::Kind::kMul, half, number) && number == 0.5F && gaussian(p, half, x) &&
        x == own) {
      return x;
    }
  }
  return std::nullopt;
}

// One op's replacement: the same output as a function of `x`.
struct Rewrite {
  ValueId x = kNoValue;
  Activation function;
};

std::optional<Rewrite> divided(const Pattern& p, ValueId inside, float divisor) {
  ValueId x = kNoValue;
  float b = 0, m = 0;
  if (clipped_line(p, inside, x, b, m) && near(m, divisor)) {
    return Rewrite{x, {Function::kHardSigmoid, 1.0F / m, b / m}};
  }
  const Op* product = p.single(inside);
  const auto* binary = product == nullptr ? nullptr : std::get_if<Binary>(&product->operation);
  if (binary == nullptr || binary->kind != Binary::Kind::kMul || !near(divisor, 6.0F)) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (clipped_line(p, product->inputs[1 - side], x, b, m) && x == product->inputs[side] && near(b, 3.0F) &&
        near(m, 6.0F)) {
      return Rewrite{x, {Function::kHardSwish, 0, 0}};
    }
  }
  return std::nullopt;
}

// x^2 is x * x.
bool square(const Graph& graph, const Pattern& p, Op& op) {
  ValueId x = kNoValue;
  float number = 0;
  if (!p.with_number(op, Binary::Kind::kPow, x, number) || number != 2.0F) return false;
  if (graph.shape(x) != graph.shape(op.output)) return false;
  op.operation = Binary{Binary::Kind::kMul};
  op.inputs = {x, x};
  return true;
}

std::optional<Rewrite> as_function(const Graph& graph, const Pattern& p, const Op& op) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (const auto* u = std::get_if<Unary>(&op.operation)) {
    // clip(relu(x), a, b)
    const Op* relu = u->function.function == Function::kClip ? p.unary(op.inputs[0], Function::kRelu) : nullptr;
    if (relu == nullptr) return std::nullopt;
    return Rewrite{relu->inputs[0], {Function::kClip, std::max(u->function.a, 0.0F), u->function.b}};
  }
  const auto* binary = std::get_if<Binary>(&op.operation);
  if (binary == nullptr || op.activation.function != Function::kNone) return std::nullopt;
  ValueId x = kNoValue;
  float number = 0;
  switch (binary->kind) {
    case Binary::Kind::kMul:
      for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
        if (const auto f = gated(p, op.inputs[side], op.inputs[1 - side])) return Rewrite{op.inputs[side], *f};
      }
      if (const auto of = gelu(p, op)) return Rewrite{*of, {Function::kGelu, 0, 0}};
      if (p.with_number(op, Binary::Kind::kMul, x, number) && number > 0) return divided(p, x, 1.0F / number);
      return std::nullopt;
    case Binary::Kind::kDiv:
      if (p.with_number(op, Binary::Kind::kDiv, x, number)) return divided(p, x, number);
      return std::nullopt;
    case Binary::Kind::kMax:
      if (!p.with_number(op, Binary::Kind::kMax, x, number)) return std::nullopt;
      return number == 0 ? Rewrite{x, {Function::kRelu, 0, 0}} : Rewrite{x, {Function::kClip, number, kInfinity}};
    case Binary::Kind::kMin: {
      if (!p.with_number(op, Binary::Kind::kMin, x, number)) return std::nullopt;
      if (const Op* relu = p.unary(x, Function::kRelu)) return Rewrite{relu->inputs[0], {Function::kClip, 0, number}};
      return Rewrite{x, {Function::kClip, -kInfinity, number}};
    }
    case Binary::Kind::kPow:
      if (p.with_number(op, Binary::Kind::kPow, x, number) && number == 0.5F)
        return Rewrite{x, {Function::kSqrt, 0, 0}};
      return std::nullopt;
    case Binary::Kind::kPrelu: {
      const auto slope = scalar(graph, op.inputs[1]);
      if (slope) return Rewrite{op.inputs[0], {Function::kLeakyRelu, *slope, 0}};
      return std::nullopt;
    }
    default: return std::nullopt;
  }
}

}  // namespace

void recognise_functions(Graph& graph) {
  // Patterns build on each other (a hard sigmoid inside a hard swish), and each round makes the graph smaller.
  bool changed = true;
  for (int round = 0; changed && round < 8; ++round) {
    changed = false;
    // Rewriting leaves the pattern's counts too high, never too low: what it misses, the next round sees.
    const Pattern pattern(graph);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      if (square(graph, pattern, graph.ops[i])) changed = true;
      const auto rewrite = as_function(graph, pattern, graph.ops[i]);
      if (!rewrite || graph.shape(rewrite->x) != graph.shape(graph.ops[i].output)) continue;
      graph.ops[i].operation = Unary{rewrite->function};
      graph.ops[i].inputs = {rewrite->x};
      changed = true;
    }
    remove_unused(graph);
  }
}

void fuse_activations(Graph& graph) {
  std::vector<int> maker = producers(graph);
  const std::vector<int> uses = use_counts(graph);
  std::vector<bool> dead(graph.ops.size(), false);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const auto* unary = std::get_if<Unary>(&op.operation);
    if (unary == nullptr) continue;
    const ValueId x = op.inputs[0];
    const int p = maker[at(x)];
    if (p < 0 || uses[at(x)] != 1) continue;
    Op& producer = graph.ops[at(p)];
    const bool takes = is_product_like(producer) || std::holds_alternative<Binary>(producer.operation);
    if (!takes || producer.activation.function != Function::kNone) continue;
    producer.activation = unary->function;
    producer.output = op.output;
    maker[at(op.output)] = p;
    dead[i] = true;
  }
  erase_marked(graph, dead);
}

void fold_behind_bounds(Graph& graph) {
  std::vector<int> maker = producers(graph);
  const std::vector<int> uses = use_counts(graph);
  std::vector<bool> dead(graph.ops.size(), false);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (!std::holds_alternative<Binary>(op.operation)) continue;
    const ValueId x = graph.is_constant(op.inputs[0]) ? op.inputs[1] : op.inputs[0];
    const int p = maker[at(x)];
    if (p < 0 || uses[at(x)] != 1) continue;
    Op& producer = graph.ops[at(p)];
    const Function function = producer.activation.function;
    if (!is_product_like(producer) || (function != Function::kRelu && function != Function::kClip)) continue;
    if (producer.inputs.size() > 3 && producer.inputs[3] != kNoValue) continue;
    const bool product = std::holds_alternative<MatMul>(producer.operation);
    const auto line = channel_line(graph, op, product ? graph.shape(x).size() - 1 : 1);
    if (!line || line->gain.empty() || line->gain[0] == 0) continue;
    const double gain = line->gain[0], offset = line->offset[0];
    const auto same = [](double value) { return [value](double other) { return other == value; }; };
    if (!std::all_of(line->gain.begin(), line->gain.end(), same(gain)) ||
        !std::all_of(line->offset.begin(), line->offset.end(), same(offset)) || !absorb(graph, producer, *line)) {
      continue;
    }
    const bool relu = function == Function::kRelu;
    double low = relu ? 0.0 : static_cast<double>(producer.activation.a);
    double high = relu ? std::numeric_limits<double>::infinity() : static_cast<double>(producer.activation.b);
    low = low * gain + offset;
    high = high * gain + offset;
    if (gain < 0) std::swap(low, high);
    producer.activation = {Function::kClip, static_cast<float>(low), static_cast<float>(high)};
    producer.output = op.output;
    maker[at(op.output)] = p;
    dead[i] = true;
  }
  erase_marked(graph, dead);
}

void fuse_residuals(Graph& graph) {
  std::vector<int> maker = producers(graph);
  const std::vector<int> uses = use_counts(graph);
  std::vector<bool> dead(graph.ops.size(), false);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const auto* binary = std::get_if<Binary>(&graph.ops[i].operation);
    if (binary == nullptr || binary->kind != Binary::Kind::kAdd) continue;
    const Op add = graph.ops[i];
    int best = -1;
    std::size_t side = 0;
    for (const std::size_t s : {std::size_t{0}, std::size_t{1}}) {
      const int p = maker[at(add.inputs[s])];
      if (p <= best || uses[at(add.inputs[s])] != 1 || graph.is_constant(add.inputs[1 - s])) continue;
      const Op& conv = graph.ops[at(p)];
      if (!std::holds_alternative<Conv>(conv.operation) || conv.inputs[3] != kNoValue) continue;
      if (conv.activation.function != Function::kNone && add.activation.function != Function::kNone) continue;
      if (graph.shape(add.inputs[0]) != graph.shape(add.inputs[1])) continue;
      best = p;
      side = s;
    }
    if (best < 0) continue;
    // The convolution takes the addition's place, where the residual is certain to exist.
    Op conv = std::move(graph.ops[at(best)]);
    dead[at(best)] = true;
    auto& operation = std::get<Conv>(conv.operation);
    operation.activation_first = conv.activation.function != Function::kNone;
    if (!operation.activation_first) conv.activation = add.activation;
    conv.inputs[3] = add.inputs[1 - side];
    conv.output = add.output;
    graph.ops[i] = std::move(conv);
    maker[at(add.output)] = static_cast<int>(i);
  }
  erase_marked(graph, dead);
}

void run_passes(Graph& graph, const LowerOptions& options) {
  remove_unused(graph);
  if (!options.optimize) return;
  simplify_movement(graph);
  if (unstack_reductions(graph)) simplify_movement(graph);
  fold_padding(graph);
  remove_unused(graph);
  if (options.fuse_activation) {
    const std::size_t before = graph.ops.size();
    simplify_quantization(graph);
    if (graph.ops.size() != before) simplify_movement(graph);  // what pairs stood between
  }
  fold_channel_arithmetic(graph);
  if (join_branches(graph)) fold_channel_arithmetic(graph);
  recognise_functions(graph);
  if (options.fuse_activation) {
    fuse_activations(graph);
    fold_behind_bounds(graph);
    fuse_activations(graph);  // what stood behind the arithmetic that went
  }
  if (options.fuse_residual) fuse_residuals(graph);
  remove_unused(graph);
  choose_rows_first(graph);
}

}  // namespace camd::infer
