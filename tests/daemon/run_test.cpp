// camd run from outside: metrics lines, signals, reload, readers that go away, plug-ins that misbehave.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/daemon/run_camd.hpp"

namespace camd::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class Run : public testing::Test {
 protected:
  static std::string camera(const std::string& name, const std::string& source) {
    return "  - {name: " + name + ", source: " + source + "}\n";
  }
  static constexpr const char* kEndless = "{type: test, width: 320, height: 180, fps: 30}";
  static constexpr const char* kShort = "{type: test, width: 320, height: 180, frames: 5, realtime: false}";

  std::string config(const std::string& cameras, const std::string& postprocess = "  - plugin: detections\n",
                     const std::string& name = "camd.yaml") {
    return folder_.write(name, "device: host\nmodel: {path: " + source_path("models/marker-640x360.onnx") +
                                   "}\nmetrics: {period: 100ms}\ncameras:\n" + cameras + "postprocess:\n" +
                                   postprocess);
  }
  static std::vector<json> lines(const std::string& out) {
    std::vector<json> parsed;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) parsed.push_back(json::parse(line));
    return parsed;
  }
  static std::vector<json> events(const std::string& out, const std::string& event) {
    std::vector<json> chosen;
    for (json& line : lines(out)) {
      if (line.at("event") == event) chosen.push_back(std::move(line));
    }
    return chosen;
  }
  static bool balanced(const json& totals) {
    std::int64_t sum = totals.at("delivered").get<std::int64_t>() + totals.at("in_flight").get<std::int64_t>();
    for (const auto& [reason, count] : totals.at("dropped").items()) sum += count.get<std::int64_t>();
    return totals.at("captured").get<std::int64_t>() == sum && totals.at("in_flight") >= 0;
  }
  TemporaryFolder folder_;
};

TEST_F(Run, EveryLineIsOneJsonObjectOfSchema1AndEveryTotalBalances) {
  const Finished done = run_camd({"run", config(camera("a", kShort) + camera("b", kShort)), "--metrics", "json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const std::vector<json> all = lines(done.out);
  ASSERT_GE(all.size(), 6U);
  EXPECT_EQ(all.front().at("event"), "start");
  EXPECT_EQ(all.front().at("model").at("outputs").size(), 9U);
  EXPECT_EQ(all.back().at("event"), "stop");
  EXPECT_EQ(all.back().at("exit_code"), 0);
  for (const json& line : all) {
    EXPECT_EQ(line.at("schema"), 1);
    EXPECT_TRUE(line.contains("time"));
    EXPECT_GT(line.at("mono_ns"), 0);
    if (line.at("event") == "camera") {
      EXPECT_TRUE(balanced(line.at("totals"))) << line;
      EXPECT_EQ(line.at("latency_us").size(), 8U);
    }
  }
  EXPECT_TRUE(balanced(all.back().at("totals")));
  EXPECT_EQ(all.back().at("totals").at("delivered"), 10);
  EXPECT_EQ(all.back().at("totals").at("in_flight"), 0);
}

TEST_F(Run, StopsAfterTheFramesItWasAskedFor) {
  const Finished done = run_camd({"run", config(camera("a", kEndless)), "--metrics", "json", "--frames", "3"});
  EXPECT_EQ(done.code, 0) << done.err;
  const json stop = events(done.out, "stop").at(0);
  EXPECT_GE(stop.at("totals").at("delivered"), 3);
  EXPECT_EQ(stop.at("reason"), "frame limit reached");
}

TEST_F(Run, StopsAfterTheDurationItWasAskedFor) {
  const Finished done = run_camd({"run", config(camera("a", kEndless)), "--metrics", "json", "--duration", "300ms"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(events(done.out, "stop").at(0).at("reason"), "duration reached");
}

TEST_F(Run, DrainsOnTheFirstSignalAndPrintsTheFinalTotals) {
  for (const int number : {SIGINT, SIGTERM}) {
    CamdProcess process({"run", config(camera("a", kEndless)), "--metrics", "json"});
    ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
      return p.out().find("\"event\":\"process\"") != std::string::npos;
    })) << process.err();
    process.signal(number);
    EXPECT_EQ(process.wait(), 0) << process.err();
    const std::vector<json> stops = events(process.out(), "stop");
    ASSERT_EQ(stops.size(), 1U);
    EXPECT_EQ(stops[0].at("totals").at("in_flight"), 0);
    EXPECT_TRUE(balanced(stops[0].at("totals")));
  }
}

TEST_F(Run, LeavesAtOnceOnTheSecondSignalWhileAPluginHangs) {
  const std::string plugin = std::string(CAMD_BINARY_DIR) + "/lib/bad/misbehave.so";
  CamdProcess process({"run", config(camera("a", kEndless), "  - plugin: " + plugin + "\n    config: {how: gate}\n"),
                       "--metrics", "json"});
  // Frames are captured while the first one hangs in the plug-in for ever.
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.out().find("\"superseded\":2") != std::string::npos;
  })) << process.err();
  process.signal(SIGINT);
  // The drain has begun once a frame is refused as shutdown, or at the latest when the second signal finds it waiting.
  process.signal(SIGINT);
  int code = process.wait(std::chrono::seconds(1));
  if (code < 0) {  // two signals that were pending together are one: ask again
    process.signal(SIGINT);
    code = process.wait();
  }
  EXPECT_EQ(code, 70);
  EXPECT_THAT(process.err(), HasSubstr("leaving at once"));
}

TEST_F(Run, ReloadsOnSighupAndKeepsTheOldConfigurationWhenTheNewOneIsBad) {
  const std::string path = config(camera("old", kEndless));
  CamdProcess process({"run", path, "--metrics", "json"});
  const auto seen = [](const std::string& text) {
    return [text](const CamdProcess& p) { return (p.out() + p.err()).find(text) != std::string::npos; };
  };
  ASSERT_TRUE(process.read_until(seen("\"event\":\"process\""))) << process.err();
  folder_.write("camd.yaml", "cameras: 7\n");
  process.signal(SIGHUP);
  ASSERT_TRUE(process.read_until(seen("reload refused"))) << process.err();
  config(camera("new", kEndless));
  process.signal(SIGHUP);
  ASSERT_TRUE(process.read_until(seen("\"camera\":\"new\""))) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_EQ(events(process.out(), "start").size(), 2U);
  EXPECT_EQ(events(process.out(), "stop").size(), 2U);
}

// What was asked while a reload was being refused was forgotten with the reload, and camd ran on for ever.
TEST_F(Run, StopsWhenAskedToWhileAReloadIsBeingRefused) {
  const std::string path = config(camera("a", kEndless));
  CamdProcess process({"run", path, "--metrics", "json"});
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  process.signal(SIGHUP);
  const int fifo = open(path.c_str(), O_WRONLY | O_CLOEXEC);  // returns when camd reads it
  process.signal_and_see_it_taken(SIGTERM);
  EXPECT_EQ(write(fifo, "cameras: 7\n", 11), 11);
  close(fifo);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("reload refused"));
}

TEST_F(Run, GoesOnWithItsCamerasWhenStdoutIsClosed) {
  const std::string out = folder_ / "d.jsonl";
  CamdProcess process(
      {"run",
       config(camera("a", kEndless), "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n"),
       "--metrics", "json"});
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  process.close_stdout();
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.err().find("the cameras go on") != std::string::npos;
  })) << process.err();
  const std::string before = read_file(out);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (read_file(out).size() <= before.size() + 200 && std::chrono::steady_clock::now() < deadline) {
    pollfd none{-1, 0, 0};
    (void)poll(&none, 1, 5);
  }
  EXPECT_GT(read_file(out).size(), before.size() + 200);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
}

TEST_F(Run, WarnsOnceWhenTheDiskUnderStdoutIsFull) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  CamdProcess process({"run", config(camera("a", kShort)), "--metrics", "json"}, "/tmp", full);
  close(full);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("No space left on device"));
}

TEST_F(Run, KeepsOtherCamerasWhenOneEndsOrCannotBeReached) {
  const Finished done =
      run_camd({"run",
                config(camera("short", kShort) + camera("away", "{type: rtsp, url: \"rtsp://127.0.0.1:9/none\"}") +
                       camera("long", kEndless)),
                "--metrics", "json", "--duration", "2s"});
  ASSERT_EQ(done.code, 0) << done.err;
  std::map<std::string, json> totals;
  const json stop = events(done.out, "stop").at(0);
  for (const json& one : stop.at("cameras")) totals[one.at("camera")] = one.at("totals");
  EXPECT_EQ(totals.at("short").at("delivered"), 5);
  EXPECT_EQ(totals.at("away").at("captured"), 0);
  EXPECT_GT(totals.at("long").at("delivered"), 3);
}

TEST_F(Run, TellsOfACameraThatIsAwayWithoutMetricsToo) {
  CamdProcess process(
      {"run", config(camera("away", "{type: rtsp, url: \"rtsp://127.0.0.1:9/none\"}")), "--metrics", "off"});
  EXPECT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.err().find("camera away: reconnecting: ") != std::string::npos;
  })) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
}

TEST_F(Run, CountsWhatPluginsDoWrongAndGoesOn) {
  const std::string plugin = std::string(CAMD_BINARY_DIR) + "/lib/bad/misbehave.so";
  const auto totals_with = [&](const std::string& how) {
    const Finished done =
        run_camd({"run", config(camera("a", kShort), "  - plugin: " + plugin + "\n    config: {how: " + how + "}\n"),
                  "--metrics", "json"});
    EXPECT_EQ(done.code, 0) << how << done.err;
    return events(done.out, "stop").at(0).at("totals");
  };
  EXPECT_EQ(totals_with("throw_process").at("dropped").at("plugin_error"), 5);
  EXPECT_EQ(totals_with("fail_every_other").at("dropped").at("plugin_error"), 2);
  for (const std::string how :
       {"over_capacity", "negative_count", "nan_score", "inf_box", "nan_keypoint", "bad_keypoint_count"}) {
    EXPECT_EQ(totals_with(how).at("dropped").at("plugin_error"), 5) << how;
  }
}

TEST_F(Run, RefusesPluginsThatFailAtStartWithTheirMessage) {
  const std::string plugin = std::string(CAMD_BINARY_DIR) + "/lib/bad/misbehave.so";
  for (const auto& [how, message] : std::map<std::string, std::string>{{"throw_create", "thrown in create"},
                                                                       {"throw_outputs", "thrown in outputs"},
                                                                       {"undeclared_output", "output"}}) {
    const Finished done =
        run_camd({"run", config(camera("a", kShort), "  - plugin: " + plugin + "\n    config: {how: " + how + "}\n")});
    EXPECT_EQ(done.code, 3) << how;
    EXPECT_THAT(done.err, HasSubstr(message)) << how;
  }
}

TEST_F(Run, ChecksDescribesAndExaminesWithoutRunning) {
  const Finished checked = run_camd({"check", config(camera("a", kShort))});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(checked.err, "");
  EXPECT_THAT(checked.out, StartsWith("ok\nmodel\n"));
  EXPECT_THAT(checked.out, HasSubstr("engine cpu"));
  EXPECT_EQ(run_camd({"version"}).code, 0);
  const Finished defaults = run_camd({"config"});
  EXPECT_EQ(defaults.code, 0);
  EXPECT_THAT(defaults.out, HasSubstr("cameras:"));
  EXPECT_TRUE(json::accept(run_camd({"config", "--schema"}).out));
  const Finished doctor = run_camd({"doctor", config(camera("a", kShort)), "--json"});
  EXPECT_TRUE(json::accept(doctor.out)) << doctor.out;
  EXPECT_THAT(run_camd({"plugin", std::string(CAMD_BINARY_DIR) + "/lib/camd_plugin_detections.so"}).out,
              HasSubstr("ABI version 1"));
}

}  // namespace
}  // namespace camd::test
