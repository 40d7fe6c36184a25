// Session: one way to start; a reload that cannot be used costs the running configuration nothing.
#include "pipeline/run/session.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "config/loader.hpp"
#include "device/make_device.hpp"
#include "pipeline/plugin/plugin_library.hpp"
#include "pipeline/run/card_keys.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kFive = "{type: test, width: 64, height: 36, frames: 5, realtime: false}";
constexpr const char* kEndless = "{type: test, width: 64, height: 36, realtime: false}";

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("camd_session_" + std::string(info->name()) + "_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~SessionTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  // A configuration whose frames are told in d.jsonl.
  void configure(const std::string& source, const std::string& more = "", const std::string& device = "host",
                 const std::string& model = "") const {
    write("c.yaml",
          "device: " + device +
              "\nmodel: {path: " + (model.empty() ? test::source_dir() + "/models/marker-640x360.onnx" : model) +
              "}\ncameras: [{name: a, source: " + source +
              "}]\npostprocess:\n  - plugin: jsonl\n    config: " + "{path: " + path("d.jsonl") + "}\n" + more);
  }
  Session& session(std::uint64_t frame_limit = 0) {
    SessionOptions options;
    options.frame_limit = frame_limit;
    options.plugin_patience = plugin_patience_;
    options.reload_patience = plugin_patience_;
    options.set_up_patience = {std::chrono::hours(1), [this] { return stop_asked_.load(); },
                               std::chrono::milliseconds(20)};
    options.draining = [this](bool now) { order_.emplace_back(now ? "drain" : "drained"); };
    session_ = std::make_unique<Session>(
        [this] { return config::read(path("c.yaml"), {}, {.card_keys = card_keys()}); }, options, base::system_clock(),
        [this](std::string_view line) {
          lines_.push_back(nlohmann::json::parse(line));
          const std::string event = lines_.back().at("event");
          if (event == "start" || event == "stop") order_.push_back(event);
        });
    return *session_;
  }
  EndReason wait() { return session_->wait(base::TimePoint::max()); }
  // The sequence numbers in d.jsonl.
  [[nodiscard]] std::vector<int> sequences() const {
    std::vector<int> found;
    std::ifstream file(path("d.jsonl"));
    for (std::string line; std::getline(file, line);) found.push_back(nlohmann::json::parse(line).at("seq"));
    return found;
  }
  [[nodiscard]] std::vector<nlohmann::json> reloads() const {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : lines_) {
      if (line.at("event") == "reload") found.push_back(line);
    }
    return found;
  }

  std::filesystem::path folder_;
  std::vector<nlohmann::json> lines_;
  std::vector<std::string> order_;
  base::Duration plugin_patience_ = std::chrono::hours(1);
  std::atomic<bool> stop_asked_ = false;
  std::unique_ptr<Session> session_;
};

// A reload restarted everything: cameras, files and totals began anew.
TEST_F(SessionTest, AReloadOfTheSameConfigurationTouchesNothing) {
  configure(kFive);
  session().start();
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(session_->reload());
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
  EXPECT_THAT(order_, ElementsAre("start", "drain", "stop", "drained"));
  ASSERT_EQ(reloads().size(), 100U);
  EXPECT_EQ(reloads()[99].at("result"), "accepted");
  EXPECT_THAT(reloads()[99].at("changed"), IsEmpty());
  EXPECT_THAT(reloads()[99].at("errors"), IsEmpty());
  EXPECT_THAT(sequences(), ElementsAre(0, 1, 2, 3, 4));
}

// The driver gives a process 8 queues unless this variable says otherwise before it is loaded.
TEST_F(SessionTest, GpusHaveMoreQueuesFromAThousandFramesASecondOn) {
  constexpr const char* kQueues = "CUDA_DEVICE_MAX_CONNECTIONS";
  const auto queues_with = [&](const std::string& device, const std::string& rate) -> std::string {
    unsetenv(kQueues);
    configure("{type: test, width: 64, height: 36, frames: 1, " + rate + "}", "", device);
    session().start();
    EXPECT_EQ(wait(), EndReason::kSourcesEnded);
    EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
    const char* const said = std::getenv(kQueues);
    return said == nullptr ? "as the driver likes" : said;
  };
  EXPECT_EQ(queues_with("auto", "fps: 999"), "as the driver likes");
  EXPECT_EQ(queues_with("auto", "fps: 1000"), "16");
  EXPECT_EQ(queues_with("auto", "realtime: false"), "16");
  EXPECT_EQ(queues_with("host", "fps: 1000"), "as the driver likes");
  unsetenv(kQueues);
}

// Other threads read the environment then.
TEST_F(SessionTest, AReloadAsksForNoQueues) {
  constexpr const char* kQueues = "CUDA_DEVICE_MAX_CONNECTIONS";
  constexpr const char* kSource = "{type: test, width: 64, height: 36, frames: 1, fps: 1000}";
  unsetenv(kQueues);
  configure(kSource);
  session().start();
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  configure(kSource, "", "auto");
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
  EXPECT_THAT(reloads()[0].at("changed"), ElementsAre("device"));
  EXPECT_EQ(std::getenv(kQueues), nullptr);
}

TEST_F(SessionTest, AnAlteredCameraGoesOnWithItsNumbersItsFileAndItsTotals) {
  configure(kFive);
  session().start();
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  configure("{type: test, width: 32, height: 36, frames: 3, realtime: false}");
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
  EXPECT_THAT(reloads()[0].at("changed"), ElementsAre("camera a altered"));
  EXPECT_THAT(sequences(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(lines_.back().at("totals").at("delivered"), 8);
  EXPECT_EQ(lines_.back().at("cameras").at(0).at("totals").at("captured"), 8);
}

TEST_F(SessionTest, EveryKindOfChangeUnderLoadLosesNoFrameOfACameraThatStays) {
  const auto write_config = [this](const std::string& model, const std::string& cameras, const std::string& chain,
                                   const std::string& more) {
    write("c.yaml", "device: host\nmodel: {path: " + model + "}\ncameras:\n  - {name: a, source: " + kEndless + "}\n" +
                        cameras + "postprocess:\n  - {plugin: jsonl, config: {path: " + path("d.jsonl") + "}}\n" +
                        chain + more);
  };
  const std::string model = test::source_dir() + "/models/marker-640x360.onnx";
  std::filesystem::copy_file(model, path("m.onnx"));
  std::filesystem::copy_file(test::source_dir() + "/models/marker.yaml", path("m.yaml"));
  write_config(model, "", "", "");
  session().start();
  const std::string camera = std::string("  - {name: b, source: ") + kEndless + "}\n";
  const std::string altered = "  - {name: b, source: {type: test, width: 32, height: 18, realtime: false}}\n";
  const std::string plugin = "  - {plugin: detections}\n";
  struct Step {
    std::string model, cameras, chain, more;
    std::vector<std::string> changed;
  };
  const std::vector<Step> steps{
      {model, camera, "", "", {"camera b added"}},
      {model, altered, "", "", {"camera b altered"}},
      {model, altered, "", "metrics: {period: 2s}\n", {"metrics"}},
      {path("m.onnx"), altered, "", "metrics: {period: 2s}\n", {"model"}},
      {path("m.onnx"), altered, plugin, "metrics: {period: 2s}\n", {"postprocess"}},
      {path("m.onnx"), altered, plugin, "metrics: {period: 2s}\npipeline: {slots: 5}\n", {"pipeline"}},
      {path("m.onnx"), "", plugin, "metrics: {period: 2s}\npipeline: {slots: 5}\n", {"camera b removed"}},
      {model, "", "", "", {"model", "pipeline", "postprocess", "metrics"}},
  };
  for (const Step& step : steps) {
    write_config(step.model, step.cameras, step.chain, step.more);
    EXPECT_TRUE(session_->reload());
  }
  EXPECT_EQ(session_->stop(EndReason::kRequested), 0);
  ASSERT_EQ(reloads().size(), steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(reloads()[i].at("result"), "accepted");
    EXPECT_EQ(reloads()[i].at("changed").get<std::vector<std::string>>(), steps[i].changed);
    EXPECT_EQ(reloads()[i].contains("model"), steps[i].changed[0] == "model" || steps[i].changed[0] == "pipeline");
  }
  // Every frame of camera a, in its order, in one file; the last one may have been begun when the ring was closed.
  int next = 0;
  std::ifstream file(path("d.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json told = nlohmann::json::parse(line);
    if (told.at("camera") != "a") continue;
    ASSERT_EQ(told.at("seq"), next++);
  }
  const nlohmann::json& totals = lines_.back().at("cameras").at(0).at("totals");
  EXPECT_EQ(totals.at("delivered"), next);
  EXPECT_LE(totals.at("captured").get<int>() - next, 1);
  EXPECT_GT(lines_.back().at("removed").at("captured"), 0);
  EXPECT_EQ(lines_.back().at("removed").at("in_flight"), 0);
}

TEST_F(SessionTest, AllThatIsWrongIsToldAtOnce) {
  configure(kEndless);
  session().start();
  configure(kEndless, "  - plugin: nothing\n  - plugin: detections\n    config: {scroe: 1}\n", "host",
            path("missing.onnx"));
  write("missing.onnx", "no model");
  EXPECT_FALSE(session_->reload());
  EXPECT_EQ(session_->stop(EndReason::kRequested), 0);
  ASSERT_EQ(reloads()[0].at("errors").size(), 3U) << reloads()[0];
  EXPECT_THAT(reloads()[0].at("errors")[0].get<std::string>(), HasSubstr("model.path"));
  EXPECT_THAT(reloads()[0].at("errors")[1].get<std::string>(), HasSubstr("plug-in nothing: is no built-in"));
  EXPECT_THAT(reloads()[0].at("errors")[2].get<std::string>(), HasSubstr("scroe"));
}

TEST_F(SessionTest, TheModelsFileCountsAndNotOnlyItsName) {
  const std::string model = test::source_dir() + "/models/marker-640x360.onnx";
  std::filesystem::copy_file(model, path("m.onnx"));
  configure(kFive, "", "host", path("m.onnx"));
  session().start();
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  std::filesystem::last_write_time(path("m.onnx"), std::filesystem::file_time_type::clock::now());
  EXPECT_TRUE(session_->reload());
  std::ofstream(path("m.onnx"), std::ios::binary | std::ios::trunc) << "no model";
  EXPECT_FALSE(session_->reload());
  EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
  EXPECT_THAT(reloads()[0].at("changed"), IsEmpty());
  EXPECT_EQ(reloads()[1].at("result"), "refused");
}

TEST_F(SessionTest, TellsInALineHowItGoes) {
  configure(kFive);
  EXPECT_EQ(session().status_line(), "nothing runs");
  EXPECT_EQ(session_->progress().in_flight, 0);
  session_->start();
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  EXPECT_EQ(session_->status_line(), "0 of 1 cameras running, a ended");
  EXPECT_EQ(session_->progress().finished, 5U);
  EXPECT_EQ(session_->progress().in_flight, 0);
  configure(kFive, "  - plugin: nothing\n");
  EXPECT_FALSE(session_->reload());
  EXPECT_THAT(session_->status_line(), StartsWith("0 of 1 cameras running, a ended; the last reload was refused: " +
                                                  path("c.yaml") + ":7:5: postprocess.1: "));
  configure(kFive);
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(session_->status_line(), "0 of 1 cameras running, a ended");
}

TEST_F(SessionTest, TheFirstStartThrowsWhyItIsRefusedAndNothingRuns) {
  configure(kFive, "  - plugin: nothing\n");
  EXPECT_THROW(session().start(), base::Error);
  EXPECT_FALSE(session_->running());
  EXPECT_THAT(order_, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path("d.jsonl")));
}

// A configuration whose model, plug-in or device could not be used ended the daemon.
TEST_F(SessionTest, ARefusedReloadCostsTheRunningConfigurationNoFrame) {
  const std::string bad_plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  struct Case {
    std::string why, more, device, model;
  };
  write("corrupt.onnx", "not a model");
  std::vector<Case> cases{
      {"no such file", "", "host", path("missing.onnx")},
      {"corrupt.onnx", "", "host", path("corrupt.onnx")},
      {"thrown in create", "  - plugin: " + bad_plugin + "\n    isolation: none\n    config: {how: throw_create}\n",
       "host", ""},
      {"thrown in outputs", "  - plugin: " + bad_plugin + "\n    isolation: none\n    config: {how: throw_outputs}\n",
       "host", ""},
      {"is written by postprocess.0.config.path already",
       "  - plugin: jsonl\n    config: {path: " + path("d.jsonl") + "}\n", "host", ""}};
  if (device::count_gpus().count == 0) cases.push_back({"c.yaml:1:9: device", "", "cuda", ""});
  configure(kEndless);
  session(30).start();
  for (const Case& one : cases) {
    configure(kFive, one.more, one.device, one.model);
    EXPECT_FALSE(session_->reload()) << one.why;
    EXPECT_TRUE(session_->running());
  }
  EXPECT_EQ(wait(), EndReason::kFrameLimit);
  EXPECT_EQ(session_->stop(EndReason::kFrameLimit), 0);
  EXPECT_THAT(order_, ElementsAre("start", "drain", "stop", "drained"));
  const std::vector<nlohmann::json> refused = reloads();
  ASSERT_EQ(refused.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(refused[i].at("result"), "refused");
    ASSERT_EQ(refused[i].at("errors").size(), 1U) << refused[i];
    EXPECT_THAT(refused[i].at("errors")[0].get<std::string>(), HasSubstr(cases[i].why));
    EXPECT_THAT(refused[i].at("errors")[0].get<std::string>(), HasSubstr("c.yaml:"));
  }
  const std::vector<int> told = sequences();
  EXPECT_GE(told.size(), 30U);
  for (std::size_t i = 0; i < told.size(); ++i) ASSERT_EQ(told[i], static_cast<int>(i));
}

// The reload waited for it for ever, and nothing could stop camd any more.
TEST_F(SessionTest, AReloadWhosePluginHangsInCreateIsRefusedAndTheOldConfigurationRunsOn) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  void* const library = dlopen(plugin.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto set_gate = reinterpret_cast<void (*)(int)>(dlsym(library, "misbehave_set_gate"));
  const auto wait_entered = reinterpret_cast<void (*)(std::int64_t)>(dlsym(library, "misbehave_wait_entered"));
  configure(kEndless);
  session().start();
  const std::string entry = "  - plugin: " + plugin + "\n    isolation: none\n    config: {how: ";
  for (const std::string how : {"gate_create", "gate_outputs"}) {
    set_gate(0);
    stop_asked_ = false;
    std::thread enough([&] {
      wait_entered(1);
      stop_asked_ = true;
    });
    std::string gated = entry;
    gated += how;
    gated += "}\n";
    configure(kEndless, gated);
    EXPECT_FALSE(session_->reload());
    enough.join();
    EXPECT_TRUE(session_->running());
    EXPECT_TRUE(session_->hangs());
  }
  stop_asked_ = false;
  set_gate(1);
  while (plugin_threads_left_behind()) std::this_thread::yield();
  EXPECT_FALSE(session_->hangs());
  configure(kFive);
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
  ASSERT_EQ(reloads().size(), 3U);
  const std::string place = path("c.yaml") + ":7:5: postprocess.1: plug-in " + plugin + ": hangs in ";
  EXPECT_THAT(reloads()[0].at("errors"),
              ElementsAre(place + "create(), or while its library is loaded: it is left behind"));
  EXPECT_THAT(reloads()[1].at("errors"), ElementsAre(place + "outputs(): it is left behind"));
}

// The reload, and the stop after it, waited for ever.
TEST_F(SessionTest, AReloadIsRefusedWhileAPluginHangsAndTheStopLeavesItBehind) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  void* const library = dlopen(plugin.c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr);
  const auto set_gate = reinterpret_cast<void (*)(int)>(dlsym(library, "misbehave_set_gate"));
  const auto wait_entered = reinterpret_cast<void (*)(std::int64_t)>(dlsym(library, "misbehave_wait_entered"));
  set_gate(0);
  const std::string gate = "  - plugin: " + plugin + "\n    isolation: none\n    config: {how: gate}\n";
  configure(kEndless, gate);
  plugin_patience_ = std::chrono::milliseconds(1);
  session().start();
  wait_entered(1);
  configure(kFive, gate);
  EXPECT_FALSE(session_->reload());
  EXPECT_TRUE(session_->running());
  EXPECT_EQ(session_->stop(EndReason::kRequested), 3);
  EXPECT_TRUE(session_->hangs());
  EXPECT_THAT(order_, ElementsAre("start", "drain", "stop", "drained"));
  ASSERT_EQ(reloads().size(), 1U);
  EXPECT_EQ(reloads()[0].at("result"), "refused");
  EXPECT_THAT(reloads()[0].at("errors"), ElementsAre(path("c.yaml") + ":7:5: postprocess.1: plug-in " + plugin +
                                                     ": has not returned from process() with a frame of camera a"));
  const nlohmann::json& totals = lines_.back().at("totals");
  EXPECT_EQ(totals.at("in_flight"), 0);
  EXPECT_EQ(totals.at("dropped").at("plugin_error"), 1);
  EXPECT_EQ(totals.at("captured"),
            totals.at("dropped").at("plugin_error").get<int>() + totals.at("dropped").at("shutdown").get<int>());
  EXPECT_THAT(sequences(), ElementsAre(0));  // the file is finished
  set_gate(1);
  session_.reset();
  dlclose(library);
}

// What only the world shows is the camera's own state.
TEST_F(SessionTest, AReloadWithACameraThatCannotBeOpenedIsAcceptedAndTheCameraFails) {
  configure(kFive);
  session().start();
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  write("no.mp4", "");
  configure("{type: file, path: " + path("no.mp4") + "}");
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(wait(), EndReason::kSourcesFailed);
  EXPECT_EQ(session_->stop(EndReason::kSourcesFailed), 4);
  ASSERT_EQ(reloads().size(), 1U);
  EXPECT_EQ(reloads()[0].at("result"), "accepted");
}

// One that had failed for good waited for a restart of the daemon.
TEST_F(SessionTest, AReloadOpensACameraAnewThatHasFailed) {
  write("no.mp4", "");
  configure("{type: file, path: " + path("no.mp4") + "}");
  session().start();
  EXPECT_EQ(wait(), EndReason::kSourcesFailed);
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(wait(), EndReason::kSourcesFailed);
  EXPECT_EQ(session_->stop(EndReason::kSourcesFailed), 4);
  ASSERT_EQ(reloads().size(), 1U);
  EXPECT_THAT(reloads()[0].at("changed"), ElementsAre("camera a opened again"));
}

TEST_F(SessionTest, EveryMistakeInAPipelinesTextIsRefusedAtOnceBeforeAnythingRuns) {
  configure("{type: gstreamer, pipeline: videotestsrc ! nosuchelement}");
  try {
    session().start();
    ADD_FAILURE() << "it started";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kConfig);
    EXPECT_THAT(error.what(), HasSubstr("cameras.0.source.pipeline: no element \"nosuchelement\""));
  }
  EXPECT_FALSE(session_->running());
  EXPECT_THAT(order_, IsEmpty());
}

// The loader takes a library that is loaded under the same path for the one that is meant.
TEST_F(SessionTest, AReloadLoadsAPluginThatWasReplacedWhileTheOldOneIsLoaded) {
  const std::string bad = test::binary_dir() + "/lib/bad/";
  std::filesystem::copy_file(bad + "misbehave.so", path("p.so"));
  const PluginLibrary old(path("p.so"));
  EXPECT_NO_THROW((void)old.table("p"));
  EXPECT_NO_THROW((void)PluginLibrary(path("p.so")).table("p"));  // the same file: the same library
  std::filesystem::copy_file(bad + "no_symbol.so", path("new.so"));
  std::filesystem::rename(path("new.so"), path("p.so"));
  EXPECT_THROW((void)PluginLibrary(path("p.so")).table("p"), base::Error);
}

TEST_F(SessionTest, SeveralDevicesShareTheCamerasAndEachLineNamesItsDevice) {
  write("c.yaml", "devices: [host, host]\nmodel: {path: " + test::source_dir() +
                      "/models/marker-640x360.onnx}\ncameras: [{name: a, source: " + kFive +
                      "}, {name: b, source: " + kFive + "}]\n");
  session().start();
  EXPECT_EQ(wait(), EndReason::kSourcesEnded);
  EXPECT_EQ(session_->stop(EndReason::kSourcesEnded), 0);
  const nlohmann::json& start = lines_.front();
  ASSERT_EQ(start.at("devices").size(), 2U);
  EXPECT_EQ(start.at("devices")[0].at("device"), "host");
  EXPECT_EQ(start.at("devices")[1].at("transfer"), "in_place");
  EXPECT_EQ(start.at("device"), "host");
  std::map<std::string, std::string> devices;
  nlohmann::json process;
  for (const nlohmann::json& line : lines_) {
    if (line.at("event") == "camera") devices[line.at("camera")] = line.at("device");
    if (line.at("event") == "process") process = line;
  }
  EXPECT_EQ(devices, (std::map<std::string, std::string>{{"a", "host"}, {"b", "host"}}));
  ASSERT_EQ(process.at("devices").size(), 2U);
  for (const nlohmann::json& device : process.at("devices")) {
    EXPECT_EQ(device.at("cameras"), 1);
    EXPECT_EQ(device.at("state"), "running");
  }
  EXPECT_EQ(lines_.back().at("totals").at("delivered"), 10);
}

TEST_F(SessionTest, AReloadMayChangeTheNumberOfDevices) {
  configure(kEndless);
  session().start();
  write("c.yaml", "devices: [host, host]\nmodel: {path: " + test::source_dir() +
                      "/models/marker-640x360.onnx}\ncameras: [{name: a, source: " + kEndless +
                      "}]\npostprocess: [{plugin: jsonl, config: {path: " + path("d.jsonl") + "}}]\n");
  EXPECT_TRUE(session_->reload());
  session_->request_end();
  EXPECT_EQ(wait(), EndReason::kRequested);
  EXPECT_EQ(session_->stop(EndReason::kRequested), 0);
  ASSERT_EQ(reloads().size(), 1U);
  EXPECT_THAT(reloads()[0].at("changed"), ElementsAre("device"));
  EXPECT_EQ(reloads()[0].at("devices").size(), 2U);
}

TEST_F(SessionTest, ADeviceOfAListThatIsNotThereIsNamedWithItsPlace) {
  configure(kFive);
  write("c.yaml", "devices: [host, cuda:99]\nmodel: {path: " + test::source_dir() +
                      "/models/marker-640x360.onnx}\ncameras: [{name: a, source: " + kFive + "}]\n");
  try {
    session().start();
    ADD_FAILURE() << "it started";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kDevice);
    EXPECT_THAT(error.what(), HasSubstr("c.yaml:1:17: devices.1: "));
  }
}

TEST_F(SessionTest, ARequestFromBetweenTwoConfigurationsEndsTheNextOne) {
  configure(kEndless);
  session();
  session_->request_end();
  session_->start();
  EXPECT_EQ(wait(), EndReason::kRequested);
  session_->forget_request();
  session_->request_end();
  EXPECT_TRUE(session_->reload());
  EXPECT_EQ(wait(), EndReason::kRequested);
  EXPECT_EQ(session_->stop(EndReason::kRequested), 0);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
