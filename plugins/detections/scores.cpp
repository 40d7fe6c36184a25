// Thresholds in raw values, and the scans over all cells.
#include "plugins/detections/scores.hpp"

#include <algorithm>
#include <stdexcept>

#include "plugins/json_object.hpp"

namespace camd::plugins {

Scores::Scores(const Options& options, int channels, bool background_by_default) : form_(options.scores) {
  names_ = options.classes;
  background_ = options.background.value_or(names_.empty() ? background_by_default && channels > 1
                                                           : channels == static_cast<int>(names_.size()) + 1);
  const int classes = channels - (background_ ? 1 : 0);
  if (classes < 1) throw std::invalid_argument("the model's scores have no class beside the background");
  first_ = background_ && !options.background_last ? 1 : 0;
  background_at_ = options.background_last ? classes : 0;
  if (names_.empty()) {
    for (int c = 0; c < classes; ++c) names_.push_back("class" + std::to_string(c));
  }
  if (classes != static_cast<int>(names_.size())) {
    throw std::invalid_argument("the model has " + std::to_string(classes) + " classes" +
                                (background_ ? " beside the background" : "") + ", but `classes` names " +
                                std::to_string(names_.size()));
  }
  thresholds_.assign(names_.size(), options.score);
  for (const auto& [name, score] : options.class_scores) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      const auto near = nearest(name, names_);
      throw std::invalid_argument("config.score." + name + ": no such class" +
                                  (near ? " (did you mean '" + *near + "'?)" : ""));
    }
    thresholds_[static_cast<std::size_t>(found - names_.begin())] = score;
  }
  lowest_ = *std::min_element(thresholds_.begin(), thresholds_.end());
  floor_ = raw_floor(lowest_);
}

float Scores::raw_floor(float least) const noexcept {
  switch (form_) {
    case ScoreForm::kLogits: return std::log(least / (1.0F - least)) - 1e-4F;  // sigmoid(x) >= p: x >= ln(p / (1 - p))
    case ScoreForm::kPercent: return least * 99.999F;
    case ScoreForm::kProbability: break;
  }
  return least;
}

void Scores::scan(const Level& level, int level_index, const TensorSet& tensors, Candidates& candidates) {
  const Head& head = level.head(Role::kCls);
  const float* values = tensors.data(head.output) + head.first;
  if (form_ == ScoreForm::kLogits && background_) return scan_softmax(level, level_index, values, candidates);
  const std::int64_t cells = level.cells();
  const std::int64_t per_cell = static_cast<std::int64_t>(level.anchors) * head.channels;
  // Values of all classes, anchors and cells in one row: one long run.
  if (!background_ && head.channel_step == 1 && head.anchor_step == head.channels && head.cell_step == per_cell &&
      !tensors.passed(level_index)) {
    scan_run(values, cells * per_cell, 1, floor_, [&](std::int64_t i, float raw) {
      const std::int64_t of_cell = i % per_cell;
      offer(probability(raw), static_cast<int>(of_cell % head.channels), level_index, of_cell / head.channels,
            i / per_cell, candidates);
    });
    return;
  }
  for (std::int64_t a = 0; a < level.anchors; ++a) {
    for (int c = 0; c < classes(); ++c) {
      const float* run = values + a * head.anchor_step + (c + first_) * head.channel_step;
      scan_cells(tensors, level, level_index, a, run, head.cell_step, floor_,
                 [&](std::int64_t cell, float raw) { offer(probability(raw), c, level_index, a, cell, candidates); });
    }
  }
}

void Scores::scan_softmax(const Level& level, int level_index, const float* values, Candidates& candidates) {
  const Head& head = level.head(Role::kCls);
  for (std::int64_t cell = 0; cell < level.cells(); ++cell) {
    for (std::int64_t a = 0; a < level.anchors; ++a) {
      const float* of_anchor = values + head.at(cell, a) - head.first;
      const float background = of_anchor[background_at_ * head.channel_step];
      // A class with probability p has at least the odds p / (1 - p) against the background alone.
      float highest = background;
      bool any = false;
      for (int c = 0; c < classes(); ++c) {
        const float raw = of_anchor[(c + first_) * head.channel_step];
        any = any || raw - background >= floor_;
        highest = std::max(highest, raw);
      }
      if (!any) continue;
      float sum = std::exp(background - highest);
      for (int c = 0; c < classes(); ++c) sum += std::exp(of_anchor[(c + first_) * head.channel_step] - highest);
      for (int c = 0; c < classes(); ++c) {
        offer(std::exp(of_anchor[(c + first_) * head.channel_step] - highest) / sum, c, level_index, a, cell,
              candidates);
      }
    }
  }
}

}  // namespace camd::plugins
