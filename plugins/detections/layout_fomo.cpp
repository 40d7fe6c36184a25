// Layout `fomo` (Edge Impulse, "Faster Objects, More Objects", 2022;
// edge-impulse-sdk/classifier/ei_fill_result_struct.h): one map of classes, small beside the picture, whose first class
// is the background. There are no boxes: the cells of a class that pass and touch, at a corner as well, are one object.
// Its box encloses them, its score is the best cell's.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

class Fomo final : public Decoder {
 public:
  Fomo(std::vector<Level> levels, Scores scores) : Decoder(std::move(levels), std::move(scores)) {
    waiting_.assign(static_cast<std::size_t>(levels_.front().cells() * scores_.classes()), false);
    objects_.reserve(Candidates::kCapacity);
    next_.reserve(Candidates::kCapacity);
  }

  // All cells of an object are looked at; a map is small.
  [[nodiscard]] std::optional<First> looks_first() const override { return std::nullopt; }

  void scan(const TensorSet& tensors, Candidates& candidates) override {
    cells_.clear();
    objects_.clear();
    scores_.scan(levels_.front(), 0, tensors, cells_);
    const std::vector<Candidate>& cells = cells_.sorted();
    for (const Candidate& cell : cells) waiting_[place_of(cell.class_id, cell.cell)] = true;
    // The best cell comes first, so an object's first one is its best.
    for (const Candidate& cell : cells) {
      if (!waiting_[place_of(cell.class_id, cell.cell)]) continue;
      objects_.push_back(join(cell));
      Candidate object = cell;
      object.anchor = static_cast<std::int32_t>(objects_.size());
      candidates.push(object);
    }
  }

  [[nodiscard]] Box box(const TensorSet& /*tensors*/, const Candidate& c) const override {
    const Cells object = c.anchor == 0 ? one_cell(c.cell) : objects_[static_cast<std::size_t>(c.anchor - 1)];
    const auto stride = static_cast<float>(levels_.front().stride);
    return {static_cast<float>(object.left) * stride, static_cast<float>(object.top) * stride,
            static_cast<float>(object.right + 1) * stride, static_cast<float>(object.bottom + 1) * stride};
  }

 private:
  struct Cells {  // from the first column and row to the last
    int left = 0, top = 0, right = 0, bottom = 0;
  };

  [[nodiscard]] std::size_t place_of(int class_id, std::int64_t cell) const noexcept {
    return static_cast<std::size_t>(class_id * levels_.front().cells() + cell);
  }
  [[nodiscard]] Cells one_cell(int cell) const noexcept {
    const int column = cell % levels_.front().width, row = cell / levels_.front().width;
    return {column, row, column, row};
  }

  // All cells of one class that hang together with `first`; they wait no more. Each is looked at once, so there is
  // room.
  Cells join(const Candidate& first) noexcept {
    const Level& level = levels_.front();
    Cells all = one_cell(first.cell);
    const auto take = [&](int column, int row) {
      const std::int64_t cell = static_cast<std::int64_t>(row) * level.width + column;
      const std::size_t place = place_of(first.class_id, cell);
      if (!waiting_[place]) return;
      waiting_[place] = false;
      next_.push_back({column, row});
    };
    next_.clear();
    take(all.left, all.top);
    while (!next_.empty()) {
      const Place at = next_.back();
      next_.pop_back();
      all = {std::min(all.left, at.column), std::min(all.top, at.row), std::max(all.right, at.column),
             std::max(all.bottom, at.row)};
      for (int row = std::max(at.row - 1, 0); row <= std::min(at.row + 1, level.height - 1); ++row) {
        for (int column = std::max(at.column - 1, 0); column <= std::min(at.column + 1, level.width - 1); ++column) {
          take(column, row);
        }
      }
    }
    return all;
  }

  struct Place {
    int column = 0, row = 0;
  };
  Candidates cells_;            // of this frame that pass
  std::vector<bool> waiting_;   // by class and cell: passes, and belongs to no object yet
  std::vector<Cells> objects_;  // a candidate's is the one before number `anchor`; with 0 it is a cell by itself
  std::vector<Place> next_;
};

// The map as one level. Its stride is the configured one, or that of the usual ones of which the map has the cells.
std::optional<Level> level_of(const camd_model& model, int output, const Options& options) {
  if (model.outputs[output].ndim != 4) return std::nullopt;
  const std::vector<int> usual = {8, 4, 16, 32, 2};
  for (const int stride : options.strides.empty() ? usual : options.strides) {
    for (const int up : {stride - 1, 0}) {
      Level level;
      level.stride = stride;
      level.height = static_cast<int>((model.input.shape[2] + up) / stride);
      level.width = static_cast<int>((model.input.shape[3] + up) / stride);
      if (const auto head = head_of_level(model, output, level)) {
        level.head(Role::kCls) = *head;
        return level;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Decoder> make_fomo(const camd_model& model, const Options& options) {
  if (model.input.ndim != 4) throw std::invalid_argument("the model's input is no picture");
  const auto& names = options.outputs[static_cast<std::size_t>(Role::kCls)];
  if (names.size() > 1 || options.strides.size() > 1) {
    throw std::invalid_argument("there is one map of classes, of one stride");
  }
  const int named = names.empty() ? -1 : find_output(model, names.front());
  for (int i = 0; i < model.output_count; ++i) {
    if (named >= 0 && i != named) continue;
    auto level = level_of(model, i, options);
    if (!level) continue;
    Scores scores(options, level->head(Role::kCls).channels, true);
    return std::make_unique<Fomo>(std::vector<Level>{*level}, std::move(scores));
  }
  throw std::invalid_argument(
      "no map of classes, wanted [1,C,h,w] or [1,h,w,C] with a cell for 8x8 pixels of the input (set strides: [S] for "
      "SxS); the model's outputs are " +
      describe_outputs(model));
}

}  // namespace camd::plugins
