// Servers that misbehave: each camera's tries cost the same, however many there are.
#include <glib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "bad_server.hpp"
#include "base/log.hpp"
#include "capture/gst_connection.hpp"
#include "capture/gst_source.hpp"
#include "source_fixture.hpp"
#ifdef CAMD_RTSP_SERVER
#include "rtsp_camera.hpp"
#endif

namespace camd::capture {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using testing::BadServer;
using testing::Misbehaviour;

// More of them in a run by hand: CAMD_TRIES=10000 build/dev/bin/test_capture --gtest_filter='*BadServer*'
int wanted_tries() {
  const char* const text = std::getenv("CAMD_TRIES");
  return text != nullptr ? std::atoi(text) : 2;
}

struct Footprint {
  std::ptrdiff_t threads;
  std::ptrdiff_t descriptors;
  [[nodiscard]] static Footprint now() {
    const auto count = [](const char* folder) {
      return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
    };
    return {count("/proc/self/task"), count("/proc/self/fd")};
  }
};

config::Recovery hasty() {
  config::Recovery recovery;
  recovery.timeout = milliseconds(100);
  recovery.reconnect_initial = milliseconds(10);
  recovery.reconnect_max = milliseconds(10);
  return recovery;
}

class BadServerTest : public testing::SourceTest, public ::testing::WithParamInterface<Misbehaviour> {
 protected:
  // Once the source has gone nothing of its tries is left.
  void expect_no_growth(const std::function<config::Source(int port)>& source) {
    base::log().info("the log's thread is no growth either");
    g_thread_pool_set_max_idle_time(50);  // threads that GStreamer keeps for later are no growth
    const BadServer server(GetParam().behaviour);
    // GStreamer's own pools are made by the first tries.
    bool warm = false;
    for (const int tries : {1, wanted_tries()}) {
      const Footprint before = Footprint::now();
      const int tried = server.tries();
      config::Camera camera;
      camera.name = "cam";
      camera.source = source(server.port());
      make(camera.source);  // for its ring
      source_ = make_gst_source(camera, 0, *ring_, states_, base::system_clock(), milliseconds(300));
      source_->start();
      EXPECT_TRUE(testing::eventually([&] { return server.tries() >= tried + tries; }, std::chrono::seconds(60)))
          << server.tries() << " tries: " << states_.last_reason();
      EXPECT_TRUE(source_->stop());
      source_.reset();
      const auto is_back = [&] {
        const Footprint after = Footprint::now();
        return after.threads <= before.threads && after.descriptors <= before.descriptors;
      };
      // What the first tries leave for good is not waited for.
      const bool back = testing::eventually(is_back, std::chrono::seconds(warm ? 10 : 1));
      const Footprint after = Footprint::now();
      EXPECT_TRUE(back || !warm) << "threads " << before.threads << " -> " << after.threads << ", descriptors "
                                 << before.descriptors << " -> " << after.descriptors;
      warm = true;
    }
    for (const SourceState state : states_.states()) {
      EXPECT_TRUE(state == SourceState::kStarting || state == SourceState::kReconnecting) << to_string(state);
    }
  }
};

class BadRtspServerTest : public BadServerTest {};
TEST_P(BadRtspServerTest, TriesLeaveNothingBehind) {
  expect_no_growth([](int port) {
    config::RtspSource source;
    source.url = "rtsp://user:pass@127.0.0.1:" + std::to_string(port) + "/x";
    source.recovery = hasty();
    return source;
  });
}
INSTANTIATE_TEST_SUITE_P(Kinds, BadRtspServerTest, ::testing::ValuesIn(testing::bad_rtsp_servers()),
                         [](const auto& one) { return one.param.name; });

// How far rtspsrc says that opening is, in order.
class OpeningProgress {
 public:
  void watch(GstElement* pipeline) {
    GstBus* const bus = gst_element_get_bus(pipeline);
    gst_bus_set_sync_handler(bus, &OpeningProgress::on_message, this, nullptr);
    gst_object_unref(bus);
  }
  [[nodiscard]] std::vector<GstProgressType> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  static GstBusSyncReply on_message(GstBus*, GstMessage* message, gpointer self) {
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_PROGRESS) return GST_BUS_PASS;
    GstProgressType type = GST_PROGRESS_TYPE_START;
    gchar* code = nullptr;
    gst_message_parse_progress(message, &type, &code, nullptr);
    const GstOwned<gchar> owned(code);
    auto* const progress = static_cast<OpeningProgress*>(self);
    const std::lock_guard lock(progress->mutex_);
    if (g_str_equal(code, "open")) progress->seen_.push_back(type);
    return GST_BUS_PASS;
  }
  mutable std::mutex mutex_;
  std::vector<GstProgressType> seen_;
};

// Cancelled in the middle, rtspsrc 1.22 looks through streams that it is about to free.
TEST(GstConnection, MakesASessionThatIsBeingOpenedFailBeforeItClosesThePipeline) {
  init_gstreamer();
  std::atomic<bool> asked = false;
  const BadServer server([&asked](testing::BadConnection& connection, int) {
    (void)connection.request();
    asked = true;
    connection.hold();
  });
  config::RtspSource source;
  source.url = "rtsp://127.0.0.1:" + std::to_string(server.port()) + "/x";
  source.recovery.timeout = std::chrono::seconds(60);
  config::Camera camera;
  camera.source = source;
  class Nobody final : public SampleTaker {
    bool take_sample(GstSample*, GstElement*) noexcept override { return true; }
  } nobody;
  StateWorker worker;
  OpeningProgress progress;
  BuiltPipeline built = build_pipeline(camera, 1, {});
  progress.watch(built.pipeline.get());
  {
    GstConnection connection(std::move(built), "cam", nobody, worker);
    EXPECT_EQ(connection.change(GST_STATE_PLAYING, std::chrono::seconds(20)), StateChange::kDone);
    ASSERT_TRUE(testing::eventually([&] { return asked.load(); }, std::chrono::seconds(20)));
  }
  EXPECT_EQ(progress.seen().back(), GST_PROGRESS_TYPE_ERROR);  // and not CANCELED
}

// With the patience that cameras have for their first picture, which is 15 s.
class BadRtspServers : public testing::SourceTest {
 protected:
  void expect_tries(const std::string& kind, const std::string& reason) {
    const std::vector<Misbehaviour> kinds = testing::bad_rtsp_servers();
    const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& one) { return one.name == kind; });
    ASSERT_NE(found, kinds.end()) << kind;
    const BadServer server(found->behaviour);
    config::RtspSource source;
    source.url = "rtsp://127.0.0.1:" + std::to_string(server.port()) + "/x";
    source.recovery.reconnect_initial = source.recovery.reconnect_max = milliseconds(10);
    make(source);
    source_->start();
    EXPECT_TRUE(testing::eventually([&] { return server.tries() >= 3; }, std::chrono::seconds(14))) << kind;
    EXPECT_EQ(states_.last_reason(), reason) << kind;
    source_->stop();
  }
};

TEST_F(BadRtspServers, EndBeforeTheFirstPictureIsNoticedAtOnce) {
  expect_tries("plays_and_ends", "the server closed the connection before the first picture");
}

TEST_F(BadRtspServers, AnswersWithoutEndAreCutOff) {
  expect_tries("endless_header", "the server answers without end");
  expect_tries("endless_line", "the server answers without end");
  expect_tries("plays_zeroes", "the server answers without end");
}

class BadHttpServerTest : public BadServerTest {};
TEST_P(BadHttpServerTest, TriesLeaveNothingBehind) {
  if (std::getenv("CAMD_TRIES") == nullptr) {
    GTEST_SKIP() << "libsoup 3.2 crashes now and then, on a thread of souphttpsrc, when a request is cancelled "
                    "just while its answer arrives: set CAMD_TRIES to run it";
  }
  expect_no_growth([](int port) {
    config::GStreamerSource source;
    source.pipeline = "souphttpsrc location=http://127.0.0.1:" + std::to_string(port) + "/x ! jpegdec";
    source.recovery = hasty();
    return source;
  });
}
INSTANTIATE_TEST_SUITE_P(Kinds, BadHttpServerTest, ::testing::ValuesIn(testing::bad_http_servers()),
                         [](const auto& one) { return one.param.name; });

#ifdef CAMD_RTSP_SERVER

// rtspsrc made a name of each number in a session's description. GLib keeps names for ever.
TEST_F(BadRtspServers, NumbersThatAreNewInEachSessionBecomeNoNames) {
  testing::RtspCamera server;
  ASSERT_TRUE(server.start());
  config::RtspSource source;
  source.url = server.url();
  const GQuark before = g_quark_from_string("the last name before the session");
  make(source);
  source_->start();
  EXPECT_TRUE(next());
  source_->stop();
  const GQuark after = g_quark_from_string("the first name after the session");
  for (GQuark name = before; name < after; ++name) {
    EXPECT_THAT(g_quark_to_string(name), ::testing::Not(::testing::StartsWith("ssrc-")));
  }
}

#endif

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
