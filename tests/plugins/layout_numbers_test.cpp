// What whole numbers among a model's outputs say about its layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "harness.hpp"
#include "layout_advice.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// [1,rows,columns] of 64x64: boxes as corners, then what `rest` gives for a row and a column behind them.
template <class Rest>
FakeModel table(std::int64_t rows, std::int64_t columns, Rest&& rest, float turned = 1.0F) {
  FakeModel model(64, 64);
  FakeTensor& output = model.output("output", {1, rows, columns});
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto x = static_cast<float>(i % 40), y = static_cast<float>(i % 37);
    float* const row = output.values.data() + i * columns;
    row[0] = x;
    row[1] = y;
    row[2] = x + turned * static_cast<float>(5 + i % 13);
    row[3] = y + turned * static_cast<float>(4 + i % 11);
    for (std::int64_t k = 4; k < columns; ++k) row[k] = rest(i, k - 4);
  }
  return model;
}

float share(std::int64_t i, std::int64_t k) { return static_cast<float>((i * 7 + k * 3) % 100) / 101.0F; }

// As LibreYOLO exports EfficientDet: the best 5000 of all boxes, with -1 for a class that nobody names.
TEST(WholeNumbers, AreClassesOfManyRowsAmongWhichNothingWasChosenYet) {
  FakeModel model = table(5000, 6, [](std::int64_t i, std::int64_t k) {
    return k == 0 ? 1.0F - static_cast<float>(i) / 6000.0F : static_cast<float>(i % 80) - 1.0F;
  });
  EXPECT_THAT(by_values(model), ElementsAre("layout: rows, nms: 0.4"));
}

TEST(WholeNumbers, AreNoAnglesOfRowsWhoseBoxesAreNone) {
  FakeModel model = table(
      100, 6, [](std::int64_t i, std::int64_t k) { return k == 0 ? share(i, 0) : static_cast<float>(i % 80); }, -1.0F);
  EXPECT_THAT(by_values(model), IsEmpty());
}

// As LibreYOLO exports FCOS: boxes, the number of the level that each is from, and scores.
TEST(WholeNumbers, OfLevelsInFrontOfScoresAreThoseOfFcos) {
  FakeModel model = table(84, 8, [](std::int64_t i, std::int64_t k) {
    const std::int64_t level = i / 20;
    return k == 0 ? static_cast<float>(level) : share(i, k);
  });
  EXPECT_THAT(by_values(model), ElementsAre("layout: fcos"));
}

TEST(WholeNumbers, InFrontOfScoresThatDoNotFollowTheRowsAreNoLevels) {
  FakeModel model =
      table(84, 8, [](std::int64_t i, std::int64_t k) { return k == 0 ? static_cast<float>(i % 5) : share(i, k); });
  EXPECT_THAT(by_values(model), IsEmpty());
}

TEST(NoNumbers, MakeNoDetectorOfRowsThatHoldNothing) {
  FakeModel model(64, 64);
  model.output("output0", {1, 300, 14});
  const OutputValues values = values_of(model);
  EXPECT_THAT(by_values(model), IsEmpty());
  EXPECT_EQ(suggestion_text(model.model(), {}, &values),
            "the model's outputs, output0 [1,300,14], hold nothing on a picture of noise, so no value tells how they "
            "are to be read: where the graph has chosen boxes, set one of {layout: rows, keypoints: 4} (boxes that the "
            "graph has chosen, as YOLOv10's and YOLO26's), {layout: rows, row: [class, score, x0, y0, x1, y1], "
            "keypoints: 4} (boxes that PaddleDetection's graph has chosen), {layout: rows, row: [cx, cy, w, h, score, "
            "class], relative: true, keypoints: 4} (boxes that the graph of Ultralytics' RT-DETR has chosen)");
}

TEST(NoNumbers, LeaveTheRowThatTheModelIsKnownToHave) {
  FakeModel model(64, 64);
  model.output("output0", {1, 300, 6});
  EXPECT_THAT(by_values(model, R"({"row":["class","score","x0","y0","x1","y1"]})"),
              ElementsAre("layout: rows, row: [class, score, x0, y0, x1, y1]"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
