// Finds the operators that make up a deformable attention: a GridSample for each level, their results side by side,
// times the weights, summed over the places.
#include "infer/cuda/plan/deformables.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

class DeformableFinder {
 public:
  DeformableFinder(const Graph& graph, Fusion& fusion)
      : graph_(graph), fusion_(fusion), maker_(producers(graph)), uses_(use_counts(graph)) {}

  void run() {
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) {
      std::vector<int> parts;
      const std::optional<Deformable> found = ending_at(i, parts);
      if (!found || std::any_of(parts.begin(), parts.end(), [&](int p) { return fusion_.absorbed.count(p) != 0; }))
        continue;
      fusion_.absorbed.insert(parts.begin(), parts.end());
      fusion_.deformable_of[i] = *found;
    }
  }

 private:
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.shape(id); }
  // What makes the value, where nothing else reads it and the operator does no more than its kind says.
  [[nodiscard]] int only_for(ValueId id) const {
    const int make = id == kNoValue || graph_.is_constant(id) ? -1 : maker_[at(id)];
    return make >= 0 && uses_[at(id)] == 1 && op(make).activation.function == Function::kNone ? make : -1;
  }
  template <typename T>
  [[nodiscard]] const T* only(ValueId id, int& make) const {
    make = only_for(id);
    return make < 0 ? nullptr : std::get_if<T>(&op(make).operation);
  }

  [[nodiscard]] std::optional<Deformable> ending_at(int i, std::vector<int>& parts) const {
    const auto* sum = std::get_if<Reduce>(&op(i).operation);
    if (sum == nullptr || sum->kind != Reduce::Kind::kSum || sum->axes != std::vector<int>{3}) return {};
    if (shape(op(i).inputs[0]).size() != 4) return {};
    int product = -1;
    const auto* times = only<Binary>(op(i).inputs[0], product);
    if (times == nullptr || times->kind != Binary::Kind::kMul) return {};
    parts.push_back(product);
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      std::vector<int> own = parts;
      Deformable found;
      if (!take_levels(op(product).inputs[side], shape(op(product).output), found, own)) continue;
      found.weights = op(product).inputs[1 - side];
      const Shape &all = shape(op(product).output), &weights = shape(found.weights);
      if (graph_.is_constant(found.weights) || weights != Shape{all[0], 1, all[2], all[3]}) return {};
      take_softmax(found, own);
      parts = own;
      return found;
    }
    return {};
  }

  // `values` [heads, channels, queries, points]: levels side by side along the last dimension, or along one of their
  // own that a Reshape joined with it.
  [[nodiscard]] bool take_levels(ValueId values, const Shape& all, Deformable& found, std::vector<int>& parts) const {
    int make = -1;
    if (shape(values) != all) return false;
    std::vector<ValueId> levels{values};
    bool stacked = false;
    if (only<Reshape>(values, make) != nullptr) {
      const ValueId stack = op(make).inputs[0];
      if (shape(stack).size() != 5) return false;
      parts.push_back(make);
      const auto* concat = only<Concat>(stack, make);
      if (concat == nullptr || concat->axis != 3) return false;
      parts.push_back(make);
      levels = op(make).inputs;
      stacked = true;
    } else if (const auto* concat = only<Concat>(values, make); concat != nullptr) {
      if (concat->axis != 3) return false;
      parts.push_back(make);
      levels = op(make).inputs;
    }
    if (levels.size() > kMostDeformableLevels) return false;
    for (ValueId level : levels) {
      if (stacked) {
        const Shape s = shape(level);
        if (only<Reshape>(level, make) == nullptr) return false;
        parts.push_back(make);
        level = op(make).inputs[0];
        if (s != Shape{all[0], all[1], all[2], 1, s[4]} || shape(level) != Shape{all[0], all[1], all[2], s[4]})
          return false;
      }
      const auto* sample = only<GridSample>(level, make);
      if (sample == nullptr || sample->mode != GridSample::Mode::kLinear ||
          sample->padding != GridSample::Padding::kZeros) {
        return false;
      }
      if (!found.samples.empty() && sample->align_corners != found.align_corners) return false;
      found.align_corners = sample->align_corners;
      found.samples.push_back(make);
      parts.push_back(make);
    }
    return true;
  }

  // A Softmax over the points, behind which only other dimensions move.
  void take_softmax(Deformable& found, std::vector<int>& parts) const {
    std::vector<int> movements;
    ValueId id = found.weights;
    int make = only_for(id);
    while (make >= 0 && moves_other_dimensions(make)) {
      movements.push_back(make);
      id = op(make).inputs[0];
      make = only_for(id);
    }
    const auto* softmax = make < 0 ? nullptr : std::get_if<Softmax>(&op(make).operation);
    if (softmax == nullptr || softmax->log || softmax->axis != static_cast<int>(shape(id).size()) - 1) return;
    std::reverse(movements.begin(), movements.end());
    parts.insert(parts.end(), movements.begin(), movements.end());
    parts.push_back(make);
    found.softmax = make;
    found.movements = movements;
  }
  [[nodiscard]] bool moves_other_dimensions(int i) const {
    if (op(i).inputs.empty() || op(i).inputs[0] == kNoValue) return false;
    const Shape &from = shape(op(i).inputs[0]), &to = shape(op(i).output);
    if (std::holds_alternative<Reshape>(op(i).operation))
      return !from.empty() && !to.empty() && from.back() == to.back();
    const auto* transpose = std::get_if<Transpose>(&op(i).operation);
    return transpose != nullptr && transpose->permutation.back() == static_cast<int>(from.size()) - 1;
  }

  const Graph& graph_;
  Fusion& fusion_;
  std::vector<int> maker_;
  std::vector<int> uses_;
};

}  // namespace

void find_deformables(const Graph& graph, Fusion& fusion) { DeformableFinder(graph, fusion).run(); }

}  // namespace camd::infer::cuda
