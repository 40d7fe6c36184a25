#include "config/overrides.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

constexpr std::string_view kTwoCameras =
    "model: {path: m.onnx}\n"
    "cameras:\n"
    "  - {name: door, source: {type: file, path: a.mp4}}\n"
    "  - {name: gate, source: {type: test}}\n"
    "postprocess: [{plugin: detections}, {plugin: jsonl, config: {path: x}}]\n";

TEST(Set, ChangesValuesByNumberNameAndPlugin) {
  const Config config = load_yaml(kTwoCameras, {"cameras.0.source.path=/b.mp4", "cameras.gate.source.fps=15",
                                                "cameras[1].source.frames=3", "postprocess.jsonl.config.path=out/y",
                                                "pipeline.max_age=1s", "device=host", "cameras.door.source.loop=true"});
  EXPECT_EQ(std::get<FileSource>(config.cameras[0].source), (FileSource{"/b.mp4", true, true}));
  EXPECT_EQ(std::get<TestSource>(config.cameras[1].source).fps, 15.0);
  EXPECT_EQ(std::get<TestSource>(config.cameras[1].source).frames, 3);
  EXPECT_EQ(config.postprocess[1].config_json, R"({"path":"out/y"})");
  EXPECT_EQ(config.pipeline.max_age, std::chrono::seconds(1));
  EXPECT_EQ(config.device.kind, DeviceKind::kHost);
}

TEST(Set, LetsTheLaterOverrideWin) {
  EXPECT_EQ(load_yaml(kTwoCameras, {"pipeline.slots=4", "pipeline.slots=5"}).pipeline.slots, 5);
}

TEST(Set, TakesMapsListsAndNewElements) {
  const Config config =
      load_yaml(kTwoCameras, {"model.input={width: 640, height: 360, mean: [1, 2, 3]}",
                              "cameras.2={name: yard, source: {type: test}}", "cameras.yard.source.format=nv12"});
  EXPECT_EQ(config.model.input.width, 640);
  ASSERT_EQ(config.cameras.size(), 3U);
  EXPECT_EQ(std::get<TestSource>(config.cameras[2].source).format, base::PixelFormat::kNv12);
}

TEST(Set, ResolvesItsPathsAgainstTheWorkingDirectory) {
  const std::vector<std::string> overrides = {"cameras.0.source.path=b.mp4"};
  const Config config = load_text("/etc/c.yaml", kTwoCameras, overrides, kNoFiles);
  EXPECT_EQ(std::get<FileSource>(config.cameras[0].source).path, "b.mp4");
  EXPECT_EQ(config.model.path, "/etc/m.onnx");
  EXPECT_EQ(config.at("cameras.0.source.path", "is bad"), "--set cameras.0.source.path: is bad");
}

TEST(Set, MendsWhatIsWrongInTheFile) {
  EXPECT_THAT(problems_of("model: {path: m}\ncameras: [{name: a, source: {type: test, fps: fast}}]\n",
                          {"cameras.a.source.fps=5"}),
              ElementsAre());
}

TEST(Set, NamesItselfInEveryProblemAfterThoseOfTheFile) {
  EXPECT_THAT(
      problems_of(std::string(kTwoCameras) + "metrics: 1\n",
                  {"pipeline.slots=1", "pipeline.slot=3", "cameras.gate.source.fps=0", "cameras.gaet.name=x",
                   "cameras.7.name=x", "device.x=1", "model.engine=", "metrics", "=3", "a..b=1", "model.card=[",
                   "model.input={color: red}"}),
      ElementsAre("c.yaml:6:10: metrics: expected a map of keys, found 1",
                  "--set cameras.gaet.name: cameras has no element gaet; known: door, gate (did you mean gate?)",
                  "--set cameras.7.name: cameras has 2 elements, numbered from 0",
                  "--set metrics: has no value: write --set key.path=value",
                  "--set: is not a key: write --set key.path=value",
                  "--set a..b: is not a key: write --set key.path=value",
                  "--set model.card: YAML syntax: end of sequence flow not found (a bracket is not closed)",
                  "--set model.engine: expected one of auto, cuda, cpu, opencv, found nothing",
                  "--set model.input: model.input.color: expected one of bgr, rgb, found red",
                  "--set cameras.gate.source.fps: cameras.1.source.fps: expected a number from 0.1 to 1000 "
                  "frames/s, found 0",
                  "--set pipeline.slots: expected an integer from 3 to 64, found 1",
                  "--set pipeline.slot: unknown key; known here: slots, transfer, streams, max_age (did you "
                  "mean slots?)",
                  "--set device.x: device: expected auto, cuda, cuda:N (N from 0 to 127) or host, found a map"));
}

TEST(Set, CannotBuildATreeTooDeepToWalk) {
  const auto lines = problems_of(kTwoCameras, {repeated("a.", 50'000) + "a=1"});
  EXPECT_THAT(lines, ElementsAre("--set " + repeated("a.", 32) + "...: nested more than 32 levels deep"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
