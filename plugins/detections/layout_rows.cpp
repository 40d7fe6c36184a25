// Layout `rows`: boxes that the graph has chosen already, a row for each: [1,N,6] or [N,6] (YOLOv10, YOLO26 and exports
// with their own suppression), [N,7] (YOLOv7), with keypoints behind; `row` says what the values are. Or three tensors:
// boxes [N,4], scores [N] and numbers of classes [N] (torchvision, TensorFlow). Or two: rows without a class, [N,5]
// (MMDetection) or what `row` says (MMRotate), and numbers of classes [N]. A row with an angle is a box that is turned
// (YOLO26's oriented boxes). People with key points, of which nobody says a class, are all of the first one: rows that
// end with key points, or rows [N,5] (or boxes and scores) with key points [N,K,2] or [N,K,3] beside them (MMPose's
// RTMO, YOLO-NAS-pose). Rows with a score below 0 are empty.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

constexpr int kMostClasses = 1000;  // where no names say how many there are

// One value of every row.
struct Column {
  int output = -1;
  std::int64_t first = 0, step = 0;
};

struct Table {
  std::int64_t rows = 0;
  std::array<Column, 4> box;
  BoxForm form = BoxForm::kCorners;
  Column score, class_id;       // without an output: all are of the first class
  std::optional<Column> angle;  // of a box that is turned
  Column points;                // of the first keypoint
  int keypoints = 0, point_values = 2;
};

class Rows final : public Decoder {
 public:
  Rows(std::vector<Level> levels, Scores scores, const Table& table, float width, float height)
      : Decoder(std::move(levels), std::move(scores)), table_(table), width_(width), height_(height) {
    keypoint_count_ = table.keypoints;
    point_values_ = table.point_values;
    for (const int output : {table.class_id.output, table.keypoints > 0 ? table.points.output : -1}) {
      const bool known = std::find(more_outputs_.begin(), more_outputs_.end(), output) != more_outputs_.end();
      if (output >= 0 && !known) more_outputs_.push_back(output);
    }
    if (table.angle) {
      oriented_ = true;
      keypoint_count_ = 4;
    }
  }

  // The graph has chosen the rows; they are few.
  [[nodiscard]] std::optional<First> looks_first() const override { return std::nullopt; }

  void scan(const TensorSet& tensors, Candidates& candidates) override {
    const float* const score = tensors.data(table_.score.output) + table_.score.first;
    for (std::int64_t i = 0; i < table_.rows; ++i) {
      const float class_id = std::round(class_of(tensors, i));
      if (!(class_id >= 0 && class_id < static_cast<float>(scores_.classes()))) continue;
      scores_.offer(scores_.probability(score[i * table_.score.step]), static_cast<int>(class_id), 0, 0, i, candidates);
    }
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const float class_id = class_of(tensors, c.cell);
    if (class_id != std::round(class_id)) return {0, 0, -1, -1};  // the values are others than `row` says
    if (oriented()) {
      std::array<Point, 4> corners;
      keypoints(tensors, c, corners.data());
      return enclosing(corners.data());
    }
    std::array<float, 4> d;
    for (std::size_t k = 0; k < d.size(); ++k) d[k] = at(tensors, table_.box[k], c, 0);
    switch (table_.form) {
      case BoxForm::kCornersYx: return {d[1] * width_, d[0] * height_, d[3] * width_, d[2] * height_};
      case BoxForm::kCentre:
        return {(d[0] - 0.5F * d[2]) * width_, (d[1] - 0.5F * d[3]) * height_, (d[0] + 0.5F * d[2]) * width_,
                (d[1] + 0.5F * d[3]) * height_};
      case BoxForm::kCornerAndSize:
        return {d[0] * width_, d[1] * height_, (d[0] + d[2]) * width_, (d[1] + d[3]) * height_};
      default: return {d[0] * width_, d[1] * height_, d[2] * width_, d[3] * height_};
    }
  }

  [[nodiscard]] bool holds(const TensorSet& tensors, const Candidate& c) const override {
    return at(tensors, table_.score, c, 0) > 0.0F;  // exporters fill up with zeros, camd with -1
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    if (oriented()) {
      const auto side = [&](std::size_t k) { return at(tensors, table_.box[k], c, 0); };
      corners_of({side(0) * width_, side(1) * height_}, side(2) * width_, side(3) * height_,
                 at(tensors, *table_.angle, c, 0), points);
      return;
    }
    for (int k = 0; k < keypoint_count(); ++k) {
      const int first = k * point_values_;
      points[k] = {at(tensors, table_.points, c, first) * width_, at(tensors, table_.points, c, first + 1) * height_};
    }
  }

 private:
  [[nodiscard]] float class_of(const TensorSet& tensors, std::int64_t row) const noexcept {
    const Column& column = table_.class_id;
    return column.output < 0 ? 0.0F : tensors.data(column.output)[column.first + row * column.step];
  }
  static float at(const TensorSet& tensors, const Column& column, const Candidate& c, int beside) noexcept {
    return tensors.data(column.output)[column.first + c.cell * column.step + beside];
  }

  Table table_;
  float width_, height_;  // network pixels that a value of 1 means
};

using Shape = std::vector<std::int64_t>;

// Without a batch of one.
Shape shape_of(const camd_tensor_spec& spec, int rank) {
  Shape s(spec.shape, spec.shape + spec.ndim);
  if (static_cast<int>(s.size()) == rank + 1 && s[0] == 1) s.erase(s.begin());
  return static_cast<int>(s.size()) == rank ? s : Shape{};
}

constexpr const char* kWantsScore = "`row` must name score and class, unless the class has a tensor of its own";

// How many rows a list has that holds one number for each: [N], [1,N], or [1,N,1] as DeepStream's exports have it.
std::optional<std::int64_t> length_of(const camd_tensor_spec& spec) {
  if (const Shape s = shape_of(spec, 1); !s.empty()) return s[0];
  const Shape column = shape_of(spec, 2);
  return spec.ndim == 3 && !column.empty() && column[1] == 1 ? std::optional(column[0]) : std::nullopt;
}

bool has_class(const std::vector<RowValue>& row) {
  return std::find(row.begin(), row.end(), RowValue::kClass) != row.end();
}

// Where the values of a `row` stand in output `i`, `step` values a row.
Table table_of(const std::vector<RowValue>& row, int i, std::int64_t step) {
  Table table;
  const auto column = [&](RowValue value) -> std::optional<Column> {
    const auto found = std::find(row.begin(), row.end(), value);
    if (found == row.end()) return std::nullopt;
    return Column{i, found - row.begin(), step};
  };
  const auto box = [&](BoxForm form, const std::array<RowValue, 4>& values) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      const auto c = column(values[k]);
      if (!c) return false;
      table.box[k] = *c;
    }
    table.form = form;
    return true;
  };
  if (!box(BoxForm::kCorners, {RowValue::kX0, RowValue::kY0, RowValue::kX1, RowValue::kY1}) &&
      !box(BoxForm::kCentre, {RowValue::kCentreX, RowValue::kCentreY, RowValue::kWidth, RowValue::kHeight}) &&
      !box(BoxForm::kCornerAndSize, {RowValue::kX0, RowValue::kY0, RowValue::kWidth, RowValue::kHeight})) {
    throw std::invalid_argument("`row` names neither x0, y0, x1 and y1 nor w and h beside cx and cy or x0 and y0");
  }
  const auto score = column(RowValue::kScore);
  if (!score) throw std::invalid_argument(kWantsScore);
  table.score = *score;
  if (const auto number = column(RowValue::kClass)) table.class_id = *number;
  table.angle = column(RowValue::kAngle);
  return table;
}

// The table in the rows of output `i`; nothing when it does not fit.
std::optional<Table> in_one(const camd_model& model, int i, const Options& options) {
  std::vector<RowValue> row = options.row;
  if (row.empty()) {
    row = {RowValue::kX0, RowValue::kY0, RowValue::kX1, RowValue::kY1, RowValue::kScore, RowValue::kClass};
  }
  const Shape s = shape_of(model.outputs[i], 2);
  const auto width = static_cast<std::int64_t>(row.size());
  if (s.empty() || s[1] < width) return std::nullopt;
  const std::int64_t rest = s[1] - width;
  const int wanted =
      options.keypoints.value_or(rest % 3 == 0 ? static_cast<int>(rest / 3) : static_cast<int>(rest / 2));
  if (wanted > CAMD_MAX_KEYPOINTS) return std::nullopt;  // such as [84,8400], whose rows are no boxes
  // With `keypoints: 0` what follows is something else, such as a mask's coefficients.
  if (wanted == 0 ? rest != 0 && !options.keypoints
                  : rest != std::int64_t{2} * wanted && rest != std::int64_t{3} * wanted)
    return std::nullopt;
  Table table = table_of(row, i, s[1]);
  if (!has_class(row) && wanted == 0) throw std::invalid_argument(kWantsScore);
  table.rows = s[0];
  table.keypoints = wanted;
  table.point_values = wanted == 0 ? 2 : static_cast<int>(rest / wanted);
  table.points = {i, width, s[1]};
  if (table.angle && (table.form != BoxForm::kCentre || table.keypoints > 0)) {
    throw std::invalid_argument(
        "`angle` in `row` needs cx, cy, w and h, and no keypoints: those are the box's corners");
  }
  return table;
}

// Boxes and scores in one tensor, classes in another (MMDetection's exports: dets [1,N,5], labels [1,N]).
std::optional<Table> in_two(const camd_model& model, const Options& options) {
  std::vector<RowValue> row = options.row;
  if (row.empty()) row = {RowValue::kX0, RowValue::kY0, RowValue::kX1, RowValue::kY1, RowValue::kScore};
  if (has_class(row)) return std::nullopt;
  const auto width = static_cast<std::int64_t>(row.size());
  const auto& names = options.outputs[static_cast<std::size_t>(Role::kCls)];
  for (int b = 0; b < model.output_count; ++b) {
    const Shape boxes = shape_of(model.outputs[b], 2);
    if (boxes.empty() || boxes[1] != width || boxes[0] < 2) continue;
    for (int i = 0; i < model.output_count; ++i) {
      const Shape s = shape_of(model.outputs[i], 1);
      if (s.empty() || s[0] != boxes[0] || (!names.empty() && names.front() != model.outputs[i].name)) continue;
      Table table = table_of(row, b, width);
      table.rows = boxes[0];
      table.class_id = {i, 0, 1};
      return table;
    }
  }
  return std::nullopt;
}

// Boxes, scores and classes in tensors of their own, told apart by their names.
std::optional<Table> in_three(const camd_model& model, const Options& options) {
  const auto named = [&](Role role, int i, std::initializer_list<const char*> words) {
    const auto& names = options.outputs[static_cast<std::size_t>(role)];
    if (!names.empty()) return names.front() == model.outputs[i].name;
    return std::any_of(words.begin(), words.end(),
                       [&](const char* word) { return std::strstr(model.outputs[i].name, word) != nullptr; });
  };
  for (int b = 0; b < model.output_count; ++b) {
    const Shape boxes = shape_of(model.outputs[b], 2);
    if (boxes.empty() || boxes[1] != 4 || boxes[0] < 2) continue;
    std::optional<int> score, number;
    for (int i = 0; i < model.output_count; ++i) {
      if (length_of(model.outputs[i]) != boxes[0]) continue;
      if (!score && named(Role::kObj, i, {"score", "conf", "prob"})) {
        score = i;
      } else if (!number && named(Role::kCls, i, {"label", "class", "cls"})) {
        number = i;
      }
    }
    if (!score || !number) continue;
    Table table;
    table.rows = boxes[0];
    table.form = options.boxes;
    for (std::size_t k = 0; k < 4; ++k) table.box[k] = {b, static_cast<std::int64_t>(k), 4};
    table.score = {*score, 0, 1};
    table.class_id = {*number, 0, 1};
    return table;
  }
  return std::nullopt;
}

// People, whose key points have a tensor beside boxes and scores, which are in one tensor or in one each.
std::optional<Table> in_people(const camd_model& model, const Options& options) {
  std::vector<RowValue> row = options.row;
  if (row.empty()) row = {RowValue::kX0, RowValue::kY0, RowValue::kX1, RowValue::kY1, RowValue::kScore};
  const auto width = static_cast<std::int64_t>(row.size());
  for (int p = 0; p < model.output_count; ++p) {
    const Shape points = shape_of(model.outputs[p], 3);
    if (points.empty() || points[0] < 2 || (points[2] != 2 && points[2] != 3) || has_class(row)) continue;
    if (options.keypoints.value_or(static_cast<int>(points[1])) != points[1]) continue;
    std::optional<Table> table;
    for (int b = 0; b < model.output_count && !table; ++b) {
      const Shape boxes = shape_of(model.outputs[b], 2);
      if (boxes.empty() || boxes[0] != points[0]) continue;
      if (boxes[1] == width) table = table_of(row, b, width);
      if (boxes[1] != 4 || !options.row.empty()) continue;
      for (int i = 0; i < model.output_count && !table; ++i) {
        if (length_of(model.outputs[i]) != boxes[0]) continue;
        table = table_of({RowValue::kX0, RowValue::kY0, RowValue::kX1, RowValue::kY1, RowValue::kScore}, b, 4);
        table->score = {i, 0, 1};
      }
    }
    if (!table) continue;
    table->rows = points[0];
    table->points = {p, 0, points[1] * points[2]};
    table->keypoints = points[1] <= CAMD_MAX_KEYPOINTS ? static_cast<int>(points[1]) : 0;
    table->point_values = static_cast<int>(points[2]);
    return table;
  }
  return std::nullopt;
}

Head head_of(const Column& column, int channels) {
  Head head;
  head.output = column.output;
  head.channels = channels;
  head.first = column.first;
  head.cell_step = column.step;
  head.channel_step = 1;
  return head;
}

}  // namespace

std::unique_ptr<Decoder> make_rows(const camd_model& model, const Options& options) {
  std::optional<Table> table;
  if (options.row.empty()) table = in_three(model, options);
  if (!table) table = in_two(model, options);
  if (!table) table = in_people(model, options);
  for (int i = 0; i < model.output_count && !table; ++i) table = in_one(model, i, options);
  if (!table || table->rows > INT32_MAX) {
    const std::size_t width = options.row.empty() ? 6 : options.row.size();
    throw std::invalid_argument(
        "no output of chosen boxes, wanted [1,N," + std::to_string(width) +
        "], [N,5] and labels [N], or boxes [N,4], scores [N] and labels [N]; the model's outputs are " +
        describe_outputs(model));
  }
  Level level;
  level.width = static_cast<int>(table->rows);
  level.height = 1;
  level.head(Role::kCls) = head_of(table->score, 1);
  level.head(Role::kBox) = head_of(table->box[0], 4);
  Options without_background = options;
  without_background.background = false;
  const int classes = options.classes.empty() ? kMostClasses : static_cast<int>(options.classes.size());
  Scores scores(without_background, classes, false);
  const bool relative = options.relative.value_or(false);
  return std::make_unique<Rows>(std::vector<Level>{level}, std::move(scores), *table,
                                relative ? static_cast<float>(model.input.shape[3]) : 1.0F,
                                relative ? static_cast<float>(model.input.shape[2]) : 1.0F);
}

}  // namespace camd::plugins
