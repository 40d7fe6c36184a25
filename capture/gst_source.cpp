#include "capture/gst_source.hpp"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <system_error>
#include <thread>

#include "base/cpus.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "capture/backoff.hpp"
#include "capture/failure_reason.hpp"
#include "capture/gst_connection.hpp"
#include "capture/gst_pictures.hpp"
#include "capture/memory_lender.hpp"
#include "capture/silence.hpp"
#include "capture/starvation.hpp"
#include "capture/video_file.hpp"

namespace camd::capture {
namespace {

using base::Duration;
using base::Error;
using base::ErrorKind;
using base::MutexLock;
using base::TimePoint;

std::atomic<std::size_t> cameras_open{0};  // of this file's, in the process

constexpr const char* kStopMessage = "camd-stop";
constexpr const char* kUndecodable = "packets arrive, but no picture can be decoded from them";
constexpr Duration kClosedPatience = std::chrono::milliseconds(500);  // for pictures, once the server has gone
constexpr Duration kGlance = std::chrono::milliseconds(100);
constexpr Duration kLook = std::chrono::seconds(1);

std::string seconds_text(Duration duration) {
  return fmt::format("{:g} s", std::chrono::duration<double>(duration).count());
}

// How one life of the pipeline ended.
enum class Verdict { kStopped, kEnded, kFailed, kLost, kAgain };
struct Outcome {
  Verdict verdict;
  std::string reason;
};

// How opening a file went. kRefused: the device does not decode it, and the CPU may.
enum class Opened { kDone, kStopped, kRefused };

// The message with the place in the configuration that it is about.
std::string placed(const config::Camera& camera, const std::string& message) {
  if (camera.place.file.empty()) return message;
  const char* key = "";
  if (std::holds_alternative<config::FileSource>(camera.source)) key = ".path";
  if (std::holds_alternative<config::V4l2Source>(camera.source)) key = ".device";
  if (std::holds_alternative<config::RtspSource>(camera.source)) key = ".url";
  if (std::holds_alternative<config::GStreamerSource>(camera.source)) key = ".pipeline";
  return config::located(camera.place, camera.key + key, message);
}

// The camera's own thread holds it too, so that it may be left behind.
class GstCamera final : public std::enable_shared_from_this<GstCamera> {
 public:
  GstCamera(const config::Camera& camera, CameraIndex index, FrameRing& ring, SourceListener& listener,
            const base::Clock& clock, Duration first_frame_patience)
      : camera_(camera),
        index_(index),
        ring_(ring),
        held_(static_cast<unsigned>(ring.slots() + 1)),
        listener_(listener),
        clock_(clock),
        pictures_(camera_, ring, clock, held_),
        recovery_(recovery_of(camera.source)),
        first_frame_patience_(std::max(recovery_.timeout, first_frame_patience)),
        backoff_(recovery_.reconnect_initial, recovery_.reconnect_max,
                 static_cast<std::uint32_t>(std::hash<std::string>()(camera.name)) ^
                     static_cast<std::uint32_t>(base::to_ns(clock.now()))) {
    ++cameras_open;
  }
  ~GstCamera() { --cameras_open; }
  GstCamera(const GstCamera&) = delete;
  GstCamera& operator=(const GstCamera&) = delete;

  // As FrameSource's.
  void start() {
    if (thread_.joinable()) {
      throw Error(ErrorKind::kState, fmt::format("camera {}: start() was called twice", camera_.name));
    }
    listener_.state_changed(index_, SourceState::kStarting, "");
    {
      const MutexLock lock(mutex_);
      ended_ = false;
    }
    thread_ = std::thread([self = shared_from_this()] {
      self->run();
      const MutexLock lock(self->mutex_);
      self->ended_ = true;
      self->changed_.notify_all();
    });
  }

  void request_stop() noexcept {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
      if (connection_) connection_->wake(kStopMessage);
    }
    pictures_.stop();
    ring_.close(true);  // a lossless source may wait there for a slot
  }

  [[nodiscard]] ClockStatus clock() const noexcept { return pictures_.times().status(); }
  [[nodiscard]] UpstreamLosses losses() const noexcept { return pictures_.times().losses(); }
  [[nodiscard]] DecoderStatus decoder() const { return pictures_.decoder(); }
  [[nodiscard]] std::uint64_t copied_bytes() const noexcept { return pictures_.copied_bytes(); }

  // Where it is not known yet which decoders it will get, it may.
  [[nodiscard]] bool makes_pictures_on_device() const noexcept {
    if (camera_.decodes() == config::DecodeMode::kCpu) return false;
    return direct_ || ring_.device().native_context() != nullptr;
  }

  bool join(Duration patience) noexcept {
    if (left_behind_) return false;  // what was waited for once is not waited for again
    const TimePoint deadline = std::chrono::steady_clock::now() + patience;
    {
      const MutexLock lock(mutex_);
      while (!ended_ && std::chrono::steady_clock::now() < deadline) (void)changed_.wait_until(mutex_, deadline);
      left_behind_ = !ended_;
    }
    if (left_behind_) {
      note_left_behind();
      cut_off();
      return false;
    }
    if (thread_.joinable()) thread_.join();
    close();
    return true;
  }

 private:
  // [setup] Neither ring nor listener is touched after this, whatever the threads that hang do when they go on.
  void cut_off() noexcept {
    std::shared_ptr<GstConnection> connection;
    std::shared_ptr<MemoryLender> lender;
    {
      const MutexLock lock(mutex_);
      connection = connection_;
      lender = lender_;
    }
    if (connection) connection->detach();
    if (lender) lender->end();
    {
      const MutexLock lock(listening_);
      cut_off_ = true;
    }
    thread_.detach();
  }

  static config::Recovery recovery_of(const config::Source& source) {
    if (const auto* const v4l2 = std::get_if<config::V4l2Source>(&source)) return v4l2->recovery;
    if (const auto* const rtsp = std::get_if<config::RtspSource>(&source)) return rtsp->recovery;
    if (const auto* const free = std::get_if<config::GStreamerSource>(&source)) return free->recovery;
    return {};
  }

  // ---- One life of the pipeline

  void open() {
    std::shared_ptr<MemoryLender> lender;
    if (copies_because_.empty() && MemoryLender::pays(ring_)) lender = std::make_shared<MemoryLender>(ring_);
    const config::DecodeMode mode = refusal_.empty() ? camera_.decodes() : config::DecodeMode::kCpu;
    Decoding decoding = decoding_of(camera_, mode, ring_.device());
    decoding.threads = decoder_threads(cameras_open, static_cast<unsigned>(base::usable_cpus()));
    direct_ = decoding.direct;
    {
      const MutexLock lock(mutex_);
      lender_ = lender;
    }
    BuiltPipeline built = build_pipeline(camera_, held_, decoding, lender);
    pictures_.open(built.pipeline.get(), built.compressed, decoding.on_device());
    missing_.clear();
    auto connection = std::make_shared<GstConnection>(std::move(built), camera_.name, pictures_, worker_);
    const MutexLock lock(mutex_);
    connection_ = std::move(connection);
  }

  void close() noexcept {
    pictures_.close();
    std::shared_ptr<MemoryLender> over;
    std::shared_ptr<GstConnection> gone;
    {
      const MutexLock lock(mutex_);
      gone = std::move(connection_);
      over = std::move(lender_);
    }
    gone.reset();
    if (over) over->end();
  }

  // The error that made a state change fail.
  [[nodiscard]] std::string why_failed() {
    while (const auto message = connection_->next_message(Duration::zero())) {
      if (GST_MESSAGE_TYPE(message.get()) == GST_MESSAGE_ERROR) return error_text(message.get());
      note(message.get());
    }
    return "it cannot be opened, and GStreamer does not say why";
  }

  // An error's line; a missing decoder, told just before, says it better.
  [[nodiscard]] std::string error_text(GstMessage* message) const {
    if (!missing_.empty() && camera_.decodes() == config::DecodeMode::kGpu) {
      return fmt::format("the GPU has no {}: with `decode: auto` or `decode: cpu` the CPU decodes", missing_);
    }
    if (!missing_.empty()) {
      return fmt::format("GStreamer has no {}: apt-get install gstreamer1.0-libav gstreamer1.0-plugins-bad", missing_);
    }
    return message_line(message);
  }

  // Messages that only matter together with later ones.
  void note(GstMessage* message) {
    switch (GST_MESSAGE_TYPE(message)) {
      case GST_MESSAGE_WARNING: base::log().debug("camera {}: {}", camera_.name, message_line(message)); break;
      case GST_MESSAGE_LATENCY: (void)gst_bin_recalculate_latency(GST_BIN(connection_->pipeline())); break;
      case GST_MESSAGE_ELEMENT:
        if (gst_message_has_name(message, "missing-plugin") != FALSE) {
          const char* const name = gst_structure_get_string(gst_message_get_structure(message), "name");
          if (name != nullptr) missing_ = name;
        }
        break;
      default: break;
    }
  }

  // [blocks] until the file has shown its first picture. Throws Error(kSource) naming the file.
  [[nodiscard]] Opened preroll(const std::filesystem::path& path) {
    if (stopped()) return Opened::kStopped;
    TimePoint deadline = clock_.now() + kOpenPatience;
    switch (connection_->change(GST_STATE_PAUSED, kOpenPatience, &GstCamera::give_up, this)) {
      case StateChange::kFailed: refuse_file(path, why_failed());
      case StateChange::kHung:
        if (stopped()) return Opened::kStopped;
        refuse_file(path, fmt::format("cannot be opened within {}", seconds_text(kOpenPatience)));
      case StateChange::kDone:
      case StateChange::kLive: break;
    }
    for (;;) {
      if (stopped()) return Opened::kStopped;
      const auto message = connection_->next_message(std::min<Duration>(kLook, deadline - clock_.now()));
      if (pictures_.waits_for_decoder()) deadline = clock_.now() + kOpenPatience;
      if (!message && clock_.now() < deadline) continue;
      if (!message) refuse_file(path, fmt::format("shows no picture within {}", seconds_text(kOpenPatience)));
      const GstMessageType type = GST_MESSAGE_TYPE(message.get());
      if (type == GST_MESSAGE_ERROR) refuse_file(path, error_text(message.get()));
      if (gst_message_has_name(message.get(), kNoVideoMessage) != FALSE) refuse_file(path, "has no video in it");
      if (is_refused(message.get())) return Opened::kRefused;
      note(message.get());
      if (type == GST_MESSAGE_ASYNC_DONE || type == GST_MESSAGE_EOS) break;
    }
    if (connection_->at_end()) refuse_file(path, "has no picture in it");
    return Opened::kDone;
  }

  // [blocks] As preroll(). What the device's way cannot open, the CPU's may.
  [[nodiscard]] Opened open_file(const std::filesystem::path& path) {
    try {
      return preroll(path);
    } catch (const Error& error) {
      if (!connection_->is_compressed() || camera_.decodes() != config::DecodeMode::kAuto) throw;
      refusal_ = error.what();
      return Opened::kRefused;
    }
  }

  // ---- What the device does not decode

  // Remembers why.
  [[nodiscard]] bool is_refused(GstMessage* message) {
    if (gst_message_has_name(message, kRefusedMessage) == FALSE) return false;
    refusal_ = gst_structure_get_string(gst_message_get_structure(message), "reason");
    return true;
  }

  // For as long as the camera lives: what has been refused once is not tried again and again.
  [[nodiscard]] Outcome refused() {
    std::string why = std::exchange(refusal_, "");
    if (camera_.decodes() == config::DecodeMode::kGpu) return {broken(), std::move(why)};
    refusal_ = "decoded on the CPU: " + why;
    base::log().warn("camera {}: {}", camera_.name, refusal_);
    return {Verdict::kAgain, ""};
  }

  [[nodiscard]] bool loops() const {
    const auto* const file = std::get_if<config::FileSource>(&camera_.source);
    return file != nullptr && file->loop;
  }

  // ---- Memory that is lent

  // A life that showed nothing while memory was lent: some drivers take such memory and then do not write into it. The
  // next one copies; one that shows nothing either was not lost for that.
  void copy_after(Outcome& outcome) {
    const bool showed_nothing =
        !pictures_.any() && (outcome.verdict == Verdict::kLost || outcome.verdict == Verdict::kFailed);
    if (!showed_nothing) return;
    if (!copies_because_.empty()) {
      copies_because_.clear();
      return;
    }
    if (!lender_ || !lender_->was_asked()) return;
    const std::string refusal = lender_->refusal();
    copies_because_ = refusal.empty() ? "it showed none in memory of camd's (" + outcome.reason + ")" : refusal;
    outcome = {Verdict::kAgain, ""};
  }

  // One line, where something has changed.
  void tell_who_copies() {
    std::string line;
    if (lender_ && lender_->lent() > 0) {
      line = "nobody copies its pictures: they are written where " + ring_.device().info().name + " reads them";
    } else if (lender_ && !lender_->refusal().empty()) {
      line = "each picture is copied once: " + lender_->refusal();
    } else if (!copies_because_.empty()) {
      line = "each picture is copied once: " + copies_because_;
    }
    if (line.empty() || line == told_who_copies_) return;
    base::log().info("camera {}: {}", camera_.name, line);
    told_who_copies_ = line;
  }

  // ---- [control]

  void run() noexcept {
    base::name_this_thread("cam:" + camera_.name);
    for (;;) {
      Outcome outcome{Verdict::kFailed, ""};
      const TimePoint opened = clock_.now();
      try {
        outcome = play();
      } catch (const std::exception& error) {
        outcome.reason = placed(camera_, error.what());
      }
      copy_after(outcome);
      close();
      switch (outcome.verdict) {
        case Verdict::kStopped: return;
        case Verdict::kAgain: continue;
        case Verdict::kEnded: report(SourceState::kEnded, outcome.reason); return;
        case Verdict::kFailed: report(SourceState::kFailed, outcome.reason); return;
        case Verdict::kLost: break;
      }
      report(SourceState::kReconnecting, explain_failure(camera_.source, outcome.reason, [this] { return stopped(); }));
      // A camera that gives a picture now and then and breaks again is not asked any more often for that.
      if (pictures_.any() && clock_.now() - opened > recovery_.timeout) backoff_.reset();
      if (!sleep(backoff_.next())) return;
    }
  }

  static bool give_up(void* self) { return static_cast<GstCamera*>(self)->stopped(); }

  // [blocks] Opens the pipeline and watches it to its end. Throws Error for what makes the camera fail for good.
  [[nodiscard]] Outcome play() {
    // Never two of a camera's pipelines at a time: one that hung first lets go of what it holds.
    while (!worker_.wait_idle(kGlance)) {
      if (stopped()) return {Verdict::kStopped, ""};
    }
    if (const auto* const v4l2 = std::get_if<config::V4l2Source>(&camera_.source)) {
      std::error_code error;
      if (!std::filesystem::exists(v4l2->device, error)) {
        return {Verdict::kLost, fmt::format("{} is not there: is the camera plugged in?", v4l2->device.string())};
      }
    }
    const auto* const file = std::get_if<config::FileSource>(&camera_.source);
    if (file != nullptr) check_video_file(file->path);
    open();
    if (stopped()) return {Verdict::kStopped, ""};  // perhaps long ago, where opening it hung
    if (file != nullptr) {
      const Opened opened = open_file(file->path);
      if (opened == Opened::kStopped) return {Verdict::kStopped, ""};
      if (opened == Opened::kRefused) return refused();
    }
    switch (
        connection_->change(GST_STATE_PLAYING, std::max(kOpenPatience, recovery_.timeout), &GstCamera::give_up, this)) {
      case StateChange::kHung:
        if (stopped()) return {Verdict::kStopped, ""};
        return {broken(), "opening it hangs"};
      case StateChange::kFailed: return {broken(), why_failed()};
      case StateChange::kDone:
      case StateChange::kLive: break;
    }
    server_closed_ = false;
    own_stops_.begin(clock_.now());
    silence_.begin(clock_.now());
    starvation_.begin(clock_.now(), fates());
    Duration patience = Duration::zero();
    for (;;) {
      if (stopped()) return {Verdict::kStopped, ""};
      const Duration stopped = own_stops_.look(clock_.now(), patience);
      if (connection_->comes_back()) {
        if (auto outcome = look_for_pictures(stopped, patience)) return *std::move(outcome);
      } else {
        patience = kLook;
      }
      if (auto outcome = look_for_deliveries(stopped)) return *std::move(outcome);
      const auto message = connection_->next_message(patience);
      if (!message) continue;
      note(message.get());
      switch (GST_MESSAGE_TYPE(message.get())) {
        case GST_MESSAGE_ERROR: return {broken(), error_text(message.get())};
        case GST_MESSAGE_WARNING:
          if (!GstConnection::is_closed_by_server(message.get())) break;
          if (!pictures_.any()) return {broken(), "the server closed the connection before the first picture"};
          server_closed_ = true;  // what it sent before comes first; over UDP more may come
          break;
        case GST_MESSAGE_EOS:
          if (const auto outcome = at_end()) return *outcome;
          break;
        case GST_MESSAGE_APPLICATION:
          if (gst_message_has_name(message.get(), kNoVideoMessage) != FALSE) return {broken(), "has no video in it"};
          if (gst_message_has_name(message.get(), kFirstFrameMessage) != FALSE) {
            connection_->end_idle_threads();
            report(SourceState::kRunning, refusal_);
            tell_who_copies();
          }
          if (is_refused(message.get())) return refused();
          break;
        default: break;
      }
    }
  }

  // What follows from how long there was no picture; empty: nothing yet, and `patience` is how long to wait for a
  // message before the next look. `stopped`: for how long camd did not run since the last one.
  [[nodiscard]] std::optional<Outcome> look_for_pictures(Duration stopped, Duration& patience) {
    const bool first = pictures_.any();
    Duration limit = first ? recovery_.timeout : first_frame_patience_;
    if (server_closed_) limit = std::min(limit, kClosedPatience);
    if (pictures_.waits_for_decoder()) silence_.begin(clock_.now());
    const Duration silent = silence_.look(clock_.now(), pictures_.last(), stopped);
    const bool undecodable = silent >= limit / 2 && pictures_.times().packets_arrive();
    if (undecodable) report(SourceState::kStarved, kUndecodable);
    if (silent >= limit && server_closed_) return Outcome{Verdict::kLost, "the server closed the connection"};
    if (silent >= limit) {
      std::string reason = undecodable ? kUndecodable : fmt::format("no frame for {}", seconds_text(limit));
      if (first && !undecodable) report(SourceState::kStalled, reason);
      return Outcome{Verdict::kLost, std::move(reason)};
    }
    if (first && silent < limit / 2 && reported_reason_ == kUndecodable) report(SourceState::kRunning, refusal_);
    if (!first && connection_->is_flooded(pictures_.times().has_packets())) {
      connection_->interrupt();
      return Outcome{Verdict::kLost, "the server answers without end"};
    }
    patience = std::min(first ? kLook : kGlance, limit - silent);
    return std::nullopt;
  }

  // What follows from what became of the pictures; empty: nothing. `stopped`: as above.
  [[nodiscard]] std::optional<Outcome> look_for_deliveries(Duration stopped) {
    const bool was_starved = starvation_.starved();
    starvation_.look(clock_.now(), fates(), stopped);
    if (was_starved && !starvation_.starved()) report(SourceState::kRunning, refusal_);
    if (!was_starved && starvation_.starved()) report(SourceState::kStarved, starvation_.reason());
    if (!connection_->comes_back() || !starvation_.wants_another_try()) return std::nullopt;
    return Outcome{Verdict::kLost, starvation_.reason()};
  }

  [[nodiscard]] FrameFates fates() {
    const MutexLock lock(listening_);
    return cut_off_ ? FrameFates{} : listener_.fates(index_);
  }

  // What follows from the end of the stream; empty: it plays on.
  [[nodiscard]] std::optional<Outcome> at_end() {
    if (connection_->comes_back()) return Outcome{Verdict::kLost, "the stream ended"};
    if (!loops()) return Outcome{Verdict::kEnded, "the end of the stream"};
    if (pictures_.of_this_round() == 0) return Outcome{Verdict::kFailed, "has no picture in it"};
    pictures_.begin_round();
    if (connection_->rewind()) return std::nullopt;
    return Outcome{Verdict::kAgain, ""};  // an input that cannot seek is opened again
  }

  // Live sources may come back, others will not.
  [[nodiscard]] Verdict broken() const { return connection_->comes_back() ? Verdict::kLost : Verdict::kFailed; }

  void report(SourceState state, const std::string& reason) {
    if (state == reported_ && reason == reported_reason_) return;  // attempt after attempt with the same outcome
    reported_ = state;
    reported_reason_ = reason;
    const MutexLock lock(listening_);
    if (!cut_off_) listener_.state_changed(index_, state, reason);
  }

  [[nodiscard]] bool stopped() {
    const MutexLock lock(mutex_);
    return stopping_;
  }

  // False when the source is being stopped.
  [[nodiscard]] bool sleep(Duration duration) {
    const TimePoint until = clock_.now() + duration;
    const MutexLock lock(mutex_);
    while (!stopping_ && clock_.now() < until) (void)clock_.wait_until(changed_, mutex_, until);
    return !stopping_;
  }

  const config::Camera camera_;
  const CameraIndex index_;
  FrameRing& ring_;
  const unsigned held_;             // buffers that camd keeps at once
  std::atomic<bool> direct_{true};  // the device decodes what GStreamer reads, or nobody knows yet
  SourceListener& listener_;
  const base::Clock& clock_;
  GstPictures pictures_;
  const config::Recovery recovery_;
  const Duration first_frame_patience_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  StateWorker worker_;  // [control]; outlives every connection
  // Replaced by [control] under mutex_, so that stop() can wake it; [control] itself reads it without.
  std::shared_ptr<GstConnection> connection_;
  std::shared_ptr<MemoryLender> lender_;       // of the connection, where one lends; as connection_
  bool ended_ CAMD_GUARDED_BY(mutex_) = true;  // the thread

  // [control]
  Backoff backoff_;
  OwnStops own_stops_;
  Silence silence_;
  bool server_closed_ = false;  // the connection over which it is asked
  Starvation starvation_{recovery_.timeout};
  std::string missing_;         // what GStreamer has no plug-in for
  std::string refusal_;         // why the CPU decodes, although the GPU was to
  std::string copies_because_;  // why nothing is lent any more, although it would pay
  std::string told_who_copies_;
  SourceState reported_ = SourceState::kStarting;
  std::string reported_reason_;

  base::Mutex listening_;  // held while the listener is called
  bool cut_off_ CAMD_GUARDED_BY(listening_) = false;

  // [setup]
  bool left_behind_ = false;
  std::thread thread_;
};

class GstSource final : public FrameSource {
 public:
  explicit GstSource(std::shared_ptr<GstCamera> camera) : camera_(std::move(camera)) {}
  ~GstSource() override { stop(); }
  void start() override { camera_->start(); }
  void request_stop() noexcept override { camera_->request_stop(); }
  bool join(Duration patience) noexcept override { return camera_->join(patience); }
  [[nodiscard]] bool makes_pictures_on_device() const noexcept override { return camera_->makes_pictures_on_device(); }
  [[nodiscard]] ClockStatus clock() const noexcept override { return camera_->clock(); }
  [[nodiscard]] UpstreamLosses losses() const noexcept override { return camera_->losses(); }
  [[nodiscard]] DecoderStatus decoder() const override { return camera_->decoder(); }
  [[nodiscard]] std::uint64_t copied_bytes() const noexcept override { return camera_->copied_bytes(); }

 private:
  const std::shared_ptr<GstCamera> camera_;
};

}  // namespace

void check_gst_source(const config::Camera& camera) {
  try {
    init_gstreamer();
    (void)build_pipeline(camera, 1, {});
  } catch (const Error& error) {
    throw Error(error.kind(), placed(camera, error.what()));
  }
}

std::unique_ptr<FrameSource> make_gst_source(const config::Camera& camera, CameraIndex index, FrameRing& ring,
                                             SourceListener& listener, const base::Clock& clock,
                                             Duration first_frame_patience) {
  check_gst_source(camera);
  return std::make_unique<GstSource>(
      std::make_shared<GstCamera>(camera, index, ring, listener, clock, first_frame_patience));
}

}  // namespace camd::capture
