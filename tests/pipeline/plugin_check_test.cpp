// What plug-ins say of their keys, as lines of the configuration file.
#include "pipeline/run/plugin_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "config/loader.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/config_check.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/sanitized.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PluginCheck : public ::testing::Test {
 protected:
  PluginCheck() { std::filesystem::create_directories(folder_); }
  ~PluginCheck() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // The lines that refuse the text, and how.
  std::vector<std::string> problems_of(const std::string& text, const Patience& patience = {}) {
    std::ofstream(path("c.yaml")) << text;
    const config::Reading reading = config::read(path("c.yaml"), {}, {.card_keys = card_keys()});
    Mistakes mistakes(reading.config.file.file);
    const std::vector<LoadedPlugin> loaded = check_config(reading, patience, mistakes);
    std::vector<std::string> lines;
    try {
      mistakes.raise();
    } catch (const base::Error& error) {
      kind_ = error.kind();
      std::istringstream all(error.what());
      for (std::string line; std::getline(all, line);) {
        const std::string file = path("c.yaml") + ":";
        lines.push_back(line.rfind(file, 0) == 0 ? line.substr(file.size()) : line);
      }
    }
    return lines;
  }
  std::vector<std::string> problems_with(const std::string& postprocess, const Patience& patience = {}) {
    return problems_of("model: {path: " + test::source_dir() +
                           "/models/marker-640x360.onnx}\ncameras: [{name: a, source: {type: test}}]\npostprocess:\n" +
                           postprocess,
                       patience);
  }
  [[nodiscard]] static std::string misbehave() { return test::binary_dir() + "/lib/bad/misbehave.so"; }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("camd_plugin_check_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
       std::to_string(::getpid()));
  base::ErrorKind kind_ = base::ErrorKind::kInternal;
};

TEST_F(PluginCheck, AnUnknownKeyIsToldAtItsPlaceWithTheOneThatWasMeant) {
  EXPECT_THAT(problems_with("  - plugin: jsonl\n    config:\n      path: " + path("d.jsonl") + "\n      apend: true\n"),
              ElementsAre("7:7: postprocess.0.config.apend: unknown key; known here: path, append (did you mean "
                          "append?)"));
  EXPECT_EQ(kind_, base::ErrorKind::kConfig);
  EXPECT_FALSE(std::filesystem::exists(path("d.jsonl")));
}

TEST_F(PluginCheck, TwoOutletsWithOnePathAreRefusedHoweverItIsSpelled) {
  EXPECT_THAT(problems_with("  - plugin: jsonl\n    config: {path: " + path("d.jsonl") +
                            "}\n  - plugin: jsonl\n    config: {path: " + path("x/../d.jsonl") + "}\n"),
              ElementsAre("7:20: postprocess.1.config.path: " + path("x/../d.jsonl") +
                          " is written by postprocess.0.config.path already, at " + path("c.yaml") +
                          ":5:20: give each a path of its own"));
  EXPECT_EQ(kind_, base::ErrorKind::kConfig);
}

TEST_F(PluginCheck, AllThatIsWrongWithAConfigurationComesInTheOrderOfTheFile) {
  std::ofstream(path("m.onnx")) << "x";
  EXPECT_THAT(problems_of("model: {path: " + path("m.onnx") +
                          "}\nsorce: 1\ncameras:\n"
                          "  - {name: a, source: {type: gstreamer, pipeline: nosuchelement}}\n"
                          "  - {name: b, source: {type: test, fps: fast}}\n"
                          "  - {name: c, source: {type: test}}\n"
                          "postprocess:\n  - plugin: detections\n    config: {nms: 2}\n"
                          "  - plugin: nothing\n  - {plugin: jsonl, confg: {}}\n"
                          "  - {plugin: " +
                          misbehave() + ", config: {how: throw_check}, isolation: none}\n"),
              ElementsAre(HasSubstr("2:1: sorce: unknown key"), HasSubstr("nosuchelement"),
                          HasSubstr("5:41: cameras.1.source.fps: expected"),
                          "9:19: postprocess.0.config.nms: must be a number in 0..1, not 2",
                          HasSubstr("10:5: postprocess.1: plug-in nothing: is no built-in"),
                          HasSubstr("11:21: postprocess.2.confg: unknown key"),
                          "12:5: postprocess.3: plug-in " + misbehave() +
                              ": check(): threw an exception: thrown past the adaptor"));
  EXPECT_EQ(kind_, base::ErrorKind::kConfig);
}

TEST_F(PluginCheck, WhatAPluginSaysIsBoundedAndPrintable) {
  const std::vector<std::string> lines = problems_with(
      "  - plugin: " + misbehave() + "\n    config: {how: bad_keys, zones: [{pionts: 1}]}\n    isolation: none\n");
  ASSERT_THAT(lines, SizeIs(256));
  EXPECT_EQ(lines[0], "5:13: postprocess.0.config: all of it in two lines");
  EXPECT_LT(lines[1].size(), 900U);
}

TEST_F(PluginCheck, APluginWithoutTheExtensionIsLeftToItsCreate) {
  EXPECT_THAT(problems_with("  - plugin: " + test::binary_dir() + "/lib/bad/no_name.so\n    isolation: none\n"),
              ElementsAre(HasSubstr("4:5: postprocess.0: plug-in ")));
  EXPECT_EQ(kind_, base::ErrorKind::kPlugin);
  EXPECT_THAT(problems_with("  - plugin: " + misbehave() + "\n    config: {how: throw_create}\n    isolation: none\n"),
              IsEmpty());
}

TEST_F(PluginCheck, OneThatHangsIsNamedAndLeftBehind) {
  void* const library = dlopen(misbehave().c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto set_gate = reinterpret_cast<void (*)(int)>(dlsym(library, "misbehave_set_gate"));
  set_gate(0);
  EXPECT_THAT(problems_with("  - plugin: " + misbehave() + "\n    config: {how: gate_check}\n    isolation: none\n",
                            {std::chrono::milliseconds(20), {}}),
              ElementsAre("4:5: postprocess.0: plug-in " + misbehave() +
                          ": hangs in check(), or while its library is loaded: it is left behind"));
  EXPECT_EQ(kind_, base::ErrorKind::kPlugin);
  EXPECT_TRUE(plugin_threads_left_behind());
  set_gate(1);
  while (plugin_threads_left_behind()) std::this_thread::yield();
}

TEST_F(PluginCheck, APluginInAProcessOfItsOwnIsAskedThereAndAnswersAlike) {
  const std::string config = "  - plugin: " + misbehave() + "\n    config: {how: bad_keys, zones: [{pionts: 1}]}\n";
  const std::vector<std::string> there = problems_with(config);
  EXPECT_EQ(kind_, base::ErrorKind::kConfig);
  ASSERT_THAT(there, SizeIs(256));
  EXPECT_THAT(there, ::testing::Contains("5:38: postprocess.0.config.zones.0.pionts: unknown key; known here: points, "
                                         "name (did you mean points?)"));
  EXPECT_EQ(there, problems_with(config + "    isolation: none\n"));
}

TEST_F(PluginCheck, OneThatDiesOrHangsInItsProcessWhenItIsAskedIsNamed) {
  const std::string plugin = test::binary_dir() + "/lib/bad/faults.so";
  EXPECT_THAT(problems_with("  - plugin: " + misbehave() + "\n    config: {how: abort_check}\n"),
              ElementsAre(::testing::AllOf(HasSubstr("4:5: postprocess.0: plug-in " + misbehave() + ": its process "),
                                           HasSubstr("in check()"))));
  EXPECT_EQ(kind_, base::ErrorKind::kPlugin);
  EXPECT_THAT(problems_with("  - plugin: " + misbehave() + "\n    config: {how: gate_check}\n",
                            {std::chrono::milliseconds(500), {}}),
              ElementsAre("4:5: postprocess.0: plug-in " + misbehave() +
                          ": did not return from check() within 500 ms, and its process was ended"));
  EXPECT_FALSE(plugin_threads_left_behind());
  EXPECT_THAT(problems_with("  - plugin: " + plugin + "\n    config: {how: crash_create}\n"), IsEmpty());
}

TEST_F(PluginCheck, AScriptTellsItsMistakesAndClaims) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "no NumPy (python3-numpy)";
  if (test::kSanitized) GTEST_SKIP() << "an interpreter without the sanitizer cannot load a library with it";
  std::ofstream(path("p.py")) << "import os\n"
                                 "def check(config, told):\n"
                                 "    for key in config:\n"
                                 "        if key not in ('path', 'every'):\n"
                                 "            told.unknown_key(key, ['path', 'every'])\n"
                                 "    if config.get('every', 1) < 1:\n"
                                 "        told.mistake('every', f'is at least 1 ({told.cameras})')\n"
                                 "    told.claim('path', config['path'])\n"
                                 "def process(frame, tensors, results):\n"
                                 "    pass\n";
  const std::string entry = "  - {plugin: " + path("p.py") +
                            ", python: /usr/bin/python3, config: {path: " + path("out") + ", evry: 1, every: 0}}\n";
  const std::vector<std::string> lines = problems_with(entry + entry);
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_THAT(lines[0],
              HasSubstr("postprocess.0.config.evry: unknown key; known here: path, every (did you mean every?)"));
  EXPECT_THAT(lines[1], HasSubstr("postprocess.0.config.every: is at least 1 (['a'])"));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("is written by postprocess.0.config.path already")));
  EXPECT_EQ(kind_, base::ErrorKind::kConfig);
}

TEST_F(PluginCheck, ASettingThatIsWrongHidesNothingElseButWhatDependsOnIt) {
  const config::Reading reading = [&] {
    std::ofstream(path("c.yaml")) << "model: {path: m.onnx, engine: fast}\ncameras:\n"
                                     "  - {name: a, source: {type: test}}\n  - {name: b, source: {type: tst}}\n"
                                     "postprocess: [{plugin: detections}]\n";
    return config::read(path("c.yaml"), {}, {.check_files = false, .card_keys = card_keys()});
  }();
  EXPECT_THAT(reading.problems, SizeIs(2));
  EXPECT_EQ(reading.config.model.path, "");
  ASSERT_THAT(reading.config.cameras, SizeIs(1));
  EXPECT_EQ(reading.config.cameras[0].key, "cameras.0.source");
  ASSERT_THAT(reading.config.postprocess, SizeIs(1));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
