#include "infer/cpu/byte_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "infer/graph/reference.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cpu {
namespace {

constexpr int kMostLevel = 255;
constexpr int kLeastWeight = -128, kMostWeight = 127;
// Sums fit 32 bits, with what takes the zero away.
constexpr std::size_t kLargestProduct = std::size_t{-kLeastWeight} * 2 * kMostLevel;
constexpr int kMostBias = 1 << 22;  // of a sum's 2^31
constexpr std::size_t kMostProducts = ((std::size_t{1} << 31) - kMostBias) / kLargestProduct;
constexpr int kMostStride = 4;

std::optional<ByteGrid> grid_of(const Requantize& r) {
  if (!(r.scale > 0) || !std::isfinite(r.low) || !std::isfinite(r.high)) return std::nullopt;
  const float low = std::nearbyint(r.low / r.scale), high = std::nearbyint(r.high / r.scale);
  if (!(low <= 0) || !(high >= 0) || !(high - low <= static_cast<float>(kMostLevel)) || low == high) {
    return std::nullopt;
  }
  return ByteGrid{r.scale, static_cast<int>(low), static_cast<int>(high)};
}

std::vector<float> numbers_of(const ByteGrid& grid) {
  std::vector<float> numbers;
  for (int n = grid.low; n <= grid.high; ++n) numbers.push_back(static_cast<float>(n) * grid.scale);
  return numbers;
}

LevelTable table_of(const std::vector<float>& numbers, const ByteGrid& grid) {
  LevelTable table{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const float level = std::nearbyint(numbers[i] / grid.scale) - static_cast<float>(grid.low);
    // What is no number has the lowest level, as in f32, where the range comes last.
    table[i] = level > 0 ? static_cast<std::uint8_t>(std::min(level, static_cast<float>(grid.high - grid.low))) : 0;
  }
  return table;
}

// The step of which all these weights are multiples that fit a byte; 0: there is none. Exporters use the whole range,
// as a rule: then the largest is 127 or 128 of their steps. Any step that fits is as good.
double step_of(const float* weights, std::size_t count) {
  double largest = 0;
  std::for_each(weights, weights + count,
                [&](float w) { largest = std::max(largest, std::abs(static_cast<double>(w))); });
  if (!std::isfinite(largest)) return 0;
  if (largest == 0) return 1;
  constexpr double kRounding = 2e-4;  // of a step: 127 times what f32 rounds, and some
  for (int most = -kLeastWeight; most > 0; --most) {
    const double step = largest / most;
    const bool fits = std::all_of(weights, weights + count, [step](float w) {
      const double n = static_cast<double>(w) / step;
      const double whole = std::nearbyint(n);
      return std::abs(n - whole) < kRounding && whole >= kLeastWeight && whole <= kMostWeight;
    });
    if (fits) return step;
  }
  return 0;
}

// The same before a pass divided the weights by `divisor`, as the f32 that gives them to the last bit, where there is
// one.
float exact_step(const float* weights, std::size_t count, double step, float divisor) {
  const auto near = static_cast<float>(step * static_cast<double>(divisor));
  for (const float s : {near, std::nextafter(near, 0.0F), std::nextafter(near, 2 * near)}) {
    const bool fits = std::all_of(weights, weights + count, [&](float w) {
      return static_cast<float>(std::nearbyint(static_cast<double>(w) / step)) * s / divisor == w;
    });
    if (fits) return s;
  }
  return near;
}

// How many times `unit` a bias is, which quantizers write as a whole number; none where it is not, or too large.
std::optional<std::int32_t> whole_bias(float bias, float unit) {
  constexpr double kMost = kMostBias, kRounding = 0.02, kOfF32 = 3e-7;
  const double count = static_cast<double>(bias) / static_cast<double>(unit), whole = std::nearbyint(count);
  if (!(std::abs(whole) <= kMost) || std::abs(count - whole) > kRounding + kOfF32 * std::abs(whole))
    return std::nullopt;
  return static_cast<std::int32_t>(whole);
}

class BytePlanner {
 public:
  BytePlanner(Graph& graph, Fusions& fusions)
      : graph_(graph), fusions_(fusions), maker_(producers(graph)), dead_(graph.ops.size(), false) {
    plan_.grids.resize(graph.values.size());
    plan_.made.resize(graph.values.size(), false);
    origins_.resize(graph.values.size());
  }

  BytePlan run() {
    note_readers();
    for (Op& op : graph_.ops) {
      if (const auto r = fusions_.requantizations.find(op.output); r != fusions_.requantizations.end()) {
        grid(op.output) = grid_of(r->second);
      }
      plan_.made[at(op.output)] =
          plan_conv(op) || plan_movement(op) || plan_function(op) || plan_pair(op) || plan_rounding(op);
    }
    keep_useful_roundings();
    drop_unused();
    join_tables();
    erase_marked(graph_, dead_);
    return std::move(plan_);
  }

 private:
  // What a value is a function of: of `root`, whose numbers are bytes, for each of its levels.
  struct Origin {
    ValueId root = kNoValue;
    std::vector<float> numbers;
  };

  std::optional<ByteGrid>& grid(ValueId id) { return plan_.grids[at(id)]; }
  [[nodiscard]] bool made(ValueId id) const { return id != kNoValue && plan_.made[at(id)]; }
  [[nodiscard]] bool is_picture(ValueId id) const {
    const Shape& s = graph_.shape(id);
    return s.size() == 4 && s[0] == 1;
  }
  // By what the op's result is divided before it is rounded, and nothing else happens to it; 0: it is not so. Passes
  // may have divided a convolution's weights.
  [[nodiscard]] float divisor(const Op& op) const {
    const auto found = fusions_.requantizations.find(op.output);
    if (found == fusions_.requantizations.end()) return 0;
    const Function function = op.activation.function;
    if (found->second.divisor == 0) return function == Function::kRound ? 1.0F : 0.0F;
    return function == Function::kNone ? found->second.divisor : 0.0F;
  }

  bool plan_conv(const Op& op) {
    const auto* conv = std::get_if<Conv>(&op.operation);
    const auto divided = static_cast<double>(divisor(op));
    if (conv == nullptr || divided == 0 || !grid(op.output) || !grid(op.inputs[0]) || !is_picture(op.inputs[0]) ||
        (op.inputs.size() > 3 && op.inputs[3] != kNoValue)) {
      return false;
    }
    const Constant& weight = *graph_.value(op.inputs[1]).constant;
    const std::vector<float>& bias = graph_.value(op.inputs[2]).constant->f32;
    const std::int64_t channels = graph_.shape(op.inputs[0])[1];
    const bool depthwise = conv->groups > 1 && conv->groups == channels && weight.shape[0] == channels;
    if ((conv->groups > 1 && !depthwise) || std::max(conv->stride.y, conv->stride.x) > kMostStride) return false;
    const std::size_t each = weight.f32.size() / at(weight.shape[0]);
    if (each >= kMostProducts || (depthwise && conv->dilation.x != 1)) return false;
    ByteConv result;
    result.to = *grid(op.output);
    for (std::size_t m = 0; m < at(weight.shape[0]); ++m) {
      const float* const row = weight.f32.data() + m * each;
      const double step = step_of(row, each);
      if (step == 0) return false;
      for (std::size_t i = 0; i < each; ++i) {
        result.weights.push_back(static_cast<std::int8_t>(std::nearbyint(static_cast<double>(row[i]) / step)));
      }
      // In ONNX Runtime's order of roundings, which decides where a sum lies in the middle between two steps.
      const float before = divided == 1 ? result.to.scale : 1.0F;  // what the weights were divided by
      const float unit = grid(op.inputs[0])->scale * exact_step(row, each, step, before);
      result.scale.push_back(unit / (divided == 1 ? before : static_cast<float>(divided)));
      const std::optional<std::int32_t> whole = whole_bias(bias[m] * before, unit);
      result.start.push_back(whole.value_or(0));
      result.bias.push_back(whole ? 0.0F : static_cast<float>(static_cast<double>(bias[m]) / divided));
    }
    plan_.convs.emplace(op.output, std::move(result));
    return true;
  }

  // Bytes are moved or chosen. Where others are, the grid is known at least.
  bool plan_movement(const Op& op) {
    const ValueId x = op.inputs.empty() ? kNoValue : op.inputs[0];
    if (x == kNoValue || grid(op.output)) return false;
    const Shape& from = graph_.shape(x);
    const Shape& to = graph_.shape(op.output);
    bool bytes = made(x) && is_picture(op.output);
    if (const auto* slice = std::get_if<Slice>(&op.operation)) {
      bytes = bytes && from[2] == to[2] && from[3] == to[3] && slice->start[2] == 0 && slice->start[3] == 0 &&
              (slice->step[2] == 1 || to[2] == 1) && (slice->step[3] == 1 || to[3] == 1);
    } else if (const auto* gather = std::get_if<Gather>(&op.operation)) {
      bytes = bytes && gather->axis == 1;
    } else if (const auto* concat = std::get_if<Concat>(&op.operation)) {
      for (const ValueId id : op.inputs) {
        if (grid(id) != grid(x)) return false;
        bytes = bytes && made(id) && concat->axis == 1;
      }
    } else if (const auto* pool = std::get_if<Pool>(&op.operation)) {
      if (pool->kind != Pool::Kind::kMax) return false;
    } else if (const auto* resize = std::get_if<Resize>(&op.operation)) {
      if (!is_nearest(*resize)) return false;
    } else if (std::holds_alternative<Reshape>(op.operation) || std::holds_alternative<Transpose>(op.operation)) {
      bytes = false;
    } else {
      return false;
    }
    grid(op.output) = grid(x);
    return bytes;
  }

  // The value for each level of `root`; empty: it is no function of it.
  [[nodiscard]] std::vector<float> over(ValueId id, ValueId root) const {
    if (id == root) return numbers_of(*plan_.grids[at(root)]);
    const Origin& origin = origins_[at(id)];
    return origin.root == root ? origin.numbers : std::vector<float>();
  }

  // The op's result, where `numbers` has a line for each input that is no constant.
  [[nodiscard]] std::vector<float> evaluated(const Op& op, const std::vector<std::vector<float>>& numbers) const {
    const std::int64_t count =
        static_cast<std::int64_t>(std::max_element(numbers.begin(), numbers.end(), [](const auto& a, const auto& b) {
                                    return a.size() < b.size();
                                  })->size());
    const Shape shape = {1, 1, 1, count};
    std::vector<Constant> lines;
    lines.reserve(numbers.size());
    std::vector<const Constant*> inputs;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i].empty()) {
        inputs.push_back(graph_.value(op.inputs[i]).constant.get());
      } else {
        lines.push_back({DataType::kF32, shape, numbers[i], {}});
        inputs.push_back(&lines.back());
      }
    }
    std::vector<float> result = evaluate(op, inputs, shape, Folded::kFloats).f32;
    if (const auto r = fusions_.requantizations.find(op.output); r != fusions_.requantizations.end()) {
      const Requantize& q = r->second;
      for (float& v : result) {
        if (q.divisor != 0) v = std::nearbyint(v / q.divisor);
        v = std::clamp(v * q.scale, q.low, q.high);
      }
    }
    return result;
  }

  // Whether the op treats each number for itself, beside constants of one number.
  [[nodiscard]] bool is_elementwise(const Op& op) const {
    if (fusions_.normalizations.count(op.output) > 0) return false;
    if (!std::holds_alternative<Unary>(op.operation) && !std::holds_alternative<Binary>(op.operation)) return false;
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) {
      return graph_.is_constant(id) ? scalar(graph_, id).has_value() && graph_.shape(id).size() <= 4
                                    : graph_.shape(id) == graph_.shape(op.output);
    });
  }

  // A function of one value whose numbers are bytes, by whatever ops: SiLU is x * sigmoid(x), with both rounded.
  bool plan_function(Op& op) {
    if (!is_elementwise(op) || !is_picture(op.output)) return false;
    std::vector<ValueId> roots;
    for (const ValueId id : op.inputs) {
      if (graph_.is_constant(id)) continue;
      if (made(id)) roots.push_back(id);
      if (origins_[at(id)].root != kNoValue) roots.push_back(origins_[at(id)].root);
    }
    for (const ValueId root : roots) {
      std::vector<std::vector<float>> numbers;
      bool all = true;
      for (const ValueId id : op.inputs) {
        numbers.push_back(graph_.is_constant(id) ? std::vector<float>() : over(id, root));
        all = all && (graph_.is_constant(id) || !numbers.back().empty());
      }
      if (!all) continue;
      Origin& origin = origins_[at(op.output)];
      origin = {root, evaluated(op, numbers)};
      if (!grid(op.output)) return false;
      plan_.tables[op.output] = {table_of(origin.numbers, *grid(op.output))};
      become(op, Unary{}, {root});
      return true;
    }
    return plan_joined(op);
  }

  // A function of a Concat whose inputs have scales of their own: a function of each input.
  bool plan_joined(Op& op) {
    ValueId joined = kNoValue;
    for (const ValueId id : op.inputs) {
      if (graph_.is_constant(id)) continue;
      if (joined != kNoValue) return false;
      joined = id;
    }
    const int maker = joined == kNoValue ? -1 : maker_[at(joined)];
    if (maker < 0 || !grid(op.output)) return false;
    const Op& before = graph_.ops[at(maker)];
    const auto* concat = std::get_if<Concat>(&before.operation);
    if (concat == nullptr || concat->axis != 1) return false;
    std::vector<std::optional<LevelTable>> tables;
    for (const ValueId part : before.inputs) {
      if (!made(part)) return false;
      if (grid(part) == grid(op.output)) {
        tables.emplace_back();
        continue;
      }
      std::vector<std::vector<float>> numbers;
      for (const ValueId id : op.inputs)
        numbers.push_back(id == joined ? numbers_of(*grid(part)) : std::vector<float>());
      tables.emplace_back(table_of(evaluated(op, numbers), *grid(op.output)));
    }
    plan_.tables[op.output] = std::move(tables);
    become(op, *concat, before.inputs);
    return true;
  }

  void become(Op& op, const Operation& operation, const std::vector<ValueId>& inputs) {
    // Copies: both may be parts of an op of this graph.
    Operation kind = operation;
    std::vector<ValueId> ids = inputs;
    op.operation = std::move(kind);
    op.inputs = std::move(ids);
    op.activation = {};
    fusions_.requantizations.erase(op.output);
  }

  // A sum or product of two values of bytes.
  bool plan_pair(const Op& op) {
    const auto* binary = std::get_if<Binary>(&op.operation);
    if (binary == nullptr || !grid(op.output) || !is_picture(op.output)) return false;
    const bool arithmetic =
        binary->kind == Binary::Kind::kAdd || binary->kind == Binary::Kind::kSub || binary->kind == Binary::Kind::kMul;
    return arithmetic && divisor(op) != 0 && made(op.inputs[0]) && made(op.inputs[1]) &&
           graph_.shape(op.inputs[0]) == graph_.shape(op.inputs[1]);
  }

  void note_readers() {
    for_convs_.assign(graph_.values.size(), true);
    for (const ValueId id : graph_.outputs) for_convs_[at(id)] = false;
    for (const Op& op : graph_.ops) {
      const bool conv = std::holds_alternative<Conv>(op.operation);
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i] != kNoValue && (!conv || i > 0)) for_convs_[at(op.inputs[i])] = false;
      }
    }
  }

  // Numbers of f32, as the picture's, that only convolutions read once they are rounded: x / scale, rounded.
  bool plan_rounding(const Op& op) {
    const auto* binary = std::get_if<Binary>(&op.operation);
    if (binary == nullptr || binary->kind != Binary::Kind::kDiv || !grid(op.output) || !is_picture(op.output)) {
      return false;
    }
    const bool rounds = for_convs_[at(op.output)] && divisor(op) == 1 &&
                        scalar(graph_, op.inputs[1]) == grid(op.output)->scale &&
                        graph_.shape(op.inputs[0]) == graph_.shape(op.output);
    if (rounds) rounded_.push_back(op.output);
    return rounds;
  }

  // Not where all these convolutions stay in f32.
  void keep_useful_roundings() {
    for (const ValueId id : rounded_) {
      plan_.made[at(id)] = std::any_of(graph_.ops.begin(), graph_.ops.end(), [&](const Op& op) {
        return plan_.convs.count(op.output) > 0 && op.inputs[0] == id;
      });
    }
  }

  // Ops that nobody reads now that others are tables.
  void drop_unused() {
    std::vector<bool> read(graph_.values.size(), false);
    for (const ValueId id : graph_.outputs) read[at(id)] = true;
    for (std::size_t i = graph_.ops.size(); i-- > 0;) {
      const Op& op = graph_.ops[i];
      dead_[i] = !read[at(op.output)];
      for (const ValueId id : op.inputs) {
        if (!dead_[i] && id != kNoValue) read[at(id)] = true;
      }
    }
    erase_marked(graph_, dead_);
    maker_ = producers(graph_);
    dead_.assign(graph_.ops.size(), false);
  }

  // A table that is all that reads a convolution comes at the end of that.
  void join_tables() {
    const std::vector<int> uses = use_counts(graph_);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      const auto table = plan_.tables.find(op.output);
      if (table == plan_.tables.end() || !std::holds_alternative<Unary>(op.operation)) continue;
      const auto conv = plan_.convs.find(op.inputs[0]);
      if (conv == plan_.convs.end() || uses[at(op.inputs[0])] != 1) continue;
      conv->second.table = table->second[0];
      graph_.ops[at(maker_[at(op.inputs[0])])].output = op.output;
      ByteConv moved = std::move(conv->second);
      plan_.convs.erase(conv);
      plan_.convs.emplace(op.output, std::move(moved));
      plan_.tables.erase(table);
      dead_[i] = true;
    }
  }

  Graph& graph_;
  Fusions& fusions_;
  std::vector<int> maker_;
  std::vector<bool> dead_;
  std::vector<Origin> origins_;   // per value
  std::vector<bool> for_convs_;   // per value: only convolutions read it, as their picture
  std::vector<ValueId> rounded_;  // by plan_rounding()
  BytePlan plan_;
};

}  // namespace

BytePlan plan_bytes(Graph& graph, Fusions& fusions) { return BytePlanner(graph, fusions).run(); }

}  // namespace camd::infer::cpu
