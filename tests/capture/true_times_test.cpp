// What live sources tell of the time at which a picture was taken, against the truth that is written in the picture.
#include <gst/base/gstbasetransform.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "capture/gst_support.hpp"
#include "source_fixture.hpp"
#ifdef CAMD_RTSP_SERVER
#include "rtsp_camera.hpp"
#endif

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::Duration;
using base::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;

double ms(Duration duration) { return static_cast<double>(duration.count()) / 1e6; }

// ---- Free pipelines whose stamps go wrong

// camdrestamp: an element that spoils the PTS of what passes. "mode" 0: they start over after two seconds; 1: they
// stand still from then on.
struct Restamp {
  GstBaseTransform parent;
  gint mode;
};
struct RestampClass {
  GstBaseTransformClass parent;
};
G_DEFINE_TYPE(Restamp, restamp, GST_TYPE_BASE_TRANSFORM)

GstFlowReturn restamp_transform(GstBaseTransform* self, GstBuffer* buffer) {
  constexpr GstClockTime kAfter = 2 * GST_SECOND;
  const GstClockTime pts = GST_BUFFER_PTS(buffer);
  if (pts >= kAfter) {
    GST_BUFFER_PTS(buffer) = reinterpret_cast<Restamp*>(self)->mode == 0 ? (pts - kAfter) % (10 * GST_SECOND) : kAfter;
  }
  return GST_FLOW_OK;
}
void restamp_set(GObject* self, guint, const GValue* value, GParamSpec*) {
  reinterpret_cast<Restamp*>(self)->mode = g_value_get_int(value);
}
void restamp_class_init(RestampClass* type) {
  auto* const object = reinterpret_cast<GObjectClass*>(type);
  object->set_property = &restamp_set;
  g_object_class_install_property(
      object, 1, g_param_spec_int("mode", "mode", "mode", 0, 1, 0, static_cast<GParamFlags>(G_PARAM_WRITABLE)));
  auto* const element = reinterpret_cast<GstElementClass*>(type);
  gst_element_class_set_static_metadata(element, "restamp", "Filter", "spoils time stamps", "tests");
  for (const auto& [name, direction] : {std::pair{"sink", GST_PAD_SINK}, std::pair{"src", GST_PAD_SRC}}) {
    gst_element_class_add_pad_template(element,
                                       gst_pad_template_new(name, direction, GST_PAD_ALWAYS, gst_caps_new_any()));
  }
  reinterpret_cast<GstBaseTransformClass*>(type)->transform_ip = &restamp_transform;
}
void restamp_init(Restamp* self) { gst_base_transform_set_in_place(&self->parent, TRUE); }

class TrueTimes : public testing::SourceTest {
 protected:
  void open_restamped(int mode) {
    init_gstreamer();
    (void)gst_element_register(nullptr, "camdrestamp", GST_RANK_NONE, restamp_get_type());
    config::GStreamerSource source;
    source.pipeline =
        "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1 ! "
        "camdrestamp mode=" +
        std::to_string(mode);
    make(source);
    source_->start();
  }
};

TEST_F(TrueTimes, PipelineWhoseStampsStartOverGoesOn) {
  open_restamped(0);
  std::vector<Duration> ages;
  for (int i = 0; i < 120; ++i) {
    const auto lease = next();
    ASSERT_TRUE(lease);
    ages.push_back(lease->frame().arrived - lease->frame().captured);
  }
  source_->stop();
  EXPECT_EQ(source_->clock().steps, 1U);
  EXPECT_EQ(source_->clock().source, ClockSource::kEstimated);
  for (std::size_t i = 95; i < ages.size(); ++i) EXPECT_LT(ages[i], milliseconds(100)) << i;
}

TEST_F(TrueTimes, PipelineWhoseStampsStandStillGoesOnByTheArrival) {
  open_restamped(1);
  std::vector<Duration> ages;
  for (int i = 0; i < 120; ++i) {
    const auto lease = next();
    ASSERT_TRUE(lease);
    ages.push_back(lease->frame().arrived - lease->frame().captured);
  }
  source_->stop();
  EXPECT_EQ(source_->clock().steps, 1U);
  EXPECT_EQ(source_->clock().source, ClockSource::kArrival);
  for (std::size_t i = 95; i < ages.size(); ++i) EXPECT_EQ(ages[i], Duration::zero()) << i;
}

// ---- RTSP

#ifdef CAMD_RTSP_SERVER
struct Seen {
  std::int64_t number = 0;
  TimePoint taken;  // truth
  TimePoint captured;
  TimePoint arrived;
  Duration uncertainty{};
  [[nodiscard]] Duration younger() const { return captured - taken; }
  [[nodiscard]] Duration age() const { return arrived - taken; }
};

class RtspTimes : public testing::SourceTest, public ::testing::WithParamInterface<config::RtspTransport> {
 protected:
  void open(Duration latency = milliseconds(50)) {
    ASSERT_TRUE(server_.start());
    config::RtspSource source;
    source.url = server_.url();
    source.transport = GetParam();
    source.latency = std::chrono::duration_cast<decltype(source.latency)>(latency);
    source.recovery.timeout = seconds(20);
    make(source);
    source_->start();
  }
  // Takes frames until one was taken, in truth, `more` after now; those whose truth can be read.
  std::vector<Seen> watch(Duration more) {
    std::vector<Seen> seen;
    const TimePoint until = base::system_clock().now() + more;
    while (auto lease = next()) {
      const Frame& frame = lease->frame();
      const auto stamp = read_test_pattern(frame.layout, frame.pixels);
      if (!stamp) continue;
      Seen one;
      one.number = static_cast<std::int64_t>(stamp->sequence);
      one.taken = base::from_ns(stamp->birth_ns);
      one.captured = frame.captured;
      one.arrived = frame.arrived;
      one.uncertainty = frame.uncertainty;
      seen.push_back(one);
      if (one.taken >= until) break;
    }
    return seen;
  }
  // Until that much time has passed for the camera.
  void pass(Duration time) {
    const TimePoint until = base::system_clock().now() + time;
    EXPECT_TRUE(testing::eventually([&] { return base::system_clock().now() >= until; }, seconds(60)));
  }
  static Duration most_younger(const std::vector<Seen>& seen) {
    Duration most = Duration::min();
    for (const Seen& one : seen) most = std::max(most, one.younger());
    return most;
  }
  static Duration error(const std::vector<Seen>& seen, int percent) {
    std::vector<Duration> errors;
    for (const Seen& one : seen) errors.push_back(std::chrono::abs(one.younger()));
    if (errors.empty()) return Duration::max();
    std::sort(errors.begin(), errors.end());
    return errors[(errors.size() - 1) * static_cast<std::size_t>(percent) / 100];
  }
  void print(const char* name, const std::vector<Seen>& seen) const {
    const ClockStatus status = source_->clock();
    std::printf(
        "%-32s %4zu frames  error p50 %7.2f ms  p99 %7.2f ms  younger by at most %7.2f ms  [%s %.1f ppm +-%.2f ms]\n",
        name, seen.size(), ms(error(seen, 50)), ms(error(seen, 99)), ms(most_younger(seen)),
        std::string(to_string(status.source)).c_str(), status.drift_ppm, ms(status.uncertainty));
  }
  testing::RtspCamera server_;
};

// How much waits in a connection that has just begun cannot be known. Pictures are told too young by that, and say so.
TEST_P(RtspTimes, FirstPicturesOfAConnectionLieWithinTheirUncertainty) {
  open();
  constexpr Duration kEncoder = milliseconds(20);  // which nobody can see, and which is not in the uncertainty
  TimePoint kicked{};
  for (const char* name : {"first connection", "second connection"}) {
    std::vector<Seen> seen = watch(seconds(3));
    std::erase_if(seen, [&](const Seen& one) { return one.taken < kicked; });  // a rest of the connection before
    print(name, seen);
    ASSERT_FALSE(seen.empty());
    // A busy machine may show none of the first pictures, which are uncertain by a second.
    EXPECT_GT(seen.front().uncertainty, seen.back().uncertainty) << name;
    for (const Seen& one : seen) {
      EXPECT_LE(std::chrono::abs(one.younger()), one.uncertainty + kEncoder) << name << ", picture " << one.number;
    }
    ASSERT_EQ(server_.tell("kick"), "ok kick");
    kicked = base::system_clock().now();
    ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  }
  source_->stop();
}

TEST_P(RtspTimes, RestsOnSenderReportsWhereThereAreSome) {
  open();
  (void)watch(seconds(1));
  ASSERT_EQ(server_.tell("rtcp-every 200"), "ok rtcp-every 200");
  for (int i = 0; i < 20 && source_->clock().source != ClockSource::kRtcp; ++i) (void)watch(milliseconds(500));
  ASSERT_EQ(source_->clock().source, ClockSource::kRtcp);
  const std::vector<Seen> seen = watch(seconds(2));
  print("sender reports", seen);
  EXPECT_EQ(source_->clock().source, ClockSource::kRtcp);
  EXPECT_LT(std::chrono::abs(source_->clock().offset), milliseconds(20));  // the server is on this machine
  EXPECT_LT(error(seen, 90), milliseconds(5) + source_->clock().uncertainty);
  source_->stop();
}

TEST_P(RtspTimes, KnowsTheBacklogOfAStall) {
  open();
  print("first 4 s", watch(seconds(4)));
  ASSERT_EQ(server_.tell("stall"), "ok stall");
  pass(seconds(3));
  ASSERT_EQ(server_.tell("go"), "ok go");
  const std::vector<Seen> seen = watch(seconds(2));
  print("stall of 3 s", seen);
  source_->stop();
  ASSERT_FALSE(seen.empty());
  EXPECT_LT(most_younger(seen), milliseconds(50));
  EXPECT_EQ(source_->clock().steps, 0U);
}

TEST_P(RtspTimes, FollowsStampsThatStartOver) {
  open();
  (void)watch(seconds(3));
  ASSERT_EQ(server_.tell("restart-stamps"), "ok restart-stamps");
  (void)watch(seconds(1));
  const std::vector<Seen> seen = watch(seconds(3));
  print("after a restart of the stamps", seen);
  source_->stop();
  EXPECT_EQ(source_->clock().steps, 1U);
  EXPECT_LT(error(seen, 90), milliseconds(50));
}

TEST_P(RtspTimes, FollowsSteps) {
  open();
  (void)watch(seconds(3));
  for (const char* step : {"step 5000", "step -5000", "step 400", "step -400"}) {
    ASSERT_EQ(server_.tell(step), std::string("ok ") + step);
    (void)watch(seconds(1));
    const std::vector<Seen> seen = watch(seconds(2));
    print(step, seen);
    EXPECT_LT(error(seen, 90), milliseconds(50)) << step;
  }
  source_->stop();
  EXPECT_EQ(source_->clock().steps, 4U);
}

TEST_P(RtspTimes, GoesByTheArrivalWhereStampsStandStill) {
  open();
  (void)watch(seconds(3));
  ASSERT_EQ(server_.tell("hold-stamps"), "ok hold-stamps");
  (void)watch(seconds(1));
  const std::vector<Seen> seen = watch(seconds(2));
  print("stamps that stand still", seen);
  EXPECT_EQ(source_->clock().source, ClockSource::kArrival);
  for (const Seen& one : seen) EXPECT_EQ(one.captured, one.arrived);
  ASSERT_EQ(server_.tell("go"), "ok go");
  (void)watch(seconds(1));
  EXPECT_NE(source_->clock().source, ClockSource::kArrival);
  source_->stop();
}

INSTANTIATE_TEST_SUITE_P(Transports, RtspTimes,
                         ::testing::Values(config::RtspTransport::kTcp, config::RtspTransport::kUdp),
                         [](const auto& one) { return one.param == config::RtspTransport::kTcp ? "Tcp" : "Udp"; });
#else
TEST(RtspTimes, NeedsAServerToBeTested) { GTEST_SKIP() << "built without libgstrtspserver-1.0-dev"; }
#endif

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
