// What a reload has to touch.
#include "config/difference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr std::string_view kTwo =
    "model: {path: m.onnx}\n"
    "cameras:\n"
    "  - {name: door, source: {type: test}}\n"
    "  - {name: yard, source: {type: test, fps: 10}}\n"
    "postprocess:\n"
    "  - {plugin: jsonl, config: {path: a.jsonl}}\n"
    "  - {plugin: jsonl, config: {path: b.jsonl}}\n";

Difference to(std::string_view next) { return difference(load_yaml(kTwo), load_yaml(next)); }
Difference with(const std::string& change) { return difference(load_yaml(kTwo), load_yaml(kTwo, {change})); }
std::vector<std::string> names_with(const std::string& change) {
  return with(change).names(load_yaml(kTwo), load_yaml(kTwo, {change}));
}

TEST(Difference, IsNothingWhereOnlyCommentsOrderOrSpellingDiffer) {
  const Difference same =
      to("# another comment\n"
         "metrics: {period: 1000ms}\n"
         "postprocess:\n"
         "  - plugin: jsonl\n"
         "    config: {path: a.jsonl}\n"
         "  - plugin: jsonl\n"
         "    config: {path: b.jsonl}\n"
         "cameras:\n"
         "  - {source: {fps: 10.0, type: test}, name: yard}\n"
         "  - {name: door, source: {type: test, width: 1280}}\n"
         "model: {path: m.onnx}\n");
  EXPECT_TRUE(same.nothing());
  EXPECT_THAT(same.plugins_kept, ElementsAre(Optional(0U), Optional(1U)));
}

TEST(Difference, NamesWhatEachKeyTouches) {
  EXPECT_THAT(names_with("device=cuda:1"), ElementsAre("device"));
  EXPECT_THAT(names_with("devices=all"), ElementsAre("device"));
  EXPECT_THAT(names_with("model.path=n.onnx"), ElementsAre("model"));
  EXPECT_THAT(names_with("model.engine=opencv"), ElementsAre("model"));
  EXPECT_THAT(names_with("model.input.width=320"), ElementsAre("model"));
  EXPECT_THAT(names_with("pipeline.transfer=mapped"), ElementsAre("pipeline"));
  EXPECT_THAT(names_with("pipeline.slots=5"), ElementsAre("pipeline"));
  EXPECT_THAT(names_with("pipeline.max_age=1s"), ElementsAre("pipeline"));
  EXPECT_THAT(names_with("pipeline.streams=single"), ElementsAre("pipeline"));
  EXPECT_THAT(names_with("metrics.period=2s"), ElementsAre("metrics"));
  EXPECT_THAT(names_with("cameras.door.source.fps=5"), ElementsAre("camera door altered"));
  EXPECT_THAT(names_with("cameras.door.gate=motion"), ElementsAre("camera door altered"));
}

TEST(Difference, TellsMemoryOfPicturesFromTheRestOfThePath) {
  EXPECT_TRUE(with("pipeline.transfer=mapped").buffers);
  EXPECT_FALSE(with("pipeline.transfer=mapped").path);
  EXPECT_FALSE(with("pipeline.slots=5").buffers);
  EXPECT_TRUE(with("pipeline.slots=5").path);
}

TEST(Difference, TellsTheCardFromTheEngine) {
  const Config running = load_yaml(kTwo);
  Config next = running;
  next.model.card_json = R"({"classes":["cat"]})";
  const Difference card = difference(running, next);
  EXPECT_TRUE(card.card);
  EXPECT_FALSE(card.engine);
  EXPECT_THAT(card.names(running, next), ElementsAre("model"));
}

TEST(Difference, KnowsCamerasByTheirNames) {
  const std::string_view text =
      "model: {path: m.onnx}\n"
      "cameras:\n"
      "  - {name: gate, source: {type: test}}\n"
      "  - {name: yard, source: {type: test, fps: 11}}\n"
      "postprocess:\n"
      "  - {plugin: jsonl, config: {path: a.jsonl}}\n"
      "  - {plugin: jsonl, config: {path: b.jsonl}}\n";
  const Difference changed = to(text);
  EXPECT_THAT(changed.cameras_added, ElementsAre(0U));
  EXPECT_THAT(changed.cameras_altered, ElementsAre(1U));
  EXPECT_THAT(changed.cameras_removed, ElementsAre(0U));
  EXPECT_FALSE(changed.plugins);
  EXPECT_THAT(changed.names(load_yaml(kTwo), load_yaml(text)),
              ElementsAre("camera gate added", "camera yard altered", "camera door removed"));
}

TEST(Difference, KeepsEveryPluginThatIsStillThereOnce) {
  const std::string cameras = "model: {path: m.onnx}\ncameras:\n  - {name: door, source: {type: test}}\n";
  const Config one = load_yaml(cameras + "postprocess: [{plugin: detections}, {plugin: jsonl, config: {path: a}}]\n");
  const Config two = load_yaml(
      cameras +
      "postprocess: [{plugin: jsonl, config: {path: a}}, {plugin: jsonl, config: {path: a}}, {plugin: detections}]\n");
  const Difference changed = difference(one, two);
  EXPECT_TRUE(changed.plugins);
  EXPECT_THAT(changed.plugins_kept, ElementsAre(Optional(1U), std::nullopt, Optional(0U)));
  const Difference fewer = difference(two, one);
  EXPECT_TRUE(fewer.plugins);
  EXPECT_THAT(fewer.plugins_kept, ElementsAre(Optional(2U), Optional(0U)));
  EXPECT_THAT(difference(one, load_yaml(cameras)).plugins_kept, IsEmpty());
  EXPECT_TRUE(difference(one, load_yaml(cameras)).plugins);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
