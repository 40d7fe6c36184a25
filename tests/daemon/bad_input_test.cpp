// Bad input, as a user meets it: one clear line that names file and cause, the right exit code, nothing half-written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/run_camd.hpp"
#include "tests/infer/onnx_builder.hpp"
#include "tests/support/paths.hpp"

namespace camd::test {
namespace CAMD_TEST_FILE {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr int kDone = 0;
constexpr int kConfiguration = 2;
constexpr int kCannotBeUsed = 3;
constexpr int kCamerasFailed = 4;

class BadInput : public testing::Test {
 protected:
  // A configuration that works: the test source for a few frames, the reference detector, jsonl.
  [[nodiscard]] static std::string config(const std::string& model, const std::string& source,
                                          const std::string& postprocess) {
    return "device: host\nmodel: {path: " + model + "}\ncameras:\n  - name: door\n    source: " + source +
           "\npostprocess:\n" + postprocess;
  }
  [[nodiscard]] static std::string marker() { return source_path("models/marker-640x360.onnx"); }
  static constexpr const char* kTestSource = "{type: test, width: 320, height: 180, frames: 3, realtime: false}";
  static constexpr const char* kJsonl = "  - plugin: detections\n  - plugin: jsonl\n    config: {path: out/d.jsonl}\n";

  Finished run(const std::string& text) {
    return run_camd({"run", folder_.write("camd.yaml", text), "--metrics", "json"}, folder_.path().string());
  }
  Finished run_model(const std::string& model) { return run(config(model, kTestSource, kJsonl)); }
  Finished run_source(const std::string& source) { return run(config(marker(), source, kJsonl)); }
  Finished run_plugins(const std::string& postprocess) { return run(config(marker(), kTestSource, postprocess)); }
  [[nodiscard]] bool wrote_something() const { return std::filesystem::exists(folder_ / "out"); }

  // The lines of stderr that are no log line of a level below error.
  static int error_lines(const std::string& err) {
    int lines = 0;
    std::istringstream stream(err);
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty() && line.find(" info ") == std::string::npos) ++lines;
    }
    return lines;
  }

  TemporaryFolder folder_;
};

// What a plug-in, GStreamer and the configuration's reader say of a value that came from the environment.
TEST_F(BadInput, NothingThatLeavesTheProcessShowsASecret) {
  setenv("CAMD_TEST_SECRET", "tell-nobody", 1);
  for (const Finished& done : {run_plugins("  - plugin: jsonl\n    config: {path: \"${CAMD_TEST_SECRET}\", "
                                           "tell-nobody: 1, period: \"${CAMD_TEST_SECRET}\"}\n"),
                               run_plugins("  - plugin: jsonl\n    config: {path: \"/proc/${CAMD_TEST_SECRET}/x\"}\n"),
                               run_source("{type: gstreamer, pipeline: \"videotestsrc ! nosuch-${CAMD_TEST_SECRET}\"}"),
                               run_source("{type: rtsp, url: \"rtsp://u:${CAMD_TEST_SECRET}@/ /\"}"),
                               run_source("{type: file, path: \"${CAMD_TEST_SECRET}.mp4\"}")}) {
    EXPECT_NE(done.code, kDone);
    EXPECT_THAT(done.err, Not(HasSubstr("tell-nobody"))) << done.code;
    EXPECT_THAT(done.out, Not(HasSubstr("tell-nobody"))) << done.code;
    EXPECT_NE(done.err, "");
  }
  const std::string url = "rtsp://anna:${CAMD_TEST_SECRET}@127.0.0.1:1/x";
  const Finished away =
      run_camd({"run", folder_.write("camd.yaml", config(marker(), "{type: rtsp, url: \"" + url + "\"}", kJsonl)),
                "--metrics", "json", "--duration", "1s"},
               folder_.path().string());
  EXPECT_THAT(away.out, HasSubstr("\"reconnecting\""));
  EXPECT_THAT(away.out + away.err, Not(HasSubstr("tell-nobody")));
  unsetenv("CAMD_TEST_SECRET");
}

// The environment and the command line of a process are files that others read.
TEST_F(BadInput, ASecretFromTheEnvironmentOrTheCommandLineIsNotShownInProc) {
  setenv("CAMD_TEST_SECRET", "tell-nobody", 1);
  setenv("CAMD_TEST_OPEN", "tell-all", 1);
  const std::string url = "rtsp://anna:${CAMD_TEST_SECRET}@127.0.0.1:1/x";
  folder_.write("camd.yaml", config(marker(), "{type: rtsp, url: \"" + url + "\"}", kJsonl));
  CamdProcess process({"run", "camd.yaml", "--metrics", "json", "--set",
                       "cameras.0.source.url=rtsp://bert:say-nothing@127.0.0.1:1/${CAMD_TEST_SECRET}"},
                      folder_.path().string());
  unsetenv("CAMD_TEST_SECRET");
  unsetenv("CAMD_TEST_OPEN");
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) { return p.out().find("\"start\"") != std::string::npos; }))
      << process.err();
  const std::string proc = "/proc/" + std::to_string(process.pid());
  const std::string environment = read_file(proc + "/environ"), command_line = read_file(proc + "/cmdline");
  EXPECT_THAT(environment, AllOf(HasSubstr("CAMD_TEST_SECRET=***********"), HasSubstr("CAMD_TEST_OPEN=tell-all"),
                                 Not(HasSubstr("tell-nobody"))));
  EXPECT_THAT(command_line, AllOf(HasSubstr("rtsp://bert:***********@127.0.0.1:1/"), Not(HasSubstr("say-nothing"))));
  process.signal(SIGHUP);  // it is known all the same
  EXPECT_TRUE(process.read_until([](const CamdProcess& p) { return p.out().find("\"reload\"") != std::string::npos; }));
  EXPECT_THAT(process.out(), HasSubstr("\"accepted\""));
  process.signal(SIGTERM);
  (void)process.wait();
  EXPECT_THAT(process.out() + process.err(), Not(AnyOf(HasSubstr("tell-nobody"), HasSubstr("say-nothing"))));
}

TEST_F(BadInput, TheConfigurationThatTheOthersSpoilWorks) {
  const Finished done = run_plugins(kJsonl);
  EXPECT_EQ(done.code, kDone) << done.err;
  EXPECT_THAT(done.out, HasSubstr("\"event\":\"stop\""));
  EXPECT_TRUE(wrote_something());
}

// ---- Sources

TEST_F(BadInput, AMissingVideoFileIsAConfigurationErrorWithItsPlace) {
  const Finished done = run_source("{type: file, path: nowhere.mp4}");
  EXPECT_EQ(done.code, kConfiguration);
  EXPECT_THAT(done.err, AllOf(HasSubstr("camd.yaml:5:"), HasSubstr("cameras.0.source.path"), HasSubstr("nowhere.mp4")));
  EXPECT_FALSE(wrote_something());
}

TEST_F(BadInput, AnEmptyVideoFileIsNamedAsSuch) {
  folder_.write("empty.mp4", "");
  const Finished done = run_source("{type: file, path: empty.mp4}");
  EXPECT_EQ(done.code, kCamerasFailed);
  EXPECT_THAT(done.err, AllOf(HasSubstr("empty.mp4"), HasSubstr("empty")));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

TEST_F(BadInput, AFileThatIsNoVideoIsNamedAsSuch) {
  folder_.write("text.mp4", std::string(20'000, 'x'));
  const Finished done = run_source("{type: file, path: text.mp4}");
  EXPECT_EQ(done.code, kCamerasFailed);
  EXPECT_THAT(done.err, HasSubstr("text.mp4"));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

TEST_F(BadInput, ATruncatedVideoFileIsNamedWithItsCause) {
  const std::string clip = read_file(source_path("models/demo/demo.mp4"));
  folder_.write("cut.mp4", clip.substr(0, 2000));
  const Finished done = run_source("{type: file, path: cut.mp4, loop: false}");
  EXPECT_EQ(done.code, kCamerasFailed) << done.err;
  EXPECT_THAT(done.err, HasSubstr("cut.mp4"));
}

TEST_F(BadInput, AGStreamerPipelineThatCannotBeParsedIsAConfigurationError) {
  const Finished done = run_source("{type: gstreamer, pipeline: \"videotestsrc ! nosuchelement\"}");
  EXPECT_EQ(done.code, kConfiguration);
  EXPECT_THAT(done.err, HasSubstr("nosuchelement"));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

// ---- Models

TEST_F(BadInput, AMissingModelIsAConfigurationErrorWithItsPlace) {
  const Finished done = run_model("nowhere.onnx");
  EXPECT_EQ(done.code, kConfiguration);
  EXPECT_THAT(done.err, AllOf(HasSubstr("camd.yaml:2:"), HasSubstr("model.path"), HasSubstr("nowhere.onnx")));
}

TEST_F(BadInput, AnEmptyModelIsNamedAsSuch) {
  folder_.write("empty.onnx", "");
  const Finished done = run_model("empty.onnx");
  EXPECT_EQ(done.code, kCannotBeUsed);
  EXPECT_THAT(done.err, AllOf(HasSubstr("camd.yaml:2:"), HasSubstr("empty.onnx"), HasSubstr("empty")));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
  EXPECT_FALSE(wrote_something());
}

TEST_F(BadInput, AModelThatNothingCanRunFailsTheCheckWithItsPlace) {
  folder_.write("text.onnx", "cameras:\n");
  folder_.write("camd.yaml", "model: {path: text.onnx}\ncameras: [{name: a, source: {type: test}}]\n");
  const Finished done = run_camd({"check", "camd.yaml"}, folder_.path().string());
  EXPECT_EQ(done.code, kCannotBeUsed);
  EXPECT_EQ(done.out, "");
  EXPECT_THAT(done.err, AllOf(HasSubstr("camd.yaml:1:15: model.path: "), HasSubstr("text.onnx: not an ONNX")));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

TEST_F(BadInput, ATruncatedModelIsRefusedWhereverItIsCut) {
  const std::string model = read_file(marker());
  for (const std::size_t kept : {std::size_t{1}, std::size_t{100}, model.size() / 2, model.size() - 1}) {
    folder_.write("cut.onnx", model.substr(0, kept));
    const Finished done = run_model("cut.onnx");
    EXPECT_EQ(done.code, kCannotBeUsed) << "kept " << kept << "\n" << done.err;
    EXPECT_THAT(done.err, HasSubstr("cut.onnx"));
    EXPECT_EQ(error_lines(done.err), 1) << done.err;
    EXPECT_FALSE(wrote_something());
  }
}

TEST_F(BadInput, AModelWithFlippedBitsEndsInAnErrorOrRunsButNeverCrashes) {
  const std::string model = read_file(marker());
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{40}, model.size() / 3, model.size() - 40}) {
    std::string flipped = model;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x20);
    folder_.write("flipped.onnx", flipped);
    // Without `detections`: a flipped bit in an output's name is a fine model that only does not fit its card.
    const Finished done =
        run(config("flipped.onnx", kTestSource, "  - plugin: jsonl\n    config: {path: out/d.jsonl}\n"));
    EXPECT_TRUE(done.code == kCannotBeUsed || done.code == kDone) << "byte " << at << ": " << done.code << done.err;
    if (done.code == kCannotBeUsed) {
      EXPECT_THAT(done.err, HasSubstr("flipped.onnx"));
    }
  }
}

TEST_F(BadInput, AnUnsupportedOperatorIsNamedWithItsNode) {
  infer::test::OnnxBuilder builder;
  builder.input("input", {1, 3, 8, 8}).output("out", {1, 3, 8, 8}).node("Frobnicate", {"input"}, {"out"}, "the_node");
  folder_.write("strange.onnx", builder.bytes());
  const Finished done = run_model("strange.onnx");
  EXPECT_EQ(done.code, kCannotBeUsed);
  EXPECT_THAT(done.err, AllOf(HasSubstr("strange.onnx"), HasSubstr("Frobnicate"), HasSubstr("the_node")));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

TEST_F(BadInput, AModelWhoseInputDoesNotFitIsRefusedWithItsShape) {
  infer::test::OnnxBuilder builder;
  builder.input("input", {1, 7, 8, 8}).output("out", {1, 7, 8, 8}).node("Relu", {"input"}, {"out"}, "relu");
  folder_.write("seven.onnx", builder.bytes());
  const Finished done = run_model("seven.onnx");
  EXPECT_EQ(done.code, kCannotBeUsed);
  EXPECT_THAT(done.err, AllOf(HasSubstr("seven.onnx"), HasSubstr("[1,7,8,8]")));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

TEST_F(BadInput, AConfiguredSizeThatTheModelDoesNotTakeIsRefused) {
  const Finished done =
      run("device: host\nmodel: {path: " + marker() +
          ", input: {width: 320, height: 320}}\ncameras:\n  - {name: a, source: " + kTestSource + "}\n");
  EXPECT_EQ(done.code, kCannotBeUsed);
  EXPECT_THAT(done.err, HasSubstr("640"));
}

// ---- Configuration

TEST_F(BadInput, EveryProblemOfAConfigurationIsToldInOnePass) {
  folder_.write("camd.yaml",
                "device: gpu\nmodle: {path: x.onnx}\npipeline: {slots: 1, max_age: 200}\ncameras:\n"
                "  - {name: a, source: {type: test, widht: 5}}\n  - {name: a, source: {type: test}}\n");
  const Finished done = run_camd({"check", "camd.yaml"}, folder_.path().string());
  EXPECT_EQ(done.code, kConfiguration);
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("camd.yaml:1:9: device"), HasSubstr("camd.yaml:2:1: modle"), HasSubstr("did you mean"),
                    HasSubstr("pipeline.slots"), HasSubstr("200ms"), HasSubstr("widht"), HasSubstr("cameras.1.name")));
}

TEST_F(BadInput, AGateThatCannotBeIsToldWithItsPlaceOnALineEach) {
  const std::string gated = "{type: test, width: 320, height: 180, frames: 3}\n    gate: ";
  const Finished wrong = run_source("{type: test, realtime: false}\n    gate: {motion: {threshold: dark}}");
  EXPECT_EQ(wrong.code, kConfiguration);
  EXPECT_THAT(wrong.err,
              AllOf(HasSubstr("camd.yaml:6:32: cameras.0.gate.motion.threshold: expected an integer from 1 "
                              "to 255 grey levels, found dark"),
                    HasSubstr("camd.yaml:6:11: cameras.0.gate: drops frames, and realtime: false drops none")));
  const Finished forgets = run(config(marker(), gated + "{longest: 3s}", "  - plugin: track\n"));
  EXPECT_EQ(forgets.code, kConfiguration);
  EXPECT_THAT(forgets.err, HasSubstr("camd.yaml:8:5: postprocess.0.config.keep: 2 s is less than twice gate.longest of "
                                     "camera door, 3 s: what stands still would be forgotten between two looks"));
  EXPECT_EQ(error_lines(forgets.err), 1);
  EXPECT_EQ(run(config(marker(), gated + "motion", "  - plugin: detections\n  - plugin: track\n")).code, 0);
}

TEST_F(BadInput, AConfigurationThatIsNoYamlIsToldWithItsPlace) {
  folder_.write("camd.yaml", "cameras: [\n  {name: a\n");
  const Finished done = run_camd({"check", "camd.yaml"}, folder_.path().string());
  EXPECT_EQ(done.code, kConfiguration);
  EXPECT_THAT(done.err, StartsWith("camd.yaml:"));
}

TEST_F(BadInput, HugeDeepAndSelfReferringConfigurationsAreRefusedAtOnce) {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) bomb += std::string(i ? "," : "") + "*" + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  for (const std::string& text : {std::string(10 << 20, '#'), "cameras: " + std::string(100'000, '['), bomb}) {
    folder_.write("camd.yaml", text);
    const auto start = std::chrono::steady_clock::now();
    const Finished done = run_camd({"check", "camd.yaml"}, folder_.path().string());
    EXPECT_EQ(done.code, kConfiguration) << text.substr(0, 40);
    EXPECT_THAT(done.err, HasSubstr("camd.yaml"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  }
}

TEST_F(BadInput, FewerSlotsThanARingNeedsAreRefusedByTheCheck) {
  folder_.write("camd.yaml",
                "model: {path: " + marker() + "}\npipeline: {slots: 2}\ncameras: [{name: a, source: {type: test}}]\n");
  const Finished done = run_camd({"check", "camd.yaml"}, folder_.path().string());
  EXPECT_EQ(done.code, kConfiguration);
  EXPECT_EQ(done.err, "camd.yaml:2:19: pipeline.slots: expected an integer from 3 to 64, found 2\n");
}

TEST_F(BadInput, AMissingConfigurationIsNamed) {
  const Finished done = run_camd({"run", "nowhere.yaml"}, folder_.path().string());
  EXPECT_EQ(done.code, kConfiguration);
  EXPECT_THAT(done.err, HasSubstr("nowhere.yaml"));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

TEST_F(BadInput, AnUnknownSubcommandOrOptionIsAUsageError) {
  EXPECT_EQ(run_camd({"fly"}).code, kConfiguration);
  EXPECT_EQ(run_camd({"run"}).code, kConfiguration);
  EXPECT_EQ(run_camd({"run", "x.yaml", "--duration", "10"}).code, kConfiguration);
  EXPECT_EQ(run_camd({"--help"}).code, kDone);
}

TEST_F(BadInput, ADurationIsReadAsStrictlyAsInTheConfiguration) {
  for (const char* text : {"0x10s", "1e3ms", " 5s", "-1s", "inf s", "nan s", "0s", "2562048h", "1e300h"}) {
    const Finished done = run_camd({"run", "nowhere.yaml", std::string("--duration=") + text});
    EXPECT_EQ(done.code, kConfiguration) << text;
    EXPECT_THAT(done.err, HasSubstr("--duration \"" + std::string(text) + "\": write a number above 0")) << text;
  }
  EXPECT_THAT(run_camd({"run", "nowhere.yaml", "--duration=5 s"}).err, HasSubstr("nowhere.yaml"));
}

// CLI11's own words for an option of an enumeration are "ENUM:value in {auto->0,...}".
TEST_F(BadInput, TheHelpShowsTheWordsThatAnOptionTakes) {
  const Finished run = run_camd({"run", "--help"});
  EXPECT_EQ(run.code, kDone);
  EXPECT_EQ(run.out,
            "Run a configuration\n"
            "Usage: camd run [OPTIONS] CONFIG\n"
            "\n"
            "Positionals:\n"
            "  CONFIG FILE REQUIRED        The YAML file, or a model\n"
            "\n"
            "Options:\n"
            "  -h,--help                   Print this help message and exit\n"
            "  --help-all                  Help of every subcommand\n"
            "  --duration TEXT             Stop after this time, e.g. 10s, 5min\n"
            "  --frames UINT               Stop after so many delivered frames\n"
            "  --metrics auto|dashboard|json|off=auto\n"
            "                              The metrics; auto: the dashboard on a terminal, else json\n"
            "  --set TEXT ...              key.path=value, over the file; may be repeated\n"
            "  --shard i/n                 Only the cameras of the i-th of n camds with this file, i from 0\n"
            "\n");
  EXPECT_THAT(run_camd({"--help"}).out, HasSubstr("\nExit codes:\n  0   done: "));
  const Finished bench = run_camd({"bench", "--help"});
  EXPECT_THAT(bench.out, AllOf(HasSubstr("  --format bgr|rgb|nv12|i420|yuy2|gray8=bgr\n"),
                               HasSubstr("  --engine auto|cuda|cpu|opencv=auto\n"),
                               HasSubstr("  --precision auto|f16|bf16|tf32|f32=auto\n")));
  for (const std::string command : {"", "run", "check", "config", "doctor", "bench", "plugin", "version"}) {
    const Finished help = command.empty() ? run_camd({"--help"}) : run_camd({command, "--help"});
    EXPECT_THAT(help.out, Not(AnyOf(HasSubstr("ENUM"), HasSubstr("->"), HasSubstr(" in {"), HasSubstr(" in ["))))
        << command;
  }
  const Finished wrong = run_camd({"run", "x.yaml", "--metrics", "foo"});
  EXPECT_EQ(wrong.code, kConfiguration);
  EXPECT_EQ(wrong.err, "camd: --metrics: foo not in {auto,dashboard,json,off} (camd --help, camd run --help)\n");
}

// ---- Plug-ins

// `camd check` said ok, and `camd run` ended with 3 and the entry's line.
TEST_F(BadInput, ATypoInAPluginsKeysIsAConfigurationErrorWithItsLineInTheCheckAndTheRun) {
  const std::string text =
      config(marker(), kTestSource, "  - plugin: detections\n    config:\n      scroe: 0.5\n      nms: 2\n");
  folder_.write("camd.yaml", text);
  for (const char* command : {"check", "run"}) {
    const Finished done = run_camd({command, "camd.yaml"}, folder_.path().string());
    EXPECT_EQ(done.code, kConfiguration) << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_THAT(done.err,
                AllOf(HasSubstr("camd.yaml:9:7: postprocess.0.config.scroe: unknown key; known here: "),
                      HasSubstr(" (did you mean score?)\n"),
                      HasSubstr("camd.yaml:10:12: postprocess.0.config.nms: must be a number in 0..1, not 2\n")));
    EXPECT_EQ(error_lines(done.err), 2) << done.err;
  }
}

std::string bad_plugin(const std::string& name) { return test::binary_dir() + "/lib/bad/" + name + ".so"; }

TEST_F(BadInput, PluginsThatCannotBeUsedAreRefusedByNameAndReason) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"./nowhere.so", "nowhere.so"},
      {bad_plugin("wrong_abi"), "ABI version"},
      {bad_plugin("no_symbol"), "camd_plugin_v1"},
      {bad_plugin("short_table"), "bytes"},
      {bad_plugin("no_table"), "no table"},
      {bad_plugin("missing_function"), "its table has no"},
      {bad_plugin("no_name"), "no name"},
      {"detectoins", "built-ins are"},
  };
  for (const auto& [plugin, reason] : cases) {
    const Finished done = run_plugins("  - plugin: " + plugin + "\n");
    EXPECT_TRUE(done.code == kCannotBeUsed || done.code == kConfiguration) << plugin << done.err;
    EXPECT_THAT(done.err, HasSubstr(reason)) << plugin;
    EXPECT_THAT(done.err, HasSubstr("camd.yaml:")) << plugin;
    EXPECT_EQ(error_lines(done.err), 1) << done.err;
  }
}

TEST_F(BadInput, APluginThatIsNoLibraryIsRefused) {
  folder_.write("text.so", "not a library");
  const Finished done = run_plugins("  - plugin: ./text.so\n");
  EXPECT_EQ(done.code, kCannotBeUsed) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("text.so"), HasSubstr("cannot be loaded")));
}

TEST_F(BadInput, AnUnwritableOutputIsRefusedBeforeTheFirstFrame) {
  const Finished done =
      run_plugins("  - plugin: detections\n  - plugin: jsonl\n    config: {path: /proc/nowhere/d.jsonl}\n");
  EXPECT_EQ(done.code, kCannotBeUsed) << done.err;
  EXPECT_THAT(done.err, HasSubstr("/proc/nowhere"));
  EXPECT_EQ(error_lines(done.err), 1) << done.err;
}

TEST_F(BadInput, AFullDiskCostsTheFramesButNotTheDaemonAndIsTold) {
  const Finished done = run_plugins("  - plugin: detections\n  - plugin: jsonl\n    config: {path: /dev/full}\n");
  EXPECT_THAT(done.err, AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device")));
  EXPECT_THAT(done.out, HasSubstr("\"event\":\"stop\""));
  EXPECT_THAT(done.out, HasSubstr("\"plugin_error\":3"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::test
