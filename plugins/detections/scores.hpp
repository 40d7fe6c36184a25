// From raw class values to candidates: thresholds in the raw values' own space, so that the scan over all cells is a
// compare and nothing else; exp() runs only for what passed.
//
// Threads: constructor [setup], scan_*() [post].
// Invariants: what is not a number, or beyond a probability's range, never becomes a candidate.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/detections/candidates.hpp"
#include "plugins/detections/heads.hpp"
#include "plugins/detections/tensor_set.hpp"

namespace camd::plugins {

[[nodiscard]] inline float sigmoid(float x) noexcept { return 1.0F / (1.0F + std::exp(-x)); }
// exp() for sizes: no model means e^10 = 22026 anchors, and inf would poison the arithmetic behind it.
[[nodiscard]] inline float bounded_exp(float x) noexcept { return std::exp(x < 10.0F ? x : (x >= 10.0F ? 10.0F : x)); }

class Scores {
 public:
  // `channels`: class values per anchor, the background among them. `background_by_default`: when the class names do
  // not tell. Throws std::invalid_argument when names and channels do not fit.
  Scores(const Options& options, int channels, bool background_by_default);

  [[nodiscard]] int classes() const noexcept { return static_cast<int>(names_.size()); }
  [[nodiscard]] const std::string& name(int class_id) const { return names_[static_cast<std::size_t>(class_id)]; }
  [[nodiscard]] bool background() const noexcept { return background_; }
  [[nodiscard]] int first_channel() const noexcept { return first_; }  // of the classes; a background may come before
  [[nodiscard]] float lowest() const noexcept { return lowest_; }      // over all classes, as probability
  // A probability of that class that counts; values a little above 1 are rounding. False for NaN.
  [[nodiscard]] bool passes(float probability, int class_id) const noexcept {
    return probability >= thresholds_[static_cast<std::size_t>(class_id)] && probability <= kAbove;
  }
  // The probability that a raw value stands for. Of logits: the sigmoid.
  [[nodiscard]] float probability(float raw) const noexcept {
    switch (form_) {
      case ScoreForm::kLogits: return sigmoid(raw);
      case ScoreForm::kPercent: return raw * 0.01F;
      case ScoreForm::kProbability: break;
    }
    return raw;
  }
  // No raw value below this stands for the probability `least` or more. A hair too low, so that rounding loses nothing
  // that passes() would keep.
  [[nodiscard]] float raw_floor(float least) const noexcept;
  // Whether scan() compares raw values with raw_floor(lowest()), and does not look at what stands beside them.
  [[nodiscard]] bool by_floor() const noexcept { return form_ != ScoreForm::kLogits || !background_; }
  // Values that were finite but no probabilities since the start: most likely the key `scores` is wrong.
  [[nodiscard]] std::uint64_t out_of_range() const noexcept { return out_of_range_; }

  struct Best {
    int class_id = 0;
    float raw = 0.0F;
  };
  // The first of the largest of all classes' raw values; values[k * step] is that of class k.
  [[nodiscard]] Best best_class(const float* values, std::int64_t step) const noexcept {
    int best = 0;
    for (int k = 1; k < classes(); ++k) {
      if (values[k * step] > values[best * step]) best = k;
    }
    return {best, values[best * step]};
  }

  // The best class's share of the softmax over all classes; the largest is taken out before exp().
  [[nodiscard]] float softmax_of_best(const float* values, std::int64_t step, const Best& best) const noexcept {
    float sum = 0.0F;
    for (int k = 0; k < classes(); ++k) sum += std::exp(values[k * step] - best.raw);
    return 1.0F / sum;
  }

  // Makes a candidate where the probability passes.
  void offer(float probability, int class_id, int level, std::int64_t anchor, std::int64_t cell,
             Candidates& candidates) {
    if (passes(probability, class_id)) {
      candidates.push({probability < 1.0F ? probability : 1.0F, class_id, level, static_cast<std::int32_t>(anchor),
                       static_cast<std::int32_t>(cell)});
    } else if (probability > kAbove && std::isfinite(probability)) {
      ++out_of_range_;
    }
  }

  // Every class of every anchor of one level, from its `cls` head.
  void scan(const Level& level, int level_index, const TensorSet& tensors, Candidates& candidates);

  // Calls hit(cell, value) for the cells of a level where the value of this anchor is `floor` or more. values[cell *
  // step] is that value. Of a level that is filtered, only the places that passed are looked at.
  template <class Hit>
  static void scan_cells(const TensorSet& tensors, const Level& level, int level_index, std::int64_t anchor,
                         const float* values, std::int64_t step, float floor, Hit&& hit) {
    const auto passed = tensors.passed(level_index);
    if (!passed) return scan_run(values, level.cells(), step, floor, hit);
    for (const std::int32_t place : *passed) {
      if (place % level.anchors != anchor) continue;
      const std::int64_t cell = place / level.anchors;
      if (values[cell * step] >= floor) hit(cell, values[cell * step]);
    }
  }

  // Calls hit(i, value) for i in 0..count-1 where values[i * step] >= floor.
  template <class Hit>
  static void scan_run(const float* values, std::int64_t count, std::int64_t step, float floor, Hit&& hit) {
    std::int64_t i = 0;
    if (step == 1) {
      constexpr std::int64_t kBlock = 32;
      for (; i + kBlock <= count; i += kBlock) {
        int hits = 0;  // the compiler makes this loop a handful of vector compares
        for (std::int64_t j = 0; j < kBlock; ++j) hits += static_cast<int>(values[i + j] >= floor);
        if (hits == 0) continue;
        for (std::int64_t j = i; j < i + kBlock; ++j) {
          if (values[j] >= floor) hit(j, values[j]);
        }
      }
    }
    for (; i < count; ++i) {
      const float value = values[i * step];
      if (value >= floor) hit(i, value);
    }
  }

 private:
  static constexpr float kAbove = 1.001F;

  void scan_softmax(const Level& level, int level_index, const float* values, Candidates& candidates);

  std::vector<std::string> names_;
  std::vector<float> thresholds_;  // probabilities, per class
  float lowest_ = 0.0F;
  float floor_ = 0.0F;  // `lowest_` in raw values
  ScoreForm form_ = ScoreForm::kProbability;
  bool background_ = false;
  int first_ = 0;          // of the classes, among the channels
  int background_at_ = 0;  // its channel
  std::uint64_t out_of_range_ = 0;
};

}  // namespace camd::plugins
