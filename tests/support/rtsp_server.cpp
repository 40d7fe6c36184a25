// An RTSP camera for the tests, in a process of its own so that it can be killed as a camera's power can be cut. Its
// pictures tell the truth: each carries its number and the time at which it was taken (capture/test_pattern.hpp), so
// that a test knows what camd should have said about it. Told so on standard input, the camera misbehaves.
//
//   camd_rtsp_server PORT [USER PASSWORD] [--size WxH] [--fps N] [--codec h264|jpeg] [--seed N]
//
// PORT 0: any free one. Prints "ready PORT" and serves rtsp://127.0.0.1:PORT/live (H.264 320x240, 30 frames/s, a key
// frame every 15, and a sound track) until its standard input is closed. One command a line; each is answered with
// "ok COMMAND" or with "error COMMAND: why". What a command does to pictures holds for those that are taken after it.
//
//   stall            sends nothing more, but goes on taking pictures
//   go               sends all that waited and goes on; ends `freeze` and `hold-stamps` as well
//   freeze           sends the same picture, with its old number and time, again and again
//   restart-stamps   RTP time stamps begin at 0 again
//   hold-stamps      every RTP time stamp is the same
//   drift PPM        the camera's clock runs fast (above 0) or slow (below 0)
//   step MS          the camera's clock jumps forwards, or backwards
//   size WxH         other pictures within the same stream
//   codec h264|jpeg  another codec: all connections are closed, the next one gets it
//   no-rtcp, rtcp    without and with RTCP (sender reports)
//   rtcp-every MS    sender reports come about so often instead of every 5 s
//   drop N           loses N % of the RTP packets
//   corrupt N        damages N % of the RTP packets
//   kick             closes all connections
//   now              answers "now NUMBER NANOSECONDS": the last picture and when it was taken
//
// Times are CLOCK_MONOTONIC.
//
// Threads: main (GLib's loop: connections and commands), `camera` (takes pictures), GStreamer's streaming threads.
// Camera holds what they share.
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "capture/gst_support.hpp"
#include "capture/test_pattern.hpp"

namespace {

using camd::base::Duration;
using camd::base::MutexLock;
using camd::base::TimePoint;
using camd::capture::GstOwned;

constexpr int kSmallestSide = 64;
constexpr int kLargestSide = 2040;  // what RTP's JPEG format can say
constexpr std::size_t kMostPackets = 1'000'000;
constexpr std::size_t kMostPictures = 1'000;

struct ReleasePacket {
  void operator()(GstBuffer* packet) const noexcept { gst_buffer_unref(packet); }
};
using Packet = std::unique_ptr<GstBuffer, ReleasePacket>;

struct Options {
  std::string port;
  std::string user;
  std::string password;
  int width = 320;
  int height = 240;
  int fps = 30;
  std::string codec = "h264";
  unsigned seed = 1;
};

bool to_number(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool to_size(const std::string& text, int& width, int& height) {
  int end = 0;
  int w = 0;
  int h = 0;
  if (std::sscanf(text.c_str(), "%dx%d%n", &w, &h, &end) != 2 || end != static_cast<int>(text.size())) return false;
  if (w < kSmallestSide || h < kSmallestSide || w > kLargestSide || h > kLargestSide) return false;
  if (w % 8 != 0 || h % 8 != 0) return false;  // RTP's JPEG format counts in eights
  width = w;
  height = h;
  return true;
}

// What the camera's own clock says at a true time.
class CameraClock {
 public:
  [[nodiscard]] Duration at(TimePoint now) const {
    const Duration since = now - anchor_;
    return said_ + since + Duration(static_cast<std::int64_t>(static_cast<double>(since.count()) * ppm_ * 1e-6));
  }
  void set(TimePoint now, Duration says) {
    anchor_ = now;
    said_ = says;
  }
  void drift(TimePoint now, double ppm) {
    set(now, at(now));
    ppm_ = ppm;
  }

 private:
  TimePoint anchor_;
  Duration said_{};
  double ppm_ = 0;
};

class Camera {
 public:
  explicit Camera(const Options& options)
      : fps_(options.fps), width_(options.width), height_(options.height), random_(options.seed) {
    clock_.set(TimePoint(), Duration::zero());
  }
  ~Camera() {
    {
      const MutexLock lock(mutex_);
      leaving_ = true;
    }
    if (thread_.joinable()) thread_.join();
    const MutexLock lock(mutex_);
    forget_media();
  }
  Camera(const Camera&) = delete;
  Camera& operator=(const Camera&) = delete;

  // [main]
  void start() {
    thread_ = std::thread([this] { take_pictures(); });
  }

  // [main] A stream for clients has been built.
  void use(GstRTSPMedia* media) {
    const GstOwned<GstElement> element(gst_rtsp_media_get_element(media));
    GstElement* const in = gst_bin_get_by_name(GST_BIN(element.get()), "in");
    const GstOwned<GstElement> pay(gst_bin_get_by_name(GST_BIN(element.get()), "pay0"));
    GstPad* const pad = gst_element_get_static_pad(pay.get(), "src");
    gst_pad_add_probe(pad, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_BUFFER_LIST),
                      &Camera::on_packets, this, nullptr);
    gst_object_unref(pad);
    const MutexLock lock(mutex_);
    forget_media();
    media_ = media;
    in_ = in;
    caps_width_ = 0;
  }
  // [main]
  void unuse(GstRTSPMedia* media) {
    const MutexLock lock(mutex_);
    if (media_ == media) forget_media();
  }
  // [any] The stream's RTCP goes through this pad.
  void use_rtcp(GstPad* pad) {
    gst_pad_add_probe(pad, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_BUFFER_LIST),
                      &Camera::on_rtcp, this, nullptr);
  }

  // [main] The answer; empty when the camera does not know the command.
  std::string obey(const std::string& verb, const std::string& word) {
    double number = 0;
    const bool has_number = to_number(word, number);
    const bool is_percentage = has_number && number >= 0 && number <= 100;
    const std::string ok = "ok " + verb + (word.empty() ? "" : " " + word);
    const TimePoint now = camd::base::system_clock().now();
    const MutexLock lock(mutex_);
    if (verb == "stall") {
      stalled_ = true;
    } else if (verb == "go") {
      stalled_ = frozen_ = false;
      if (held_) clock_.set(now, *held_);
      held_.reset();
    } else if (verb == "freeze") {
      frozen_ = true;
    } else if (verb == "restart-stamps") {
      clock_.set(now, origin_);
    } else if (verb == "hold-stamps") {
      held_ = clock_.at(now);
    } else if (verb == "drift") {
      if (!has_number) return "error drift: parts per million, please";
      clock_.drift(now, number);
    } else if (verb == "step") {
      if (!has_number) return "error step: milliseconds, please";
      clock_.set(now, clock_.at(now) + Duration(static_cast<std::int64_t>(number * 1e6)));
    } else if (verb == "size") {
      if (!to_size(word, width_, height_)) return "error size: WIDTHxHEIGHT, please, multiples of 8 from 64 to 2040";
    } else if (verb == "no-rtcp" || verb == "rtcp") {
      rtcp_ = verb == "rtcp";
    } else if (verb == "rtcp-every") {
      if (!has_number || number < 1) return "error rtcp-every: milliseconds, please";
      hasten_reports(number);
    } else if (verb == "drop") {
      if (!is_percentage) return "error drop: a percentage, please";
      drop_ = number / 100;
    } else if (verb == "corrupt") {
      if (!is_percentage) return "error corrupt: a percentage, please";
      corrupt_ = number / 100;
    } else if (verb == "now") {
      return "now " + std::to_string(last_.sequence) + " " + std::to_string(last_.birth_ns);
    } else {
      return "";
    }
    return ok;
  }

 private:
  void forget_media() CAMD_REQUIRES(mutex_) {
    if (in_ != nullptr) gst_object_unref(in_);
    in_ = nullptr;
    media_ = nullptr;
    stamps_.clear();
    waiting_.clear();
  }

  void hasten_reports(double milliseconds) CAMD_REQUIRES(mutex_) {
    if (media_ == nullptr) return;
    // gst-rtsp-server 1.22 leaves the sink of a stream's RTCP paused now and then: the first report blocks there for
    // ever.
    GstIterator* const sinks = gst_bin_iterate_sinks(GST_BIN(GST_OBJECT_PARENT(GST_OBJECT_PARENT(in_))));
    const auto play = [](const GValue* sink, gpointer) {
      (void)gst_element_sync_state_with_parent(static_cast<GstElement*>(g_value_get_object(sink)));
    };
    (void)gst_iterator_foreach(sinks, play, nullptr);
    gst_iterator_free(sinks);
    for (guint i = 0; i < gst_rtsp_media_n_streams(media_); ++i) {
      GObject* const session = gst_rtsp_stream_get_rtpsession(gst_rtsp_media_get_stream(media_, i));
      if (session == nullptr) continue;
      g_object_set(session, "rtcp-min-interval", static_cast<guint64>(milliseconds * 1e6), nullptr);
      g_object_unref(session);
    }
  }

  // ---- [camera]

  void take_pictures() {
    const Duration period(1'000'000'000 / fps_);
    TimePoint due = camd::base::system_clock().now();
    for (std::uint64_t sequence = 0; take_picture(sequence); ++sequence) {
      due += period;
      std::this_thread::sleep_until(due);
    }
  }

  // False when the camera is switched off.
  bool take_picture(std::uint64_t sequence) {
    int width = 0;
    int height = 0;
    bool frozen = false;
    {
      const MutexLock lock(mutex_);
      if (leaving_) return false;
      width = width_;
      height = height_;
      frozen = frozen_;
    }
    const TimePoint now = camd::base::system_clock().now();
    camd::capture::TestStamp stamp{sequence, camd::base::to_ns(now)};
    if (!pattern_ || pattern_->layout().width != width || pattern_->layout().height != height) {
      pattern_.emplace(camd::base::tight_layout(camd::base::PixelFormat::kI420, width, height));
      frozen = false;  // the old picture does not fit
    }
    if (frozen && !pixels_.empty()) {
      stamp = drawn_;
    } else {
      pixels_.resize(pattern_->layout().size_bytes);
      pattern_->draw(pixels_, sequence);
      (void)camd::capture::stamp_test_pattern(pattern_->layout(), pixels_, stamp);
      drawn_ = stamp;
    }
    const MutexLock lock(mutex_);
    last_ = stamp;
    if (in_ != nullptr) send(now);
    return true;
  }

  void send(TimePoint taken) CAMD_REQUIRES(mutex_) {
    if (GST_STATE(in_) != GST_STATE_PLAYING) return;
    const auto base = static_cast<std::int64_t>(gst_element_get_base_time(in_));
    const std::int64_t running = camd::base::to_ns(taken) - base;
    if (running < 0) return;
    const auto& layout = pattern_->layout();
    if (caps_width_ != layout.width || caps_height_ != layout.height) {
      GstCaps* const caps =
          gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, "I420", "width", G_TYPE_INT, layout.width,
                              "height", G_TYPE_INT, layout.height, "framerate", GST_TYPE_FRACTION, fps_, 1, nullptr);
      gst_app_src_set_caps(GST_APP_SRC(in_), caps);
      gst_caps_unref(caps);
      caps_width_ = layout.width;
      caps_height_ = layout.height;
    }
    if (stamps_.empty()) origin_ = clock_.at(camd::base::from_ns(base));  // the payloader counts from there, too
    const Duration said = held_.value_or(clock_.at(taken)) - origin_;
    const auto pts = static_cast<GstClockTime>(running);
    stamps_[pts] = static_cast<guint32>(static_cast<std::uint64_t>(said.count() / 1000 * 9 / 100));
    if (stamps_.size() > kMostPictures) stamps_.erase(stamps_.begin());
    GstBuffer* const buffer = gst_buffer_new_memdup(pixels_.data(), pixels_.size());
    GST_BUFFER_PTS(buffer) = pts;
    GST_BUFFER_DURATION(buffer) = static_cast<GstClockTime>(GST_SECOND) / static_cast<GstClockTime>(fps_);
    gst_app_src_push_buffer(GST_APP_SRC(in_), buffer);
  }

  // ---- [streaming]

  static GstPadProbeReturn on_rtcp(GstPad*, GstPadProbeInfo*, gpointer self) {
    auto* const camera = static_cast<Camera*>(self);
    const MutexLock lock(camera->mutex_);
    return camera->rtcp_ ? GST_PAD_PROBE_OK : GST_PAD_PROBE_DROP;
  }

  static GstPadProbeReturn on_packets(GstPad* pad, GstPadProbeInfo* info, gpointer self) {
    return static_cast<Camera*>(self)->pass(pad, info);
  }

  GstPadProbeReturn pass(GstPad* pad, GstPadProbeInfo* info) {
    thread_local bool passing = false;  // what gst_pad_push() below sends comes by here again
    if (passing) return GST_PAD_PROBE_OK;
    std::deque<Packet> packets;
    // The encoder may shift a picture's time, but not its running time.
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    if (GstEvent* const event = gst_pad_get_sticky_event(pad, GST_EVENT_SEGMENT, 0)) {
      gst_event_copy_segment(event, &segment);
      gst_event_unref(event);
    }
    {
      const MutexLock lock(mutex_);
      if ((GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER_LIST) != 0) {
        GstBufferList* const list = GST_PAD_PROBE_INFO_BUFFER_LIST(info);
        for (guint i = 0; i < gst_buffer_list_length(list); ++i) {
          keep(gst_buffer_copy_deep(gst_buffer_list_get(list, i)), segment);
        }
      } else {
        keep(gst_buffer_copy_deep(GST_PAD_PROBE_INFO_BUFFER(info)), segment);
      }
      if (!stalled_) packets.swap(waiting_);
    }
    passing = true;
    GstFlowReturn flow = GST_FLOW_OK;
    for (auto& packet : packets) {
      if (flow == GST_FLOW_OK) flow = gst_pad_push(pad, packet.release());
    }
    passing = false;
    gst_mini_object_unref(GST_MINI_OBJECT_CAST(info->data));
    info->data = nullptr;
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = flow;
    return GST_PAD_PROBE_HANDLED;
  }

  // Queues a packet, which is this function's to own, as it leaves the camera. Numbers are as in RFC 3550, 5.1.
  void keep(GstBuffer* buffer, const GstSegment& segment) CAMD_REQUIRES(mutex_) {
    Packet packet(buffer);
    if (chance() < drop_ || waiting_.size() >= kMostPackets) return;
    GstMapInfo bytes;
    if (gst_buffer_map(packet.get(), &bytes, GST_MAP_READWRITE) == FALSE) return;
    constexpr gsize kHeader = 12;
    const auto stamp =
        stamps_.find(gst_segment_to_running_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(packet.get())));
    if (bytes.size >= kHeader && stamp != stamps_.end()) {
      for (unsigned i = 0; i < 4; ++i) bytes.data[4 + i] = static_cast<guint8>(stamp->second >> (24 - 8 * i));
    }
    if (bytes.size > kHeader && chance() < corrupt_) {
      for (int i = 0; i < 8; ++i) {
        bytes.data[kHeader + random_() % (bytes.size - kHeader)] ^= static_cast<guint8>(1 + random_() % 255);
      }
    }
    gst_buffer_unmap(packet.get(), &bytes);
    waiting_.push_back(std::move(packet));
  }

  double chance() CAMD_REQUIRES(mutex_) { return std::uniform_real_distribution<double>(0, 1)(random_); }

  const int fps_;
  std::thread thread_;

  // [camera]
  std::optional<camd::capture::TestPattern> pattern_;
  std::vector<std::byte> pixels_;
  camd::capture::TestStamp drawn_;

  camd::base::Mutex mutex_;
  bool leaving_ CAMD_GUARDED_BY(mutex_) = false;
  int width_ CAMD_GUARDED_BY(mutex_);
  int height_ CAMD_GUARDED_BY(mutex_);
  bool frozen_ CAMD_GUARDED_BY(mutex_) = false;
  bool stalled_ CAMD_GUARDED_BY(mutex_) = false;
  bool rtcp_ CAMD_GUARDED_BY(mutex_) = true;
  double drop_ CAMD_GUARDED_BY(mutex_) = 0;
  double corrupt_ CAMD_GUARDED_BY(mutex_) = 0;
  std::mt19937 random_ CAMD_GUARDED_BY(mutex_);
  CameraClock clock_ CAMD_GUARDED_BY(mutex_);
  std::optional<Duration> held_ CAMD_GUARDED_BY(mutex_);  // what the clock says while it stands still
  Duration origin_ CAMD_GUARDED_BY(mutex_){};             // what the clock says where RTP time stamps are 0
  camd::capture::TestStamp last_ CAMD_GUARDED_BY(mutex_);
  GstRTSPMedia* media_ CAMD_GUARDED_BY(mutex_) = nullptr;  // lives until unuse()
  GstElement* in_ CAMD_GUARDED_BY(mutex_) = nullptr;       // its appsrc
  int caps_width_ CAMD_GUARDED_BY(mutex_) = 0;
  int caps_height_ CAMD_GUARDED_BY(mutex_) = 0;
  // The RTP time stamp of each picture that is being encoded, by its time in the stream.
  std::map<GstClockTime, guint32> stamps_ CAMD_GUARDED_BY(mutex_);
  std::deque<Packet> waiting_ CAMD_GUARDED_BY(mutex_);  // packets, while the camera is stalled
};

void on_unprepared(GstRTSPMedia* media, gpointer camera) { static_cast<Camera*>(camera)->unuse(media); }

// rtpbin hands RTCP out at a pad of this name, made when clients have set the stream up.
void on_pad_added(GstElement*, GstPad* pad, gpointer camera) {
  if (g_str_has_prefix(GST_PAD_NAME(pad), "send_rtcp_src") != FALSE) static_cast<Camera*>(camera)->use_rtcp(pad);
}

void on_element_added(GstBin*, GstElement* element, gpointer camera) {
  if (g_str_has_prefix(GST_ELEMENT_NAME(element), "rtpbin") != FALSE) {
    g_signal_connect(element, "pad-added", G_CALLBACK(&on_pad_added), camera);
  }
}

void on_media(GstRTSPMediaFactory*, GstRTSPMedia* media, gpointer camera) {
  static_cast<Camera*>(camera)->use(media);
  g_signal_connect(media, "unprepared", G_CALLBACK(&on_unprepared), camera);
  const GstOwned<GstElement> element(gst_rtsp_media_get_element(media));
  const GstOwned<GstElement> pipeline(GST_ELEMENT(gst_object_get_parent(GST_OBJECT(element.get()))));
  g_signal_connect(pipeline.get(), "element-added", G_CALLBACK(&on_element_added), camera);
}

class Server {
 public:
  Server(const Options& options, Camera& camera) : camera_(camera), server_(gst_rtsp_server_new()) {
    gst_rtsp_server_set_address(server_, "127.0.0.1");
    gst_rtsp_server_set_service(server_, options.port.c_str());
    if (!options.user.empty()) {
      with_login_ = true;
      GstRTSPAuth* const auth = gst_rtsp_auth_new();
      GstRTSPToken* const token =
          gst_rtsp_token_new(GST_RTSP_TOKEN_MEDIA_FACTORY_ROLE, G_TYPE_STRING, "viewer", nullptr);
      gchar* const basic = gst_rtsp_auth_make_basic(options.user.c_str(), options.password.c_str());
      gst_rtsp_auth_add_basic(auth, basic, token);
      gst_rtsp_server_set_auth(server_, auth);
      g_free(basic);
      gst_rtsp_token_unref(token);
      g_object_unref(auth);
    }
    serve(options.codec);
  }
  ~Server() { g_object_unref(server_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The port; 0 when it cannot be had.
  [[nodiscard]] int open() {
    return gst_rtsp_server_attach(server_, nullptr) == 0 ? 0 : gst_rtsp_server_get_bound_port(server_);
  }

  // False for a codec that is not known.
  bool serve(const std::string& codec) {
    std::string encoder;
    if (codec == "h264") {
      encoder =
          "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 pass=qual quantizer=21 ! "
          "rtph264pay name=pay0 pt=96 config-interval=-1 timestamp-offset=0";
    } else if (codec == "jpeg") {
      encoder = "jpegenc quality=85 ! rtpjpegpay name=pay0 pt=26 timestamp-offset=0";
    } else {
      return false;
    }
    // A client that does not want the sound leaves it unlinked. That must not become an error of the source: where it
    // came before the media was playing, gst-rtsp-server 1.22 answered PLAY with OK and never sent a packet.
    GstRTSPMediaFactory* const factory = gst_rtsp_media_factory_new();
    const std::string launch =
        "( appsrc name=in format=time is-live=true max-buffers=4 leaky-type=downstream ! " + encoder +
        " audiotestsrc is-live=true ! audioconvert ! audio/x-raw,rate=8000,channels=1 ! mulawenc ! errorignore "
        "ignore-notlinked=true convert-to=ok ! rtppcmupay name=pay1 )";
    gst_rtsp_media_factory_set_launch(factory, launch.c_str());
    gst_rtsp_media_factory_set_shared(factory, TRUE);
    if (with_login_) {
      gst_rtsp_media_factory_add_role(factory, "viewer", GST_RTSP_PERM_MEDIA_FACTORY_ACCESS, G_TYPE_BOOLEAN, TRUE,
                                      GST_RTSP_PERM_MEDIA_FACTORY_CONSTRUCT, G_TYPE_BOOLEAN, TRUE, nullptr);
    }
    g_signal_connect(factory, "media-configure", G_CALLBACK(&on_media), &camera_);
    GstRTSPMountPoints* const mounts = gst_rtsp_server_get_mount_points(server_);
    gst_rtsp_mount_points_add_factory(mounts, "/live", factory);
    g_object_unref(mounts);
    kick();
    return true;
  }

  // Closes all connections.
  void kick() {
    GList* const gone = gst_rtsp_server_client_filter(
        server_, [](GstRTSPServer*, GstRTSPClient*, gpointer) { return GST_RTSP_FILTER_REMOVE; }, nullptr);
    g_list_free_full(gone, g_object_unref);
  }

 private:
  Camera& camera_;
  GstRTSPServer* const server_;
  bool with_login_ = false;
};

struct Room {
  GMainLoop* loop;
  Camera& camera;
  Server& server;
};

std::string answer(const Room& room, const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string verb = line.substr(0, space);
  const std::string word = space == std::string::npos ? "" : line.substr(space + 1);
  if (verb == "codec") {
    return room.server.serve(word) ? "ok " + line : "error codec: h264 or jpeg, please";
  }
  if (verb == "kick") {
    room.server.kick();
    return "ok kick";
  }
  const std::string said = room.camera.obey(verb, word);
  return said.empty() ? "error " + verb + ": not a command" : said;
}

gboolean on_input(GIOChannel* channel, GIOCondition, gpointer data) {
  const auto& room = *static_cast<Room*>(data);
  gchar* text = nullptr;
  gsize length = 0;
  gsize end = 0;
  const GIOStatus status = g_io_channel_read_line(channel, &text, &length, &end, nullptr);
  if (status == G_IO_STATUS_AGAIN) return TRUE;
  if (status != G_IO_STATUS_NORMAL) {
    g_main_loop_quit(room.loop);
    return FALSE;
  }
  const std::string line(text, end);
  g_free(text);
  std::printf("%s\n", answer(room, line).c_str());
  std::fflush(stdout);
  return TRUE;
}

std::optional<Options> options_of(int argc, char** argv) {
  Options options;
  std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].rfind("--", 0) != 0) {
      plain.push_back(words[i]);
      continue;
    }
    const std::string name = words[i];
    if (++i == words.size()) return std::nullopt;
    double number = 0;
    const bool is_number = to_number(words[i], number);
    if (name == "--size" && to_size(words[i], options.width, options.height)) continue;
    if (name == "--codec" && (words[i] == "h264" || words[i] == "jpeg")) {
      options.codec = words[i];
    } else if (name == "--fps" && is_number && number >= 1 && number <= 1000) {
      options.fps = static_cast<int>(number);
    } else if (name == "--seed" && is_number && number >= 0) {
      options.seed = static_cast<unsigned>(number);
    } else {
      return std::nullopt;
    }
  }
  if (plain.size() != 1 && plain.size() != 3) return std::nullopt;
  options.port = plain[0];
  if (plain.size() == 3) {
    options.user = plain[1];
    options.password = plain[2];
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = options_of(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "camd_rtsp_server PORT [USER PASSWORD] [--size WxH] [--fps N] [--codec h264|jpeg] [--seed N]\n");
    return 2;
  }
  gst_init(nullptr, nullptr);
  GMainLoop* const loop = g_main_loop_new(nullptr, FALSE);
  Camera camera(*options);
  Server server(*options, camera);
  const int port = server.open();
  if (port <= 0) return 1;
  camera.start();

  Room room{loop, camera, server};
  GIOChannel* const input = g_io_channel_unix_new(STDIN_FILENO);
  g_io_channel_set_flags(input, G_IO_FLAG_NONBLOCK, nullptr);
  g_io_add_watch(input, static_cast<GIOCondition>(G_IO_IN | G_IO_HUP), &on_input, &room);
  std::printf("ready %d\n", port);
  std::fflush(stdout);
  g_main_loop_run(loop);
  return 0;
}
