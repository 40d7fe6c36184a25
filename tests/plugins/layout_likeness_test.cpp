// What tells outputs from those of other kinds that have their shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "harness.hpp"
#include "layout_advice.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kCells = 64 + 16 + 4;  // of 64x64, strides 8, 16 and 32

// How the likeliest is fed.
std::string fed(FakeModel& model) {
  const OutputValues values = values_of(model);
  return suggest_layouts(model.model(), "{}", &values).front().input;
}
std::string refused(FakeModel& model) {
  const OutputValues values = values_of(model);
  return suggestion_text(model.model(), {}, &values);
}

// A box of the i-th cell, with its centre in the cell and both as parts of the picture.
std::vector<float> centred(std::int64_t i, float times = 1.0F) {
  const auto x = static_cast<float>(i % 8), y = static_cast<float>(i / 8 % 8);
  return {times * (x + 0.5F) / 8, times * (y + 0.5F) / 8, times * 0.2F, times * 0.15F};
}
std::vector<float> corners(std::int64_t i, float times = 1.0F) {
  const std::vector<float> box = centred(i, times);
  const auto side = [&](float value) { return std::clamp(value, 0.0F, times); };
  return {side(box[0] - box[2] / 2), side(box[1] - box[3] / 2), side(box[0] + box[2] / 2), side(box[1] + box[3] / 2)};
}

// A tensor of `shape` filled row by row: what `row` gives for the number of each.
template <class Row>
void fill(FakeModel& model, const char* name, const std::vector<std::int64_t>& shape, Row&& row) {
  FakeTensor& output = model.output(name, shape);
  const auto width = static_cast<std::size_t>(shape.back());
  for (std::size_t i = 0; i < output.values.size() / width; ++i) {
    const std::vector<float> values = row(static_cast<std::int64_t>(i));
    std::copy(values.begin(), values.end(), output.values.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
}
std::vector<float> behind(std::vector<float> first, const std::vector<float>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}
float share(std::int64_t i) { return static_cast<float>(i * 7 % 100) / 101.0F; }

// SCRFD's, two a cell: `scores` of each box, distances from `low`.
FakeModel scrfd(std::int64_t scores, float low) {
  std::vector<Filled> outputs;
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::int64_t boxes = 2 * (64 / stride) * (64 / stride);
    outputs.push_back({"score_" + std::to_string(stride), {boxes, scores}, 0, 0.9F});
    outputs.push_back({"bbox_" + std::to_string(stride), {boxes, 4}, low, 3});
  }
  return model_of(64, outputs);
}

// What a network was not trained to find may have any distance.
TEST(Likeness, OfOneScoreIsToScrfdAndNotToRetinafaceWhichHasABackground) {
  for (const float low : {0.0F, -2.0F}) {
    FakeModel model = scrfd(1, low);
    EXPECT_THAT(by_values(model), ElementsAre("layout: scrfd"));
    EXPECT_EQ(fed(model), "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.0078125");
  }
}

// OpenCV's face_detection_yunet_2021dec and Kornia's.
TEST(Likeness, OfKeyPointsBehindBoxesOfFourStridesIsToYunetOf2021) {
  FakeModel model = model_of(64, {{"loc", {1, 235, 14}, -2, 2}, {"iou", {1, 235, 1}, -0.5F, 1.5F}});
  fill(model, "conf", {1, 235, 2}, [](std::int64_t i) { return std::vector<float>{1 - share(i), share(i)}; });
  EXPECT_THAT(by_values(model), ElementsAre("layout: yunet-2021"));
  EXPECT_EQ(fed(model), "color: bgr, scale: 1");
}

TEST(Likeness, OfDistancesAboveZeroIsToScrfdAndNotToOffsetsFromAnchors) {
  FakeModel distances = scrfd(2, 0), offsets = scrfd(2, -2);
  EXPECT_THAT(by_values(distances), ElementsAre("layout: scrfd"));
  EXPECT_THAT(by_values(offsets), ElementsAre("layout: anchors"));
}

TEST(Likeness, OfTwelveValuesIsToMediapipesPeople) {
  FakeModel people = model_of(224, {{"Identity", {1, 2254, 12}, 1, 30}, {"Identity_1", {1, 2254, 1}, -9, 2}});
  EXPECT_THAT(by_values(people), ElementsAre("layout: mediapipe, scores: logits"));
  EXPECT_EQ(fed(people), "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314");
}

// The published weights make sizes down to -18 of noise.
TEST(Likeness, ToMediapipesPeopleHoldsWhereBoxesOfNoiseEndBeforeTheyBegin) {
  FakeModel people = model_of(224, {{"Identity", {1, 2254, 12}, -20, 20}, {"Identity_1", {1, 2254, 1}, -263, -2}});
  EXPECT_THAT(by_values(people), ElementsAre("layout: mediapipe, scores: logits"));
}

// MediaPipe's faces of stride 4, and maps of FairMOT, which takes distances for sizes.
TEST(Likeness, OfOneStrideIsToNoNanodet) {
  FakeModel faces = model_of(192, {{"a", {1, 2304, 16}, 1, 30}, {"b", {1, 2304, 1}, -9, 2}});
  EXPECT_THAT(by_values(faces), ElementsAre("layout: mediapipe, scores: logits"));
  FakeModel fairmot = model_of(64, {{"hm", {1, 1, 16, 16}, 0, 1},
                                    {"wh", {1, 4, 16, 16}, 1, 9},
                                    {"id", {1, 128, 16, 16}, -1, 1},
                                    {"reg", {1, 2, 16, 16}, 0, 1}});
  EXPECT_THAT(by_values(fairmot), ElementsAre("layout: centernet"));
  EXPECT_EQ(fed(fairmot), "color: rgb, scale: 0.00392157");
}

TEST(Likeness, OfTheLastOfManyLogitsIsToNoAngle) {
  FakeModel model(64, 64);
  Random random;
  FakeTensor& output = model.output("output0", {1, 7, kCells});
  for (std::int64_t i = 0; i < kCells; ++i) {
    const std::vector<float> row = behind(centred(i, 64), {random.from(-8, 2), random.from(-8, 2), random.from(-8, 2)});
    for (std::int64_t k = 0; k < 7; ++k)
      output.values[static_cast<std::size_t>(k * kCells + i)] = row[static_cast<std::size_t>(k)];
  }
  EXPECT_THAT(by_values(model), ElementsAre("layout: ssd, boxes: centre, relative: false, scores: logits"));
}

// Corners, the number of a class, then a score; and YOLOX' rows after its own suppression.
TEST(Likeness, OfWholeNumbersBesideProbabilitiesIsToNoPercent) {
  FakeModel class_first(64, 64), yolox(64, 64);
  fill(class_first, "output", {1, 90, 6}, [](std::int64_t i) {
    return behind(corners(i, 64), {1.0F + static_cast<float>(i % 19), share(i)});
  });
  fill(yolox, "output", {1, 90, 7}, [](std::int64_t i) {
    return behind(corners(i, 64), {share(i), share(i + 1), 1.0F + static_cast<float>(i % 19)});
  });
  EXPECT_THAT(by_values(class_first), ElementsAre("layout: rows, row: [x0, y0, x1, y1, class, score]"));
  EXPECT_THAT(by_values(yolox), IsEmpty());
}

TEST(Likeness, OfChosenBoxesThatWouldReachOutOfThePictureIsToCorners) {
  FakeModel model(64, 64);
  fill(model, "output0", {1, 90, 6}, [](std::int64_t i) {
    return behind(corners(i), {share(i), static_cast<float>(i % 20)});
  });
  EXPECT_THAT(by_values(model), ElementsAre("layout: rows, relative: true"));
}

// A queries' box of noise may be the whole picture.
TEST(Likeness, OfChosenBoxesAsLargeAsThePictureIsToCentreAndSize) {
  FakeModel model(64, 64);
  fill(model, "output0", {1, 90, 6},
       [](std::int64_t i) { return std::vector<float>{0.5F, 0.5F, 1.0F, 1.0F, share(i), static_cast<float>(i % 20)}; });
  EXPECT_EQ(by_values(model).at(0), "layout: rows, row: [cx, cy, w, h, score, class], relative: true");
}

TEST(Likeness, OfAMapAsLargeAsThePictureIsToNoRows) {
  FakeModel depth = model_of(64, {{"predicted_depth", {1, 64, 64}, 0, 1}});
  EXPECT_THAT(by_values(depth), IsEmpty());
}

// As Mask2Former's classes of each query, and the letters of a text.
TEST(Likeness, OfLogitsOrSharesAloneIsToNoBoxesInPartsOfThePicture) {
  FakeModel queries = model_of(64, {{"class_queries_logits", {1, 100, 134}, -1.2F, 0.9F}});
  EXPECT_THAT(by_values(queries), IsEmpty());
  FakeModel letters(64, 64);
  fill(letters, "softmax", {1, 40, 400}, [](std::int64_t i) {
    std::vector<float> shares(400, 1e-6F);
    shares[static_cast<std::size_t>(i % 3 == 0 ? i : 0)] = 0.99F;
    return shares;
  });
  EXPECT_THAT(refused(letters), HasSubstr("most of its boxes are empty"));
}

// P2PNet finds points.
TEST(Likeness, OfListsIsToNoCenternetWhichHasMaps) {
  FakeModel points = model_of(64, {{"pred_logits", {1, 256, 2}, -3, 1}, {"pred_points", {1, 256, 2}, 0, 64}});
  EXPECT_THAT(by_values(points), IsEmpty());
}

TEST(Likeness, OfMapsOfOneSizeIsToNoHeadsThatAreNotDecoded) {
  FakeModel segments = model_of(64, {{"out", {1, 21, 64, 64}, -1, 1}, {"aux", {1, 21, 64, 64}, -1, 1}}),
            text = model_of(64, {{"score", {1, 1, 16, 16}, 0, 1}, {"geo", {1, 5, 16, 16}, 0, 9}});
  EXPECT_THAT(refused(segments), HasSubstr("look like no layout that camd knows"));
  EXPECT_THAT(refused(text), HasSubstr("look like no layout that camd knows"));
}

// As MMDeploy exports MMRotate's detectors.
TEST(Likeness, OfRowsWithAnAngleBesideClassesIsToMmrotate) {
  FakeModel model(64, 64);
  fill(model, "dets", {1, 90, 6}, [](std::int64_t i) { return behind(centred(i, 64), {share(i) - 0.5F, share(i)}); });
  fill(model, "labels", {1, 90}, [](std::int64_t) {
    std::vector<float> classes;
    classes.reserve(90);
    for (int k = 0; k < 90; ++k) classes.push_back(static_cast<float>(k % 15));
    return classes;
  });
  EXPECT_THAT(by_values(model), ElementsAre("layout: mmrotate"));
}

// combined_non_max_suppression, and EfficientDet by google/automl.
TEST(Likeness, OfNamesIsToTensorflowsChoicesWhichBeginWithY) {
  FakeModel combined(64, 64), automl(64, 64);
  fill(combined, "nmsed_boxes", {1, 90, 4}, [](std::int64_t i) { return corners(i); });
  for (const char* name : {"nmsed_scores", "nmsed_classes"}) {
    fill(combined, name, {1, 90}, [&](std::int64_t) {
      std::vector<float> values;
      values.reserve(90);
      for (int k = 0; k < 90; ++k)
        values.push_back(name == std::string("nmsed_classes") ? static_cast<float>(k % 9) : share(k));
      return values;
    });
  }
  combined.output("valid_detections", {1}, {90});
  EXPECT_EQ(by_values(combined).at(0), "layout: rows, boxes: corners_yx, relative: true");
  FakeModel functions = model_of(64, {{"Identity", {1, 90, 4}, 0, 0}, {"Identity_1", {1, 90, 3}, 0, 0.9F}});
  for (std::int64_t i = 0; i < 90; ++i) {
    const std::vector<float> box = corners(i);
    std::copy(box.begin(), box.end(), functions.outputs[0].values.begin() + static_cast<std::ptrdiff_t>(4 * i));
  }
  EXPECT_EQ(by_values(functions).at(0), "layout: ssd, boxes: corners_yx, background: false");
  fill(automl, "detections:0", {1, 90, 7}, [](std::int64_t i) {
    return behind(behind({0}, corners(i, 64)), {share(i), static_cast<float>(1 + i % 90)});
  });
  EXPECT_THAT(by_values(automl), ElementsAre("layout: rows, row: [skip, y0, x0, y1, x1, score, class]"));
}

// PINTO_model_zoo's, of a person's parts and of a face with five points, and where a picture holds nothing.
TEST(Likeness, OfANameThatSaysTheRowIsToThatRow) {
  FakeModel chosen(64, 64), points(64, 64), nothing(64, 64);
  fill(chosen, "batchno_classid_score_x1y1x2y2", {90, 7}, [](std::int64_t i) {
    return behind({0, static_cast<float>(i % 3), share(i)}, corners(i, 64));
  });
  fill(points, "batchno_classid_score_x1y1x2y2_landms", {90, 17}, [](std::int64_t i) {
    return behind(behind({0, 0, share(i)}, corners(i, 64)), std::vector<float>(10, 30.0F));
  });
  nothing.output("batchno_classid_score_x1y1x2y2", {90, 7}, std::vector<float>(std::size_t{90} * 7, -1.0F));
  EXPECT_THAT(by_values(chosen), ElementsAre("layout: rows, row: [skip, class, score, x0, y0, x1, y1]"));
  EXPECT_EQ(fed(chosen), "color: bgr, scale: 1, resize: stretch");
  EXPECT_THAT(by_values(points), ElementsAre("layout: rows, row: [skip, class, score, x0, y0, x1, y1]"));
  EXPECT_EQ(by_values(nothing).at(0), "layout: rows, row: [skip, class, score, x0, y0, x1, y1]");
}

// Kornia's, and as COCO writes boxes.
TEST(Likeness, OfRowsWhoseCornersWouldEndBeforeTheyBeginIsToCornerAndSize) {
  const auto box = [](std::int64_t i) {
    const std::vector<float> c = centred(i, 64);
    return std::vector<float>{c[0] - c[2] / 2, c[1] - c[3] / 2, c[2], c[3]};
  };
  FakeModel kornia(64, 64), coco(64, 64), swapped(64, 64), whole(64, 64), middle(64, 64);
  fill(middle, "output", {90, 6}, [](std::int64_t i) {
    return behind(centred(i, 64), {share(i), static_cast<float>(i % 3)});
  });
  EXPECT_THAT(by_values(middle), ElementsAre("layout: rows, row: [cx, cy, w, h, score, class]"));
  fill(kornia, "output", {90, 6}, [&](std::int64_t i) {
    return behind({static_cast<float>(i % 3), share(i)}, box(i));
  });
  fill(coco, "output", {90, 6}, [&](std::int64_t i) { return behind(box(i), {share(i), static_cast<float>(i % 3)}); });
  fill(swapped, "output", {90, 6}, [&](std::int64_t i) {
    return behind(box(i), {static_cast<float>(i % 3), share(i)});
  });
  fill(whole, "output", {90, 6}, [&](std::int64_t i) {
    return behind({static_cast<float>(i % 3), share(i)}, corners(i, 64));
  });
  EXPECT_THAT(by_values(kornia), ElementsAre("layout: rows, row: [class, score, x0, y0, w, h]"));
  EXPECT_EQ(fed(kornia), "color: rgb, scale: 0.00392157, resize: stretch");
  EXPECT_THAT(by_values(coco), ElementsAre("layout: rows, row: [x0, y0, w, h, score, class]"));
  EXPECT_THAT(by_values(swapped), ElementsAre("layout: rows, row: [x0, y0, w, h, class, score]"));
  EXPECT_THAT(by_values(whole), ElementsAre("layout: rows, row: [class, score, x0, y0, x1, y1]"));
}

// DeepStream's exports, which have each cell's best class, among which nothing was chosen yet.
TEST(Likeness, OfWholeClassesOfAllCellsIsToRowsAmongWhichNothingWasChosen) {
  constexpr std::int64_t kMany = 1024 + 256 + 64;
  const auto box = [](std::int64_t i) { return corners(i, 256); };
  const auto score = [](std::int64_t i) { return std::vector<float>{share(i)}; };
  const auto number = [](std::int64_t i) { return std::vector<float>{static_cast<float>(i % 80)}; };
  FakeModel one(256, 256), three(256, 256);
  fill(one, "output", {1, kMany, 6}, [&](std::int64_t i) { return behind(behind(box(i), score(i)), number(i)); });
  fill(three, "boxes", {1, kMany, 4}, box);
  fill(three, "scores", {1, kMany, 1}, score);
  fill(three, "classes", {1, kMany, 1}, number);
  EXPECT_THAT(by_values(one), ElementsAre("layout: rows, nms: 0.4"));
  EXPECT_THAT(by_values(three), ElementsAre("layout: rows, nms: 0.4"));
}

// Rockchip's YOLOX has probabilities in one map a stride. RTMDet's heads have none.
TEST(Likeness, OfMapsOfProbabilitiesIsToYoloxAndNotToRtmdet) {
  FakeModel yolox(64, 64), distances(64, 64);
  Random random;
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::int64_t side = 64 / stride, cells = side * side;
    FakeTensor& map = yolox.output("o" + std::to_string(stride), {1, 8, side, side});
    for (std::int64_t i = 0; i < 8 * cells; ++i)
      map.values[static_cast<std::size_t>(i)] = i < 4 * cells ? random.from(-1.5F, 1.5F) : random.from(0.0F, 0.9F);
    for (float& value : distances.output("b" + std::to_string(stride), {1, 4, side, side}).values)
      value = random.from(0.1F, 3);
    for (float& value : distances.output("c" + std::to_string(stride), {1, 3, side, side}).values)
      value = random.from(0, 0.9F);
  }
  EXPECT_THAT(by_values(yolox), ElementsAre("layout: yolox"));
  EXPECT_THAT(by_values(distances), IsEmpty());
}

TEST(Likeness, OfOneBoxForEachCellIsToAYoloWhichIsFedWithALetterbox) {
  FakeModel yolo(64, 64), detr(64, 64), yolov5(64, 64);
  const auto centre = [](std::int64_t i) { return centred(i); };
  const auto scores = [](std::int64_t i) { return std::vector<float>{share(i), share(i + 1), share(i + 2)}; };
  fill(yolo, "boxes", {1, kCells, 4}, centre);
  fill(yolo, "scores", {1, kCells, 3}, scores);
  fill(detr, "boxes", {1, 90, 4}, centre);
  fill(detr, "scores", {1, 90, 3}, scores);
  EXPECT_EQ(fed(yolo), "color: rgb, scale: 0.00392157");
  EXPECT_EQ(fed(detr), "color: rgb, scale: 0.00392157, resize: stretch");
  fill(yolov5, "Identity", {1, 3 * kCells, 8}, [&](std::int64_t i) {
    return behind(centred(i), {share(i), share(i + 1), share(i + 2), share(i + 3)});
  });
  EXPECT_THAT(by_values(yolov5), ElementsAre("layout: yolox, decoded: true, anchors_per_cell: 3, relative: true"));
}

// RTMO, SuperGradients' YOLO-NAS-pose in both of its forms, and MoveNet, whose box stands behind its key points.
TEST(Likeness, OfKeyPointsBesideOneScoreIsToPeople) {
  FakeModel rtmo(64, 64), flat(64, 64), batch(64, 64), movenet(64, 64);
  fill(rtmo, "dets", {1, 90, 5}, [](std::int64_t i) { return behind(corners(i, 64), {share(i)}); });
  rtmo.output("keypoints", {1, 90, 17, 3});
  EXPECT_THAT(by_values(rtmo), ElementsAre("layout: rtmo"));
  fill(flat, "graph2_flat_predictions", {90, 57}, [](std::int64_t i) {
    return behind(behind(behind({0}, corners(i, 64)), {share(i)}), std::vector<float>(51, 30.5F));
  });
  EXPECT_THAT(by_values(flat), ElementsAre("layout: rows, row: [skip, x0, y0, x1, y1, score]"));
  fill(batch, "graph2_pred_boxes", {1, 90, 4}, [](std::int64_t i) { return corners(i, 64); });
  FakeTensor& scores = batch.output("graph2_pred_scores", {1, 90});
  for (std::size_t k = 0; k < scores.values.size(); ++k) scores.values[k] = share(static_cast<std::int64_t>(k));
  batch.output("graph2_pred_joints", {1, 90, 17, 3});
  EXPECT_THAT(by_values(batch), ElementsAre("layout: rows"));
  fill(movenet, "output_0", {1, 6, 56}, [](std::int64_t i) { return std::vector<float>(56, 0.1F * share(i)); });
  EXPECT_THAT(by_values(movenet), IsEmpty());
}

// RTMO, Custom Vision and keras-retinanet.
TEST(Likeness, OfNamesToThoseOfAProjectTellsHowItIsFed) {
  FakeModel rtmo(64, 64), custom(64, 64), keras(64, 64);
  fill(rtmo, "dets", {1, 90, 5}, [](std::int64_t i) { return behind(corners(i, 64), {share(i)}); });
  rtmo.output("keypoints", {1, 90, 17, 3});
  EXPECT_EQ(fed(rtmo), "color: bgr, scale: 1, position: top_left");
  const auto put = [](FakeModel& model, const char* name, bool classes) {
    fill(model, name, {1, 90}, [&](std::int64_t) {
      std::vector<float> values;
      values.reserve(90);
      for (int k = 0; k < 90; ++k) values.push_back(classes ? static_cast<float>(k % 9) : share(k));
      return values;
    });
  };
  fill(custom, "detected_boxes", {1, 90, 4}, [](std::int64_t i) { return corners(i); });
  put(custom, "detected_classes", true);
  put(custom, "detected_scores", false);
  EXPECT_EQ(fed(custom), "color: rgb, scale: 0.00392157, resize: stretch");
  fill(keras, "filtered_detections", {1, 90, 4}, [](std::int64_t i) { return corners(i, 64); });
  put(keras, "scores", false);
  put(keras, "labels", true);
  EXPECT_EQ(fed(keras), "color: bgr, mean: [103.939, 116.779, 123.68], scale: 1");
}

// RT-DETR's own exporter and those of D-FINE, DEIM and LightlyTrain, where no input tells the picture's size.
TEST(Likeness, OfListsThatBeginWithLabelsIsToThoseOfRtdetrWhichStretchesThePicture) {
  FakeModel rtdetr(64, 64), torchvision(64, 64);
  const auto put = [](FakeModel& model, const char* name, const std::vector<std::int64_t>& shape, bool classes) {
    FakeTensor& list = model.output(name, shape);
    for (std::size_t k = 0; k < list.values.size(); ++k)
      list.values[k] = classes ? static_cast<float>(k % 9) : share(static_cast<std::int64_t>(k));
  };
  const auto box = [](std::int64_t i) { return corners(i, 64); };
  put(rtdetr, "labels", {1, 90}, true);
  fill(rtdetr, "boxes", {1, 90, 4}, box);
  put(rtdetr, "scores", {1, 90}, false);
  fill(torchvision, "boxes", {90, 4}, box);
  put(torchvision, "labels", {90}, true);
  put(torchvision, "scores", {90}, false);
  EXPECT_EQ(fed(rtdetr), "color: rgb, scale: 0.00392157, resize: stretch");
  EXPECT_EQ(fed(torchvision), "color: rgb, scale: 0.00392157");
}

// Eighty sigmoids of a network that was not trained, each near to a hundredth.
TEST(Likeness, OfASumOfSigmoidsToOneIsToNoSoftmaxOverABackground) {
  FakeModel model(64, 64);
  fill(model, "boxes", {1, 90, 4}, [](std::int64_t i) { return centred(i); });
  fill(model, "scores", {1, 90, 80}, [](std::int64_t i) {
    std::vector<float> values;
    values.reserve(80);
    for (std::int64_t k = 0; k < 80; ++k) values.push_back(0.0124F + 0.0001F * static_cast<float>((i + k) % 2));
    values.back() = 0.009F;
    return values;
  });
  EXPECT_EQ(by_values(model).at(0), "layout: ssd, boxes: centre, background: false");
}

TEST(Likeness, OfNamesToEfficientdetEndsWhereSegmentsStandBesideAsInHybridnets) {
  std::vector<std::string> names = {"classifier.header.pointwise_conv.weight",
                                    "regressor.header.pointwise_conv.weight"};
  EXPECT_EQ(layout_of_project(names), "efficientdet");
  names.emplace_back("segmentation_head.0.weight");
  EXPECT_EQ(layout_of_project(names), "");
}

TEST(Likeness, OfListsWithACountBesideThemAsksWhichHoldsTheScores) {
  FakeModel model = model_of(64, {{"9", {30, 4}, 0, 0}, {"7", {30}, 0, 0}, {"8", {30}, 0, 0}, {"6", {1}, 0, 0}});
  EXPECT_THAT(suggestion_text(model.model(), {}, nullptr), HasSubstr("their names do not tell scores from classes"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
