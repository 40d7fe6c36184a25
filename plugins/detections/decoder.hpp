// One decoding layout: how a model's raw values become scored boxes. A decoder first scans the scores (all cells), then
// decodes boxes and keypoints of those candidates alone that get that far.
//
// Threads: make_decoder() [setup], the rest [post], one frame at a time.
// Invariants: no allocation after make_decoder(). Boxes may come out not finite when the model's values are not: the
//   caller leaves those out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/detections/candidates.hpp"
#include "plugins/detections/heads.hpp"
#include "plugins/detections/scores.hpp"
#include "plugins/detections/tensor_set.hpp"

namespace camd::plugins {

class Decoder {
 public:
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Which values scan() looks at first: it passes over every anchor where all of them are below `floor`.
  struct First {
    Role role;
    float floor;  // raw
  };
  // Nothing where it looks at more than the anchor itself. Who overrides scan() overrides this, too.
  [[nodiscard]] virtual std::optional<First> looks_first() const {
    if (centerness_ == Centerness::kNone && !scores_.by_floor()) return std::nullopt;
    return First{Role::kCls, class_floor()};
  }
  // What camd may filter the outputs by: one for each level. Empty where looks_first() says nothing.
  [[nodiscard]] std::vector<camd_filter> filters() const;

  virtual void scan(const TensorSet& tensors, Candidates& candidates) {
    if (centerness_ != Centerness::kNone) return scan_with_centerness(tensors, candidates);
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      scores_.scan(levels_[i], static_cast<int>(i), tensors, candidates);
    }
  }
  [[nodiscard]] virtual Box box(const TensorSet& tensors, const Candidate& candidate) const = 0;
  // Writes keypoint_count() points.
  virtual void keypoints(const TensorSet& tensors, const Candidate& candidate, Point* points) const {
    static_cast<void>(tensors);
    static_cast<void>(candidate);
    static_cast<void>(points);
  }
  // Whether the candidate's row holds a box at all: rows that the graph chose may be fewer than there is room for.
  [[nodiscard]] virtual bool holds(const TensorSet& tensors, const Candidate& candidate) const {
    static_cast<void>(tensors);
    static_cast<void>(candidate);
    return true;
  }
  // The point in network pixels that the keypoints of a candidate are measured from; nothing where they are not
  // measured from a point of a grid.
  [[nodiscard]] virtual std::optional<Point> origin(const Candidate& candidate) const {
    static_cast<void>(candidate);
    return std::nullopt;
  }

  [[nodiscard]] int keypoint_count() const noexcept { return keypoint_count_; }
  // Boxes that are turned: box() is what encloses one, and the keypoints are its four corners, in order around it.
  [[nodiscard]] bool oriented() const noexcept { return oriented_; }
  [[nodiscard]] const Scores& scores() const noexcept { return scores_; }
  // One for each stride; layouts without strides have one whose cells are the rows of their list.
  [[nodiscard]] const std::vector<Level>& levels() const noexcept { return levels_; }
  // The model's outputs that are read.
  [[nodiscard]] std::vector<int> used_outputs() const;

 protected:
  Decoder(std::vector<Level> levels, Scores scores);

  struct GridCell {  // of a candidate
    const Level& level;
    float column, row;
  };
  [[nodiscard]] GridCell cell_of(const Candidate& c) const noexcept {
    const Level& level = levels_[static_cast<std::size_t>(c.level)];
    const int row = c.cell / level.width;
    return {level, static_cast<float>(c.cell % level.width), static_cast<float>(row)};
  }
  // The point of a candidate's cell in network pixels; `offset` is in cells.
  [[nodiscard]] Point cell_point(const Candidate& c, float offset) const noexcept {
    const GridCell at = cell_of(c);
    return {(at.column + offset) * static_cast<float>(at.level.step_x),
            (at.row + offset) * static_cast<float>(at.level.step_y)};
  }
  // The values of one role of one anchor: operator[] gives channel i.
  class Values {
   public:
    Values(const float* first, std::int64_t step) noexcept : first_(first), step_(step) {}
    float operator[](int channel) const noexcept { return first_[channel * step_]; }

   private:
    const float* first_;
    std::int64_t step_;
  };
  [[nodiscard]] Values values(const TensorSet& tensors, Role role, const Candidate& c) const noexcept {
    const Head& head = levels_[static_cast<std::size_t>(c.level)].head(role);
    return {tensors.data(head.output) + head.at(c.cell, c.anchor), head.channel_step};
  }

  // Scores count by the centre-ness of role `obj` from now on. Throws std::invalid_argument beside a background.
  void weigh_by(Centerness centerness);

  // For layouts with an objectness: one candidate for each anchor, of its best class. No anchor whose raw objectness is
  // below `floor` can pass. score(objectness, values, step, best) is its probability; values[k * step] is the raw value
  // of class k.
  template <class Score>
  void scan_best_class(const TensorSet& tensors, float floor, Candidates& candidates, Score&& score) {
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      const Level& level = levels_[l];
      const Head& obj = level.head(Role::kObj);
      const Head& cls = level.head(Role::kCls);
      const float* classes = tensors.data(cls.output);
      for (std::int64_t a = 0; a < level.anchors; ++a) {
        Scores::scan_cells(tensors, level, static_cast<int>(l), a, tensors.data(obj.output) + obj.at(0, a),
                           obj.cell_step, floor, [&](std::int64_t cell, float objectness) {
                             const float* of_anchor = classes + cls.at(cell, a);
                             const Scores::Best best = scores_.best_class(of_anchor, cls.channel_step);
                             scores_.offer(score(objectness, of_anchor, cls.channel_step, best), best.class_id,
                                           static_cast<int>(l), a, cell, candidates);
                           });
      }
    }
  }
  // The same where a score is the objectness times the best class, of whose raw values it is the share of a softmax
  // with `softmax`. A class is at most 1, so the objectness alone must reach the threshold.
  void scan_objects(const TensorSet& tensors, bool softmax, Candidates& candidates);
  [[nodiscard]] First objectness_first() const { return {Role::kObj, scores_.raw_floor(scores_.lowest())}; }
  // Keypoints measured from the cell's point in strides: x = (column + offset + k) * stride.
  void cell_keypoints(const TensorSet& tensors, const Candidate& c, float offset, Point* points) const {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values l = values(tensors, Role::kKps, c);
    for (int k = 0; k < keypoint_count(); ++k) {
      points[k] = {(at.column + offset + l[2 * k]) * stride, (at.row + offset + l[2 * k + 1]) * stride};
    }
  }

  std::vector<Level> levels_;
  Scores scores_;
  // A box turned by `angle` radians from the x to the y axis: its corners, and what encloses them.
  static void corners_of(Point centre, float width, float height, float angle, Point* corners) noexcept;
  static Box enclosing(const Point* corners) noexcept;

  int keypoint_count_ = 0;         // from the `kps` heads
  bool oriented_ = false;          // then keypoint_count_ is 4
  int point_values_ = 2;           // of each keypoint: 3 where a visibility follows its place
  std::vector<int> more_outputs_;  // that are read beside the heads'

 private:
  // No class value below this can pass. A centre-ness is 1 at most.
  [[nodiscard]] float class_floor() const noexcept {
    const float lowest = scores_.lowest();
    return scores_.raw_floor(centerness_ == Centerness::kRoot ? lowest * lowest : lowest);
  }
  // Every class of every anchor, weighed by the value of role `obj`.
  void scan_with_centerness(const TensorSet& tensors, Candidates& candidates);

  Centerness centerness_ = Centerness::kNone;
};

// The roles that nearly every layout has: `cls` by the number of classes, `box` of four, `kps` if there are any.
[[nodiscard]] HeadRules usual_rules(const Options& options, std::vector<int> anchors);

// Throws std::invalid_argument when the model does not fit the layout, naming outputs and shapes.
[[nodiscard]] std::unique_ptr<Decoder> make_decoder(Layout layout, const camd_model& model, const Options& options);

// The decoders, one file each.
[[nodiscard]] std::unique_ptr<Decoder> make_anchors(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_scrfd(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_yunet(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_ssd(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_yolox(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_nanodet(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_fastestdet(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_fastestv2(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_yolo_heads(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_centernet(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_centerface(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_detectnet(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_fomo(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_mediapipe(const camd_model& model, const Options& options);
[[nodiscard]] std::unique_ptr<Decoder> make_rows(const camd_model& model, const Options& options);

}  // namespace camd::plugins
