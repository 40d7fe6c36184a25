// What a wrong configuration is told: exact lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

constexpr const char* kRootKeys =
    "unknown key; known here: device, devices, model, pipeline, cameras, postprocess, metrics, http";

TEST(Config, ReportsEveryUnknownKeyInOnePass) {
  EXPECT_THAT(problems_of("devcie: auto\n"
                          "model: {path: m.onnx, engin: auto}\n"
                          "max_age: 1s\n"
                          "zzz: 1\n"
                          "cameras:\n"
                          "  - name: door\n"
                          "    source: {type: test, frame-s: 3}\n"),
              ElementsAre(std::string("c.yaml:1:1: devcie: ") + kRootKeys + " (did you mean device?)",
                          "c.yaml:2:23: model.engin: unknown key; known here: path, card, engine, precision, cut_at, "
                          "input (did you mean "
                          "engine?)",
                          std::string("c.yaml:3:1: max_age: ") + kRootKeys + " (did you mean pipeline.max_age?)",
                          std::string("c.yaml:4:1: zzz: ") + kRootKeys,
                          "c.yaml:7:26: cameras.0.source.frame-s: unknown key; known here: type, width, height, fps, "
                          "format, frames, realtime (did you mean frames?)"));
}

TEST(Config, NamesTheSourceTypeThatAKeyBelongsTo) {
  EXPECT_THAT(problems_of(with_source("{type: file, path: a, latency: 5ms}")),
              ElementsAre("c.yaml:4:35: cameras.0.source.latency: a source of type file has no such key (type rtsp "
                          "has); known here: type, path, loop, realtime"));
}

TEST(Config, RefusesWrongTypes) {
  EXPECT_THAT(problems_with("pipeline: {slots: three, max_age: [1], streams: {a: b}}\n"),
              ElementsAre("c.yaml:5:19: pipeline.slots: expected an integer from 3 to 64, found three",
                          "c.yaml:5:35: pipeline.max_age: expected a duration from 1ms to 1h, found a list",
                          "c.yaml:5:49: pipeline.streams: expected one of split, per_frame, single, found a map"));
  EXPECT_THAT(problems_with("pipeline: 3\n"), ElementsAre("c.yaml:5:11: pipeline: expected a map of keys, found 3"));
  EXPECT_THAT(problems_with("pipeline: {slots: \"3\"}\n"),
              ElementsAre("c.yaml:5:19: pipeline.slots: expected an integer from 3 to 64, found the text \"3\" (write "
                          "it without quotes)"));
  EXPECT_THAT(problems_with("pipeline: {slots: 3.0}\n"),
              ElementsAre("c.yaml:5:19: pipeline.slots: expected an integer from 3 to 64, found 3.0"));
  EXPECT_THAT(problems_with("metrics: {period: }\n"),
              ElementsAre("c.yaml:5:11: metrics.period: expected a duration from 10ms to 1h, found nothing"));
  EXPECT_THAT(problems_with("postprocess: {plugin: a}\n"),
              ElementsAre("c.yaml:5:14: postprocess: expected a list of 0 to 64 maps, found a map"));
  EXPECT_THAT(problems_of("- 1\n"), ElementsAre("c.yaml:1:1: expected a map of keys such as model and cameras"));
}

TEST(Config, RefusesDevicesThatAreNoneAndDevicesBesideADevice) {
  EXPECT_THAT(problems_with("devices: some\n"),
              ElementsAre("c.yaml:5:10: devices: expected all, or a list of 1 to 16 devices, found some"));
  EXPECT_THAT(problems_with("devices: []\n"),
              ElementsAre("c.yaml:5:10: devices: expected all, or a list of 1 to 16 devices, found 0"));
  EXPECT_THAT(
      problems_with("devices: [cuda:0, gpu]\n"),
      ElementsAre("c.yaml:5:19: devices.1: expected auto, cuda, cuda:N (N from 0 to 127) or host, found gpu (did "
                  "you mean cuda?)"));
  EXPECT_THAT(problems_with("devices: all\ndevice: host\n"),
              ElementsAre("c.yaml:5:10: devices: stands beside `device` at c.yaml:6:9: write one of them"));
}

TEST(Config, RefusesWhatIsOutOfRangeAtBothEnds) {
  for (const char* slots : {"2", "65", "-3", "99999999999999999999"}) {
    EXPECT_THAT(
        problems_with(std::string("pipeline: {slots: ") + slots + "}\n"),
        ElementsAre(std::string("c.yaml:5:19: pipeline.slots: expected an integer from 3 to 64, found ") + slots));
  }
  EXPECT_THAT(problems_with("pipeline: {slots: 3}\n"), ElementsAre());
  EXPECT_THAT(problems_with("pipeline: {slots: 64}\n"), ElementsAre());
  EXPECT_THAT(problems_with("metrics: {period: 9.99ms}\n"),
              ElementsAre("c.yaml:5:19: metrics.period: expected a duration from 10ms to 1h, found 9.99ms"));
  EXPECT_THAT(problems_with("metrics: {period: 61min}\n"),
              ElementsAre("c.yaml:5:19: metrics.period: expected a duration from 10ms to 1h, found 61min"));
  EXPECT_THAT(problems_of("model: {path: m, input: {mean: [1, 2]}}\ncameras: []\n"),
              ElementsAre("c.yaml:1:32: model.input.mean: expected a list of 3 numbers from -1000 to 1000, found 2",
                          "c.yaml:2:10: cameras: expected a list of 1 to 4096 maps, found 0"));
}

TEST(Config, RefusesAPadThatIsNoPixelAndAPositionThatIsNone) {
  EXPECT_THAT(
      problems_of(
          "model: {path: m, input: {position: center, pad: 256}}\ncameras: [{name: a, source: {type: test}}]\n"),
      ElementsAre("c.yaml:1:36: model.input.position: expected one of centre, top_left, found center (did you "
                  "mean centre?)",
                  "c.yaml:1:49: model.input.pad: expected a number from 0 to 255, found 256"));
}

TEST(Config, RefusesPaddingOfAStretchedPicture) {
  EXPECT_THAT(problems_of("model: {path: m, input: {resize: stretch, position: centre, pad: 0}}\n"
                          "cameras: [{name: a, source: {type: test}}]\n"),
              ElementsAre("c.yaml:1:53: model.input.position: says how a letterboxed picture is padded, but resize is "
                          "stretch: leave it out, or write resize: letterbox",
                          "c.yaml:1:66: model.input.pad: says how a letterboxed picture is padded, but resize is "
                          "stretch: leave it out, or write resize: letterbox"));
}

TEST(Config, SaysHowToWriteADurationWithoutAUnit) {
  EXPECT_THAT(
      problems_with("pipeline: {max_age: 200}\n"),
      ElementsAre("c.yaml:5:21: pipeline.max_age: expected a duration from 1ms to 1h, found 200 without a unit: "
                  "write 200ms, or another of ns, us, ms, s, min, h"));
  EXPECT_THAT(
      problems_with("pipeline: {max_age: 2 weeks}\n"),
      ElementsAre("c.yaml:5:21: pipeline.max_age: expected a duration from 1ms to 1h, found 2 weeks (units: ns, "
                  "us, ms, s, min, h)"));
}

TEST(Config, SuggestsTheWordThatWasMeant) {
  EXPECT_THAT(problems_with("device: cpu\n"),
              ElementsAre("c.yaml:5:9: device: expected auto, cuda, cuda:N (N from 0 to 127) or host, found cpu (did "
                          "you mean host?)"));
  EXPECT_THAT(
      problems_with("pipeline: {transfer: Pined}\n"),
      ElementsAre("c.yaml:5:22: pipeline.transfer: expected one of auto, pinned, direct, mapped, pageable, found Pined "
                  "(did you mean pinned?)"));
  EXPECT_THAT(
      problems_of(with_source("{type: file, path: a, loop: yes}")),
      ElementsAre("c.yaml:4:41: cameras.0.source.loop: expected true or false, found yes (did you mean true?)"));
}

// A camera's gate in the smallest configuration.
std::string with_gate(const std::string& gate, const std::string& rest = "source: {type: test}") {
  return "model: {path: m}\ncameras:\n  - name: door\n    gate: " + gate + "\n    " + rest + "\n";
}

TEST(Config, SaysWhatIsWrongWithAGate) {
  EXPECT_THAT(problems_of(with_gate("motoin")),
              ElementsAre("c.yaml:4:11: cameras.0.gate: expected one of none, motion, or a map of keys, found motoin "
                          "(did you mean motion?)"));
  EXPECT_THAT(problems_of(with_gate("[motion]")),
              ElementsAre("c.yaml:4:11: cameras.0.gate: expected one of none, motion, or a map of keys, found a list"));
  EXPECT_THAT(problems_of(with_gate("{motion: {treshold: 3}, longest: 11s}")),
              ElementsAre("c.yaml:4:21: cameras.0.gate.motion.treshold: unknown key; known here: threshold, region "
                          "(did you mean threshold?)",
                          "c.yaml:4:44: cameras.0.gate.longest: expected a duration from 10ms to 10s, found 11s"));
  EXPECT_THAT(problems_of(with_gate("{motion: {threshold: 0, region: [[0, 0], [1, 1.5]]}}")),
              ElementsAre("c.yaml:4:32: cameras.0.gate.motion.threshold: expected an integer from 1 to 255 grey "
                          "levels, found 0",
                          "c.yaml:4:43: cameras.0.gate.motion.region: expected a list of 3 to 64 lists of 2 numbers, "
                          "found 2",
                          "c.yaml:4:56: cameras.0.gate.motion.region.1.1: expected a number from 0 to 1, found 1.5"));
}

TEST(Config, RefusesAGateWhereThePictureStaysOnTheGpuAndWhereNoFrameMayBeDropped) {
  EXPECT_THAT(problems_of(with_gate("motion", "decode: gpu\n    source: {type: file, path: a}")),
              ElementsAre("c.yaml:4:11: cameras.0.gate: looks at pictures in the CPU's memory, and decode: gpu keeps "
                          "them out of it: write decode: cpu, or leave out the gate"));
  EXPECT_THAT(problems_of(with_gate("{longest: 1s}", "source: {type: test, realtime: false}")),
              ElementsAre("c.yaml:4:11: cameras.0.gate: drops frames, and realtime: false drops none: leave out one of "
                          "them"));
  EXPECT_THAT(problems_of(with_gate("none", "decode: gpu\n    source: {type: test, realtime: false}")), ElementsAre());
}

TEST(Config, RefusesDevicesThatCannotBe) {
  for (const char* device : {"cuda:", "cuda:-1", "cuda:128", "cuda:1x", "CUDA"}) {
    EXPECT_EQ(problems_with(std::string("device: \"") + device + "\"\n").size(), 1U) << device;
  }
}

TEST(Config, RefusesNumbersThatAreNotFinite) {
  for (const char* number : {".nan", ".inf", "-.INF", "nan", "inf", "1e999"}) {
    EXPECT_THAT(
        problems_of(with_source(std::string("{type: test, fps: ") + number + "}")),
        ElementsAre(std::string("c.yaml:4:31: cameras.0.source.fps: expected a number from 0.1 to 1000 frames/s, "
                                "found ") +
                    number));
  }
  EXPECT_THAT(
      problems_with("postprocess: [{plugin: mine, config: {a: [.nan]}}]\n"),
      ElementsAre("c.yaml:5:43: postprocess.0.config.a.0: .nan is not a finite number; text that looks so needs "
                  "quotes"));
}

TEST(Config, NamesTheFirstLineOfADuplicateKey) {
  EXPECT_THAT(problems_with("device: host\nmetrics: {period: 1s, period: 2s}\ndevice: auto\n"),
              ElementsAre("c.yaml:6:23: metrics.period: written twice in one map, first in line 6",
                          "c.yaml:7:1: device: written twice in one map, first in line 5"));
}

TEST(Config, RefusesTwoCamerasOfOneName) {
  EXPECT_THAT(problems_with("  - name: door\n    source: {type: test}\n"),
              ElementsAre("c.yaml:5:11: cameras.1.name: two cameras are named door, the other one at c.yaml:3:11"));
}

TEST(Config, RefusesAFirstWaitLongerThanTheLongest) {
  EXPECT_THAT(problems_of(with_source("{type: gstreamer, pipeline: a, reconnect: {initial: 11s}}")),
              ElementsAre("c.yaml:4:65: cameras.0.source.reconnect.initial: the first wait, 11s, is longer than the "
                          "longest, reconnect.max = 1500ms"));
}

TEST(Config, NamesEveryMissingKey) {
  EXPECT_THAT(problems_of("device: auto\n"),
              ElementsAre("c.yaml:1:1: model: missing; needs a map of keys",
                          "c.yaml:1:1: cameras: missing; needs a list of 1 to 4096 maps"));
  EXPECT_THAT(
      problems_of("model:\n  engine: auto\ncameras:\n  - source: {type: rtsp}\n  -\n  - name: b\n    source: {}\n"),
      ElementsAre("c.yaml:2:3: model.path: missing; needs the path of a file, such as models/marker-640x360.onnx",
                  "c.yaml:4:5: cameras.0.name: missing; needs a name of 1 to 64 letters, digits, '-', '_' and "
                  "'.', such as door",
                  "c.yaml:4:13: cameras.0.source.url: missing; needs an address that begins with rtsp:// or "
                  "rtsps://, such as \"rtsp://camera.example/stream\"",
                  "c.yaml:5:3: cameras.1: expected a map of keys, found nothing",
                  "c.yaml:7:13: cameras.2.source.type: missing; needs one of file, v4l2, rtsp, gstreamer, "
                  "test, such as file"));
}

TEST(Config, NeverRepeatsAnAddressThatMayHoldAPassword) {
  for (const std::string& line : problems_of(with_source("{type: rtsp, url: \"http://user:secret@host\"}"))) {
    EXPECT_EQ(line,
              "c.yaml:4:31: cameras.0.source.url: expected an address that begins with rtsp:// or rtsps:// and a "
              "host, without spaces");
  }
}

TEST(Config, ReportsMissingFilesAndFoldersInTheirPlace) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("camd_config_files_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "folder.mp4");
  const std::string file = (folder / "c.yaml").string();
  try {
    (void)load_text(file,
                    "model: {path: none.onnx, card: none.yaml}\n"
                    "cameras: [{name: a, source: {type: file, path: folder.mp4}}]\n"
                    "postprocess: [{plugin: none.so}, {plugin: none}]\n");
    FAIL() << "no error";
  } catch (const ConfigErrors& errors) {
    EXPECT_EQ(errors.kind(), base::ErrorKind::kConfig);
    const std::string at = folder.string();
    EXPECT_EQ(std::string(errors.what()),
              file + ":1:15: model.path: no such file: " + at + "/none.onnx\n" +                             //
                  file + ":1:32: model.card: no such file: " + at + "/none.yaml\n" +                         //
                  file + ":2:48: cameras.0.source.path: is a folder, not a file: " + at + "/folder.mp4\n" +  //
                  file + ":3:24: postprocess.0.plugin: no such file: " + at + "/none.so");
  }
  std::filesystem::remove_all(folder);
}

TEST(Config, ReportsAFileThatCannotBeRead) {
  const auto message = [](const std::string& path) -> std::string {
    try {
      (void)load(path);
    } catch (const ConfigErrors& errors) {
      return errors.what();
    }
    return {};
  };
  EXPECT_EQ(message("/nonexistent/c.yaml"), "/nonexistent/c.yaml: no such file");
  EXPECT_EQ(message("/dev"), "/dev: is a folder, not a file");
  EXPECT_EQ(message("/dev/null"),
            "/dev/null: is empty; at least model and cameras are needed (`camd config` prints an example)");
  EXPECT_EQ(message("/dev/zero"), "/dev/zero: larger than 1024 KiB, which no configuration is");
}

TEST(Config, KeepsEachMessageOnOneLine) {
  for (const std::string& line :
       problems_with("\"a\\nb\": 1\npipeline: {streams: \"x\\ny" + std::string(500, 'z') + "\"}\n")) {
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_LT(line.size(), 250U);
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
