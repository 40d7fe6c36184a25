// Which layouts `detections` suggests for a model's outputs, by shapes alone and by the values of one frame, and what
// it says against a layout that does not read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "detections_fixture.hpp"
#include "harness.hpp"
#include "layout_advice.hpp"
#include "plugins/builtin.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kSide = 64.0F;  // of the pictures, network pixels

struct Cell {
  float x, y, stride;
};
// The points of 64, 16 and 4 cells; of several anchors, all cells of the first one first, as YOLOv5 has them.
std::vector<Cell> grid(int per_cell = 1) {
  std::vector<Cell> cells;
  for (const int stride : {8, 16, 32}) {
    const auto s = static_cast<float>(stride);
    const int n = 64 / stride;
    for (int a = 0; a < per_cell; ++a) {
      for (int i = 0; i < n * n; ++i) {
        const int column = i % n, row = i / n;
        cells.push_back({(static_cast<float>(column) + 0.5F) * s, (static_cast<float>(row) + 0.5F) * s, s});
      }
    }
  }
  return cells;
}

// One box for each cell, as centre and size in network pixels, then `scores` values.
enum class Rows { kAnchorsLast, kChannelsLast };
FakeModel detector(Rows order, int per_cell, int scores, float best = 0.9F, float least = 0.0F) {
  FakeModel model(64, 64);
  Random random;
  const std::vector<Cell> cells = grid(per_cell);
  const auto n = static_cast<std::int64_t>(cells.size());
  const std::int64_t k = 4 + scores;
  FakeTensor& output =
      order == Rows::kAnchorsLast ? model.output("output0", {1, k, n}) : model.output("output", {1, n, k});
  for (std::int64_t i = 0; i < n; ++i) {
    const Cell& cell = cells[static_cast<std::size_t>(i)];
    std::vector<float> row = {cell.x + random.from(-4, 4), cell.y + random.from(-4, 4), random.from(1, 3) * cell.stride,
                              random.from(1, 3) * cell.stride};
    for (int s = 0; s < scores; ++s) row.push_back(random.from(least, best));
    for (std::int64_t c = 0; c < k; ++c) {
      output.values[static_cast<std::size_t>(order == Rows::kAnchorsLast ? c * n + i : i * k + c)] =
          row[static_cast<std::size_t>(c)];
    }
  }
  return model;
}
FakeModel yolov8() { return detector(Rows::kAnchorsLast, 1, 3); }
FakeModel yolov5() { return detector(Rows::kChannelsLast, 3, 1 + 3); }
FakeModel decoded_yolox() { return detector(Rows::kChannelsLast, 1, 1 + 3); }

FakeModel raw_yolox() {
  FakeModel model = detector(Rows::kChannelsLast, 1, 1 + 3);
  Random random;
  for (std::int64_t i = 0; i < 84; ++i) {
    for (std::int64_t c = 0; c < 4; ++c) at(model.outputs[0], i, c) = random.from(-1.5F, 1.5F);
  }
  return model;
}

enum class Boxes { kCorners, kCentre };
// Two lists, of boxes and of the scores of three classes; `scale` is what the width of the picture counts.
FakeModel list(Boxes form, float scale, float least = 0.0F, float best = 0.9F, std::int64_t n = 100) {
  FakeModel model(64, 64);
  Random random;
  FakeTensor& boxes = model.output("boxes", {1, n, 4});
  FakeTensor& scores = model.output("scores", {1, n, 3});
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = random.from(0.3F, 0.7F), y = random.from(0.3F, 0.7F), w = random.from(0.05F, 0.25F), h = w;
    const float row[4] = {form == Boxes::kCentre ? x : x - w / 2, form == Boxes::kCentre ? y : y - h / 2,
                          form == Boxes::kCentre ? w : x + w / 2, form == Boxes::kCentre ? h : y + h / 2};
    for (std::int64_t c = 0; c < 4; ++c) at(boxes, i, c) = row[c] * scale;
    for (std::int64_t c = 0; c < 3; ++c) at(scores, i, c) = random.from(least, best);
  }
  return model;
}

// Rows of corners in pixels, a score, and the number of a class.
FakeModel end_to_end() {
  FakeModel model(64, 64);
  Random random;
  FakeTensor& output = model.output("output0", {1, 300, 6});
  for (std::int64_t i = 0; i < 300; ++i) {
    const float x = random.from(0, 32), y = random.from(0, 32);
    const float row[6] = {x, y, x + 20, y + 20, random.from(0, 1), static_cast<float>(i % 80)};
    for (std::int64_t c = 0; c < 6; ++c) at(output, i, c) = row[c];
  }
  return model;
}

FakeModel scrfd() {
  FakeModel model(64, 64);
  Random random;
  for (const auto& [name, k] : {std::pair<const char*, std::int64_t>{"score_", 1}, {"bbox_", 4}, {"kps_", 10}}) {
    for (const std::int64_t stride : {8, 16, 32}) {
      FakeTensor& output = model.output(name + std::to_string(stride), {2 * (64 / stride) * (64 / stride), k});
      for (float& value : output.values) value = random.from(0.0F, k == 1 ? 0.9F : 3.0F);
    }
  }
  return model;
}

FakeModel filled(FakeModel model, const std::string& scores, float low = -1.5F, float high = 1.5F) {
  Random random;
  for (FakeTensor& output : model.outputs) {
    const bool is_score = output.name.rfind(scores, 0) == 0 || output.name.rfind("obj", 0) == 0;
    for (float& value : output.values) value = is_score ? random.from(0.0F, 0.9F) : random.from(low, high);
  }
  return model;
}

TEST(LayoutSuggestions, NameTheLayoutOfEachFamilyByShapesAlone) {
  FakeModel v8 = yolov8(), v5 = yolov5(), x = raw_yolox(), lists = list(Boxes::kCorners, 1), chosen = end_to_end(),
            yu = yunet(), marks = marker(), s = scrfd();
  EXPECT_THAT(by_shape(v8), ElementsAre("layout: ssd, boxes: centre, relative: false"));
  EXPECT_THAT(by_shape(v5), ElementsAre("layout: yolox, decoded: true, anchors_per_cell: 3"));
  EXPECT_THAT(by_shape(x), ElementsAre("layout: yolox"));
  EXPECT_THAT(by_shape(lists), ElementsAre("layout: ssd"));
  EXPECT_THAT(by_shape(chosen), ElementsAre("layout: rows"));
  EXPECT_THAT(by_shape(yu), ElementsAre("layout: yunet"));
  EXPECT_THAT(by_shape(marks), ElementsAre("layout: anchors", "layout: scrfd"));
  EXPECT_THAT(by_shape(s), ElementsAre("layout: scrfd"));
  FakeModel fastest(64, 64);
  fastest.output("758", {1, 7, 4, 4});
  EXPECT_THAT(by_shape(fastest), ElementsAre("layout: fastestdet"));
  FakeModel nano(64, 64);
  for (const std::int64_t stride : {8, 16, 32}) {
    nano.output("cls_pred_stride_" + std::to_string(stride), {1, 64 / stride * 64 / stride, 2});
    nano.output("dis_pred_stride_" + std::to_string(stride), {1, 64 / stride * 64 / stride, 32});
  }
  EXPECT_THAT(by_shape(nano), ElementsAre("layout: nanodet"));
  FakeModel person(64, 64);  // one class: too few values for an objectness
  person.output("output0", {1, 5, 84});
  EXPECT_THAT(by_shape(person), ElementsAre("layout: ssd, boxes: centre, relative: false"));
}

TEST(LayoutSuggestions, NameYoloFastestv2) {
  FakeModel model = model_of(352, {{"a", {1, 22, 22, 95}, 0, 1}, {"b", {1, 11, 11, 95}, 0, 1}});
  EXPECT_THAT(by_values(model), ElementsAre("layout: yolo-fastestv2"));
}

TEST(LayoutSuggestions, NameCenternetAndCenterface) {
  FakeModel centernet =
      model_of(64, {{"hm", {1, 80, 16, 16}, -5, 1}, {"wh", {1, 2, 16, 16}, -1, 5}, {"reg", {1, 2, 16, 16}, 0, 1}});
  EXPECT_THAT(by_values(centernet), ElementsAre("layout: centernet, scores: logits"));
  FakeModel centerface = model_of(64, {{"537", {1, 1, 16, 16}, 0, 1},
                                       {"538", {1, 2, 16, 16}, 0, 2},
                                       {"539", {1, 2, 16, 16}, 0, 1},
                                       {"540", {1, 10, 16, 16}, 0, 1}});
  EXPECT_THAT(by_values(centerface), ElementsAre("layout: centerface"));
}

// [1,4,12,12] of 96x96: a background and three classes, whose shares of a cell add up to 1; of logits, before that.
FakeModel map_of_classes(bool logits, int first = 0) {
  FakeModel model(96, 96);
  FakeTensor& map = model.output("output", {1, 4, 12, 12});
  Random random;
  for (std::int64_t cell = 0; cell < 144; ++cell) {
    float rest = 1.0F;
    for (std::int64_t k = 0; k < 4; ++k) {
      const float share = k == first ? 0.0F : random.from(0.0F, 0.1F);
      at(map, k, cell / 12, cell % 12) = share;
      rest -= share;
    }
    at(map, first, cell / 12, cell % 12) = rest;
    for (std::int64_t k = 0; logits && k < 4; ++k) {
      float& value = at(map, k, cell / 12, cell % 12);
      value = k == first ? 3.0F : -5.0F * value;
    }
  }
  return model;
}

TEST(LayoutSuggestions, NameFomoByClassesThatShareEveryCellWithABackground) {
  FakeModel shares = map_of_classes(false);
  EXPECT_THAT(by_values(shares), ElementsAre("layout: fomo"));
  FakeModel logits = map_of_classes(true);
  EXPECT_THAT(by_values(logits), ElementsAre("layout: fomo, scores: logits"));
  const OutputValues values = values_of(logits);
  EXPECT_EQ(suggest_layouts(logits.model(), "{}", &values).front().input,
            std::string("color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314, resize: stretch"));
}

TEST(LayoutSuggestions, TakeAMapWithoutABackgroundForNoFomoUnlessItsExporterSaysSo) {
  FakeModel shares = map_of_classes(false, 3);
  EXPECT_THAT(by_values(shares), IsEmpty());
  FakeModel logits = map_of_classes(true, 1);
  EXPECT_THAT(by_values(logits), IsEmpty());
  EXPECT_THAT(by_values(logits, R"({"layout":"fomo"})"), ElementsAre("layout: fomo, scores: logits"));
}

TEST(LayoutSuggestions, NameMediapipesFacesAndPalmsByTheirKeypoints) {
  FakeModel faces = model_of(128, {{"regressors", {1, 896, 16}, 1, 30}, {"classificators", {1, 896, 1}, -9, 2}});
  EXPECT_THAT(by_values(faces), ElementsAre("layout: mediapipe, scores: logits"));
  FakeModel palms = model_of(192, {{"a", {1, 2016, 18}, 1, 30}, {"b", {1, 2016, 1}, -9, 2}});
  EXPECT_THAT(by_values(palms), ElementsAre("layout: mediapipe, scores: logits"));
}

TEST(LayoutSuggestions, NameBoxesThatMmdetectionHasChosen) {
  FakeModel model = model_of(64, {{"dets", {1, 9, 5}, 0, 0}, {"labels", {1, 9}, 0, 0}});
  EXPECT_THAT(by_values(model), ElementsAre("layout: rtmdet"));
}

TEST(LayoutSuggestions, TrustMmdeploysNamesWhereBoxesOfNoiseEndBeforeTheyBegin) {
  FakeModel model(64, 64);
  std::vector<float> rows, labels;
  for (int i = 0; i < 9; ++i) {
    rows.insert(rows.end(), {40, 40, 20, 20, 0.3F});
    labels.push_back(static_cast<float>(i % 3));
  }
  model.output("dets", {1, 9, 5}, rows);
  model.output("labels", {1, 9}, labels);
  EXPECT_THAT(by_values(model), ElementsAre("layout: rtmdet"));
}

TEST(LayoutSuggestions, TakeMapsOfSixStridesForNoNanodetOfThree) {
  std::vector<Filled> maps;
  const auto add = [&](std::int64_t channels, const char* name) {
    for (const std::int64_t side : {38, 19, 10, 5, 3, 1})
      maps.push_back({name + std::to_string(side), {1, channels, side, side}, -5, 1});
  };
  add(324, "c");
  add(16, "b");
  FakeModel ssd300 = model_of(300, maps);
  EXPECT_THAT(by_values(ssd300), IsEmpty());
}

TEST(LayoutSuggestions, TellAnAngleFromAClassByItsValuesOrByTheExportersWord) {
  FakeModel model = detector(Rows::kAnchorsLast, 1, 3);
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: centre, relative: false"));
  EXPECT_THAT(by_values(model, R"({"oriented":true})"),
              ElementsAre("layout: ssd, boxes: centre, relative: false, oriented: true"));
  FakeTensor& output = model.outputs[0];
  for (std::size_t i = std::size_t{6} * 84; i < std::size_t{7} * 84; ++i)
    output.values[i] = 3.0F * output.values[i] - 0.7F;
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: centre, relative: false, oriented: true"));
  // YOLO11's begin at -45 degrees, and where a picture shows nothing they are all around 45.
  for (std::size_t i = std::size_t{6} * 84; i < std::size_t{7} * 84; ++i)
    output.values[i] = 0.78F + 0.02F * output.values[i];
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: centre, relative: false, oriented: true"));
}

TEST(LayoutSuggestions, KeepSsdBesideWhatElseFits) {
  FakeModel lists = list(Boxes::kCorners, 1, 0, 0.9F, 168);  // two anchors for each of 84 cells
  EXPECT_THAT(by_shape(lists), ElementsAre("layout: anchors", "layout: scrfd", "layout: ssd"));
  EXPECT_THAT(by_values(lists), ::testing::Contains("layout: ssd, background: false"));
}

// The scores of `model` as those of a network that takes most boxes for class `background`.
FakeModel with_background(FakeModel model, std::int64_t background, bool softmax) {
  FakeTensor& scores = model.outputs[1];
  for (std::int64_t i = 0; i < scores.shape[1]; ++i) {
    float sum = 0.0F;
    for (std::int64_t c = 0; c < 3; ++c) {
      float& score = at(scores, i, c);
      score = (i % 10 > 0 && c == background ? 5.0F : -2.0F) + score;
      sum += std::exp(score);
    }
    for (std::int64_t c = 0; softmax && c < 3; ++c) at(scores, i, c) = std::exp(at(scores, i, c)) / sum;
  }
  return model;
}

TEST(LayoutSuggestions, TellByValuesWhichClassIsTheBackground) {
  FakeModel ssd = with_background(list(Boxes::kCorners, 1), 0, true),
            raw = with_background(list(Boxes::kCorners, 1), 0, false),
            last = with_background(list(Boxes::kCorners, 1), 2, true),
            detr = with_background(list(Boxes::kCentre, 1), 2, false), queries = list(Boxes::kCentre, 1, -9, -1);
  EXPECT_THAT(by_values(ssd), ElementsAre("layout: ssd"));
  EXPECT_THAT(by_values(raw), ElementsAre("layout: ssd, scores: logits"));
  EXPECT_THAT(by_values(last), ElementsAre("layout: ssd, background: last"));
  EXPECT_THAT(by_values(detr), ElementsAre("layout: ssd, boxes: centre, scores: logits, background: last, nms: 1"));
  EXPECT_THAT(by_values(queries), ElementsAre("layout: ssd, boxes: centre, scores: logits, background: false, nms: 1"));
}

TEST(LayoutSuggestions, NamesOfClassesTellOfABackgroundBeforeValuesDo) {
  FakeModel none = list(Boxes::kCorners, 1), detr = with_background(list(Boxes::kCentre, 1), 2, false);
  EXPECT_THAT(by_values(none, R"({"classes":["a","b","c"]})"), ElementsAre("layout: ssd"));
  EXPECT_THAT(by_values(none, R"({"classes":["a","b"]})"), ElementsAre("layout: ssd"));
  EXPECT_THAT(by_values(detr, R"({"classes":["a","b"]})"),
              ElementsAre("layout: ssd, boxes: centre, scores: logits, background: last, nms: 1"));
}

// Weights that were never trained put all queries into the middle, where centre and size would do as corners, and give
// all of them the same logits.
TEST(LayoutSuggestions, TellQueriesByTheNameOfTheirBoxes) {
  FakeModel model(64, 64);
  FakeTensor& boxes = model.output("pred_boxes", {1, 50, 4});
  FakeTensor& logits = model.output("logits", {1, 50, 3});
  std::fill(boxes.values.begin(), boxes.values.end(), 0.5F);
  for (std::int64_t i = 0; i < 50; ++i) at(logits, i, 0) = -1;  // and what the others have could be probabilities
  EXPECT_THAT(by_shape(model), ElementsAre("layout: ssd, boxes: centre"));
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: centre, scores: logits, background: false, nms: 1"));
}

// RF-DETR with COCO's own weights, and Facebook's DETR, whose last class is "no object".
TEST(LayoutSuggestions, NameTheClassesOfQueriesThatCountByCocosIds) {
  for (const bool no_object : {false, true}) {
    FakeModel model(64, 64);
    model.output("pred_boxes", {1, 50, 4});
    FakeTensor& logits = model.output("pred_logits", {1, 50, no_object ? 92 : 91});
    Random random;
    for (float& value : model.outputs[0].values) value = random.from(0.3F, 0.6F);
    for (float& value : model.outputs[1].values) value = random.from(-9, -1);
    if (no_object) {
      for (std::int64_t i = 0; i < 50; ++i) at(logits, i, 91) = 9;
    }
    EXPECT_THAT(by_values(model), ElementsAre(std::string("layout: ssd, boxes: centre, scores: logits, background: ") +
                                              (no_object ? "last" : "false") + ", nms: 1, classes: coco91"));
    EXPECT_THAT(by_values(model, R"({"classes":["a"]})"), IsEmpty());
  }
}

// As a model of Hugging Face's is exported with all that it puts out.
TEST(LayoutSuggestions, LeaveHiddenStatesBesideQueriesUnread) {
  FakeModel model = list(Boxes::kCentre, 1, -9, -1);
  model.outputs[0].name = "pred_boxes";
  model.outputs[1].name = "logits";
  FakeTensor& hidden = model.output("last_hidden_state", {1, 100, 16});
  std::fill(hidden.values.begin(), hidden.values.end(), 0.25F);
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: centre, scores: logits, background: false, nms: 1"));
}

TEST(LayoutSuggestions, TakeABoxForAllClassesAsYolov4HasIt) {
  FakeModel model = list(Boxes::kCorners, 1, 0, 0.3F, 300);
  model.outputs[0].shape = {1, 300, 1, 4};
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, background: false"));
}

// Rows of a picture's number, a box in pixels, and in either order its class and score.
TEST(LayoutSuggestions, TellChosenRowsThatBeginWithTheNumberOfAPicture) {
  std::vector<float> scores_last, scores_first;
  Random random;
  for (int i = 0; i < 57; ++i) {
    const float x = random.from(0, 32), y = random.from(0, 32), score = random.from(0, 1);
    const auto label = static_cast<float>(i);
    scores_last.insert(scores_last.end(), {0, x, y, x + 20, y + 20, label, score});
    scores_first.insert(scores_first.end(), {0, x, y, x + 20, y + 20, score, label});
  }
  FakeModel yolov7(64, 64), gradients(64, 64);
  yolov7.output("output", {57, 7}, scores_last);
  gradients.output("graph2_flat_predictions", {57, 7}, scores_first);
  EXPECT_EQ(by_values(yolov7).at(0), "layout: rows, row: [skip, x0, y0, x1, y1, class, score]");
  EXPECT_EQ(by_values(gradients).at(0), "layout: rows, row: [skip, x0, y0, x1, y1, score, class]");
}

TEST(LayoutSuggestions, TellRowsOfSuperGradientsByTheirNameWhereThePictureHoldsNothing) {
  FakeModel model = model_of(64, {{"graph2_flat_predictions", {57, 7}, 0, 0}});
  EXPECT_EQ(by_values(model).at(0), "layout: rows, row: [skip, x0, y0, x1, y1, score, class]");
}

TEST(LayoutSuggestions, TellYolov6ByAnObjectnessThatIsOneEverywhere) {
  FakeModel model = decoded_yolox();
  std::vector<float>& values = model.outputs.front().values;
  const auto width = static_cast<std::size_t>(model.outputs.front().shape.back());
  for (std::size_t i = 4; i < values.size(); i += width) values[i] = 1.0F;
  EXPECT_EQ(by_values(model).at(0), "layout: yolov6");
  values[4] = 0.5F;
  EXPECT_EQ(by_values(model).at(0), "layout: yolox, decoded: true");
}

TEST(LayoutSuggestions, ChooseNoBoxesAgainWhereTheGraphCountsThoseThatItHasChosen) {
  constexpr std::int64_t kRoom = 1500;
  const std::vector<Filled> rows = {
      {"det_boxes", {1, kRoom, 4}, 0, 0}, {"det_scores", {1, kRoom}, 0, 0}, {"det_classes", {1, kRoom}, 0, 0}};
  std::vector<Filled> counted = rows;
  counted.push_back({"num_dets", {1, 1}, 0, 0});
  FakeModel some = model_of(64, rows), all = model_of(64, counted);
  EXPECT_EQ(by_values(some).at(0), "layout: rows, nms: 0.4");
  EXPECT_EQ(by_values(all).at(0), "layout: rows");
}

TEST(LayoutSuggestions, TellByTheirNameWhetherChosenBoxesBeginWithY) {
  const auto first_of = [](const char* boxes) {
    FakeModel model = list(Boxes::kCorners, 1, 0, 0.9F, 100);
    model.outputs.pop_back();
    model.outputs[0].name = boxes;
    std::vector<float> scores, labels;
    for (int i = 0; i < 100; ++i) {
      scores.push_back(0.9F - static_cast<float>(i) / 200);
      labels.push_back(static_cast<float>(i % 7));
    }
    model.output("scores", {1, 100}, scores);
    model.output("labels", {1, 100}, labels);
    return by_values(model).at(0);
  };
  EXPECT_EQ(first_of("detection_boxes"), "layout: rows, boxes: corners_yx, relative: true");
  EXPECT_EQ(first_of("bboxes"), "layout: rows, relative: true");
}

TEST(LayoutSuggestions, FeedQueriesWithABackgroundAsFacebooksDetr) {
  FakeModel detr = with_background(list(Boxes::kCentre, 1), 2, false), queries = list(Boxes::kCentre, 1, -9, -1);
  const auto input_of = [](FakeModel& model) {
    const OutputValues values = values_of(model);
    return std::string(suggest_layouts(model.model(), "{}", &values).at(0).input);
  };
  EXPECT_EQ(input_of(detr),
            "color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], resize: stretch");
  EXPECT_EQ(input_of(queries), "color: rgb, scale: 0.00392157, resize: stretch");
}

// RF-DETR's own exporter calls logits "labels", and counts one class more than there are.
TEST(LayoutSuggestions, TellRfdetrByTheNamesOfItsOutputsWhateverItsClasses) {
  for (const std::int64_t classes : {2, 4, 21}) {
    FakeModel model(64, 64);
    Random random;
    FakeTensor& boxes = model.output("dets", {1, 50, 4});
    FakeTensor& logits = model.output("labels", {1, 50, classes});
    for (float& value : boxes.values) value = random.from(0.4F, 0.6F);
    for (float& value : logits.values) value = random.from(-6, -1);
    const OutputValues values = values_of(model);
    const auto suggested = suggest_layouts(model.model(), "{}", &values);
    ASSERT_EQ(suggested.size(), 1U) << classes;
    EXPECT_EQ(suggested[0].config, "layout: ssd, boxes: centre, scores: logits, background: false, nms: 1");
    EXPECT_EQ(suggested[0].input,
              std::string("color: rgb, mean: [123.675, 116.28, 103.53], scale: [0.0171248, 0.0175070, 0.0174292], "
                          "resize: stretch"));
    EXPECT_THAT(suggested[0].outputs, ElementsAre(1, 0));
  }
}

TEST(LayoutSuggestions, TellByValuesHowBoxesAndScoresAreWritten) {
  FakeModel relative = list(Boxes::kCorners, 1), pixels = list(Boxes::kCorners, kSide), detr = list(Boxes::kCentre, 1),
            logits = list(Boxes::kCorners, 1, -9, 2), percent = list(Boxes::kCorners, 1, 0, 95), v8 = yolov8(),
            v5 = yolov5(), x = raw_yolox(), decoded = decoded_yolox(), chosen = end_to_end(),
            percent_v5 = detector(Rows::kChannelsLast, 3, 1 + 3, 95);
  EXPECT_THAT(by_values(relative), ElementsAre("layout: ssd, background: false"));
  EXPECT_THAT(by_values(pixels), ElementsAre("layout: ssd, relative: false, background: false"));
  EXPECT_THAT(by_values(detr), ElementsAre("layout: ssd, boxes: centre, background: false"));
  EXPECT_THAT(by_values(logits), ElementsAre("layout: ssd, scores: logits, background: false"));
  EXPECT_THAT(by_values(percent), ElementsAre("layout: ssd, scores: percent, background: false"));
  EXPECT_THAT(by_values(v8), ElementsAre("layout: ssd, boxes: centre, relative: false"));
  EXPECT_THAT(by_values(v5), ElementsAre("layout: yolox, decoded: true, anchors_per_cell: 3"));
  EXPECT_THAT(by_values(percent_v5), ElementsAre("layout: yolox, decoded: true, anchors_per_cell: 3, scores: percent"));
  EXPECT_THAT(by_values(x), ElementsAre("layout: yolox"));
  // The first class may be an objectness: the values do not tell.
  EXPECT_THAT(by_values(decoded),
              ElementsAre("layout: yolox, decoded: true", "layout: ssd, boxes: centre, relative: false"));
  EXPECT_THAT(by_values(decoded, R"({"classes":["a","b","c"]})"), ElementsAre("layout: yolox, decoded: true"));
  EXPECT_THAT(by_values(chosen), ElementsAre("layout: rows"));
}

TEST(LayoutSuggestions, TellChosenBoxesInPartsOfThePictureFromThoseInPixels) {
  FakeModel model(64, 64);
  Random random;
  FakeTensor& output = model.output("output0", {1, 300, 6});
  for (std::int64_t i = 0; i < 300; ++i) {
    const float row[6] = {random.from(0.1F, 0.9F), random.from(0.1F, 0.9F),   0.2F, 0.2F,
                          random.from(0, 1),       static_cast<float>(i % 80)};
    for (std::int64_t c = 0; c < 6; ++c) at(output, i, c) = row[c];
  }
  EXPECT_THAT(by_values(model), ElementsAre("layout: rows, row: [cx, cy, w, h, score, class], relative: true"));
}

TEST(LayoutSuggestions, TellScrfdFromAnchorsByTheSignOfItsDistances) {
  FakeModel s = scrfd(), marks = filled(marker("{}"), "cls");
  EXPECT_THAT(by_values(s), ::testing::Contains("layout: scrfd"));
  EXPECT_THAT(by_values(marks), ElementsAre("layout: anchors, background: false"));
}

// YOLOv8-pose: between what is read as classes stand keypoints in pixels.
TEST(LayoutSuggestions, AreNoneForRowsThatHoldMoreThanBoxesAndScores) {
  FakeModel pose = detector(Rows::kAnchorsLast, 1, 1 + 6);
  for (std::size_t i = std::size_t{5} * 84; i < pose.outputs[0].values.size(); ++i)
    pose.outputs[0].values[i] = 40.0F + 0.1F * static_cast<float>(i % 84);
  EXPECT_THAT(by_values(pose), IsEmpty());
  EXPECT_THAT(by_values(pose, R"({"keypoints":3})"), ElementsAre("layout: ssd, boxes: centre, relative: false"))
      << "one class, and three points";
  FakeModel masks = detector(Rows::kAnchorsLast, 1, 3 + 8);
  for (std::size_t i = std::size_t{7} * 84; i < masks.outputs[0].values.size(); ++i)
    masks.outputs[0].values[i] = i % 2 == 0 ? -0.8F : 0.7F;
  EXPECT_THAT(by_values(masks), IsEmpty());
}

// MTCNN's last network: a box, five points and the scores of one face.
TEST(LayoutSuggestions, AreNoneForNumbersAboutThePictureAsAWhole) {
  FakeModel face = model_of(48, {{"box", {1, 4}, -1, 1}, {"points", {1, 10}, 0, 1}, {"face", {1, 2}, 0, 1}});
  EXPECT_THAT(by_shape(face), IsEmpty());
  EXPECT_THAT(by_values(face), IsEmpty());
}

TEST(LayoutSuggestions, SayOfOtherModelsThatNoLayoutReadsThem) {
  FakeModel other(64, 64);
  other.output("prob", {1, 1000});
  EXPECT_EQ(suggestion_text(other.model(), {}, nullptr),
            "the model's outputs, prob [1,1000], look like no layout that camd knows (anchors, scrfd, yunet, ssd, "
            "yolox, nanodet, fastestdet, yolo-fastestv2, yolo-heads, centernet, centerface, detectnet, fomo, "
            "mediapipe, rows)");
}

TEST(LayoutSuggestions, AskWhichOfTwoListsHoldsTheScores) {
  FakeModel model = model_of(64, {{"9", {30, 4}, 0, 0}, {"7", {30}, 0, 0}, {"8", {30}, 0, 0}});
  EXPECT_EQ(suggestion_text(model.model(), {}, nullptr),
            "the model's outputs look like boxes that the graph has chosen, but their names do not tell scores from "
            "classes: set "
            "{layout: rows, outputs: {obj: \"7\", cls: \"8\"}} where \"7\" holds the scores, or the other way round");
}

TEST(LayoutSuggestions, SayWhyTheLayoutOfTheShapesDoesNotReadTheValues) {
  FakeModel pose = detector(Rows::kAnchorsLast, 1, 1 + 6);
  for (std::size_t i = std::size_t{5} * 84; i < pose.outputs[0].values.size(); ++i) pose.outputs[0].values[i] = 40;
  const OutputValues values = values_of(pose);
  EXPECT_THAT(
      suggestion_text(pose.model(), {}, &values),
      ::testing::MatchesRegex("no layout that camd knows reads the model's outputs, output0 .1,11,84.: .layout: "
                              "ssd, boxes: centre, relative: false. fits their shapes, but on a picture of "
                              "noise its scores run from [0-9.e-]+ to 40: not all of them are scores"));
}

TEST(LayoutDoubts, SpeakOfAFirstClassThatIsNoBackground) {
  FakeModel queries = list(Boxes::kCentre, 1, -9, -1), ssd = with_background(list(Boxes::kCorners, 1), 0, true);
  EXPECT_EQ(doubt(queries, R"({"layout":"ssd","boxes":"centre","scores":"logits"})"),
            "layout 'ssd' does not read this model: on a picture of noise its first class is not the background, which "
            "it is taken for; set {layout: ssd, boxes: centre, scores: logits, background: false, nms: 1}");
  EXPECT_EQ(doubt(queries, R"({"layout":"rtdetr"})"), "");
  EXPECT_EQ(doubt(queries, R"({"layout":"ssd","boxes":"centre","scores":"logits","classes":["a","b","c"]})"), "");
  EXPECT_EQ(doubt(ssd, R"({"layout":"ssd"})"), "");
}

TEST(LayoutDoubts, AreNoneWhereTheLayoutReadsTheModel) {
  FakeModel v8 = yolov8(), v5 = yolov5(), x = raw_yolox(), decoded = decoded_yolox(),
            relative = list(Boxes::kCorners, 1), detr = list(Boxes::kCentre, 1), pixels = list(Boxes::kCorners, kSide),
            marks = filled(marker(), "cls"), yu = filled(yunet(), "cls"), s = scrfd();
  EXPECT_EQ(doubt(v8, R"({"layout":"ssd","boxes":"centre","relative":false})"), "");
  EXPECT_EQ(doubt(v5, R"({"layout":"yolox","decoded":true,"anchors_per_cell":3})"), "");
  EXPECT_EQ(doubt(x, R"({"layout":"yolox"})"), "");
  EXPECT_EQ(doubt(decoded, R"({"layout":"yolox","decoded":true})"), "");
  EXPECT_EQ(doubt(relative, R"({"layout":"ssd"})"), "");
  EXPECT_EQ(doubt(detr, R"({"layout":"ssd","boxes":"centre"})"), "");
  EXPECT_EQ(doubt(pixels, R"({"layout":"ssd","relative":false})"), "");
  EXPECT_EQ(doubt(marks, "{}"), "");
  EXPECT_EQ(doubt(yu, R"({"layout":"yunet"})"), "");
  EXPECT_EQ(doubt(s, R"({"layout":"scrfd"})"), "");
}

TEST(LayoutDoubts, SayWhatWasSeenAndWhatToSet) {
  FakeModel v8 = yolov8(), v5 = yolov5();
  EXPECT_EQ(doubt(v8, R"({"layout":"yolox"})"),
            "layout 'yolox' does not read this model: on a picture of noise most of its boxes lie far outside the "
            "picture; set {layout: ssd, boxes: centre, relative: false}");
  EXPECT_THAT(doubt(v8, R"({"layout":"ssd"})"),
              ::testing::MatchesRegex("layout 'ssd' does not read this model: on a picture of noise its boxes reach "
                                      "[0-9]+: they are pixels, not parts of the picture; set .layout: ssd, boxes: "
                                      "centre, relative: false."));
  EXPECT_EQ(doubt(v8, R"({"layout":"ssd","relative":false})"),
            "layout 'ssd' does not read this model: on a picture of noise most of its boxes end before they begin; set "
            "{layout: ssd, boxes: centre, relative: false}");
  EXPECT_THAT(doubt(v5, R"({"layout":"ssd"})"), HasSubstr("set {layout: yolox, decoded: true, anchors_per_cell: 3}"));
  EXPECT_EQ(doubt(v5, R"({"layout":"ssd","boxes":"centre","relative":false})"),
            "layout 'ssd' does not read this model: it has three rows for each cell, whose fifth value is an "
            "objectness; set {layout: yolox, decoded: true, anchors_per_cell: 3}");
}

TEST(LayoutDoubts, TellPartsOfThePictureFromPixelsAndCornersFromCentres) {
  FakeModel relative = list(Boxes::kCorners, 1), pixels = list(Boxes::kCorners, kSide), x = raw_yolox();
  EXPECT_THAT(doubt(relative, R"({"layout":"ssd","relative":false})"),
              ::testing::MatchesRegex(
                  "layout 'ssd' does not read this model: on a picture of noise its boxes reach "
                  "0\\.[0-9]+: they are parts of the picture, not pixels; set .layout: ssd, background: false."));
  EXPECT_THAT(
      doubt(pixels, R"({"layout":"ssd","boxes":"centre","relative":false})"),
      HasSubstr("its boxes are corners, not centre and size; set {layout: ssd, relative: false, background: false}"));
  EXPECT_THAT(doubt(x, R"({"layout":"yolox","decoded":true})"), HasSubstr("set {layout: yolox}"));
}

TEST(LayoutDoubts, TellProbabilitiesPercentAndLogitsApart) {
  FakeModel logits = list(Boxes::kCorners, 1, -9, 2), percent = list(Boxes::kCorners, 1, 0, 95),
            probability = list(Boxes::kCorners, 1);
  EXPECT_THAT(doubt(logits, R"({"layout":"ssd"})"),
              HasSubstr(": they are logits; set {layout: ssd, scores: logits, background: false}"));
  EXPECT_THAT(doubt(percent, R"({"layout":"ssd"})"),
              HasSubstr(": they are percent; set {layout: ssd, scores: percent, background: false}"));
  EXPECT_THAT(doubt(probability, R"({"layout":"ssd","scores":"logits"})"),
              HasSubstr(": they are probabilities already; set {layout: ssd, background: false}"));
  EXPECT_EQ(doubt(probability, R"({"layout":"ssd","scores":"percent"})"), "") << "no object, so all are below 1";
}

TEST(LayoutDoubts, SayOfChosenBoxesThatTheGraphHasChosen) {
  FakeModel chosen = end_to_end();
  EXPECT_THAT(doubt(chosen, R"({"layout":"ssd","relative":false})"),
              HasSubstr("its rows end with a score and the number of a class: the graph has chosen the boxes already; "
                        "set {layout: rows}"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
