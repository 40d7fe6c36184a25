// Sources with their own pace: free pipelines, RTSP, cameras that are not there.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include <spdlog/sinks/ostream_sink.h>
#include "base/log.hpp"
#include "capture/gst_support.hpp"
#include "clips.hpp"
#include "source_fixture.hpp"

extern char** environ;

namespace {
std::atomic<int> quick_acknowledgements{0};  // wishes for them
}  // namespace

// In place of the C library's, which it calls.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's are its own
extern "C" [[gnu::visibility("default")]] int setsockopt(int socket, int level, int name, const void* value,
                                                         socklen_t size) noexcept {
  using Function = int (*)(int, int, int, const void*, socklen_t);
  static const auto original = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "setsockopt"));
  if (level == IPPROTO_TCP && name == TCP_QUICKACK) ++quick_acknowledgements;
  return original(socket, level, name, value, size);
}

namespace camd::capture {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

config::Recovery quick() {
  config::Recovery recovery;
  recovery.timeout = milliseconds(1500);
  recovery.reconnect_initial = milliseconds(100);
  recovery.reconnect_max = milliseconds(400);
  return recovery;
}

config::GStreamerSource text(const std::string& pipeline) {
  config::GStreamerSource source;
  source.pipeline = pipeline;
  source.recovery = quick();
  return source;
}

// An element whose making hangs where a test says so, as a driver or a file system that is away does. One at a time.
struct HangingElement {
  static void hang(bool now) {
    const std::lock_guard lock(mutex());
    hangs() = now;
    changed().notify_all();
  }
  static void wait_until_hanging(int count) {
    std::unique_lock lock(mutex());
    changed().wait(lock, [&] { return hanging() == count; });
  }
  static void wait_until_all_gone() {
    std::unique_lock lock(mutex());
    changed().wait(lock, [] { return alive() == 0; });
  }
  static void enrol() {
    static const GTypeInfo info{sizeof(GstElementClass),
                                nullptr,
                                nullptr,
                                &HangingElement::set_up_class,
                                nullptr,
                                nullptr,
                                sizeof(GstElement),
                                0,
                                &HangingElement::made,
                                nullptr};
    static const GType type =
        g_type_register_static(GST_TYPE_ELEMENT, "CamdHangingElement", &info, static_cast<GTypeFlags>(0));
    ASSERT_TRUE(gst_element_register(nullptr, "camdhanging", GST_RANK_NONE, type));
  }

 private:
  static std::mutex& mutex() {
    static std::mutex the_mutex;
    return the_mutex;
  }
  static std::condition_variable& changed() {
    static std::condition_variable the_condition;
    return the_condition;
  }
  static bool& hangs() {
    static bool flag = false;
    return flag;
  }
  static int& hanging() {
    static int count = 0;
    return count;
  }
  static int& alive() {
    static int count = 0;
    return count;
  }
  static void set_up_class(gpointer type, gpointer) {
    gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(type), "hanging", "Test", "Hangs", "camd");
    G_OBJECT_CLASS(type)->finalize = [](GObject* object) {
      G_OBJECT_CLASS(g_type_class_peek(GST_TYPE_ELEMENT))->finalize(object);
      const std::lock_guard lock(mutex());
      --alive();
      changed().notify_all();
    };
  }
  static void made(GTypeInstance*, gpointer) {
    std::unique_lock lock(mutex());
    ++alive();
    ++hanging();
    changed().notify_all();
    changed().wait(lock, [] { return !hangs(); });
    --hanging();
  }
};

// ---- Free pipelines

class GStreamerSourceTest : public testing::SourceTest {};

TEST_F(GStreamerSourceTest, TakesEveryFormatAsItComes) {
  struct Case {
    const char* name;
    base::PixelFormat format;
  };
  for (const Case& one : {Case{"BGR", base::PixelFormat::kBgr}, Case{"RGB", base::PixelFormat::kRgb},
                          Case{"NV12", base::PixelFormat::kNv12}, Case{"I420", base::PixelFormat::kI420},
                          Case{"YUY2", base::PixelFormat::kYuy2}, Case{"GRAY8", base::PixelFormat::kGray8}}) {
    make(text(std::string("videotestsrc is-live=true pattern=white ! video/x-raw,width=322,height=240,format=") +
              one.name));
    source_->start();
    const auto lease = next();
    ASSERT_TRUE(lease) << one.name << states_.last_reason();
    EXPECT_EQ(lease->frame().layout.format, one.format) << one.name;
    EXPECT_EQ(lease->frame().layout.width, 322);
    EXPECT_GE(std::to_integer<int>(lease->frame().pixels[0]), 235);
    source_->stop();
  }
}

TEST_F(GStreamerSourceTest, ConvertsWhatNobodyTakes) {
  make(text("videotestsrc is-live=true ! video/x-raw,width=64,height=48,format=Y42B"));
  source_->start();
  const auto lease = next();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->frame().layout.format, base::PixelFormat::kYuy2);
}

TEST_F(GStreamerSourceTest, StampsLiveFramesWithTheTimeOfTheirBuffers) {
  make(
      text("videotestsrc is-live=true ! video/x-raw,width=64,height=48,framerate=50/1 ! "
           "identity sleep-time=30000"));  // 30 ms on the way: the stamp is older than the arrival by that
  const base::TimePoint before = base::system_clock().now();
  source_->start();
  base::TimePoint last = before;
  for (int i = 0; i < 10; ++i) {
    const auto lease = next();
    ASSERT_TRUE(lease);
    const Frame& frame = lease->frame();
    EXPECT_GT(frame.captured, last);
    EXPECT_GE(frame.arrived - frame.captured, milliseconds(29));
    EXPECT_LE(frame.arrived, base::system_clock().now());
    last = frame.captured;
  }
  source_->stop();
}

TEST_F(GStreamerSourceTest, UsesTheUsersOwnAppsink) {
  make(text("videotestsrc is-live=true ! video/x-raw,width=64,height=48,format=GRAY8 ! appsink name=camd sync=false"));
  source_->start();
  ASSERT_TRUE(next());
  EXPECT_TRUE(states_.wait_for(SourceState::kRunning));
}

TEST_F(GStreamerSourceTest, PipelineWithoutLiveSourceEndsForGood) {
  make(text("videotestsrc num-buffers=5 ! video/x-raw,width=64,height=48,framerate=100/1"));
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kEnded));
  EXPECT_EQ(observer_.captured(), 5);
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kEnded));
}

// stop() waited for the thread, for ever.
TEST_F(GStreamerSourceTest, IsLeftBehindSafelyWhereItsThreadHangs) {
  init_gstreamer();
  HangingElement::enrol();
  make(text("camdhanging videotestsrc is-live=true num-buffers=3 ! video/x-raw,width=64,height=48,framerate=100/1"));
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning));
  HangingElement::hang(true);
  HangingElement::wait_until_hanging(1);  // the source ended, and is being opened anew
  source_->request_stop();
  EXPECT_FALSE(source_->join(base::Duration::zero()));
  const auto states = states_.states();
  const int captured = observer_.captured();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(source_->join(std::chrono::seconds(30)));  // waited for once, and not again
  source_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  ring_.reset();
  HangingElement::hang(false);
  HangingElement::wait_until_all_gone();
  EXPECT_EQ(states_.states(), states);
  EXPECT_EQ(observer_.captured(), captured);
}

TEST_F(GStreamerSourceTest, LiveSourceThatEndsIsOpenedAnew) {
  make(text("videotestsrc is-live=true num-buffers=5 ! video/x-raw,width=64,height=48,framerate=100/1"));
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning, 3));
  source_->stop();
  const auto states = states_.states();
  EXPECT_THAT(
      std::vector<SourceState>(states.begin(), states.begin() + 4),
      ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kReconnecting, SourceState::kRunning));
}

TEST_F(GStreamerSourceTest, NamesWhatIsWrongInTheText) {
  base::Error error = make_error(text("videotestsrc ! nosuchelement ! video/x-raw"));
  EXPECT_EQ(error.kind(), base::ErrorKind::kConfig);
  EXPECT_THAT(error.what(), HasSubstr("nosuchelement"));
  error = make_error(text("videotestsrc nosuchproperty=1"));
  EXPECT_EQ(error.kind(), base::ErrorKind::kConfig);
  EXPECT_THAT(error.what(), HasSubstr("nosuchproperty"));
  EXPECT_EQ(make_error(text("audiotestsrc")).kind(), base::ErrorKind::kConfig);
  EXPECT_EQ(make_error(text("videotestsrc ! fakesink name=camd appsink")).kind(), base::ErrorKind::kConfig);
}

TEST_F(GStreamerSourceTest, NeverTellsAPassword) {
  const base::Error error =
      make_error(text("rtspsrc location=rtsp://user:secret@127.0.0.1:1/x nosuchproperty=rtsp://user:secret@h"));
  EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
}

TEST_F(GStreamerSourceTest, StopsInBoundedTimeWhenThePipelineHangs) {
  make(text("videotestsrc is-live=true ! video/x-raw,width=64,height=48 ! identity sleep-time=5000000"));
  source_->start();
  ASSERT_TRUE(next());
  const auto before = std::chrono::steady_clock::now();
  source_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - before, milliseconds(4500));
  const int captured = observer_.captured();
  ring_->close(false);
  EXPECT_EQ(observer_.captured(), captured);
}

// Sends pictures as datagrams to a pipeline's udpsrc: a camera whose every frame the test decides.
class DatagramCamera {
 public:
  DatagramCamera() : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int probe = ::socket(AF_INET, SOCK_DGRAM, 0);
    socklen_t size = sizeof address_;
    EXPECT_EQ(::bind(probe, reinterpret_cast<sockaddr*>(&address_), size), 0);
    EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&address_), &size), 0);
    ::close(probe);
  }
  ~DatagramCamera() { ::close(socket_); }
  DatagramCamera(const DatagramCamera&) = delete;
  DatagramCamera& operator=(const DatagramCamera&) = delete;
  [[nodiscard]] std::string pipeline() const {
    return "udpsrc address=127.0.0.1 port=" + std::to_string(ntohs(address_.sin_port)) +
           " caps=video/x-raw,format=GRAY8,width=64,height=48,framerate=0/1";
  }
  void send(std::uint64_t sequence) {
    std::vector<std::byte> pixels(layout_.size_bytes);
    (void)stamp_test_pattern(layout_, pixels, {sequence, base::to_ns(base::system_clock().now())});
    (void)::sendto(socket_, pixels.data(), pixels.size(), 0, reinterpret_cast<sockaddr*>(&address_), sizeof address_);
  }

 private:
  const base::PictureLayout layout_ = base::tight_layout(base::PixelFormat::kGray8, 64, 48);
  const int socket_;
  sockaddr_in address_{};
};

TEST_F(GStreamerSourceTest, StalledCameraComesBackWhenItsPicturesDo) {
  DatagramCamera camera;
  config::GStreamerSource source = text(camera.pipeline());
  source.recovery.timeout = milliseconds(300);
  make(source);
  source_->start();
  std::uint64_t sequence = 0;
  ASSERT_TRUE(testing::eventually([&] {
    camera.send(++sequence);
    return states_.wait_for(SourceState::kRunning, 1, seconds(0));
  }));
  ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  ASSERT_TRUE(testing::eventually([&] {
    camera.send(++sequence);
    return states_.wait_for(SourceState::kRunning, 2, seconds(0));
  }));
  source_->stop();
  const auto states = states_.states();
  EXPECT_THAT(std::vector<SourceState>(states.begin(), states.begin() + 5),
              ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kStalled,
                          SourceState::kReconnecting, SourceState::kRunning));
  EXPECT_EQ(states_.entries()[2].reason, "no frame for 0.3 s");
}

TEST_F(GStreamerSourceTest, CaptureStampLiesBetweenSendingAndArrival) {
  DatagramCamera camera;
  make(text(camera.pipeline()));
  source_->start();
  std::optional<SlotLease> lease;
  std::uint64_t sequence = 0;
  ASSERT_TRUE(testing::eventually([&] {
    camera.send(++sequence);
    lease = ring_->take();
    return lease.has_value();
  }));
  lease->release();
  for (int i = 0; i < 20; ++i) {
    camera.send(++sequence);
    const auto frame = next();
    ASSERT_TRUE(frame);
    const auto stamp = read_test_pattern(frame->frame().layout, frame->frame().pixels);
    ASSERT_TRUE(stamp);
    EXPECT_GE(base::to_ns(frame->frame().captured), stamp->birth_ns);
    EXPECT_LE(frame->frame().captured, frame->frame().arrived);
  }
  source_->stop();
}

// ---- V4L2

TEST_F(GStreamerSourceTest, CameraThatIsNotPluggedInIsAStateAndNotAnError) {
  config::V4l2Source source;
  source.device = "/dev/no-such-video";
  source.recovery = quick();
  make(source);
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  EXPECT_EQ(states_.last_reason(), "/dev/no-such-video is not there: is the camera plugged in?");
  source_->stop();
}

TEST_F(GStreamerSourceTest, FileThatIsNoCameraIsToldAndTriedAgain) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "video0", "no device");
  config::V4l2Source source;
  source.device = folder / "video0";
  source.recovery = quick();
  make(source);
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  EXPECT_THAT(states_.last_reason(), HasSubstr("video0"));
  source_->stop();
}

// ---- RTSP

#ifdef CAMD_RTSP_SERVER
class RtspServer {
 public:
  // False when it does not come up.
  [[nodiscard]] bool start(int port, const std::string& user = "", const std::string& password = "") {
    int to_child[2];
    int from_child[2];
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_child[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from_child[1], 1);
    std::vector<std::string> words = {CAMD_RTSP_SERVER, std::to_string(port)};
    if (!user.empty()) words.insert(words.end(), {user, password});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failed = ::posix_spawn(&child_, CAMD_RTSP_SERVER, &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(to_child[0]);
    ::close(from_child[1]);
    input_ = to_child[1];
    std::FILE* const out = ::fdopen(from_child[0], "r");
    const bool ready = failed == 0 && std::fscanf(out, "ready %d", &port_) == 1;
    std::fclose(out);
    return ready;
  }
  // As if the power was cut.
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    (void)::waitpid(child_, nullptr, 0);
    ::close(input_);
    child_ = -1;
  }
  // Stays connected and says nothing more.
  void freeze() { ::kill(child_, SIGSTOP); }
  ~RtspServer() { kill(); }
  [[nodiscard]] int port() const { return port_; }

 private:
  pid_t child_ = -1;
  int input_ = -1;
  int port_ = 0;
};

class RtspSourceTest : public testing::SourceTest, public ::testing::WithParamInterface<config::RtspTransport> {
 protected:
  [[nodiscard]] config::RtspSource camera(const std::string& login = "") const {
    config::RtspSource source;
    source.url = "rtsp://" + login + "127.0.0.1:" + std::to_string(server_.port()) + "/live";
    source.transport = GetParam();
    source.recovery = quick();
    return source;
  }
  RtspServer server_;
};

TEST_P(RtspSourceTest, ComesBackAfterTheServerWasKilledAndStartedAgain) {
  ASSERT_TRUE(server_.start(0));
  make(camera());
  source_->start();
  base::TimePoint last;
  for (int i = 0; i < 10; ++i) {
    const auto lease = next();
    ASSERT_TRUE(lease) << states_.last_reason();
    EXPECT_GT(lease->frame().captured, last);
    EXPECT_EQ(lease->frame().layout.width, 320);
    last = lease->frame().captured;
  }
  server_.kill();
  ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  const int port = server_.port();
  while (next(seconds(0))) {
  }
  ASSERT_TRUE(server_.start(port));
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning, 2)) << states_.last_reason();
  const auto lease = next();
  ASSERT_TRUE(lease);
  EXPECT_GT(lease->frame().captured, last);
  EXPECT_EQ(states_.states().front(), SourceState::kStarting);
  source_->stop();
  EXPECT_EQ(observer_.dropped(RingDrop::kNotFilled), 0);
}

TEST_P(RtspSourceTest, SaysThatAFrozenServerIsStalled) {
  ASSERT_TRUE(server_.start(0));
  make(camera());
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning)) << states_.last_reason();
  server_.freeze();
  ASSERT_TRUE(states_.wait_for(SourceState::kStalled));
  ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  source_->stop();
}

TEST_P(RtspSourceTest, WaitsForAServerThatIsNotThereYet) {
  ASSERT_TRUE(server_.start(0));
  const int port = server_.port();
  server_.kill();
  make(camera());
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  ASSERT_TRUE(server_.start(port));
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning)) << states_.last_reason();
  source_->stop();
}

TEST_P(RtspSourceTest, LogsInAndNeverTellsThePassword) {
  std::ostringstream logged;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(logged);
  base::log().sinks().push_back(sink);
  const auto level = base::log().level();
  base::log().set_level(spdlog::level::trace);
  ASSERT_TRUE(server_.start(0, "user", "se:cret"));
  make(camera("user:se%3Acret@"));
  source_->start();
  EXPECT_TRUE(states_.wait_for(SourceState::kRunning)) << states_.last_reason();
  source_->stop();
  make(camera("user:wrongsecret@"));
  source_->start();
  EXPECT_TRUE(states_.wait_for(SourceState::kReconnecting));
  source_->stop();
  base::log().set_level(level);
  base::log().sinks().pop_back();
  for (const auto& entry : states_.entries()) {
    EXPECT_THAT(entry.reason, Not(HasSubstr("cret")));
  }
  EXPECT_THAT(logged.str(), Not(HasSubstr("cret")));
}

// Otherwise a server that waits for acknowledgements sends the end of a picture 40 ms late. A picture has a packet at
// least.
TEST_P(RtspSourceTest, AsksForAcknowledgementsAtOnceWithEachPacketOfTcp) {
  ASSERT_TRUE(server_.start(0));
  make(camera());
  const int before = quick_acknowledgements;
  source_->start();
  int pictures = 0;
  for (; pictures < 5; ++pictures) ASSERT_TRUE(next()) << states_.last_reason();
  const int asked = quick_acknowledgements - before;
  if (GetParam() == config::RtspTransport::kTcp)
    EXPECT_GE(asked, pictures);
  else
    EXPECT_EQ(asked, 0);
  source_->stop();
}

TEST_P(RtspSourceTest, AnotherCamerasEndDoesNotTouchIt) {
  ASSERT_TRUE(server_.start(0));
  config::RtspSource source = camera();
  source.recovery.timeout = seconds(60);  // a busy machine is no camera that stalls
  make(source);
  testing::CountingObserver other_observer;
  testing::StateRecorder other_states;
  FrameRing other_ring(*device_, other_observer, FrameRing::Options{});
  config::Camera other;
  other.name = "other";
  other.source = text("videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48,framerate=100/1");
  const auto other_source = make_source(other, 1, other_ring, other_states, base::system_clock());
  source_->start();
  other_source->start();
  ASSERT_TRUE(other_states.wait_for(SourceState::kEnded));
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning)) << states_.last_reason();
  other_source->stop();
  const int before = observer_.captured();
  EXPECT_TRUE(testing::eventually([&] { return observer_.captured() > before + 5; }));
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kRunning));
  source_->stop();
}

INSTANTIATE_TEST_SUITE_P(Transports, RtspSourceTest,
                         ::testing::Values(config::RtspTransport::kTcp, config::RtspTransport::kUdp),
                         [](const auto& one) { return one.param == config::RtspTransport::kTcp ? "Tcp" : "Udp"; });
#else
TEST(RtspSource, NeedsAServerToBeTested) { GTEST_SKIP() << "built without libgstrtspserver-1.0-dev"; }
#endif

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
