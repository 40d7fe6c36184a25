// What all layouts have in common, and the choice among them by name.
#include "plugins/detections/decoder.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace camd::plugins {

Decoder::Decoder(std::vector<Level> levels, Scores scores) : levels_(std::move(levels)), scores_(std::move(scores)) {
  const Head& kps = levels_.front().head(Role::kKps);
  if (kps.bound()) keypoint_count_ = std::min(kps.channels / 2, CAMD_MAX_KEYPOINTS);
}

std::vector<int> Decoder::used_outputs() const {
  std::vector<int> used = more_outputs_;
  for (const Level& level : levels_) {
    for (const Head& head : level.heads) {
      if (head.bound() && std::find(used.begin(), used.end(), head.output) == used.end()) used.push_back(head.output);
    }
  }
  return used;
}

std::vector<camd_filter> Decoder::filters() const {
  const std::optional<First> first = looks_first();
  if (!first || levels_.size() > CAMD_MAX_FILTERS || !std::isfinite(first->floor)) return {};
  std::vector<camd_filter> filters;
  for (const Level& level : levels_) {
    camd_filter filter{};
    filter.cells = level.cells();
    filter.anchors = level.anchors;
    filter.floor = first->floor;
    const auto elements = [](const Head& head) {
      return camd_elements{head.output, head.channels, head.first, head.cell_step, head.anchor_step, head.channel_step};
    };
    filter.scores = elements(level.head(first->role));
    if (first->role == Role::kCls) {  // the background passes nearly everywhere
      filter.scores.first += scores_.first_channel() * filter.scores.channel_step;
      filter.scores.channels = scores_.classes();
    }
    for (const Head& head : level.heads) {
      if (!head.bound()) continue;
      if (filter.value_count == CAMD_FILTER_VALUES) return {};
      filter.values[filter.value_count++] = elements(head);
    }
    filters.push_back(filter);
  }
  return filters;
}

void Decoder::weigh_by(Centerness centerness) {
  // The softmax over the background is not taken here.
  if (centerness != Centerness::kNone && scores_.background() && !scores_.by_floor()) {
    throw std::invalid_argument("config.centerness: logits with a background beside them have none");
  }
  centerness_ = centerness;
}

void Decoder::scan_with_centerness(const TensorSet& tensors, Candidates& candidates) {
  const bool root = centerness_ == Centerness::kRoot;
  const float floor = class_floor();
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    const Level& level = levels_[l];
    const Head& cls = level.head(Role::kCls);
    const Head& obj = level.head(Role::kObj);
    const float* weights = tensors.data(obj.output);
    for (std::int64_t a = 0; a < level.anchors; ++a) {
      for (int c = 0; c < scores_.classes(); ++c) {
        const float* run = tensors.data(cls.output) + cls.at(0, a) + (scores_.first_channel() + c) * cls.channel_step;
        Scores::scan_cells(tensors, level, static_cast<int>(l), a, run, cls.cell_step, floor,
                           [&](std::int64_t cell, float raw) {
                             // YuNet's overlaps are trained towards 0 to 1, and not kept between.
                             const float weight = std::clamp(scores_.probability(weights[obj.at(cell, a)]), 0.0F, 1.0F);
                             const float both = scores_.probability(raw) * weight;
                             scores_.offer(root ? std::sqrt(both) : both, c, static_cast<int>(l), a, cell, candidates);
                           });
      }
    }
  }
}

void Decoder::scan_objects(const TensorSet& tensors, bool softmax, Candidates& candidates) {
  scan_best_class(tensors, objectness_first().floor, candidates,
                  [&](float objectness, const float* values, std::int64_t step, const Scores::Best& best) {
                    return scores_.probability(objectness) *
                           (softmax ? scores_.softmax_of_best(values, step, best) : scores_.probability(best.raw));
                  });
}

void Decoder::corners_of(Point centre, float width, float height, float angle, Point* corners) noexcept {
  const float cosine = std::cos(angle), sine = std::sin(angle);
  constexpr float kSigns[4][2] = {{-0.5F, -0.5F}, {0.5F, -0.5F}, {0.5F, 0.5F}, {-0.5F, 0.5F}};
  for (int i = 0; i < 4; ++i) {
    const float x = kSigns[i][0] * width, y = kSigns[i][1] * height;
    corners[i] = {centre.x + x * cosine - y * sine, centre.y + x * sine + y * cosine};
  }
}

Box Decoder::enclosing(const Point* corners) noexcept {
  const auto x = std::minmax({corners[0].x, corners[1].x, corners[2].x, corners[3].x});
  const auto y = std::minmax({corners[0].y, corners[1].y, corners[2].y, corners[3].y});
  return {x.first, y.first, x.second, y.second};
}

HeadRules usual_rules(const Options& options, std::vector<int> anchors) {
  HeadRules rules;
  RoleRule cls{Role::kCls, {}, 1, true, 1};
  if (!options.classes.empty()) {
    const int classes = static_cast<int>(options.classes.size());
    if (!options.background.value_or(false)) cls.channels.push_back(classes);
    if (options.background.value_or(true)) cls.channels.push_back(classes + 1);
  }
  rules.roles.push_back(cls);
  rules.roles.push_back({Role::kBox, {4}, 1, true, 4});
  if (options.centerness != Centerness::kNone) rules.roles.push_back({Role::kObj, {1}, 1, true, 1});
  if (options.keypoints.value_or(1) > 0) {
    RoleRule kps{Role::kKps, {}, 2, false, 2, {10}};  // five points of a face
    if (options.keypoints) {
      kps.channels = {2 * *options.keypoints};
      kps.required = true;
    }
    rules.roles.push_back(kps);
  }
  rules.anchors = std::move(anchors);
  return rules;
}

std::unique_ptr<Decoder> make_decoder(Layout layout, const camd_model& model, const Options& options) {
  switch (layout) {
    case Layout::kAnchors: return make_anchors(model, options);
    case Layout::kScrfd: return make_scrfd(model, options);
    case Layout::kYunet: return make_yunet(model, options);
    case Layout::kSsd: return make_ssd(model, options);
    case Layout::kYolox: return make_yolox(model, options);
    case Layout::kNanodet: return make_nanodet(model, options);
    case Layout::kFastestdet: return make_fastestdet(model, options);
    case Layout::kFastestv2: return make_fastestv2(model, options);
    case Layout::kYoloHeads: return make_yolo_heads(model, options);
    case Layout::kCenternet: return make_centernet(model, options);
    case Layout::kCenterface: return make_centerface(model, options);
    case Layout::kDetectnet: return make_detectnet(model, options);
    case Layout::kFomo: return make_fomo(model, options);
    case Layout::kMediapipe: return make_mediapipe(model, options);
    case Layout::kRows: return make_rows(model, options);
  }
  throw std::invalid_argument("no such layout");
}

}  // namespace camd::plugins
