// What of a snapshot stands in /metrics, line by line.
#include "apps/http/prometheus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace camd::http {
namespace CAMD_TEST_FILE {

using pipeline::CameraSnapshot;
using pipeline::PluginSnapshot;
using pipeline::Snapshot;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// The lines of the page that begin so.
std::vector<std::string> lines_of(const Snapshot& snapshot, const std::string& begin) {
  std::vector<std::string> found;
  std::istringstream page(prometheus_text(snapshot, "1.2.3", {}));
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(begin)) found.push_back(line);
  }
  return found;
}

CameraSnapshot door() {
  CameraSnapshot camera;
  camera.camera = "door";
  camera.state = "running";
  camera.totals = {13, 6, 1, {2, 0, 3, 0, 0, 1, 0}};
  return camera;
}

TEST(Prometheus, TellsEveryFrameByItsOutcome) {
  EXPECT_THAT(lines_of({{door()}, {}, {}, {}}, "camd_frames"),
              ElementsAre("camd_frames_captured_total{camera=\"door\"} 13",
                          "camd_frames_total{camera=\"door\",outcome=\"delivered\"} 6",
                          "camd_frames_total{camera=\"door\",outcome=\"superseded\"} 2",
                          "camd_frames_total{camera=\"door\",outcome=\"too_old\"} 0",
                          "camd_frames_total{camera=\"door\",outcome=\"gated\"} 3",
                          "camd_frames_total{camera=\"door\",outcome=\"source_error\"} 0",
                          "camd_frames_total{camera=\"door\",outcome=\"device_error\"} 0",
                          "camd_frames_total{camera=\"door\",outcome=\"plugin_error\"} 1",
                          "camd_frames_total{camera=\"door\",outcome=\"shutdown\"} 0",
                          "camd_frames_in_flight{camera=\"door\"} 1"));
}

TEST(Prometheus, CutsDurationsWhereTheHistogramsDo) {
  CameraSnapshot camera = door();
  pipeline::DurationTotals& total = camera.stages[0];
  total.counts[0] = 1;      // up to 8191 ns
  total.counts[1] = 2;      // up to 16383 ns
  total.counts.back() = 4;  // longer than 4.3 s
  total.sum_ns = 20e9;
  const std::vector<std::string> lines =
      lines_of({{camera}, {}, {}, {}}, "camd_stage_duration_seconds_bucket{camera=\"door\",stage=\"total\"");
  ASSERT_EQ(lines.size(), pipeline::DurationTotals::kCounts);
  EXPECT_EQ(lines[0], "camd_stage_duration_seconds_bucket{camera=\"door\",stage=\"total\",le=\"8.191e-06\"} 1");
  EXPECT_EQ(lines[1], "camd_stage_duration_seconds_bucket{camera=\"door\",stage=\"total\",le=\"1.6383e-05\"} 3");
  EXPECT_EQ(lines[19], "camd_stage_duration_seconds_bucket{camera=\"door\",stage=\"total\",le=\"4.294967295\"} 3");
  EXPECT_EQ(lines[20], "camd_stage_duration_seconds_bucket{camera=\"door\",stage=\"total\",le=\"+Inf\"} 7");
  EXPECT_THAT(lines_of({{camera}, {}, {}, {}}, "camd_stage_duration_seconds_sum{camera=\"door\",stage=\"total\"}"),
              ElementsAre("camd_stage_duration_seconds_sum{camera=\"door\",stage=\"total\"} 20"));
  EXPECT_THAT(lines_of({{camera}, {}, {}, {}}, "camd_stage_duration_seconds_count{camera=\"door\",stage=\"total\"}"),
              ElementsAre("camd_stage_duration_seconds_count{camera=\"door\",stage=\"total\"} 7"));
}

TEST(Prometheus, TellsOneStateOfEachCamera) {
  const std::vector<std::string> lines = lines_of({{door()}, {}, {}, {}}, "camd_camera_state{");
  EXPECT_EQ(lines.size(), 7U);
  EXPECT_THAT(lines, IsSupersetOf({std::string("camd_camera_state{camera=\"door\",state=\"running\"} 1"),
                                   std::string("camd_camera_state{camera=\"door\",state=\"stalled\"} 0")}));
}

TEST(Prometheus, TellsWhatWasLostAndWhatTheTimesRestOn) {
  CameraSnapshot camera = door();
  camera.upstream = {12, 3, 4};
  camera.clock = {capture::ClockSource::kRtcp, std::chrono::microseconds(-1500), 50, std::chrono::microseconds(240), 3};
  camera.decoder = {"avdec_h264", "cpu"};
  const Snapshot now{{camera}, {}, {}, {}};
  EXPECT_THAT(lines_of(now, "camd_upstream"), ElementsAre("camd_upstream_packets_lost_total{camera=\"door\"} 12",
                                                          "camd_upstream_frames_damaged_total{camera=\"door\"} 3",
                                                          "camd_upstream_frames_missing_total{camera=\"door\"} 4"));
  EXPECT_THAT(lines_of(now, "camd_clock"), ElementsAre("camd_clock_source{camera=\"door\",source=\"rtcp\"} 1",
                                                       "camd_clock_offset_seconds{camera=\"door\"} -0.0015",
                                                       "camd_clock_uncertainty_seconds{camera=\"door\"} 0.00024",
                                                       "camd_clock_drift_ratio{camera=\"door\"} 4.9999999999999996e-05",
                                                       "camd_clock_steps_total{camera=\"door\"} 3"));
  EXPECT_THAT(lines_of(now, "camd_decoder"),
              ElementsAre("camd_decoder_info{camera=\"door\",decoder=\"avdec_h264\",device=\"cpu\"} 1"));
}

TEST(Prometheus, TellsEveryMessageOfAnOutletByItsOutcome) {
  PluginSnapshot mqtt;
  mqtt.name = "mqtt";
  mqtt.outlet = {{"door", 10, 5, 2, 1, {{"full", 2}}}};
  PluginSnapshot first;
  first.name = "detections";
  EXPECT_THAT(
      lines_of({{}, {first, mqtt}, {}, {}}, "camd_outlet"),
      ElementsAre("camd_outlet_messages_taken_total{plugin=\"mqtt\",index=\"1\",camera=\"door\"} 10",
                  "camd_outlet_messages_total{plugin=\"mqtt\",index=\"1\",camera=\"door\",outcome=\"acknowledged\"} 5",
                  "camd_outlet_messages_total{plugin=\"mqtt\",index=\"1\",camera=\"door\",outcome=\"full\"} 2",
                  "camd_outlet_messages_pending{plugin=\"mqtt\",index=\"1\",camera=\"door\",place=\"memory\"} 2",
                  "camd_outlet_messages_pending{plugin=\"mqtt\",index=\"1\",camera=\"door\",place=\"spool\"} 1"));
}

TEST(Prometheus, TellsAPluginsOwnNumbersAndHowItsProcessDoes) {
  PluginSnapshot mine;
  mine.name = "mine";
  mine.counters = {{"entered", CAMD_COUNTER, 18'446'744'073'709'551'615U, 0}, {"inside", CAMD_GAUGE, 0, 2.5}};
  mine.health.isolated = true;
  mine.health.state = "restarting";
  mine.health.restarts = 3;
  const Snapshot now{{}, {mine}, {}, {}};
  EXPECT_THAT(lines_of(now, "camd_plugin"),
              ElementsAre("camd_plugin_events_total{plugin=\"mine\",index=\"0\",name=\"entered\"} 18446744073709551615",
                          "camd_plugin_level{plugin=\"mine\",index=\"0\",name=\"inside\"} 2.5",
                          "camd_plugin_worker_state{plugin=\"mine\",index=\"0\",state=\"running\"} 0",
                          "camd_plugin_worker_state{plugin=\"mine\",index=\"0\",state=\"restarting\"} 1",
                          "camd_plugin_worker_state{plugin=\"mine\",index=\"0\",state=\"failed\"} 0",
                          "camd_plugin_worker_restarts_total{plugin=\"mine\",index=\"0\"} 3",
                          "camd_plugin_worker_frames_lost_total{plugin=\"mine\",index=\"0\"} 0",
                          "camd_plugin_worker_deadlines_missed_total{plugin=\"mine\",index=\"0\"} 0",
                          "camd_plugin_worker_copied_bytes_total{plugin=\"mine\",index=\"0\"} 0"));
}

TEST(Prometheus, KeepsLanesOfOneDeviceApart) {
  pipeline::LaneView lane;
  lane.name = "cuda:0";
  lane.busy = 0.5;
  pipeline::LaneView lost = lane;
  lost.lost = true;
  EXPECT_THAT(
      lines_of({{}, {}, {lane, lost}, {}}, "camd_device_up"),
      ElementsAre("camd_device_up{device=\"cuda:0\",lane=\"0\"} 1", "camd_device_up{device=\"cuda:0\",lane=\"1\"} 0"));
}

TEST(Prometheus, EscapesWhatAPluginIsCalled) {
  PluginSnapshot odd;
  odd.name = "a\"b\\c\nd\xFF";
  odd.counters = {{"n", CAMD_COUNTER, 1, 0}};
  EXPECT_THAT(lines_of({{}, {odd}, {}, {}}, "camd_plugin_events_total"),
              ElementsAre("camd_plugin_events_total{plugin=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\",index=\"0\",name=\"n\"} 1"));
}

TEST(Prometheus, DeclaresEachFamilyOnceAndBeforeItsSamples) {
  std::vector<std::string> families;
  std::istringstream page(prometheus_text({{door(), door()}, {}, {}, {}}, "1", {}));
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      const std::string name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_THAT(families, ::testing::Not(Contains(name)));
      families.push_back(name);
    } else {
      ASSERT_THAT(families, ::testing::Not(IsEmpty()));
      EXPECT_TRUE(line.starts_with(families.back())) << line;
    }
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::http
