// camd run with plug-ins in processes of their own, from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/daemon/run_camd.hpp"
#include "tests/support/paths.hpp"

namespace camd::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Isolation : public testing::Test {
 protected:
  std::string config(const std::string& name, const std::string& source, const std::string& postprocess) {
    return folder_.write(name, "device: host\nmodel: {path: " + source_path("models/marker-640x360.onnx") +
                                   "}\nmetrics: {period: 100ms}\ncameras:\n  - {name: a, source: " + source +
                                   "}\npostprocess:\n" + postprocess);
  }
  // Lines of detections without what tells when they were made.
  static std::string without_times(const std::string& path) {
    std::istringstream lines(read_file(path));
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      json one = json::parse(line);
      for (const char* key : {"captured_mono_ns", "time", "latency_us"}) one.erase(key);
      kept += one.dump() + "\n";
    }
    return kept;
  }
  static json last(const std::string& out, const std::string& event) {
    std::istringstream lines(out);
    json found;
    for (std::string line; std::getline(lines, line);) {
      json one = json::parse(line);
      if (one.at("event") == event) found = std::move(one);
    }
    return found;
  }
  TemporaryFolder folder_;
  static constexpr const char* kShort = "{type: test, width: 320, height: 180, frames: 30, realtime: false}";
};

TEST_F(Isolation, GivesTheSameLinesOverTheDemoClipAsWithout) {
  const std::string clip = "{type: file, path: " + source_path("models/demo/demo.mp4") + ", realtime: false}";
  std::string same;
  for (const std::string isolation : {"none", "process"}) {
    const std::string out = folder_ / (isolation + ".jsonl");
    const Finished done = run_camd({"run",
                                    config(isolation + ".yaml", clip,
                                           "  - {plugin: detections, isolation: " + isolation +
                                               "}\n  - {plugin: jsonl, config: {path: " + out + "}}\n"),
                                    "--metrics", "json", "--frames", "40"});
    ASSERT_EQ(done.code, 0) << done.err;
    const std::string lines = without_times(out).substr(0, 4000);
    ASSERT_THAT(lines, HasSubstr("\"score\":"));
    if (isolation == "none") {
      same = lines;
    } else {
      EXPECT_EQ(lines, same);
      EXPECT_EQ(last(done.out, "plugin").at("index"), 1);
    }
  }
}

TEST_F(Isolation, OutlivesAPluginThatCrashesAndCountsWhatItLost) {
  const std::string plugin = test::binary_dir() + "/lib/bad/faults.so";
  const Finished done =
      run_camd({"run", config("c.yaml", kShort, "  - {plugin: " + plugin + ", config: {how: crash, at: 3}}\n"),
                "--metrics", "json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("plug-in " + plugin + ": its process was killed by signal 11"),
                              HasSubstr("in process()"), HasSubstr("faults.so+0x")));
  const json stop = last(done.out, "stop").at("totals");
  const json told = last(done.out, "plugin");
  EXPECT_EQ(stop.at("captured"), 30);
  EXPECT_GE(told.at("frames_lost"), 1);
  EXPECT_EQ(stop.at("dropped").at("plugin_error"), told.at("frames_lost"));
  EXPECT_EQ(stop.at("delivered").get<int>() + told.at("frames_lost").get<int>(), 30);
  EXPECT_THAT(told.at("last_error"), HasSubstr("was killed by signal 11"));
}

TEST_F(Isolation, ShowsWhatAScriptDoesWithAMadeUpFrame) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "no NumPy (python3-numpy)";
  const std::string script = folder_.write("keep.py", "def process(frame, tensors, results):\n    results.clear()\n");
  const Finished done = run_camd({"plugin", script, "--python", "/usr/bin/python3"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out,
              AllOf(HasSubstr("reads: detections\n"), HasSubstr("a made-up frame with 1 detection: 0 left\n")));
  const std::string wrong = folder_.write("wrong.py", "def process(frame, tensors, results):\n    nothing\n");
  const Finished failed = run_camd({"plugin", wrong, "--python", "/usr/bin/python3"});
  EXPECT_EQ(failed.code, 3);
  EXPECT_THAT(failed.out, HasSubstr("NameError: name 'nothing' is not defined"));
}

TEST_F(Isolation, MakesAProjectThatItsTestPasses) {
  const Finished made = run_camd({"plugin", "--new", "keep", "--language", "c"}, folder_.path());
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string folder = folder_ / "keep";
  std::filesystem::create_directories(folder + "/include/camd");
  std::filesystem::copy_file(source_path("plugins/camd_plugin.h"), folder + "/include/camd/camd_plugin.h");
  EXPECT_EQ(std::system(("cd " + folder + " && cc -I include -o t keep.c test_keep.c && ./t > out.txt").c_str()), 0);
  EXPECT_EQ(read_file(folder + "/out.txt"), "ok\n");
}

}  // namespace
}  // namespace camd::test
