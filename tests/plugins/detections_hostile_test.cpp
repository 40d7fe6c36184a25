// The built-in `detections` with numbers that no detector means and shapes that do not fit, in every layout.
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "detections_fixture.hpp"

namespace CAMD_TEST_FILE {

using namespace camd::plugins::testing;
using camd::plugins::find_builtin;

using Outputs = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;
struct Layout {
  const char* config;
  std::int64_t side;
  Outputs outputs;
};

Outputs by_strides(const std::vector<std::int64_t>& strides, std::int64_t side,
                   const std::vector<std::pair<std::string, std::int64_t>>& heads, bool grids) {
  Outputs outputs;
  for (const auto& [name, channels] : heads) {
    for (const std::int64_t stride : strides) {
      const std::int64_t n = side / stride;
      outputs.push_back({name + "_" + std::to_string(stride), grids ? std::vector{std::int64_t{1}, channels, n, n}
                                                                    : std::vector{std::int64_t{1}, n * n, channels}});
    }
  }
  return outputs;
}

std::vector<Layout> layouts() {
  return {
      {R"({"layout":"anchors","anchor_offset":0.5,"keypoints":5})", 64,
       by_strides({8, 16, 32}, 64, {{"cls", 4}, {"box", 8}, {"kps", 20}}, true)},
      {R"({"layout":"yunet"})", 64,
       by_strides({8, 16, 32}, 64, {{"cls", 1}, {"obj", 1}, {"bbox", 4}, {"kps", 10}}, false)},
      {R"({"layout":"yunet-2021"})", 64, {{"loc", {1, 235, 14}}, {"conf", {1, 235, 2}}, {"iou", {1, 235, 1}}}},
      {R"({"layout":"nanodet"})", 64, by_strides({8, 16, 32}, 64, {{"cls_pred", 2}, {"dis_pred", 32}}, false)},
      {R"({"layout":"fastestdet"})", 64, {{"758", {1, 7, 4, 4}}}},
      {R"({"layout":"yolox"})", 64, {{"output", {1, 84, 7}}}},
      {R"({"layout":"yolov5"})", 64, {{"output", {1, 252, 7}}}},
      {R"({"layout":"yolov5-face"})", 64, {{"output", {1, 252, 16}}}},
      {R"({"layout":"yolov8"})", 64, {{"output0", {1, 6, 84}}}},
      {R"({"layout":"yolov8-pose"})", 64, {{"output0", {1, 56, 84}}}},
      {R"({"layout":"yolov8-obb"})", 64, {{"output0", {1, 7, 84}}}},
      {R"({"layout":"yolo11-obb"})", 64, {{"output0", {1, 7, 84}}}},
      {R"({"layout":"yolo26"})", 64, {{"output0", {1, 20, 6}}}},
      {R"({"layout":"yolo26-obb"})", 64, {{"output0", {1, 20, 7}}}},
      {R"({"layout":"rtmdet"})", 64, {{"dets", {1, 20, 5}}, {"labels", {1, 20}}}},
      {R"({"layout":"detr"})", 64, {{"logits", {1, 20, 3}}, {"boxes", {1, 20, 4}}}},
      {R"({"layout":"efficientdet"})", 128, by_strides({8, 16, 32, 64, 128}, 128, {{"class", 18}, {"box", 36}}, true)},
      {R"({"layout":"centernet"})", 64, {{"hm", {1, 3, 16, 16}}, {"wh", {1, 2, 16, 16}}, {"reg", {1, 2, 16, 16}}}},
      {R"({"layout":"centerface"})",
       64,
       {{"537", {1, 1, 16, 16}}, {"538", {1, 2, 16, 16}}, {"539", {1, 2, 16, 16}}, {"540", {1, 10, 16, 16}}}},
      {R"({"layout":"detectnet"})", 96, {{"output_cov", {1, 3, 6, 6}}, {"output_bbox", {1, 12, 6, 6}}}},
      {R"({"layout":"fomo"})", 96, {{"output", {1, 12, 12, 4}}}},
      {R"({"layout":"fomo","scores":"logits"})", 96, {{"output", {1, 4, 12, 12}}}},
      {R"({"layout":"blazeface"})", 128, {{"regressors", {1, 896, 16}}, {"classificators", {1, 896, 1}}}},
      {R"({"layout":"blazepalm"})", 192, {{"regressors", {1, 2016, 18}}, {"classificators", {1, 2016, 1}}}},
      {R"({"layout":"yolo-fastestv2"})", 64, {{"a", {1, 4, 4, 17}}, {"b", {1, 2, 2, 17}}}},
      {R"({"layout":"yolov5-heads"})", 64, by_strides({8, 16, 32}, 64, {{"out", 21}}, true)},
      {R"({"layout":"yolov4-tiny-heads","scores":"probability"})",
       64,
       {{"a", {1, 3, 4, 4, 7}}, {"b", {1, 3, 2, 2, 7}}}},
      {R"({"layout":"yolov2-heads"})", 64, {{"grid", {1, 35, 2, 2}}}},
      {R"({"layout":"yolov8-heads"})", 64, by_strides({8, 16, 32}, 64, {{"out", 66}}, true)},
  };
}

FakeModel model_of(const Layout& layout) {
  FakeModel model(layout.side, layout.side);
  for (const auto& [name, shape] : layout.outputs) model.output(name, shape);
  return model;
}

// What is found has to be numbers, inside the picture, at most as many as allowed.
void expect_numbers(const std::vector<camd_detection>& found, const std::string& what) {
  EXPECT_LE(found.size(), 100U) << what;
  for (const camd_detection& d : found) {
    const bool numbers = std::isfinite(d.score) && std::isfinite(d.box[0]) && std::isfinite(d.box[1]) &&
                         std::isfinite(d.box[2]) && std::isfinite(d.box[3]);
    EXPECT_TRUE(numbers) << what;
    EXPECT_GE(d.class_id, 0) << what;
  }
}

TEST(HostileOutputs, GiveNumbersInEveryLayout) {
  const std::vector<std::pair<const char*, std::function<float(std::size_t)>>> patterns = {
      {"not numbers", [](std::size_t) { return kNan; }},
      {"infinite", [](std::size_t) { return kInf; }},
      {"infinitely low", [](std::size_t) { return -kInf; }},
      {"very large", [](std::size_t i) { return i % 2 == 0 ? 3e38F : -3e38F; }},
      {"good but here and there", [](std::size_t i) { return i % 7 == 0    ? kNan
                                                             : i % 11 == 0 ? kInf
                                                                           : 0.9F; }},
      {"sizes of nothing", [](std::size_t i) { return i % 3 == 0 ? 1.0F : 0.0F; }},
      {"beyond whole numbers", [](std::size_t i) { return static_cast<float>(i % 5) * 1e10F; }},
  };
  for (const Layout& layout : layouts()) {
    FakeModel model = model_of(layout);
    Instance run(find_builtin("detections"));
    ASSERT_EQ(run.create(layout.config), CAMD_OK) << layout.config << run.error();
    ASSERT_EQ(run.outputs(model), CAMD_OK) << layout.config << run.error();
    for (const auto& [name, value] : patterns) {
      for (FakeTensor& tensor : model.outputs) {
        for (std::size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = value(i);
      }
      EXPECT_EQ(run.process(model), CAMD_OK) << layout.config << run.error();
      expect_numbers(run.found(), std::string(layout.config) + ", " + name);
    }
  }
}

TEST(HostileOutputs, OfAnyOtherShapeAreReadOrRefusedInOneLine) {
  for (const Layout& layout : layouts()) {
    for (std::size_t output = 0; output < layout.outputs.size(); ++output) {
      for (std::size_t dimension = 0; dimension < layout.outputs[output].second.size(); ++dimension) {
        for (const std::int64_t size :
             {std::int64_t{1}, layout.outputs[output].second[dimension] + 1, std::int64_t{5}}) {
          Layout other = layout;
          other.outputs[output].second[dimension] = size;
          FakeModel model = model_of(other);
          for (FakeTensor& tensor : model.outputs) tensor.values.assign(tensor.values.size(), 0.9F);
          Instance run(find_builtin("detections"));
          ASSERT_EQ(run.create(layout.config), CAMD_OK) << layout.config << run.error();
          if (run.outputs(model) == CAMD_OK) {
            EXPECT_EQ(run.process(model), CAMD_OK) << layout.config << run.error();
            expect_numbers(run.found(), layout.config);
          } else {
            EXPECT_FALSE(run.error().empty()) << layout.config;
            EXPECT_EQ(run.error().find('\n'), std::string::npos) << run.error();
          }
        }
      }
    }
  }
}

TEST(LayoutSuggestions, GiveAMeanAsTheThreeNumbersThatACardTakes) {
  FakeModel faces(128, 128);
  faces.output("regressors", {1, 896, 16});
  faces.output("classificators", {1, 896, 1});
  const auto suggestions = camd::plugins::suggest_layouts(faces.model(), R"({"layout":"blazeface"})", nullptr);
  ASSERT_EQ(suggestions.size(), 1U);
  EXPECT_EQ(suggestions[0].input, "color: rgb, mean: [127.5, 127.5, 127.5], scale: 0.00784314");
}

TEST(HostileOutputs, WithOtherClassesAtOneStrideAreRefused) {
  FakeModel model(64, 64);
  for (const auto& [name, shape] : by_strides({8, 16, 32}, 64, {{"cls_pred", 2}, {"dis_pred", 32}}, false)) {
    model.output(name, name == "cls_pred_8" ? std::vector<std::int64_t>{1, 64, 1} : shape);
  }
  Instance run(find_builtin("detections"));
  ASSERT_EQ(run.create(R"({"layout":"nanodet","strides":[8,16,32]})"), CAMD_OK);
  EXPECT_NE(run.outputs(model), CAMD_OK);
  EXPECT_NE(
      run.error().find("'cls' has 1 values a cell in cls_pred_8 [1,64,1] and 2 in cls_pred_16 [1,16,2], wanted as "
                       "many at every stride"),
      std::string::npos)
      << run.error();
}

TEST(HostileOutputs, AnchorsOfNoSizeAreRefused) {
  for (const char* anchors :
       {"[[0,0],[16,16],[32,32]]", "[[16,0],[16,16],[32,32]]", "[[-1,8],[16,16],[32,32]]", "[[],[],[]]", "[]"}) {
    FakeModel model =
        marker(R"({"layout":"anchors","strides":[8,16,32],"keypoints":5,"anchors":)" + std::string(anchors) + "}");
    Instance run(find_builtin("detections"));
    EXPECT_TRUE(run.create("{}") != CAMD_OK || run.outputs(model) != CAMD_OK) << anchors;
    EXPECT_NE(run.error().find("anchors"), std::string::npos) << run.error();
  }
}

}  // namespace CAMD_TEST_FILE
