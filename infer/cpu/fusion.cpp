#include "infer/cpu/fusion.hpp"

#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cpu {
namespace {

// Finds chains of ops in a graph and marks those that a chain's last op stands for.
class Fuser {
 public:
  explicit Fuser(Graph& graph)
      : graph_(graph),
        maker_(producers(graph)),
        uses_(use_counts(graph)),
        reader_(graph.values.size(), -1),
        dead_(graph.ops.size(), false) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      for (const ValueId id : graph.ops[i].inputs) {
        if (id != kNoValue) reader_[at(id)] = static_cast<int>(i);
      }
    }
  }

  Fusions run() {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) fuse_normalization(static_cast<int>(i));
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) fuse_dequantization(static_cast<int>(i));
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) fuse_quantization(static_cast<int>(i));
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) fuse_attention(static_cast<int>(i));
    erase_marked(graph_, dead_);
    return std::move(fusions_);
  }

 private:
  // A chain while it is followed: the ops that it absorbs, and the picture's channels so far.
  struct Chain {
    std::vector<int> ops;
    ValueId picture = kNoValue;  // [1,C,H,W]
    ValueId normalized = kNoValue;
    Normalization result;
  };

  // The index of the op that makes the value when exactly `uses` reads are all there are; -1: not so.
  [[nodiscard]] int made(ValueId id, int uses) const {
    return id == kNoValue || uses_[at(id)] != uses ? -1 : maker_[at(id)];
  }
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }
  [[nodiscard]] const Binary* binary(int i, Binary::Kind kind) const {
    const auto* b = i < 0 ? nullptr : std::get_if<Binary>(&op(i).operation);
    return b != nullptr && b->kind == kind ? b : nullptr;
  }
  [[nodiscard]] const Reduce* mean(int i) const {
    const auto* r = i < 0 ? nullptr : std::get_if<Reduce>(&op(i).operation);
    return r != nullptr && r->kind == Reduce::Kind::kMean ? r : nullptr;
  }

  // (x - mean) / sqrt(variance + epsilon), as lowering writes it; `i` is the division.
  [[nodiscard]] std::optional<Chain> core(int i) const {
    if (binary(i, Binary::Kind::kDiv) == nullptr) return std::nullopt;
    Chain chain;
    const ValueId centred = op(i).inputs[0];
    int root = made(op(i).inputs[1], 1);
    chain.ops.push_back(i);
    if (root >= 0 && std::holds_alternative<Unary>(op(root).operation)) {
      if (std::get<Unary>(op(root).operation).function.function != Function::kSqrt) return std::nullopt;
      chain.ops.push_back(root);
      root = made(op(root).inputs[0], 1);
      if (root < 0 || op(root).activation.function != Function::kNone) return std::nullopt;
    } else if (root < 0 || op(root).activation.function != Function::kSqrt) {
      return std::nullopt;
    }
    if (binary(root, Binary::Kind::kAdd) == nullptr) return std::nullopt;
    const auto epsilon = scalar(graph_, op(root).inputs[1]);
    const int variance = made(op(root).inputs[0], 1);
    if (!epsilon || mean(variance) == nullptr) return std::nullopt;
    const int square = made(op(variance).inputs[0], 1);
    const int difference = made(centred, 3);
    const auto plain = [this](int k) { return op(k).activation.function == Function::kNone; };
    if (binary(square, Binary::Kind::kMul) == nullptr || binary(difference, Binary::Kind::kSub) == nullptr ||
        !plain(square) || !plain(difference) || op(square).inputs != std::vector<ValueId>{centred, centred}) {
      return std::nullopt;
    }
    const ValueId x = op(difference).inputs[0];
    const int average = made(op(difference).inputs[1], 1);
    if (mean(average) == nullptr || op(average).inputs[0] != x || mean(average)->axes != mean(variance)->axes) {
      return std::nullopt;
    }
    chain.ops.insert(chain.ops.end(), {root, variance, square, difference, average});
    chain.result.epsilon = *epsilon;
    chain.normalized = op(i).output;
    return with_picture(std::move(chain), x, mean(average)->axes);
  }

  // x is a picture normalised over its planes, or a picture reshaped to [1,groups,rest] and normalised over the rest.
  [[nodiscard]] std::optional<Chain> with_picture(Chain chain, ValueId x, const std::vector<int>& axes) const {
    const Shape& shape = graph_.shape(x);
    if (shape.size() == 4 && shape[0] == 1 && axes == std::vector<int>{2, 3}) {
      chain.picture = x;
    } else if (shape.size() == 3 && shape[0] == 1 && axes == std::vector<int>{2}) {
      const int reshape = maker_[at(x)];
      if (reshape < 0 || !std::holds_alternative<Reshape>(op(reshape).operation)) return std::nullopt;
      chain.picture = op(reshape).inputs[0];
      const Shape& picture = graph_.shape(chain.picture);
      if (picture.size() != 4 || picture[0] != 1 || picture[1] % shape[1] != 0) return std::nullopt;
      chain.result.group = number(picture[1] / shape[1]);
      if (uses_[at(x)] == 2) chain.ops.push_back(reshape);
    } else {
      return std::nullopt;
    }
    if (graph_.is_constant(chain.picture)) return std::nullopt;
    return chain;
  }

  // The gain and offset per channel, the way back to the picture's shape and the activation, as far as they follow.
  void fuse_normalization(int i) {
    std::optional<Chain> found = core(i);
    if (!found) return;
    Chain& chain = *found;
    const Shape picture = graph_.shape(chain.picture);
    const auto channels = at(picture[1]);
    std::vector<double> gain(channels, 1.0), offset(channels, 0.0);
    ValueId value = chain.normalized;
    Activation activation = op(i).activation;
    int last = i;
    while (activation.function == Function::kNone && uses_[at(value)] == 1 && reader_[at(value)] >= 0) {
      const int next = reader_[at(value)];
      const Op& follower = op(next);
      if (std::holds_alternative<Reshape>(follower.operation)) {
        if (graph_.shape(follower.output) != picture) break;
      } else if (const auto* unary = std::get_if<Unary>(&follower.operation)) {
        if (graph_.shape(value) != picture) break;
        activation = unary->function;
      } else {
        Op line_only = follower;
        line_only.activation = {};
        const auto line = channel_line(graph_, line_only, 1);
        if (!line) break;
        const std::size_t each = channels / line->gain.size();
        for (std::size_t c = 0; c < channels; ++c) {
          gain[c] *= line->gain[c / each];
          offset[c] = offset[c] * line->gain[c / each] + line->offset[c / each];
        }
        activation = follower.activation;
      }
      chain.ops.push_back(next);
      value = follower.output;
      last = next;
    }
    if (graph_.shape(value) != picture) return;
    chain.result.gain.assign(gain.begin(), gain.end());
    chain.result.offset.assign(offset.begin(), offset.end());
    for (const int k : chain.ops) dead_[at(k)] = true;
    dead_[at(last)] = false;
    Op& op = graph_.ops[at(last)];
    op.operation = Unary{};
    op.inputs = {chain.picture};
    op.activation = activation;
    fusions_.normalizations.emplace(value, std::move(chain.result));
  }

  // clip(v * scale), where v is what an op has just rounded for this reader alone.
  void fuse_dequantization(int i) {
    if (dead_[at(i)] || binary(i, Binary::Kind::kMul) == nullptr) return;
    const Op& product = op(i);
    const Activation& clip = product.activation;
    const auto scale = scalar(graph_, product.inputs[1]);
    if (!scale || *scale == 0 || graph_.shape(product.inputs[0]) != graph_.shape(product.output)) return;
    if (clip.function != Function::kNone && clip.function != Function::kClip) return;
    const int maker = made(product.inputs[0], 1);
    if (maker < 0) return;
    Op& rounding = graph_.ops[at(maker)];
    const auto* unary = std::get_if<Unary>(&rounding.operation);
    const Function function = unary != nullptr ? unary->function.function : rounding.activation.function;
    if (function != Function::kRound) return;
    Requantize d{0.0F, *scale, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
    if (clip.function == Function::kClip) d.low = clip.a, d.high = clip.b;
    rounding.output = product.output;
    fusions_.requantizations.emplace(product.output, d);
    dead_[at(i)] = true;
  }

  // round(x / divisor), which fuse_dequantization() has joined with its scaling, where an op makes x for it alone.
  void fuse_quantization(int i) {
    const auto found = fusions_.requantizations.find(op(i).output);
    if (dead_[at(i)] || found == fusions_.requantizations.end()) return;
    const Op& quotient = op(i);
    const auto divisor = binary(i, Binary::Kind::kDiv) == nullptr ? std::nullopt : scalar(graph_, quotient.inputs[1]);
    if (!divisor || *divisor == 0 || graph_.shape(quotient.inputs[0]) != graph_.shape(quotient.output)) return;
    const int maker = made(quotient.inputs[0], 1);
    if (maker < 0) return;
    Op& before = graph_.ops[at(maker)];
    const bool takes =
        std::holds_alternative<Conv>(before.operation) || std::holds_alternative<ConvTranspose>(before.operation) ||
        std::holds_alternative<MatMul>(before.operation) || std::holds_alternative<Binary>(before.operation) ||
        std::holds_alternative<Unary>(before.operation);
    const bool taken = fusions_.requantizations.count(before.output) + fusions_.normalizations.count(before.output) > 0;
    if (!takes || taken) return;
    found->second.divisor = *divisor;
    before.output = quotient.output;
    dead_[at(i)] = true;
  }

  // A product of matrices and nothing else.
  [[nodiscard]] bool is_bare_product(int i) const {
    if (i < 0 || dead_[at(i)] || !std::holds_alternative<MatMul>(op(i).operation)) return false;
    const bool biased = op(i).inputs.size() > 2 && op(i).inputs[2] != kNoValue;
    return !biased && op(i).activation.function == Function::kNone && fusions_.requantizations.count(op(i).output) == 0;
  }

  // Exchanges rows and columns of matrices, and does nothing else.
  [[nodiscard]] bool turns_matrices(int i) const {
    const auto* transpose = i < 0 || dead_[at(i)] ? nullptr : std::get_if<Transpose>(&op(i).operation);
    if (transpose == nullptr || op(i).activation.function != Function::kNone) return false;
    std::vector<int> turned(transpose->permutation.size());
    std::iota(turned.begin(), turned.end(), 0);
    if (turned.size() < 2) return false;
    std::swap(turned[turned.size() - 2], turned.back());
    return transpose->permutation == turned;
  }

  // Of so many keys the scores of some queries stay in the cache.
  static constexpr std::int64_t kMostKeys = 16384;
  // Values that have to be turned first, 1 MiB.
  static constexpr std::int64_t kMostTurned = 262144;

  // `i` is the product with v. The scores of all queries together are the largest tensors of a transformer.
  void fuse_attention(int i) {
    if (!is_bare_product(i)) return;
    Op& last = graph_.ops[at(i)];
    Attention attention;
    std::vector<int> absorbed;
    ValueId shares = last.inputs[0], v = last.inputs[1];
    if (const int turning = made(last.inputs[1], 1); turns_matrices(turning)) {
      attention.turned = true;
      absorbed.push_back(turning);
      v = std::exchange(shares, op(turning).inputs[0]);
    }
    const int softmax = made(shares, 1);
    const auto* s = softmax < 0 ? nullptr : std::get_if<Softmax>(&op(softmax).operation);
    const Shape scores = graph_.shape(shares), out = graph_.shape(last.output);
    if (s == nullptr || s->log || at(s->axis) + 1 != scores.size() || scores.back() > kMostKeys) return;
    if (attention.turned && scores.back() * out[out.size() - 2] > kMostTurned) return;
    if (fusions_.requantizations.count(shares) > 0) return;
    absorbed.push_back(softmax);
    int before = made(op(softmax).inputs[0], 1);
    const bool divides = binary(before, Binary::Kind::kDiv) != nullptr;
    if (divides || binary(before, Binary::Kind::kMul) != nullptr) {
      const auto scale = scalar(graph_, op(before).inputs[1]);
      if (!scale || op(before).activation.function != Function::kNone ||
          fusions_.requantizations.count(op(before).output) > 0) {
        return;
      }
      attention.scale = divides ? 1.0F / *scale : *scale;
      absorbed.push_back(before);
      before = made(op(before).inputs[0], 1);
    }
    if (!is_bare_product(before)) return;
    absorbed.push_back(before);
    const ValueId q = op(before).inputs[0], k = op(before).inputs[1];
    const std::int64_t batch = element_count(out) / (out[out.size() - 2] * out.back());
    const auto parts = [this](ValueId id) {
      const Shape& shape = graph_.shape(id);
      return element_count(shape) / (shape[shape.size() - 2] * shape.back());
    };
    const auto fits = [&](ValueId id) { return parts(id) == 1 || parts(id) == batch; };
    if (parts(q) != batch || parts(shares) != batch || !fits(k) || !fits(v)) return;
    for (const int a : absorbed) dead_[at(a)] = true;
    last.inputs = {q, k, kNoValue, v};
    fusions_.attentions.emplace(last.output, attention);
  }

  Graph& graph_;
  std::vector<int> maker_;
  std::vector<int> uses_;
  std::vector<int> reader_;  // the last op that reads each value
  std::vector<bool> dead_;
  Fusions fusions_;
};

}  // namespace

Fusions fuse(Graph& graph) { return Fuser(graph).run(); }

}  // namespace camd::infer::cpu
