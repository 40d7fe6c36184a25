#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "apps/dashboard/model.hpp"
#include "apps/dashboard/render.hpp"
#include "dashboard_samples.hpp"

namespace camd::dashboard {
namespace CAMD_TEST_FILE {

using testing::camera_line;
using testing::sample_lines;
using testing::start_line;

TEST(DashboardModel, ReadsAWholeRun) {
  Model model;
  for (const std::string& line : sample_lines()) EXPECT_TRUE(model.feed(line)) << line;
  EXPECT_EQ(model.version(), "0.1.0");
  EXPECT_EQ(model.device(), "NVIDIA H200");
  EXPECT_EQ(model.engine(), "cuda");
  EXPECT_EQ(model.model(), "marker.onnx");
  EXPECT_EQ(model.transfer(), "pinned");
  EXPECT_EQ(model.streams(), "split");
  ASSERT_EQ(model.cameras().size(), 3U);
  const Camera& garden = model.cameras()[1];
  EXPECT_EQ(garden.name, "Einfahrt Süd");
  EXPECT_EQ(garden.state, "running");
  EXPECT_EQ(garden.totals.captured, 1020U);
  EXPECT_EQ(garden.totals.dropped[0], 5U);
  EXPECT_EQ(garden.totals.dropped[1], 2U);
  EXPECT_TRUE(garden.totals.balanced());
  EXPECT_EQ(garden.p99_history.size(), 40U);
  EXPECT_EQ(garden.p99_history[20], -1);  // stalled: no frame, no latency
  EXPECT_EQ(model.changes().size(), 5U);
  EXPECT_EQ(model.changes()[3].reason, "no frame for 2.0 s");
  EXPECT_EQ(model.changes()[3].clock, "12:00:50");
  EXPECT_EQ(model.periods(), 40U);
  EXPECT_EQ(model.exit_code(), 0);
  EXPECT_EQ(model.uptime_ns(), 41'000'000'000);
  EXPECT_EQ(model.problem(), "");
}

TEST(DashboardModel, TheSampleRunBalancesInEveryLine) {
  Model model;
  for (const std::string& line : sample_lines()) {
    model.feed(line);
    for (const Camera& camera : model.cameras()) EXPECT_TRUE(camera.totals.balanced()) << line;
  }
}

TEST(DashboardModel, ARefusedReloadIsAChangeWithItsFirstError) {
  Model model;
  EXPECT_TRUE(model.feed(
      R"({"event":"reload","schema":1,"result":"refused","duration_us":7,"errors":["c.yaml:1:1: no","more"]})"));
  ASSERT_EQ(model.changes().size(), 1U);
  EXPECT_EQ(model.changes().front().who, "camd");
  EXPECT_EQ(model.changes().front().to, "reload refused");
  EXPECT_EQ(model.changes().front().reason, "c.yaml:1:1: no");
  EXPECT_EQ(model.problem(), "");
}

TEST(DashboardModel, CountsJunkAndUnknownEventsAndGoesOn) {
  Model model;
  for (const char* junk : {"hello", "{", "[1,2]", "null", R"({"event":7,"schema":1})", R"({"schema":1})", "\xff\xfe"}) {
    EXPECT_FALSE(model.feed(junk)) << junk;
  }
  EXPECT_EQ(model.junk_lines(), 7U);
  EXPECT_EQ(model.problem(), "7 lines not understood");
  EXPECT_FALSE(model.feed(R"({"event":"weather","schema":1})"));
  EXPECT_EQ(model.unknown_events(), 1U);
  EXPECT_FALSE(model.feed(""));
  EXPECT_FALSE(model.feed("  \r\n"));
  EXPECT_EQ(model.junk_lines(), 7U);
  EXPECT_TRUE(model.feed(camera_line("door") + "\r\n"));
  EXPECT_EQ(model.cameras().size(), 1U);
}

TEST(DashboardModel, SaysWhichSchemaItMetAndWhichItReads) {
  Model model;
  EXPECT_FALSE(model.feed(R"({"event":"camera","schema":2,"camera":"door"})"));
  EXPECT_TRUE(model.cameras().empty());
  EXPECT_EQ(model.problem(), "1 line of schema 2, this dashboard reads schema 1");
  EXPECT_FALSE(model.feed(R"({"event":"camera","camera":"door"})"));
  EXPECT_EQ(model.problem(), "2 lines of schema none, this dashboard reads schema 1");
}

TEST(DashboardModel, KeepsThePluginsNumbersInTheChainsOrder) {
  Model model;
  ASSERT_TRUE(model.feed(R"({"event":"plugin","schema":1,"name":"jsonl","index":1,"counters":{}})"));
  ASSERT_TRUE(model.feed(
      R"({"event":"plugin","schema":1,"name":"detections","index":0,"counters":{"left_out":3,"level":-1.5,"bad":"x"}})"));
  ASSERT_TRUE(model.feed(R"({"event":"plugin","schema":1,"name":"detections","index":0,"counters":{"left_out":4}})"));
  ASSERT_EQ(model.plugins().size(), 2U);
  EXPECT_EQ(model.plugins()[0].name, "detections");
  ASSERT_EQ(model.plugins()[0].numbers.size(), 1U);
  EXPECT_EQ(model.plugins()[0].numbers[0].name, "left_out");
  EXPECT_EQ(model.plugins()[0].numbers[0].value, 4.0);
  EXPECT_EQ(model.plugins()[1].name, "jsonl");
  EXPECT_FALSE(model.feed(R"({"event":"plugin","schema":1,"index":3})"));
  EXPECT_EQ(model.problem(), "1 line not understood");
  model.feed(start_line());
  EXPECT_EQ(model.plugins().size(), 2U);  // the first start line
  model.feed(start_line());
  EXPECT_TRUE(model.plugins().empty());
}

TEST(DashboardModel, AddsUpTheCamerasOfAnOutletBesideItsNumbers) {
  Model model;
  EXPECT_FALSE(model.feed(R"({"event":"outlet","schema":1,"name":"mqtt","index":0,"camera":"a","taken":1})"));
  for (int period = 0; period < 2; ++period) {  // each period's lines stand alone
    ASSERT_TRUE(model.feed(R"({"event":"plugin","schema":1,"name":"mqtt","index":0,"counters":{"connected":1}})"));
    for (const char* camera : {"a", "b"}) {
      ASSERT_TRUE(model.feed(fmt::format(
          R"({{"event":"outlet","schema":1,"name":"mqtt","index":0,"camera":"{}","taken":10,"acknowledged":4,)"
          R"("waiting":3,"spooled":1,"dropped":{{"full":1,"refused":1}}}})",
          camera)));
    }
  }
  ASSERT_EQ(model.plugins().size(), 1U);
  std::string text;
  for (const auto& number : model.plugins()[0].numbers) text += fmt::format("{} {} ", number.name, number.value);
  EXPECT_EQ(text, "connected 1 taken 20 acknowledged 8 waiting 6 spooled 2 dropped 4 ");
}

TEST(DashboardModel, BoundsPluginsAndTheirNumbers) {
  Model model;
  std::string many;
  for (std::size_t i = 0; i < 2 * Model::kMaxNumbers; ++i) many += fmt::format(R"({}"c{}":1)", i > 0 ? "," : "", i);
  for (std::size_t i = 0; i < 2 * Model::kMaxPlugins; ++i) {
    model.feed(fmt::format(R"({{"event":"plugin","schema":1,"name":"p","index":{},"counters":{{{}}}}})", i, many));
  }
  ASSERT_EQ(model.plugins().size(), Model::kMaxPlugins);
  EXPECT_EQ(model.plugins()[0].numbers.size(), Model::kMaxNumbers);
}

TEST(DashboardModel, DropReasonsItDoesNotKnowStayInTheSum) {
  Model model;
  ASSERT_TRUE(model.feed(R"({"event":"camera","schema":1,"camera":"door","totals":{"captured":9,"delivered":3,)"
                         R"("in_flight":1,"dropped":{"superseded":2,"eaten_by_dog":2,"other":1}}})"));
  const Totals& totals = model.cameras()[0].totals;
  EXPECT_EQ(totals.dropped_sum(), 5U);
  EXPECT_EQ(totals.dropped[kDropReasons - 1], 3U);
  EXPECT_TRUE(totals.balanced());
}

TEST(DashboardModel, FramesThatAreGatedAreDroppedAndNotLost) {
  Model model;
  const auto feed = [&](int captured, int gated, int superseded) {
    ASSERT_TRUE(model.feed(fmt::format(
        R"({{"event":"camera","schema":1,"camera":"door","totals":{{"captured":{},"delivered":3,"in_flight":0,)"
        R"("dropped":{{"gated":{},"superseded":{}}}}}}})",
        captured, gated, superseded)));
  };
  feed(9, 6, 0);
  EXPECT_EQ(model.cameras()[0].newly_dropped, 0U);
  feed(20, 15, 2);
  const Camera& camera = model.cameras()[0];
  EXPECT_EQ(camera.newly_dropped, 2U);
  EXPECT_EQ(camera.totals.dropped_sum(), 17U);
  EXPECT_EQ(camera.totals.lost_sum(), 2U);
  EXPECT_TRUE(camera.totals.balanced());
}

TEST(DashboardModel, NewDropsAreThoseSinceTheLineBefore) {
  Model model;
  model.feed(camera_line("door", 1, "running", 30, 2));
  model.feed(camera_line("door", 2, "running", 60, 5));
  EXPECT_EQ(model.cameras()[0].newly_dropped, 3U);
  model.feed(camera_line("door", 3, "running", 90, 5));
  EXPECT_EQ(model.cameras()[0].newly_dropped, 0U);
}

TEST(DashboardModel, ASecondStartLineBeginsANewRun) {
  Model model;
  for (const std::string& line : sample_lines()) model.feed(line);
  ASSERT_TRUE(model.feed(start_line()));
  EXPECT_TRUE(model.cameras().empty());
  EXPECT_TRUE(model.changes().empty());
  EXPECT_FALSE(model.stopped());
  EXPECT_EQ(model.uptime_ns(), 0);
  EXPECT_EQ(model.device(), "host");
}

TEST(DashboardModel, AStateLineChangesTheCameraAtOnce) {
  Model model;
  model.feed(camera_line("door"));
  ASSERT_TRUE(model.feed(R"({"event":"state","schema":1,"time":"2026-11-21T12:00:02Z","camera":"door",)"
                         R"("from":"running","state":"stalled","reason":"no frame\u001b[2J"})"));
  EXPECT_EQ(model.cameras()[0].state, "stalled");
  EXPECT_EQ(model.changes()[0].reason, "no frame\\x1b[2J");
  ASSERT_TRUE(model.feed(R"({"event":"state","schema":1,"device":"cuda:0","state":"lost","reason":"xid 79"})"));
  EXPECT_EQ(model.changes()[1].who, "cuda:0");
  EXPECT_EQ(model.cameras().size(), 1U);
}

TEST(DashboardModel, MemoryIsBoundedWhateverIsFed) {
  Model model;
  for (std::size_t i = 0; i < Model::kMaxCameras + 1000; ++i) model.feed(camera_line(fmt::format("camera {}", i)));
  EXPECT_EQ(model.cameras().size(), Model::kMaxCameras);
  EXPECT_EQ(model.junk_lines(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    model.feed(camera_line("camera 0"));
    model.feed(R"({"event":"state","schema":1,"camera":"camera 0","state":"running"})");
    model.add_log(std::string(100'000, 'x'));
  }
  EXPECT_EQ(model.cameras()[0].p99_history.size(), Model::kMaxHistory);
  EXPECT_EQ(model.changes().size(), Model::kMaxChanges);
  EXPECT_EQ(model.logs().size(), Model::kMaxLogs);
  EXPECT_LE(model.logs()[0].size(), 1000U);
  EXPECT_TRUE(model.feed(camera_line(std::string(100'000, 'n'), 1)) || model.cameras().size() == Model::kMaxCameras);
}

// Every value of every kind of line, replaced by every kind of wrong value.
TEST(DashboardModel, WrongTypesAnywhereNeitherThrowNorBreakThePicture) {
  using Json = nlohmann::json;
  const std::vector<Json> wrong = {nullptr,
                                   true,
                                   -5,
                                   18446744073709551615ULL,
                                   1e308,
                                   -1e308,
                                   "\x1b[2J",
                                   Json::array(),
                                   Json::object(),
                                   Json::array({1, "a", nullptr})};
  std::vector<std::string> kinds;
  for (const std::string& line : sample_lines()) {
    const std::string event = Json::parse(line).at("event");
    if (kinds.size() < 5 && std::none_of(kinds.begin(), kinds.end(), [&](const std::string& known) {
          return Json::parse(known).at("event") == event;
        })) {
      kinds.push_back(line);
    }
  }
  ASSERT_EQ(kinds.size(), 5U);
  for (const std::string& kind : kinds) {
    const Json flat = Json::parse(kind).flatten();
    for (const auto& [path, value] : flat.items()) {
      for (const Json& replacement : wrong) {
        Json line = Json::parse(kind);
        line[Json::json_pointer(path)] = replacement;
        Model model;
        model.feed(line.dump());
        model.feed(line.dump());
        for (const Line& row : render(model, {})) {
          EXPECT_LE(row.width(), 80);
          EXPECT_EQ(row.plain().find('\x1b'), std::string::npos) << line.dump();
        }
        (void)render_summary(model, 80);
      }
    }
  }
}

TEST(DashboardModel, ALineCutOrFlippedAnywhereIsTolerated) {
  const std::string whole = camera_line("door");
  Model model;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(model.feed(whole.substr(0, i))) << i;
    for (const unsigned bit : {0U, 3U, 5U, 7U}) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(static_cast<unsigned char>(flipped[i]) ^ (1U << bit));
      model.feed(flipped);
    }
  }
  for (const Line& row : render(model, {})) EXPECT_LE(row.width(), 80);
}

TEST(DashboardModel, ReadsTheMonotonicTimeForReplay) {
  EXPECT_EQ(mono_ns_of(start_line()), 1'000'000'000);
  EXPECT_EQ(mono_ns_of("junk"), std::nullopt);
  EXPECT_EQ(mono_ns_of(R"({"mono_ns":-1})"), std::nullopt);
  EXPECT_EQ(mono_ns_of(R"({"mono_ns":18446744073709551615})"), std::nullopt);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::dashboard
