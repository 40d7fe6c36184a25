// Replaces a convolution of patches by one of pixels.
#include "infer/cuda/plan/patches.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "infer/graph/rewriting.hpp"

namespace camd::infer::cuda {
namespace {

constexpr int kSide = 2;  // of a patch
constexpr std::size_t kPixels = 4;

// Every other pixel of a value, in both directions, from one of its first four on.
struct Part {
  ValueId source = kNoValue;
  int row = 0, column = 0;
};

class Patches {
 public:
  explicit Patches(const Graph& graph) : graph_(graph), maker_(producers(graph)), uses_(use_counts(graph)) {}

  Graph run() {
    bool changed = false;
    for (int i = 0; i < static_cast<int>(graph_.ops.size()); ++i) changed = convolve(i) || changed;
    if (changed) remove_unused(graph_);
    return std::move(graph_);
  }

 private:
  [[nodiscard]] const Op& op(int i) const { return graph_.ops[at(i)]; }

  // The slices that make the value, taken together.
  [[nodiscard]] std::optional<Part> part_of(ValueId id) const {
    const Shape& out = graph_.shape(id);
    if (out.size() != 4) return {};
    Slice all{std::vector<std::int64_t>(4, 0), std::vector<std::int64_t>(4, 1)};
    ValueId source = id;
    while (maker_[at(source)] >= 0) {
      const Op& make = op(maker_[at(source)]);
      const auto* slice = std::get_if<Slice>(&make.operation);
      if (slice == nullptr || make.activation.function != Function::kNone) break;
      for (std::size_t d = 0; d < 4; ++d) {
        all.start[d] = slice->start[d] + all.start[d] * slice->step[d];
        all.step[d] *= slice->step[d];
      }
      source = make.inputs[0];
    }
    const Shape& in = graph_.shape(source);
    const bool whole = all.step == std::vector<std::int64_t>{1, 1, kSide, kSide} && all.start[0] == 0 &&
                       all.start[1] == 0 && in[0] == out[0] && in[1] == out[1] && in[2] == kSide * out[2] &&
                       in[3] == kSide * out[3];
    const auto inside = [&](std::int64_t start) { return start >= 0 && start < kSide; };
    if (!whole || !inside(all.start[2]) || !inside(all.start[3])) return {};
    return Part{source, static_cast<int>(all.start[2]), static_cast<int>(all.start[3])};
  }

  bool convolve(int i) {
    const auto* conv = std::get_if<Conv>(&op(i).operation);
    if (conv == nullptr || conv->groups != 1 || conv->dilation != Pair2{1, 1}) return false;
    const ValueId joined = op(i).inputs[0];
    const int concat = maker_[at(joined)];
    if (concat < 0 || uses_[at(joined)] != 1 || op(concat).activation.function != Function::kNone) return false;
    const auto* axis = std::get_if<Concat>(&op(concat).operation);
    const std::vector<ValueId>& inputs = op(concat).inputs;
    if (axis == nullptr || axis->axis != 1 || inputs.size() != kPixels) return false;
    std::vector<Part> parts;
    for (const ValueId in : inputs) {
      const std::optional<Part> part = part_of(in);
      if (!part || (!parts.empty() && part->source != parts[0].source)) return false;
      const bool again = std::any_of(parts.begin(), parts.end(), [&](const Part& other) {
        return other.row == part->row && other.column == part->column;
      });
      if (again) return false;
      parts.push_back(*part);
    }
    const auto* weights = graph_.is_constant(op(i).inputs[1]) ? graph_.value(op(i).inputs[1]).constant.get() : nullptr;
    if (weights == nullptr || weights->type != DataType::kF32) return false;
    replace(i, parts, *conv, *weights);
    return true;
  }

  void replace(int i, const std::vector<Part>& parts, Conv conv, const Constant& weights) {
    const std::int64_t n = weights.shape[0], c = graph_.shape(parts[0].source)[1];
    const std::int64_t rows = weights.shape[2], columns = weights.shape[3];
    std::vector<float> spread(weights.f32.size());
    std::size_t from = 0;
    for (std::int64_t filter = 0; filter < n; ++filter) {
      for (const Part& part : parts) {
        for (std::int64_t channel = 0; channel < c; ++channel) {
          for (std::int64_t y = 0; y < rows; ++y) {
            for (std::int64_t x = 0; x < columns; ++x) {
              const std::int64_t row = (filter * c + channel) * rows * kSide + y * kSide + part.row;
              const std::int64_t to = row * columns * kSide + x * kSide + part.column;
              spread[static_cast<std::size_t>(to)] = weights.f32[from++];
            }
          }
        }
      }
    }
    const ValueId made = add_constant(graph_, {n, c, rows * kSide, columns * kSide}, std::move(spread));
    for (int* size : {&conv.kernel.y, &conv.kernel.x, &conv.stride.y, &conv.stride.x, &conv.pads.top, &conv.pads.left,
                      &conv.pads.bottom, &conv.pads.right}) {
      *size *= kSide;
    }
    Op& changed = graph_.ops[at(i)];
    changed.inputs[0] = parts[0].source;
    changed.inputs[1] = made;
    changed.operation = conv;
  }

  Graph graph_;
  const std::vector<int> maker_;
  const std::vector<int> uses_;
};

}  // namespace

Graph with_convolved_patches(const Graph& graph) { return Patches(graph).run(); }

}  // namespace camd::infer::cuda
