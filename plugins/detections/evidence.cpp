// Ranges of scores and boxes over all cells of one frame, and what they rule out.
#include "plugins/detections/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>
#include <vector>

namespace camd::plugins {
namespace {

// Of all values of one class, or of the objectness.
struct Range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
  bool whole = true;  // every value is a whole number

  void add(float value) noexcept {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
    whole = whole && value == std::floor(value);
  }
  void add(const Range& other) noexcept {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    whole = whole && other.whole;
  }
  [[nodiscard]] bool empty() const noexcept { return low > high; }
  [[nodiscard]] bool is_probability() const noexcept { return low >= -kRounding && high <= 1.0F + kRounding; }

  static constexpr float kRounding = 0.002F;
};

std::string number(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), std::abs(value) < 10.0F ? "%.2g" : "%.0f", static_cast<double>(value));
  return text;
}

std::string range_text(const Range& range) { return number(range.low) + " to " + number(range.high); }

template <class Visit>
void for_each_anchor(const Decoder& decoder, Visit&& visit) {
  for (std::size_t l = 0; l < decoder.levels().size(); ++l) {
    const Level& level = decoder.levels()[l];
    for (std::int64_t cell = 0; cell < level.cells(); ++cell) {
      for (int a = 0; a < level.anchors; ++a) {
        visit(level, Candidate{1.0F, 0, static_cast<std::int32_t>(l), a, static_cast<std::int32_t>(cell)});
      }
    }
  }
}

// Boxes and classes in one tensor.
bool is_fused(const Decoder& decoder) {
  const Level& level = decoder.levels().front();
  return level.head(Role::kCls).bound() && level.head(Role::kCls).output == level.head(Role::kBox).output;
}

// The objectness first, where there is one, then each class. Rows of boxes and classes in one have no background: what
// stands there is no score. Beside a background the objectness is an overlap (YuNet of 2021), which has no bounds.
std::vector<Range> score_ranges(const Decoder& decoder, const TensorSet& tensors) {
  std::vector<Range> ranges;
  const bool skips_first = is_fused(decoder) && decoder.scores().background();
  for (const Role role : {Role::kObj, Role::kCls}) {
    if (role == Role::kObj && decoder.scores().background()) continue;
    const std::size_t first = ranges.size();
    const int channels = decoder.levels().front().head(role).channels;
    ranges.resize(first + static_cast<std::size_t>(std::max(channels, 0)));
    for_each_anchor(decoder, [&](const Level& level, const Candidate& c) {
      const Head& head = level.head(role);
      if (!head.bound() || !decoder.holds(tensors, c)) return;
      const float* values = tensors.data(head.output) + head.at(c.cell, c.anchor);
      for (int k = role == Role::kCls && skips_first ? 1 : 0; k < channels; ++k)
        ranges[first + static_cast<std::size_t>(k)].add(values[k * head.channel_step]);
    });
  }
  if (skips_first && !ranges.empty()) ranges.erase(ranges.begin());
  return ranges;
}

// Rows of boxes that the graph chose: a score, then the number of a class.
bool looks_chosen(const std::vector<Range>& ranges) {
  return ranges.size() == 2 && ranges[0].is_probability() && ranges[1].whole && ranges[1].low >= 0.0F &&
         ranges[1].high > 1.0F;
}

// Whether scores are a tensor without boxes, so that all its values are scores. Behind the boxes of maps that nothing
// has decoded there is nothing else either.
bool are_alone(const Decoder& decoder, std::optional<Layout> layout) {
  const Level& level = decoder.levels().front();
  return layout == Layout::kYoloHeads ||
         (level.head(Role::kCls).bound() && level.head(Role::kCls).output != level.head(Role::kBox).output);
}

std::optional<ScoreForm> form_of(const std::vector<Range>& ranges, bool alone) {
  constexpr float kLargestLogit = 1000.0F, kLargestPercent = 101.0F, kSmallPercent = 20.0F, kSurePercent = 99.0F;
  Range all;
  std::size_t probabilities = 0;
  for (const Range& range : ranges) {
    all.add(range);
    if (range.is_probability()) ++probabilities;
  }
  if (all.empty() || probabilities == ranges.size()) return ScoreForm::kProbability;
  if (looks_chosen(ranges)) return std::nullopt;
  if (all.low >= -Range::kRounding) {
    // Most of what is seen is no object. Only the one class of a detector of one class may be certain everywhere.
    const bool reach_down = std::all_of(ranges.begin(), ranges.end(),
                                        [](const Range& r) { return r.low < kSmallPercent || r.low > kSurePercent; });
    // Numbers of something beside probabilities, such as of a class, or of the level that a box is from.
    const bool counts = probabilities > 0 && std::all_of(ranges.begin(), ranges.end(),
                                                         [](const Range& r) { return r.is_probability() || r.whole; });
    if (counts) return std::nullopt;
    return all.high <= kLargestPercent && reach_down ? std::optional(ScoreForm::kPercent) : std::nullopt;
  }
  // Some are probabilities and some are not: the rows hold more than boxes and scores.
  if (probabilities > 0 && !alone) return std::nullopt;
  return std::max(-all.low, all.high) <= kLargestLogit ? std::optional(ScoreForm::kLogits) : std::nullopt;
}

std::optional<std::string> objection_to_scores(const std::vector<Range>& ranges, bool alone, ScoreForm configured) {
  const std::optional<ScoreForm> seen = form_of(ranges, alone);
  Range all;
  for (const Range& range : ranges) all.add(range);
  if (all.empty() || seen == configured) return std::nullopt;
  if (looks_chosen(ranges)) {
    return "its rows end with a score and the number of a class: the graph has chosen the boxes already";
  }
  if (!seen) return "its scores run from " + range_text(all) + ": not all of them are scores";
  if (*seen == ScoreForm::kProbability) {
    // Percent that stays below 1, as no object is there.
    if (configured == ScoreForm::kPercent) return std::nullopt;
    return "its scores run from " + range_text(all) + ": they are probabilities already";
  }
  return "its scores run from " + range_text(all) +
         (*seen == ScoreForm::kPercent ? ": they are percent" : ": they are logits");
}

// How many of a decoder's boxes are none.
struct Boxes {
  std::size_t count = 0;
  std::size_t turned = 0;   // end before they begin, or are not finite
  std::size_t far = 0;      // reach farther out of the picture than objects do
  std::size_t corners = 0;  // centre and size that would do as corners inside the picture
  std::size_t out = 0;      // reach out of the picture
  // ... if the upper left corner were the centre, and the centre that corner.
  std::size_t out_centred = 0, out_cornered = 0;
  std::size_t empty = 0;  // have no side to speak of
  float reach = 0.0F;     // the largest coordinate, network pixels
  // From the centre to the cell's, in sides of the picture: with the anchors of a cell side by side, and, as YOLOv5
  // has them, with all cells of the first anchor first. What is decoded does not need to know.
  std::vector<float> off, off_by_anchor;

  [[nodiscard]] float share(std::size_t of) const noexcept {
    return count == 0 ? 0.0F : static_cast<float>(of) / static_cast<float>(count);
  }
};

float median(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Boxes look_at_boxes(const Decoder& decoder, const TensorSet& tensors, float width, float height) {
  constexpr float kFar = 4.0F, kOut = 0.05F, kEmpty = 0.0005F;  // sides of the picture
  const float side = std::max(width, height);
  Boxes boxes;
  for_each_anchor(decoder, [&](const Level& level, const Candidate& c) {
    if (!decoder.holds(tensors, c)) return;
    const Box box = decoder.box(tensors, c);
    ++boxes.count;
    const float reach = std::max({std::abs(box.x0), std::abs(box.y0), std::abs(box.x1), std::abs(box.y1)});
    if (!std::isfinite(box.x0 + box.y0 + box.x1 + box.y1)) {
      ++boxes.turned;
      return;
    }
    boxes.reach = std::max(boxes.reach, reach);
    if (reach > kFar * side) ++boxes.far;
    const auto reaches_out = [&](float left, float top, float right, float bottom) {
      return std::min(left, top) < -kOut * side || right > width + kOut * side || bottom > height + kOut * side;
    };
    if (reaches_out(box.x0, box.y0, box.x1, box.y1)) ++boxes.out;
    const float half_width = 0.5F * (box.x1 - box.x0), half_height = 0.5F * (box.y1 - box.y0);
    if (reaches_out(box.x0 - half_width, box.y0 - half_height, box.x0 + half_width, box.y0 + half_height))
      ++boxes.out_centred;
    if (reaches_out(box.x0 + half_width, box.y0 + half_height, box.x1 + half_width, box.y1 + half_height))
      ++boxes.out_cornered;
    if (box.x1 < box.x0 || box.y1 < box.y0) {
      ++boxes.turned;
      return;
    }
    const float x = 0.5F * (box.x0 + box.x1), y = 0.5F * (box.y0 + box.y1), w = box.x1 - box.x0, h = box.y1 - box.y0;
    if (std::max(w, h) < kEmpty * side) ++boxes.empty;
    if (w >= x && h >= y && x >= -0.1F * width && y >= -0.1F * height && w <= 1.1F * width && h <= 1.1F * height) {
      ++boxes.corners;
    }
    const auto off = [&](std::int64_t cell) {
      const auto stride = static_cast<float>(level.stride);
      const std::int64_t column = cell % level.width, row = cell / level.width;
      const float centre_x = (static_cast<float>(column) + 0.5F) * stride;
      const float centre_y = (static_cast<float>(row) + 0.5F) * stride;
      return 0.5F * (std::abs(x - centre_x) / width + std::abs(y - centre_y) / height);
    };
    boxes.off.push_back(off(c.cell));
    const std::int64_t place = static_cast<std::int64_t>(c.cell) * level.anchors + c.anchor;
    boxes.off_by_anchor.push_back(off(place % level.cells()));
  });
  return boxes;
}

}  // namespace

Queries whose_queries(const camd_tensor_spec& boxes, const camd_tensor_spec& scores) {
  const std::string_view box = boxes.name, score = scores.name;
  if (box == "pred_boxes" && (score == "logits" || score == "pred_logits")) return Queries::kDetr;
  // MMDetection's "labels" are a list: the numbers of the classes that its graph has chosen.
  if (box == "dets" && score == "labels" && boxes.ndim == 3 && scores.ndim == 3) return Queries::kRfdetr;
  return Queries::kNone;
}

Queries whose_queries(const Decoder& decoder, const camd_model& model) {
  const Level& level = decoder.levels().front();
  const Head &boxes = level.head(Role::kBox), &scores = level.head(Role::kCls);
  if (!boxes.bound() || !scores.bound()) return Queries::kNone;
  return whose_queries(model.outputs[boxes.output], model.outputs[scores.output]);
}

bool has_query_names(const Decoder& decoder, const camd_model& model) {
  return whose_queries(decoder, model) != Queries::kNone;
}

std::optional<ScoreForm> score_form(const Decoder& decoder, Layout layout, const TensorSet& tensors) {
  return form_of(score_ranges(decoder, tensors), are_alone(decoder, layout));
}

Background background_of(const Decoder& decoder, const TensorSet& tensors, ScoreForm form, float most) {
  // Sums of sigmoids come near to 1 by chance; those of a softmax, also in f16, are nearer.
  constexpr float kAll = 0.95F, kRounding = 0.004F;
  float rows = 0.0F, first = 0.0F, last = 0.0F, shared = 0.0F;
  double of_first = 0.0, of_last = 0.0;
  const int channels = decoder.levels().front().head(Role::kCls).channels;
  if (channels < 2 || form == ScoreForm::kPercent) return Background::kNone;
  for_each_anchor(decoder, [&](const Level& level, const Candidate& c) {
    const Head& head = level.head(Role::kCls);
    if (!head.bound() || !decoder.holds(tensors, c)) return;
    const float* values = tensors.data(head.output) + head.at(c.cell, c.anchor);
    const float low = values[0], high = values[(channels - 1) * head.channel_step];
    float sum = 0.0F;  // of probabilities, or of e to the logits above the first and the last one
    float above_first = 0.0F, above_last = 0.0F;
    for (int k = 0; k < channels; ++k) {
      const float value = values[k * head.channel_step];
      sum += value;
      above_first += std::exp(value - low);
      above_last += std::exp(value - high);
    }
    rows += 1.0F;
    if (form == ScoreForm::kProbability) {
      if (std::abs(sum - 1.0F) <= kRounding) shared += 1.0F;
      if (low > 0.5F) first += 1.0F;
      if (high > 0.5F) last += 1.0F;
      of_first += static_cast<double>(low);
      of_last += static_cast<double>(high);
    } else {
      // More than half of the softmax. Logits of one softmax are trained around 0, so that such a one is above it; one
      // that is above 0 nearly everywhere is no object's.
      if (low > 0.0F && above_first < 2.0F) first += 1.0F;
      if (high > 0.0F && above_last < 2.0F) last += 1.0F;
    }
  });
  if (rows == 0.0F) return Background::kNone;
  if (first >= most * rows) return Background::kFirst;
  if (last >= most * rows) return Background::kLast;
  if (shared < kAll * rows) return Background::kNone;
  return of_first >= of_last ? Background::kFirst : Background::kLast;
}

bool has_angles(const Decoder& decoder, const TensorSet& tensors) {
  constexpr float kSomewhere = 0.25F;  // somewhere in a picture of noise there is no object of a class
  Range angles;
  for_each_anchor(decoder, [&](const Level& level, const Candidate& c) {
    const Head& head = level.head(Role::kAngle);
    if (head.bound()) angles.add(tensors.data(head.output)[head.at(c.cell, c.anchor)]);
  });
  if (angles.empty() || angles.whole) return false;
  // YOLO's graph has the sigmoid: behind logits stands one more of them.
  const std::vector<Range> classes = score_ranges(decoder, tensors);
  if (!std::all_of(classes.begin(), classes.end(), [](const Range& r) { return r.is_probability(); })) return false;
  if (!angles.is_probability()) return true;
  return angles.low > kSomewhere &&
         std::all_of(classes.begin(), classes.end(), [](const Range& r) { return r.low < kSomewhere; });
}

bool has_levels(const Decoder& decoder, const TensorSet& tensors) {
  constexpr float kMostLevels = 10.0F;
  float last = 0.0F;
  bool fits = true, first = true;
  for_each_anchor(decoder, [&](const Level& level, const Candidate& c) {
    const Head& head = level.head(Role::kCls);
    const float at = tensors.data(head.output)[head.at(c.cell, c.anchor)];
    fits = fits && (at == last || (!first && at == last + 1.0F));
    last = at;
    first = false;
  });
  return fits && last >= 1.0F && last < kMostLevels;
}

bool is_certain_of_objects(const Decoder& decoder, const TensorSet& tensors) {
  bool certain = true;
  for_each_anchor(decoder, [&](const Level& level, const Candidate& c) {
    const Head& head = level.head(Role::kObj);
    certain = certain && head.bound() && tensors.data(head.output)[head.at(c.cell, c.anchor)] == 1.0F;
  });
  return certain;
}

std::optional<std::string> objection(const Decoder& decoder, const Options& options, const camd_model& model,
                                     const TensorSet& tensors, float most) {
  const auto width = static_cast<float>(model.input.shape[3]), height = static_cast<float>(model.input.shape[2]);
  Boxes boxes = look_at_boxes(decoder, tensors, width, height);
  const bool rows = options.layout == Layout::kRows;
  const bool list = rows || (options.layout == Layout::kSsd && options.boxes != BoxForm::kPriors &&
                             options.boxes != BoxForm::kPriorsYx);
  const bool relative = list ? options.relative.value_or(!rows) : options.decoded && options.relative.value_or(false);
  // Anchors grow by e to the offset. On noise, a network may put out boxes of any size up to their limit.
  const bool any_size = options.size_limit || options.layout == Layout::kYoloHeads ||
                        (options.layout == Layout::kAnchors && options.centerness != Centerness::kNone);
  if (!any_size && boxes.share(boxes.far) > most) {
    return relative ? "its boxes reach " + number(boxes.reach / std::max(width, height)) +
                          ": they are pixels, not parts of the picture"
                    : std::string("most of its boxes lie far outside the picture");
  }
  // These hold sizes where objects are; elsewhere they may hold anything.
  const bool faces = options.layout == Layout::kScrfd && decoder.levels().front().anchors == 2 &&
                     decoder.levels().front().head(Role::kCls).channels == 1;
  const bool anywhere = faces || options.layout == Layout::kCenternet || options.layout == Layout::kMediapipe;
  if (!anywhere && boxes.share(boxes.turned) > most) return "most of its boxes end before they begin";
  // Text rows, for one, are shares of letters.
  if (options.layout == Layout::kSsd && is_fused(decoder) && boxes.share(boxes.empty) > 0.5F)
    return "most of its boxes are empty";
  // Pixels near the upper left corner, all of them: parts of the picture were taken for pixels.
  constexpr float kSmall = 4.0F;
  if ((list || options.decoded) && !relative && boxes.count > 0 && boxes.reach <= kSmall &&
      std::min(width, height) > 8.0F * kSmall) {
    return "its boxes reach " + number(boxes.reach) + ": they are parts of the picture, not pixels";
  }
  // A graph may have chosen boxes as large as the picture, whose centre and size would do as corners. Corners that are
  // taken for these reach out of it.
  constexpr float kNearlyAll = 0.98F, kMany = 0.2F, kMostOut = 0.4F;
  const auto in_row = [&](RowValue value) {
    return std::find(options.row.begin(), options.row.end(), value) != options.row.end();
  };
  if (rows && in_row(RowValue::kX0) && in_row(RowValue::kWidth) &&
      (boxes.share(boxes.out) > kMostOut || (options.row.front() == RowValue::kX0 && boxes.out > boxes.out_centred))) {
    return std::string("its boxes reach out of the picture: they are not corner and size");
  }
  if (rows && !relative && in_row(RowValue::kCentreX) && !decoder.oriented() && boxes.out > boxes.out_cornered) {
    return std::string("its boxes reach out of the picture: they are not centre and size");
  }
  const bool chosen = rows && in_row(RowValue::kWidth) && !decoder.oriented();
  if (((list && options.boxes == BoxForm::kCentre && !has_query_names(decoder, model)) ||
       (chosen && boxes.share(boxes.out) >= kMany)) &&
      boxes.share(boxes.corners) >= kNearlyAll) {
    return std::string("its boxes are corners, not centre and size");
  }
  if (options.layout == Layout::kYolox && options.decoded && !boxes.off.empty()) {
    if (std::min(median(boxes.off), median(boxes.off_by_anchor)) > 0.25F) {
      return std::string("its boxes do not follow the cells: the graph has not decoded them");
    }
  }
  return objection_to_scores(score_ranges(decoder, tensors), are_alone(decoder, options.layout), options.scores);
}

}  // namespace camd::plugins
