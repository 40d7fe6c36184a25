#include "pipeline/core/metrics.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "pipeline/run/metrics_lines.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

StageTimes all_of(base::Duration time) {
  StageTimes times{};
  times.fill(time);
  return times;
}

TEST(Metrics, CountsEveryFrameOfAPeriodOnceHoweverManyThereWere) {
  Metrics metrics(2);
  for (const std::uint64_t frames : {1U, 63U, 64U, 65U, 1000U, 0U}) {
    for (std::uint64_t i = 0; i < frames; ++i) metrics.record(1, all_of(base::Duration(40)), 300, 20);
    const CameraMetrics taken = metrics.take(1);
    EXPECT_EQ(taken.frames, frames);
    for (const LatencySummary& stage : taken.latency) {
      EXPECT_EQ(stage.count, frames);
      EXPECT_EQ(stage.p50, frames == 0 ? 0 : 0.04);
    }
    EXPECT_EQ(taken.h2d_bytes_per_frame, frames == 0 ? 0 : 300);
    EXPECT_EQ(taken.d2h_bytes_per_frame, frames == 0 ? 0 : 20);
    EXPECT_EQ(metrics.take(0).frames, 0U) << "another camera's";
  }
}

TEST(Metrics, SummarizesAPeriodOfFewFramesExactlyAndKeepsItInTheTotals) {
  Metrics metrics(1);
  for (const int ms : {3, 1, 2, 100, 4}) metrics.record(0, all_of(std::chrono::milliseconds(ms)), 0, 0);
  metrics.record(0, all_of(base::Duration(-5)), 0, 0);
  const LatencySummary total = metrics.take(0).latency[0];
  EXPECT_EQ(total.count, 6U);
  EXPECT_EQ(total.p50, 2000);
  EXPECT_EQ(total.p90, 100'000);
  EXPECT_EQ(total.p999, 100'000);
  EXPECT_EQ(total.max, 100'000);
  EXPECT_EQ(metrics.totals(0)[0].count(), 6U);
  // Whoever asks for totals in the middle of a period leaves its frames to take().
  metrics.record(0, all_of(base::Duration(40)), 0, 0);
  EXPECT_EQ(metrics.totals(0)[0].count(), 7U);
  metrics.record(0, all_of(base::Duration(60)), 0, 0);
  EXPECT_EQ(metrics.take(0).latency[0].count, 2U);
  EXPECT_EQ(metrics.take(0).latency[0].count, 0U);
  EXPECT_EQ(metrics.totals(0)[0].count(), 8U);
}

TEST(Metrics, LosesNoFrameThatIsRecordedWhileAPeriodEnds) {
  constexpr std::uint64_t kFrames = 20'000;
  Metrics metrics(1);
  std::atomic<bool> recorded{false};
  std::thread recorder([&] {
    for (std::uint64_t i = 0; i < kFrames; ++i) metrics.record(0, all_of(base::Duration(7)), 0, 0);
    recorded = true;
  });
  std::uint64_t frames = 0;
  std::uint64_t times = 0;
  const auto take = [&] {
    const CameraMetrics taken = metrics.take(0);
    frames += taken.frames;
    times += taken.latency[0].count;
  };
  while (!recorded) take();
  recorder.join();
  take();
  EXPECT_EQ(frames, kFrames);
  EXPECT_EQ(times, kFrames);
}

TEST(Metrics, TotalsNeverGoDownWhilePeriodsEnd) {
  constexpr std::uint64_t kFrames = 20'000;
  Metrics metrics(1);
  std::atomic<bool> recorded{false};
  std::thread recorder([&] {
    for (std::uint64_t i = 0; i < kFrames; ++i) metrics.record(0, all_of(base::Duration(7)), 0, 0);
    recorded = true;
  });
  std::thread taker([&] {
    while (!recorded) (void)metrics.take(0);
  });
  std::uint64_t before = 0;
  while (!recorded) {
    const std::uint64_t now = metrics.totals(0)[0].count();
    EXPECT_GE(now, before);
    before = now;
  }
  recorder.join();
  taker.join();
  EXPECT_EQ(metrics.totals(0)[0].count(), kFrames);
}

TEST(Metrics, TotalsHoldEveryFrameUntilTheCameraIsGone) {
  Metrics metrics(2);
  const auto count = [&metrics] { return metrics.totals(1)[static_cast<std::size_t>(Stage::kInfer)].count(); };
  for (int i = 0; i < 70; ++i) metrics.record(1, all_of(base::Duration(40)), 300, 20);
  EXPECT_EQ(count(), 70U);
  EXPECT_EQ(metrics.take(1).frames, 70U) << "asking for totals takes nothing";
  metrics.record(1, all_of(base::Duration(40)), 300, 20);
  EXPECT_EQ(count(), 71U);
  metrics.retire(1);
  EXPECT_EQ(count(), 0U);
  EXPECT_EQ(metrics.take(1).frames, 0U);
}

TEST(MetricsLines, TellAPluginsNameItsPlaceAndItsNumbers) {
  const PluginNumbers plugin{
      "zones", {{"entered", CAMD_COUNTER, 18'446'744'073'709'551'615U, 0}, {"inside", CAMD_GAUGE, 0, 2.5}}, {}, {}};
  const auto line = nlohmann::json::parse(plugin_line(3, plugin, base::TimePoint(base::Duration(42))));
  EXPECT_EQ(line.at("event"), "plugin");
  EXPECT_EQ(line.at("schema"), 1);
  EXPECT_EQ(line.at("mono_ns"), 42);
  EXPECT_EQ(line.at("name"), "zones");
  EXPECT_EQ(line.at("index"), 3);
  EXPECT_EQ(line.at("counters").dump(), R"({"entered":18446744073709551615,"inside":2.5})");
}

TEST(MetricsLines, TellHowEachCamerasInstanceOfAPluginDoes) {
  PluginNumbers plugin{"faults", {}, {}, {}};
  plugin.health.isolated = true;
  plugin.health.state = "restarting";
  PluginHealth door = plugin.health;
  door.restarts = 2;
  door.frames_lost = 3;
  door.last_error = "its process exited with code 0";
  plugin.cameras.push_back({"door", door});
  const auto line = nlohmann::json::parse(plugin_line(0, plugin, base::TimePoint(base::Duration(1))));
  EXPECT_EQ(line.at("cameras").dump(),
            R"([{"bytes_copied":0,"camera":"door","deadline_missed":0,"frames_lost":3,)"
            R"("last_error":"its process exited with code 0","restarts":2,"state":"restarting"}])");
}

TEST(MetricsLines, TellWhatTheCaptureTimesRestOn) {
  CameraLine camera;
  camera.clock = {capture::ClockSource::kRtcp, std::chrono::microseconds(-1500), 49.96, std::chrono::microseconds(240),
                  3};
  const auto line = nlohmann::json::parse(camera_line(camera, base::TimePoint(base::Duration(1))));
  EXPECT_EQ(line.at("clock").dump(),
            R"({"drift_ppm":50.0,"offset_us":-1500,"source":"rtcp","steps":3,"uncertainty_us":240})");
}

TEST(MetricsLines, TellWhatWasLostBeforeTheLedgerBegins) {
  CameraLine camera;
  camera.upstream = {12, 3, 4};
  const auto line = nlohmann::json::parse(camera_line(camera, base::TimePoint(base::Duration(1))));
  EXPECT_EQ(line.at("upstream").dump(), R"({"frames_damaged":3,"frames_missing":4,"packets_lost":12})");
}

TEST(MetricsLines, SayWhatDecodesACamerasPictures) {
  CameraLine camera;
  EXPECT_FALSE(nlohmann::json::parse(camera_line(camera, base::TimePoint(base::Duration(1)))).contains("decoder"));
  camera.decoder = {"NVDEC H.264", "cuda:0"};
  const auto line = nlohmann::json::parse(camera_line(camera, base::TimePoint(base::Duration(1))));
  EXPECT_EQ(line.at("decoder").dump(), R"({"device":"cuda:0","name":"NVDEC H.264"})");
}

TEST(MetricsLines, SayWhatACameraShows) {
  CameraLine camera;
  const auto line = [&] { return nlohmann::json::parse(camera_line(camera, base::TimePoint(base::Duration(1)))); };
  EXPECT_FALSE(line().contains("seen"));
  camera.seen = Sight{};
  camera.seen->detections = 3;
  camera.seen->tracks = 2;
  EXPECT_EQ(line().at("seen").dump(), R"({"detections":3,"tracks":2})");
  camera.seen->texts = {"ROOM 12", "a\"\xFF"};
  camera.seen->zones = {{"desk", 2, 5}};
  camera.seen->lines = {{"middle", 1, 0}};
  EXPECT_EQ(line().at("seen").dump(),
            R"({"detections":3,"lines":{"middle":{"in":1.0,"out":0.0}},"texts":["ROOM 12","a\")"
            "\xEF\xBF\xBD"
            R"("],)"
            R"("tracks":2,"zones":{"desk":{"entered":5.0,"inside":2.0}}})");
}

TEST(MetricsLines, AreJsonWhateverAPluginIsCalled) {
  const auto line = nlohmann::json::parse(plugin_line(0, {"a\"\xFF", {}, {}, {}}, base::TimePoint(base::Duration(1))));
  EXPECT_EQ(line.at("name"), "a\"\xEF\xBF\xBD");
  EXPECT_EQ(line.at("counters").dump(), "{}");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
