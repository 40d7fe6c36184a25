// Finds the operators that make up a layer normalisation.
#include "infer/cuda/plan/layer_norms.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

class LayerNormFinder {
 public:
  LayerNormFinder(const Graph& graph, Fusion& fusion)
      : graph_(graph), fusion_(fusion), maker_(producers(graph)), readers_(graph.values.size()) {
    for (int i = 0; i < static_cast<int>(graph.ops.size()); ++i) {
      for (const ValueId in : op(i).inputs) {
        if (in == kNoValue) continue;
        std::vector<int>& all = readers_[at(in)];
        if (std::find(all.begin(), all.end(), i) == all.end()) all.push_back(i);
      }
    }
    for (const ValueId id : graph.outputs) readers_[at(id)].push_back(-1);
  }

  void run() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      std::vector<int> parts;
      std::optional<LayerNorm> norm = ending_at(i, parts);
      if (!norm || std::any_of(parts.begin(), parts.end(), [&](int p) { return fusion_.absorbed.count(p) != 0; }))
        continue;
      int last = i;
      take_constant(*norm, last, parts, Binary::Kind::kMul, norm->gain);
      take_constant(*norm, last, parts, Binary::Kind::kAdd, norm->offset);
      take_sum(*norm, parts);
      fusion_.absorbed.insert(parts.begin(), parts.end());
      fusion_.layer_norm_of[last] = *norm;
    }
  }

 private:
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }
  // In no part of what was found before, nor its end.
  [[nodiscard]] bool free(int i) const { return fusion_.absorbed.count(i) == 0 && fusion_.layer_norm_of.count(i) == 0; }
  [[nodiscard]] const Binary* binary(int i, Binary::Kind kind) const {
    const auto* found = i < 0 ? nullptr : std::get_if<Binary>(&op(i).operation);
    return found != nullptr && found->kind == kind ? found : nullptr;
  }
  [[nodiscard]] bool plain(int i) const { return op(i).activation.function == Function::kNone; }
  // Nobody else reads the value.
  [[nodiscard]] bool read_by(ValueId id, std::vector<int> those) const {
    std::vector<int> all = readers_[at(id)];
    std::sort(all.begin(), all.end());
    std::sort(those.begin(), those.end());
    return all == those;
  }
  // The mean along one axis, or -1.
  [[nodiscard]] int mean_axis(int i) const {
    const auto* reduce = i < 0 ? nullptr : std::get_if<Reduce>(&op(i).operation);
    return reduce != nullptr && reduce->kind == Reduce::Kind::kMean && reduce->axes.size() == 1 ? reduce->axes[0] : -1;
  }
  // The operator that makes value * value, or -1.
  [[nodiscard]] bool squares(int i, ValueId value) const {
    if (i < 0 || !plain(i) || op(i).inputs.empty() || op(i).inputs[0] != value) return false;
    if (binary(i, Binary::Kind::kMul) != nullptr) return op(i).inputs[1] == value;
    return binary(i, Binary::Kind::kPow) != nullptr && scalar(graph_, op(i).inputs[1]) == 2.0F;
  }

  // (x - mean) / sqrt(mean of its squares + epsilon), whose division is op `i`.
  [[nodiscard]] std::optional<LayerNorm> ending_at(int i, std::vector<int>& parts) const {
    if (binary(i, Binary::Kind::kDiv) == nullptr) return {};
    const ValueId centred = op(i).inputs[0], deviation = op(i).inputs[1];
    int shifted = maker_[at(deviation)];
    if (!read_by(deviation, {i})) return {};
    const auto* root = shifted < 0 ? nullptr : std::get_if<Unary>(&op(shifted).operation);
    if (root != nullptr) {
      if (root->function.function != Function::kSqrt) return {};
      parts.push_back(shifted);
      const ValueId inside = op(shifted).inputs[0];
      if (!read_by(inside, {shifted})) return {};
      shifted = maker_[at(inside)];
      if (shifted < 0 || !plain(shifted)) return {};
    } else if (shifted < 0 || op(shifted).activation.function != Function::kSqrt) {
      return {};
    }
    if (binary(shifted, Binary::Kind::kAdd) == nullptr) return {};
    parts.push_back(shifted);
    const std::optional<float> epsilon = scalar(graph_, op(shifted).inputs[1]);
    const ValueId variance = op(shifted).inputs[0];
    const int spread = maker_[at(variance)], axis = mean_axis(spread);
    if (!epsilon || axis < 0 || !read_by(variance, {shifted})) return {};
    parts.push_back(spread);
    const ValueId squared = op(spread).inputs[0];
    const int square = maker_[at(squared)], centre = maker_[at(centred)];
    if (!squares(square, centred) || !read_by(squared, {spread}) || !read_by(centred, {square, i})) return {};
    if (binary(centre, Binary::Kind::kSub) == nullptr || !plain(centre)) return {};
    parts.push_back(square);
    parts.push_back(centre);
    LayerNorm found;
    found.x = op(centre).inputs[0];
    found.axis = axis;
    found.epsilon = *epsilon;
    const ValueId middle = op(centre).inputs[1];
    const int average = maker_[at(middle)];
    if (mean_axis(average) != axis || op(average).inputs[0] != found.x || !read_by(middle, {centre})) return {};
    if (graph_.shape(op(i).output) != graph_.shape(found.x)) return {};
    parts.push_back(average);
    return found;
  }

  // A factor or a summand that changes along the normalised axis only.
  void take_constant(const LayerNorm& norm, int& last, std::vector<int>& parts, Binary::Kind kind, ValueId& to) const {
    const ValueId y = op(last).output;
    const std::vector<int>& all = readers_[at(y)];
    if (all.size() != 1 || binary(all[0], kind) == nullptr || !plain(last) || !free(all[0])) return;
    const int next = all[0];
    const ValueId other = op(next).inputs[op(next).inputs[0] == y ? 1 : 0];
    if (!graph_.is_constant(other) || graph_.shape(op(next).output) != graph_.shape(y)) return;
    if (along_axis(*graph_.value(other).constant, graph_.shape(y), at(norm.axis)).empty()) return;
    to = other;
    parts.push_back(last);
    last = next;
  }

  // The value is an elementwise operator's, for one reader.
  [[nodiscard]] bool computed_for_one(ValueId id) const {
    const int make = graph_.is_constant(id) ? -1 : maker_[at(id)];
    return make >= 0 && free(make) && readers_[at(id)].size() == 1 &&
           (std::holds_alternative<Binary>(op(make).operation) || std::holds_alternative<Unary>(op(make).operation));
  }
  // The sum that is normalised, where nobody else wants it. A sum of two elementwise results becomes one kernel with
  // both of them instead.
  void take_sum(LayerNorm& norm, std::vector<int>& parts) const {
    const int add = maker_[at(norm.x)];
    if (binary(add, Binary::Kind::kAdd) == nullptr || !free(add)) return;
    if (readers_[at(norm.x)].size() != 2) return;  // the mean and the difference
    if (graph_.shape(op(add).inputs[0]) != graph_.shape(norm.x)) return;
    if (computed_for_one(op(add).inputs[0]) && computed_for_one(op(add).inputs[1])) return;
    norm.sum_activation = op(add).activation;
    norm.added = op(add).inputs[1];
    norm.x = op(add).inputs[0];
    parts.push_back(add);
  }

  const Graph& graph_;
  Fusion& fusion_;
  std::vector<int> maker_;
  std::vector<std::vector<int>> readers_;  // of each value; -1: an output of the network
};

}  // namespace

void find_layer_norms(const Graph& graph, Fusion& fusion) { LayerNormFinder(graph, fusion).run(); }

}  // namespace camd::infer::cuda
