// camd run with plug-ins in processes of their own, from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/daemon/run_camd.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/python.hpp"
#include "tests/support/sanitized.hpp"

namespace camd::test {
namespace CAMD_TEST_FILE {

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
  // Lines byte for byte, but for what tells when they were made.
  static std::string without_times(const std::string& path) {
    return std::regex_replace(read_file(path), std::regex("(\"captured_mono_ns\"|\"latency_us\"|\"time\"):[^,]*,"), "");
  }
  static std::string first_lines(const std::string& text, int count) {
    std::size_t end = 0;
    for (int i = 0; i < count; ++i) end = text.find('\n', end) + 1;
    return text.substr(0, end);
  }
  // The lines byte for byte, but for the one number that depends on when they are written.
  static std::string without_latency(const std::string& path) {
    return std::regex_replace(read_file(path), std::regex("\"latency_us\":[0-9]+,"), "");
  }
  static json last(const std::string& out, const std::string& event, int index = -1) {
    std::istringstream lines(out);
    json found;
    for (std::string line; std::getline(lines, line);) {
      json one = json::parse(line);
      if (one.at("event") == event && (index < 0 || one.at("index") == index)) found = std::move(one);
    }
    return found;
  }
  // Of five frames, in front of a plug-in that reads the first output.
  std::string recording() {
    const std::string file = folder_ / "frames.camdrec";
    const Finished done =
        run_camd({"plugin", "--record", file, "--frames", "5",
                  config("record.yaml", kShort, "  - plugin: " + test::binary_dir() + "/lib/bad/faults.so\n")});
    EXPECT_EQ(done.code, 0) << done.err;
    return file;
  }
  static bool is_installed(const std::string& tool) {
    return std::system(("command -v " + tool + " >/dev/null").c_str()) == 0;
  }
  // What a command writes, with its exit code in the last line.
  std::string output_of(const std::string& command) {
    const std::string file = folder_ / "output.txt";
    EXPECT_EQ(std::system(("{ " + command + "; echo exit $?; } > " + file).c_str()), 0);  // of the echo
    return read_file(file);
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
                                    "--metrics", "json"});
    ASSERT_EQ(done.code, 0) << done.err;
    const std::string lines = without_times(out);
    ASSERT_THAT(lines, HasSubstr("\"score\":"));
    ASSERT_EQ(std::count(lines.begin(), lines.end(), '\n'), 300);
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
  if (std::system("command -v addr2line >/dev/null") == 0 && !kSanitized) {
    EXPECT_THAT(done.err, testing::ContainsRegex("faults.so.0x[0-9a-f]+ is crash_here at [^ ]*harm.h:[0-9]+"));
  }
  const json stop = last(done.out, "stop").at("totals");
  const json told = last(done.out, "plugin");
  EXPECT_EQ(stop.at("captured"), 30);
  EXPECT_GE(told.at("frames_lost"), 1);
  EXPECT_EQ(stop.at("dropped").at("plugin_error"), told.at("frames_lost"));
  EXPECT_EQ(stop.at("delivered").get<int>() + told.at("frames_lost").get<int>(), 30);
  EXPECT_THAT(told.at("last_error"), HasSubstr("was killed by signal 11"));
}

TEST_F(Isolation, MarksTheLinesOfFramesThatAPluginDidNotSee) {
  const std::string plugin = test::binary_dir() + "/lib/bad/faults.so", out = folder_ / "lines.jsonl";
  const Finished done =
      run_camd({"run",
                config("c.yaml", kShort,
                       "  - {plugin: " + plugin + ", config: {how: crash, at: 3}, on_failure: pass_through}\n" +
                           "  - {plugin: jsonl, config: {path: " + out + "}}\n"),
                "--metrics", "json"});
  EXPECT_EQ(done.code, 0) << done.err;
  int lines = 0, marked = 0;
  std::istringstream text(read_file(out));
  for (std::string line; std::getline(text, line); ++lines) {
    const json one = json::parse(line);
    const bool seen = one.value("complete", true);
    EXPECT_EQ(one.at("detections").size(), seen ? 1U : 0U) << line;
    marked += seen ? 0 : 1;
  }
  EXPECT_EQ(lines, 30);
  EXPECT_GE(marked, 1);
  EXPECT_EQ(last(done.out, "plugin", 0).at("frames_lost"), marked);
}

TEST_F(Isolation, LogsTheTracebackOfAnExceptionOnceASecondAtMost) {
  if (!python_has("numpy")) GTEST_SKIP() << python() << " has no NumPy (python3-numpy)";
  if (kSanitized) GTEST_SKIP() << "an interpreter without the sanitizer cannot load a library with it";
  // By its own clock 0.3 s pass from frame to frame: every fourth is told.
  const std::string script = folder_.write("raises.py",
                                           "import time\n"
                                           "now = 100\n"
                                           "time.monotonic = lambda: now\n"
                                           "def process(frame, tensors, results):\n"
                                           "    global now\n"
                                           "    now += 0.3\n"
                                           "    raise ValueError(f'frame {frame.sequence}')\n");
  const Finished done =
      run_camd({"run", config("c.yaml", kShort, "  - {plugin: " + script + ", python: " + python() + "}\n"),
                "--metrics", "json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(last(done.out, "stop").at("totals").at("dropped").at("plugin_error"), 30);
  std::vector<std::string> told;
  const std::regex traceback("Traceback[^]*?raises.py\", line 7, in process[^]*?ValueError: (frame [0-9]+)");
  for (std::sregex_iterator at(done.err.begin(), done.err.end(), traceback), end; at != end; ++at) {
    told.push_back((*at)[1]);
  }
  EXPECT_THAT(told, testing::ElementsAre("frame 0", "frame 4", "frame 8", "frame 12", "frame 16", "frame 20",
                                         "frame 24", "frame 28"));
}

TEST_F(Isolation, RefusesATypoInTheKeysOfAPluginInAProcess) {
  const std::string plugin = test::binary_dir() + "/lib/camd_plugin_detections.so";
  const Finished done =
      run_camd({"check", config("c.yaml", kShort, "  - {plugin: " + plugin + ", config: {scor: 0.5}}\n")});
  EXPECT_EQ(done.code, 2) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("postprocess.0.config.scor: unknown key"), HasSubstr("did you mean score?")));
}

TEST_F(Isolation, ReplaysARecordingWithTheSameLinesAsTheDaemon) {
  const std::string clip = "{type: file, path: " + source_path("models/demo/demo.mp4") + ", realtime: false}";
  const std::string track = test::binary_dir() + "/lib/camd_plugin_track.so";
  const std::string out = folder_ / "lines.jsonl", file = folder_ / "frames.camdrec";
  const Finished recorded = run_camd({"plugin", "--record", file, "--frames", "40",
                                      config("c.yaml", clip,
                                             "  - plugin: detections\n  - plugin: " + track +
                                                 "\n  - {plugin: jsonl, config: {path: " + out + "}}\n")});
  ASSERT_EQ(recorded.code, 0) << recorded.err;
  const std::string lines = out + ".head";
  std::ofstream(lines) << first_lines(read_file(out), 40);
  ASSERT_THAT(read_file(lines), HasSubstr("\"track_id\":"));
  const Finished replayed = run_camd({"plugin", "--replay", file, track});
  ASSERT_EQ(replayed.code, 0) << replayed.err;
  std::ofstream(folder_ / "replayed.jsonl") << replayed.out;
  EXPECT_EQ(without_latency(folder_ / "replayed.jsonl"), without_latency(lines));
}

TEST_F(Isolation, ReplaysUnderValgrindWithoutAnError) {
  if (kSanitized) GTEST_SKIP() << "valgrind cannot run a program with a sanitizer";
  if (!is_installed("valgrind")) GTEST_SKIP() << "no valgrind";
  const std::string log = folder_ / "valgrind.txt";
  const std::string out =
      output_of("valgrind --error-exitcode=9 --log-file=" + log + " " + camd_path() + " plugin --replay " +
                recording() + " " + test::binary_dir() + "/lib/bad/faults.so");
  EXPECT_THAT(out, testing::EndsWith("exit 0\n")) << read_file(log);
  EXPECT_THAT(out, HasSubstr("\"seq\":4,"));
  EXPECT_THAT(read_file(log), HasSubstr("ERROR SUMMARY: 0 errors"));
}

TEST_F(Isolation, ReplaysInADebuggerThatStopsAtTheCrash) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes the signal";
  if (!is_installed("gdb")) GTEST_SKIP() << "no gdb";
  const std::string out = output_of("gdb -batch -nx -ex 'set debuginfod enabled off' -ex run -ex backtrace --args " +
                                    camd_path() + " plugin --replay " + recording() + " " + test::binary_dir() +
                                    "/lib/bad/faults.so --config '{\"how\": \"crash\", \"at\": 2}' 2>&1");
  if (out.find("ptrace: Operation not permitted") != std::string::npos) GTEST_SKIP() << "no ptrace() here";
  EXPECT_THAT(out, AllOf(HasSubstr("received signal SIGSEGV"), HasSubstr("replay_plugin"),
                         testing::ContainsRegex("(harm.h|faults.c):[0-9]+")));
}

TEST_F(Isolation, ReplaysARecordingWithAScript) {
  if (!python_has("numpy")) GTEST_SKIP() << python() << " has no NumPy (python3-numpy)";
  if (kSanitized) GTEST_SKIP() << "an interpreter without the sanitizer cannot load a library with it";
  const std::string script =
      folder_.write("mean.py",
                    "def outputs(model):\n"
                    "    return {'outputs': [0], 'picture': True}\n"
                    "def process(frame, tensors, results):\n"
                    "    results.add(score=float(tensors[0].mean()) % 1, text=str(frame.picture.mean()))\n"
                    "    results.event('seen', frame=frame.sequence)\n");
  const std::string out = folder_ / "lines.jsonl", file = folder_ / "frames.camdrec";
  const Finished recorded = run_camd({"plugin", "--record", file, "--frames", "5",
                                      config("c.yaml", kShort,
                                             "  - {plugin: " + script + ", python: " + python() +
                                                 "}\n  - {plugin: jsonl, config: {path: " + out + "}}\n")});
  ASSERT_EQ(recorded.code, 0) << recorded.err;
  const std::string lines = out + ".head";
  std::ofstream(lines) << first_lines(read_file(out), 5);
  const Finished replayed = run_camd({"plugin", "--replay", file, script, "--python", python()});
  ASSERT_EQ(replayed.code, 0) << replayed.err;
  std::ofstream(folder_ / "replayed.jsonl") << replayed.out;
  ASSERT_THAT(replayed.out, HasSubstr("\"events\":[{\"name\":\"seen\""));
  EXPECT_EQ(without_latency(folder_ / "replayed.jsonl"), without_latency(lines));
}

TEST_F(Isolation, SaysWhatIsWrongWithARecording) {
  const std::string file = folder_.write("x.camdrec", "no recording");
  const Finished done = run_camd({"plugin", "--replay", file, test::binary_dir() + "/lib/camd_plugin_track.so"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr(file + ": is no recording of camd"));
}

TEST_F(Isolation, LosesFramesOfOneCameraAloneWhereEachHasItsInstance) {
  const std::string plugin = test::binary_dir() + "/lib/bad/faults.so";
  const std::string path =
      folder_.write("c.yaml", "device: host\nmodel: {path: " + source_path("models/marker-640x360.onnx") +
                                  "}\nmetrics: {period: 100ms}\ncameras:\n  - {name: a, source: " + kShort +
                                  "}\n  - {name: b, source: " + kShort + "}\npostprocess:\n  - {plugin: " + plugin +
                                  ", instances: camera, config: {how: crash, at: 3, camera: a}}\n");
  const Finished done = run_camd({"run", path, "--metrics", "json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("plug-in " + plugin + " for camera a: its process was killed by signal 11"));
  json b;
  const json stop = last(done.out, "stop");
  for (const json& camera : stop.at("cameras")) {
    if (camera.at("camera") == "b") b = camera;
  }
  EXPECT_EQ(last(done.out, "plugin").at("restarts"), 1);
  EXPECT_EQ(stop.at("totals").at("dropped").at("plugin_error"), last(done.out, "plugin").at("frames_lost"));
  EXPECT_EQ(b.at("totals").at("dropped").at("plugin_error"), 0);
  const json cameras = last(done.out, "plugin").at("cameras");
  ASSERT_EQ(cameras.size(), 2U);
  EXPECT_EQ(cameras[0].at("camera"), "a");
  EXPECT_EQ(cameras[0].at("restarts"), 1);
  EXPECT_THAT(cameras[0].at("last_error"), HasSubstr("was killed by signal 11"));
  EXPECT_EQ(cameras[1].at("camera"), "b");
  EXPECT_EQ(cameras[1].at("frames_lost"), 0);
}

TEST_F(Isolation, ShowsWhatAScriptDoesWithAMadeUpFrame) {
  if (!python_has("numpy")) GTEST_SKIP() << python() << " has no NumPy (python3-numpy)";
  const std::string script = folder_.write("keep.py", "def process(frame, tensors, results):\n    results.clear()\n");
  const Finished done = run_camd({"plugin", script, "--python", python()});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out,
              AllOf(testing::ContainsRegex(
                        "^in a process of its own: no network, writes no files [(](Landlock [0-9]+, )?seccomp[)]\n"),
                    HasSubstr("reads: detections\n"), HasSubstr("a made-up frame with 1 detection: 0 left\n")));
  const std::string wrong = folder_.write("wrong.py", "def process(frame, tensors, results):\n    nothing\n");
  const Finished failed = run_camd({"plugin", wrong, "--python", python()});
  EXPECT_EQ(failed.code, 3);
  EXPECT_THAT(failed.out, HasSubstr("NameError: name 'nothing' is not defined"));
}

TEST_F(Isolation, CopiesNoPictureAndNoInputForAPluginInAProcess) {
  if (!python_has("numpy")) GTEST_SKIP() << python() << " has no NumPy (python3-numpy)";
  const std::string script = folder_.write("sum.py", R"(
def outputs(model):
    return {"picture": True, "input": True}


def process(frame, tensors, results):
    planes = sum(int(plane.sum()) for plane in frame.planes)
    results.event("sum", picture=planes, input=float(tensors.input.sum()))
)");
  const std::string lines = folder_ / "lines.jsonl";
  const std::string clip = "{type: file, path: " + source_path("models/demo/demo.mp4") + ", realtime: false}";
  for (const std::string& source : {std::string(kShort), clip}) {
    const Finished done = run_camd({"run",
                                    config("sum.yaml", source,
                                           "  - {plugin: " + script + ", python: " + python() +
                                               "}\n  - {plugin: jsonl, config: {path: " + lines + "}}\n"),
                                    "--metrics", "json"});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(last(done.out, "plugin", 0).at("bytes_copied"), 0);
    const json frame = json::parse(first_lines(read_file(lines), 1));
    const json& numbers = frame.at("events").at(0).at("numbers");
    EXPECT_GT(numbers.at("picture"), 0);
    EXPECT_GT(numbers.at("input"), 0);
  }
}

TEST_F(Isolation, SeesTheSameInOpenCvPyTorchAndSupervisionOfAVirtualEnvironment) {
  for (const char* package : {"numpy", "cv2", "torch", "supervision"}) {
    if (!python_has(package)) GTEST_SKIP() << python() << " has no " << package << "; CAMD_TEST_PYTHON names another";
  }
  const std::string clip = "{type: file, path: " + source_path("models/demo/demo.mp4") + ", realtime: false}";
  const std::string lines = folder_ / "lines.jsonl";
  const Finished done = run_camd(
      {"run", config("packages.yaml", clip,
                     "  - plugin: detections\n  - {plugin: " + source_path("tests/plugins/python/packages.py") +
                         ", python: " + python() + ", memory: 32GiB, deadline: 60s, allow: [files: /tmp/]}\n" +
                         "  - {plugin: jsonl, config: {path: " + lines + "}}\n")});
  ASSERT_EQ(done.code, 0) << done.err;
  std::istringstream each(read_file(lines));
  int frames = 0;
  for (std::string line; std::getline(each, line); ++frames) {
    const json frame = json::parse(line);
    const json& numbers = frame.at("events").at(0).at("numbers");
    EXPECT_EQ(numbers.at("blue_opencv"), numbers.at("blue")) << line;
    EXPECT_EQ(numbers.at("best_torch"), numbers.at("best")) << line;
    EXPECT_EQ(numbers.at("area_supervision"), numbers.at("area")) << line;
    EXPECT_GE(numbers.at("count"), 8) << line;
    EXPECT_EQ(frame.at("detections").size(), frames == 2 ? 1 : numbers.at("count").get<std::size_t>()) << line;
  }
  EXPECT_EQ(frames, 300);
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

TEST_F(Isolation, MakesAProjectInCppThatItsTestPasses) {
  const Finished made = run_camd({"plugin", "--new", "keep", "--language", "c++"}, folder_.path());
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string folder = folder_ / "keep";
  std::filesystem::create_directories(folder + "/include/camd");
  for (const char* header : {"camd_plugin.h", "camd_plugin.hpp"}) {
    std::filesystem::copy_file(source_path(std::string("plugins/") + header), folder + "/include/camd/" + header);
  }
  const std::string build = "c++ -std=c++17 -I include -o t keep.cpp test_keep.cpp && ./t > out.txt";
  EXPECT_EQ(std::system(("cd " + folder + " && " + build).c_str()), 0);
  EXPECT_EQ(read_file(folder + "/out.txt"), "ok\n");
}

TEST_F(Isolation, MakesAProjectInPythonThatItsTestPasses) {
  if (!python_has("numpy")) GTEST_SKIP() << python() << " has no NumPy (python3-numpy)";
  const Finished made = run_camd({"plugin", "--new", "keep", "--language", "python"}, folder_.path());
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string out = output_of("cd " + (folder_ / "keep") + " && " + python() + " -m unittest test_keep.py 2>&1");
  EXPECT_THAT(out, AllOf(HasSubstr("Ran 1 test"), testing::EndsWith("OK\nexit 0\n")));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::test
