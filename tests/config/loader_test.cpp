// What a correct configuration becomes.
#include "config/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/sha256.hpp"
#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(Config, TakesEveryKeyOfTheInterfacesExample) {
  const Config config = load_yaml(R"(device: cuda:1
model:
  path: m/marker.onnx
  engine: opencv
  precision: f32
  cut_at: [scores, "7"]
  input: {width: 640, height: 360, color: rgb, mean: [1, 2, 3], scale: 0.5, resize: letterbox, position: top_left,
          pad: 127.5}
pipeline:
  slots: 4
  transfer: mapped
  streams: per_frame
  max_age: 1.5s
cameras:
  - name: door
    source: {type: file, path: demo.mp4, loop: true, realtime: false}
  - name: desk
    decode: cpu
    damaged: drop
    source: {type: v4l2, device: /dev/video2, width: 640, height: 480, fps: 29.97, timeout: 2s}
  - name: gate
    source: {type: rtsp, url: "rtsp://user:pw@host/x", latency: 80ms, transport: udp, reconnect: {initial: 1s, max: 1min}}
  - name: free
    source: {type: gstreamer, pipeline: "videotestsrc ! video/x-raw,width=1280"}
  - name: toy
    source: {type: test, width: 320, height: 240, fps: 10, format: nv12, frames: 7, realtime: false}
postprocess:
  - plugin: detections
    config: {layout: anchors, score: 0.5, nms: 0.4}
  - plugin: ./plugins/mine.so
metrics: {period: 250ms}
)");
  EXPECT_EQ(config.device, (DeviceChoice{DeviceKind::kCuda, 1}));
  EXPECT_EQ(config.model.path, "m/marker.onnx");
  EXPECT_EQ(config.model.engine, EngineChoice::kOpencv);
  EXPECT_EQ(config.model.precision, Precision::kF32);
  EXPECT_THAT(config.model.cut_at, ElementsAre("scores", "7"));
  EXPECT_EQ(config.model.input,
            (ModelInput{640, 360, ColorOrder::kRgb, std::array{1.0F, 2.0F, 3.0F}, std::array{0.5F, 0.5F, 0.5F},
                        ResizeMode::kLetterbox, LetterboxPosition::kTopLeft, 127.5F}));
  EXPECT_EQ(config.pipeline, (PipelineOptions{4, TransferMode::kMapped, StreamMode::kPerFrame, 1500ms}));
  ASSERT_EQ(config.cameras.size(), 5U);
  EXPECT_EQ(config.cameras[0].decode, DecodeMode::kAuto);
  EXPECT_EQ(config.cameras[1].decode, DecodeMode::kCpu);
  EXPECT_EQ(config.cameras[0].damaged, DamagedMode::kKeep);
  EXPECT_EQ(config.cameras[1].damaged, DamagedMode::kDrop);
  EXPECT_EQ(std::get<FileSource>(config.cameras[0].source), (FileSource{"demo.mp4", true, false}));
  EXPECT_EQ(std::get<V4l2Source>(config.cameras[1].source),
            (V4l2Source{"/dev/video2", 640, 480, 29.97, {2s, 500ms, 1500ms}}));
  EXPECT_EQ(std::get<RtspSource>(config.cameras[2].source),
            (RtspSource{"rtsp://user:pw@host/x", 80ms, RtspTransport::kUdp, {5s, 1s, 1min}}));
  EXPECT_EQ(std::get<GStreamerSource>(config.cameras[3].source),
            (GStreamerSource{"videotestsrc ! video/x-raw,width=1280", {}}));
  EXPECT_EQ(std::get<TestSource>(config.cameras[4].source),
            (TestSource{320, 240, 10.0, base::PixelFormat::kNv12, 7, false}));
  ASSERT_EQ(config.postprocess.size(), 2U);
  EXPECT_EQ(config.postprocess[0].plugin, "detections");
  EXPECT_EQ(config.postprocess[0].config_json, R"({"layout":"anchors","nms":0.4,"score":0.5})");
  EXPECT_EQ(config.postprocess[1].plugin, "plugins/mine.so");
  EXPECT_EQ(config.postprocess[1].config_json, "{}");
  EXPECT_EQ(config.metrics.period, 250ms);
}

TEST(Config, AModelStandsForAConfigurationWhateverItsFormat) {
  const auto folder = std::filesystem::temp_directory_path() / ("camd_models_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name : {"best.onnx", "best.pt", "best.tflite"}) {
    std::ofstream(folder / name) << '\x03';
    const Reading reading = read(folder / name, {}, {.check_files = false, .card_keys = card_keys()});
    EXPECT_TRUE(reading.problems.empty()) << name;
    EXPECT_EQ(reading.config.model.path, folder / name);
  }
  std::filesystem::remove_all(folder);
}

TEST(Config, AGateIsAWordOrAMapAndWhatIsNotSaidHasItsDefault) {
  const auto gate = [](const std::string& written) {
    const Config config =
        load_yaml("model: {path: m}\ncameras: [{name: a, gate: " + written + ", source: {type: test}}]\n");
    EXPECT_EQ(load_yaml(effective_text(config)).cameras[0].gate, config.cameras[0].gate) << effective_text(config);
    return config.cameras[0].gate;
  };
  EXPECT_EQ(gate("none"), std::nullopt);
  EXPECT_EQ(gate(""), std::nullopt);
  EXPECT_EQ(gate("motion"), MotionGate());
  EXPECT_EQ(gate("{}"), MotionGate());
  EXPECT_EQ(gate("{motion: }"), MotionGate());
  EXPECT_EQ(gate("{longest: 1s}"), (MotionGate{4, {}, 1s}));
  EXPECT_EQ(gate("{motion: {threshold: 9, region: [[0, 0.1], [1, 0], [0.5, 1]]}}"),
            (MotionGate{9, {{0, 0.1}, {1, 0}, {0.5, 1}}, 500ms}));
}

TEST(Config, PicturesOfACameraWithAGateAreDecodedOnTheCpu) {
  Camera camera;
  EXPECT_EQ(camera.decodes(), DecodeMode::kAuto);
  camera.gate = MotionGate();
  EXPECT_EQ(camera.decodes(), DecodeMode::kCpu);
}

TEST(Config, StructDefaultsEqualTheTables) {
  const Config config = load_yaml(kSmallest);
  const Config initial;
  EXPECT_EQ(config.device, initial.device);
  EXPECT_EQ(config.model.engine, initial.model.engine);
  EXPECT_EQ(config.model.input, initial.model.input);
  EXPECT_EQ(config.pipeline, initial.pipeline);
  EXPECT_EQ(config.metrics, initial.metrics);
  EXPECT_EQ(std::get<TestSource>(config.cameras[0].source), TestSource{});
  const auto source_of = [](std::string_view source) { return load_yaml(with_source(source)).cameras.at(0).source; };
  EXPECT_EQ(source_of("{type: file, path: a}"), Source(FileSource{"a"}));
  EXPECT_EQ(source_of("{type: v4l2}"), Source(V4l2Source{}));
  EXPECT_EQ(source_of("{type: rtsp, url: \"rtsp://h\"}"), Source(RtspSource{"rtsp://h"}));
  EXPECT_EQ(source_of("{type: gstreamer, pipeline: x}"), Source(GStreamerSource{"x"}));
}

TEST(Config, ResolvesRelativePathsAgainstItsFolderButNotThoseInsidePluginConfigs) {
  const Config config = load_text("/etc/camd/c.yaml",
                                  "model: {path: m/a.onnx}\n"
                                  "cameras: [{name: a, source: {type: file, path: ../v.mp4}}]\n"
                                  "postprocess: [{plugin: p.so}, {plugin: jsonl, config: {path: out.jsonl}}]\n",
                                  {}, kNoFiles);
  EXPECT_EQ(config.model.path, "/etc/camd/m/a.onnx");
  EXPECT_EQ(std::get<FileSource>(config.cameras[0].source).path, "/etc/v.mp4");
  EXPECT_EQ(config.postprocess[0].plugin, "/etc/camd/p.so");
  EXPECT_EQ(config.postprocess[1].config_json, R"({"path":"out.jsonl"})");
}

TEST(Config, TakesEveryWayToTransferAndNamesItAsItWasWritten) {
  const auto way_of = [](const std::string& word) {
    return load_yaml(std::string(kSmallest) + "pipeline: {transfer: " + word + "}\n").pipeline.transfer;
  };
  EXPECT_EQ(way_of("direct"), TransferMode::kDirect);
  for (const std::string word : {"auto", "pinned", "direct", "mapped", "pageable"}) {
    EXPECT_EQ(to_string(way_of(word)), word);
  }
}

TEST(Config, TakesSeveralDevicesInsteadOfOne) {
  const auto with = [](const std::string& devices) {
    return load_yaml(std::string(kSmallest) + "devices: " + devices + "\n");
  };
  EXPECT_TRUE(with("all").all_devices);
  EXPECT_TRUE(with("all").devices.empty());
  const Config two = with("[cuda:1, host]");
  EXPECT_FALSE(two.all_devices);
  EXPECT_EQ(two.devices,
            (std::vector<DeviceChoice>{DeviceChoice{DeviceKind::kCuda, 1}, DeviceChoice{DeviceKind::kHost, -1}}));
  for (const Config& config : {two, with("all"), load_yaml(kSmallest)}) {
    EXPECT_EQ(effective_text(load_yaml(effective_text(config))), effective_text(config));
  }
  EXPECT_NE(effective_sha256(two), effective_sha256(with("all")));
}

TEST(Config, GivesALibraryBesideItAPathSoThatTheSystemsFoldersAreNotSearched) {
  EXPECT_EQ(load_yaml(std::string(kSmallest) + "postprocess: [{plugin: p.so}]\n").postprocess[0].plugin, "./p.so");
}

TEST(Config, TakesFilesThatAreGrantedAsTextOrBehindTheirWord) {
  const Config config = load_yaml(std::string(kSmallest) +
                                  "postprocess: [{plugin: p.so, allow: "
                                  "[network, files: [out/, b.txt], files: c/, \"files: d/\"]}]\n");
  EXPECT_THAT(config.postprocess[0].allow,
              testing::ElementsAre("network", "files: out/", "files: b.txt", "files: c/", "files: d/"));
}

TEST(Config, KeepsTheTypesOfAPluginsConfiguration) {
  const Config config = load_yaml(std::string(kSmallest) + R"(postprocess:
  - plugin: mine
    config:
      int: -3
      number: 1.50
      exponent: 1e3
      hex: 0x10
      yes_is_text: yes
      truth: true
      nothing: null
      quoted: "3"
      block: |
        a
        b
      list: [1, "1", [2.5]]
      map: {k: {v: ~}}
)");
  EXPECT_EQ(config.postprocess[0].config_json,
            R"({"block":"a\nb\n","exponent":1000.0,"hex":16,"int":-3,"list":[1,"1",[2.5]],"map":{"k":{"v":null}},)"
            R"("nothing":null,"number":1.5,"quoted":"3","truth":true,"yes_is_text":"yes"})");
}

TEST(Config, TakesOneScaleForAllChannelsOrOneForEach) {
  const auto scale_of = [](const std::string& scale) {
    return load_yaml("model: {path: m, input: {scale: " + scale + "}}\ncameras: [{name: a, source: {type: test}}]\n")
        .model.input.scale;
  };
  EXPECT_EQ(scale_of("2"), (std::array{2.0F, 2.0F, 2.0F}));
  EXPECT_EQ(scale_of("[1, 2, 0.25]"), (std::array{1.0F, 2.0F, 0.25F}));
}

TEST(Config, TakesSectionsWhoseLinesAreAllCommentedOut) {
  EXPECT_THAT(problems_with("metrics:\n  # period: 1s\npipeline:\npostprocess:\ndevice: host\n"), ElementsAre());
}

TEST(Config, RemembersWhereEachValueStands) {
  const Config config = load_yaml(kSmallest);
  EXPECT_EQ(config.at("model.path", "is not ONNX"), "c.yaml:1:15: model.path: is not ONNX");
  EXPECT_EQ(config.at("cameras.0.source", "is away"), "c.yaml:4:13: cameras.0.source: is away");
  EXPECT_EQ(config.at("model.input.width", "does not fit"), "c.yaml:1:8: model.input.width: does not fit");
  EXPECT_EQ(config.at("metrics.period", "is odd"), "c.yaml: metrics.period: is odd");
  EXPECT_EQ(located(config.cameras[0].place, config.cameras[0].key, "is away"),
            "c.yaml:4:13: cameras.0.source: is away");
  const base::Error error = config.error(base::ErrorKind::kModel, "model.path", "is not ONNX");
  EXPECT_EQ(error.kind(), base::ErrorKind::kModel);
  EXPECT_STREQ(error.what(), "c.yaml:1:15: model.path: is not ONNX");
}

TEST(Config, EffectiveTextLoadsBackToItself) {
  const Config config =
      load_yaml(R"(model: {path: m.onnx, input: {width: 640, mean: [0.1, 0.2, 0.3], scale: 0.00392157}}
device: cuda
cameras:
  - {name: a, source: {type: file, path: "a \"b\" ü.mp4"}}
  - {name: b, source: {type: v4l2, fps: 29.97}}
  - {name: c, source: {type: rtsp, url: "rtsp://h", latency: 1500us}}
  - {name: d, source: {type: gstreamer, pipeline: 'a ! b'}}
  - {name: e, source: {type: test, format: yuy2}}
postprocess: [{plugin: mine, config: {a: [1, 2.5, "3", null]}}]
)");
  const std::string text = effective_text(config);
  const Config again = load_yaml(text);
  EXPECT_EQ(effective_text(again), text);
  EXPECT_EQ(again.cameras, config.cameras);
  EXPECT_EQ(again.model, config.model);
}

TEST(Config, EffectiveHashIgnoresOrderAndCommentsButNotValues) {
  const std::string other_order = "# text\ncameras: [{source: {type: test}, name: door}]\nmodel: {path: m.onnx}\n";
  const std::string hash = effective_sha256(load_yaml(kSmallest));
  EXPECT_EQ(hash.size(), 64U);
  EXPECT_EQ(effective_sha256(load_yaml(other_order)), hash);
  EXPECT_NE(effective_sha256(load_yaml(kSmallest, {"pipeline.slots=4"})), hash);
}

// FIPS 180-4's example texts (csrc.nist.gov, SHA256.pdf).
TEST(Sha256, EqualsThePublishedExamples) {
  EXPECT_EQ(base::sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(base::sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / ("camd_sha256_" + std::to_string(::getpid())) / "million_a";
  write_file(file, std::string(1'000'000, 'a'));
  EXPECT_EQ(base::sha256_file(file), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::filesystem::remove_all(file.parent_path());
}

TEST(Sha256, NamesAFileThatCannotBeRead) {
  try {
    (void)base::sha256_file("/nonexistent/model.onnx");
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kIo);
    EXPECT_STREQ(error.what(), "/nonexistent/model.onnx: cannot be read: No such file or directory");
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
