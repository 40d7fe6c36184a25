// Finds the operators that make up attention.
#include "infer/cuda/plan/attentions.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "infer/cuda/kernels/attention.hpp"
#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

class AttentionFinder {
 public:
  AttentionFinder(Graph& graph, std::size_t shared_bytes, Fusion& fusion)
      : graph_(graph), shared_bytes_(shared_bytes), fusion_(fusion) {
    index();
  }

  void run() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      if (!plain_product(i)) continue;
      for (const bool v_first : {false, true}) {
        std::vector<int> between;  // the operators from the probabilities back to the scores
        std::optional<Attention> found = attention_before(i, v_first, between);
        if (!found) continue;
        for (const int side : {0, 1}) take_factor(*found, side, between);
        fusion_.attention_of[i] = *found;
        fusion_.absorbed.insert(between.begin(), between.end());
        break;
      }
    }
  }

 private:
  void index() {
    uses_ = use_counts(graph_);
    maker_ = producers(graph_);
  }
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }
  [[nodiscard]] Op& op(int i) { return graph_.ops[at(i)]; }
  [[nodiscard]] int uses(ValueId id) const { return uses_[at(id)]; }
  [[nodiscard]] int maker(ValueId id) const { return maker_[at(id)]; }
  [[nodiscard]] bool in_f32(int i) const { return fusion_.in_f32(i); }
  [[nodiscard]] bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }

  // What makes the value, where nothing else reads it and the operator does no more than its kind says.
  [[nodiscard]] int only_for(ValueId id) const {
    const int make = maker(id);
    if (make < 0 || uses(id) != 1 || is_output(id) || in_f32(make)) return -1;
    return op(make).activation.function == Function::kNone ? make : -1;
  }
  [[nodiscard]] bool plain_product(int i) const {
    const Op& o = op(i);
    return std::holds_alternative<MatMul>(o.operation) && (o.inputs.size() < 3 || o.inputs[2] == kNoValue) &&
           o.activation.function == Function::kNone && !in_f32(i);
  }
  [[nodiscard]] std::optional<float> number(ValueId id) const {
    if (!graph_.is_constant(id) || element_count(graph_.shape(id)) != 1) return {};
    const Constant& c = *graph_.value(id).constant;
    if (c.type != DataType::kF32) return {};
    return c.f32[0];
  }

  // A factor in front of the scores' product is a factor of the scores.
  void take_factor(Attention& found, int side, std::vector<int>& between) {
    int reader = found.scores, input = side;
    int at = only_for(op(reader).inputs[static_cast<std::size_t>(input)]);
    if (at >= 0 && std::holds_alternative<Transpose>(op(at).operation)) {
      reader = at;
      input = 0;
      at = only_for(op(at).inputs[0]);
    }
    const auto* binary = at < 0 ? nullptr : std::get_if<Binary>(&op(at).operation);
    if (binary == nullptr || graph_.shape(op(at).inputs[0]) != graph_.shape(op(at).output)) return;
    const std::optional<float> factor = number(op(at).inputs[1]);
    if (!factor || (binary->kind != Binary::Kind::kMul && binary->kind != Binary::Kind::kDiv)) return;
    found.scale = binary->kind == Binary::Kind::kMul ? found.scale * *factor : found.scale / *factor;
    op(reader).inputs[static_cast<std::size_t>(input)] = op(at).inputs[0];
    between.push_back(at);
    index();
  }
  [[nodiscard]] std::optional<Attention> attention_before(int product, bool v_first, std::vector<int>& between) const {
    Attention found;
    found.v_first = v_first;
    int at = only_for(op(product).inputs[v_first ? 1 : 0]);
    if (at < 0) return {};
    const auto rank = graph_.shape(op(at).output).size();
    if (rank < 2) return {};
    if (v_first) {
      const auto* transpose = std::get_if<Transpose>(&op(at).operation);
      if (transpose == nullptr) return {};
      std::vector<int> swapped(rank);
      std::iota(swapped.begin(), swapped.end(), 0);
      std::swap(swapped[rank - 2], swapped[rank - 1]);
      if (transpose->permutation != swapped) return {};
      between.push_back(at);
      at = only_for(op(at).inputs[0]);
    }
    const auto* softmax = at < 0 ? nullptr : std::get_if<Softmax>(&op(at).operation);
    if (softmax == nullptr || softmax->log || softmax->axis != static_cast<int>(rank) - 1) return {};
    between.push_back(at);
    at = only_for(op(at).inputs[0]);
    // Behind the product a scale, behind that a bias; either may be missing.
    bool scaled = false;
    for (; at >= 0 && !std::holds_alternative<MatMul>(op(at).operation); at = only_for(op(at).inputs[0])) {
      const auto* binary = std::get_if<Binary>(&op(at).operation);
      if (binary == nullptr || scaled || graph_.shape(op(at).inputs[0]) != graph_.shape(op(at).output)) return {};
      const ValueId other = op(at).inputs[1];
      const std::optional<float> factor = number(other);
      if (binary->kind == Binary::Kind::kMul && factor) {
        found.scale = *factor;
        scaled = true;
      } else if (binary->kind == Binary::Kind::kDiv && factor) {
        found.scale = 1.0F / *factor;
        scaled = true;
      } else if (binary->kind == Binary::Kind::kAdd && found.bias == kNoValue) {
        found.bias = other;
      } else {
        return {};
      }
      between.push_back(at);
    }
    if (at < 0 || !plain_product(at)) return {};
    between.push_back(at);
    found.scores = at;
    return fits(product, found) ? std::optional(found) : std::nullopt;
  }
  [[nodiscard]] bool fits(int product, const Attention& found) const {
    const Shape& out = graph_.shape(op(product).output);
    const Shape& scores = graph_.shape(op(found.scores).output);
    const std::size_t rank = scores.size();
    if (out.size() != rank || rank > kMaxRank || !std::equal(out.begin(), out.end() - 2, scores.begin())) return false;
    const std::int64_t depth = graph_.shape(op(found.scores).inputs[0]).back();
    const std::int64_t width = out[rank - (found.v_first ? 2 : 1)];
    std::int64_t batch = 1;
    for (std::size_t d = 0; d + 2 < rank; ++d) batch *= scores[d];
    constexpr std::int64_t kMostRows = 1 << 20, kMostBatch = 65535;  // of a grid
    if (depth < 1 || depth > kMostAttentionDepth || width < 1 || width > kMostAttentionDepth) return false;
    if (batch > kMostBatch || scores[rank - 2] > kMostRows || scores[rank - 1] > kMostRows) return false;
    return attention_shape(static_cast<int>(depth), static_cast<int>(width), static_cast<int>(scores.back())).bytes() <=
           shared_bytes_;
  }

  Graph& graph_;
  const std::size_t shared_bytes_;
  Fusion& fusion_;
  std::vector<int> uses_, maker_;
};

}  // namespace

void find_attentions(Graph& graph, std::size_t shared_bytes, Fusion& fusion) {
  AttentionFinder(graph, shared_bytes, fusion).run();
}

}  // namespace camd::infer::cuda
