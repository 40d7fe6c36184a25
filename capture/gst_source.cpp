#include "capture/gst_source.hpp"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <system_error>
#include <thread>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "capture/backoff.hpp"
#include "capture/capture_stamps.hpp"
#include "capture/file_pace.hpp"
#include "capture/gst_connection.hpp"
#include "capture/gst_picture.hpp"

namespace camd::capture {
namespace {

using base::Duration;
using base::Error;
using base::ErrorKind;
using base::MutexLock;
using base::TimePoint;

constexpr const char* kFirstFrameMessage = "camd-first-frame";
constexpr const char* kStopMessage = "camd-stop";

std::string seconds_text(Duration duration) {
  return fmt::format("{:g} s", std::chrono::duration<double>(duration).count());
}

// How one life of the pipeline ended.
enum class Verdict { kStopped, kEnded, kFailed, kLost, kAgain };
struct Outcome {
  Verdict verdict;
  std::string reason;
};

class GstSource final : public FrameSource, private SampleTaker {
 public:
  GstSource(const config::Camera& camera, CameraIndex index, FrameRing& ring, SourceListener& listener,
            const base::Clock& clock)
      : camera_(camera),
        index_(index),
        ring_(ring),
        listener_(listener),
        clock_(clock),
        lossless_(is_lossless(camera)),
        paced_(std::holds_alternative<config::FileSource>(camera.source) && !lossless_),
        recovery_(recovery_of(camera.source)),
        backoff_(recovery_.reconnect_initial, recovery_.reconnect_max,
                 static_cast<std::uint32_t>(std::hash<std::string>()(camera.name)) ^
                     static_cast<std::uint32_t>(base::to_ns(clock.now()))) {}
  ~GstSource() override { stop(); }

  void start() override {
    if (thread_.joinable()) {
      throw Error(ErrorKind::kState, fmt::format("camera {}: start() was called twice", camera_.name));
    }
    listener_.state_changed(index_, SourceState::kStarting, "");
    try {
      init_gstreamer();
      if (const auto* const file = std::get_if<config::FileSource>(&camera_.source)) {
        check_file(file->path);
        open();
        preroll(file->path);
      } else {
        open();
      }
    } catch (const Error& error) {
      close();
      throw Error(error.kind(), placed(error.what()));
    }
    thread_ = std::thread([this] { run(); });
  }

  void stop() noexcept override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
      if (connection_) connection_->wake(kStopMessage);
    }
    ring_.close(true);  // a lossless source may wait there for a slot
    if (thread_.joinable()) thread_.join();
    close();
  }

 private:
  static config::Recovery recovery_of(const config::Source& source) {
    if (const auto* const v4l2 = std::get_if<config::V4l2Source>(&source)) return v4l2->recovery;
    if (const auto* const rtsp = std::get_if<config::RtspSource>(&source)) return rtsp->recovery;
    if (const auto* const free = std::get_if<config::GStreamerSource>(&source)) return free->recovery;
    return {};
  }

  // The message with the place in the configuration that it is about.
  [[nodiscard]] std::string placed(const std::string& message) const {
    if (camera_.place.file.empty()) return fmt::format("camera {}: {}", camera_.name, message);
    const char* key = "";
    if (std::holds_alternative<config::FileSource>(camera_.source)) key = ".path";
    if (std::holds_alternative<config::V4l2Source>(camera_.source)) key = ".device";
    if (std::holds_alternative<config::RtspSource>(camera_.source)) key = ".url";
    if (std::holds_alternative<config::GStreamerSource>(camera_.source)) key = ".pipeline";
    return config::located(camera_.place, camera_.key + key, message);
  }

  [[noreturn]] static void refuse(const std::filesystem::path& path, const std::string& why) {
    throw Error(ErrorKind::kSource, fmt::format("{}: {}", path.string(), why));
  }

  static void check_file(const std::filesystem::path& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) {
      refuse(path, status.type() == std::filesystem::file_type::not_found ? "no such file" : error.message());
    }
    if (std::filesystem::is_directory(status)) refuse(path, "is a directory, not a video file");
    if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(path, error) == 0) {
      refuse(path, "the file is empty");
    }
  }

  // ---- One life of the pipeline

  void open() {
    const auto held = static_cast<unsigned>(ring_.slots() + 1);
    BuiltPipeline built;
    if (const auto* const file = std::get_if<config::FileSource>(&camera_.source)) built = build_pipeline(*file, held);
    if (const auto* const v4l2 = std::get_if<config::V4l2Source>(&camera_.source)) built = build_pipeline(*v4l2, held);
    if (const auto* const rtsp = std::get_if<config::RtspSource>(&camera_.source)) built = build_pipeline(*rtsp, held);
    if (const auto* const free = std::get_if<config::GStreamerSource>(&camera_.source)) {
      built = build_pipeline(*free, held);
    }
    {
      const MutexLock lock(mutex_);
      closing_ = false;
    }
    first_frame_ = false;
    begin_round();
    missing_.clear();
    auto connection = std::make_unique<GstConnection>(std::move(built), camera_.name, static_cast<SampleTaker&>(*this));
    const MutexLock lock(mutex_);
    connection_ = std::move(connection);
  }

  void close() noexcept {
    std::unique_ptr<GstConnection> gone;
    {
      const MutexLock lock(mutex_);
      gone = std::move(connection_);
      closing_ = true;
      changed_.notify_all();  // a frame may be waiting until it is due
    }
  }

  // [control], while no frame is on its way.
  void begin_round() {
    frames_this_round_ = 0;
    const MutexLock lock(mutex_);
    pace_.start_round();
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
    if (!missing_.empty()) {
      return fmt::format("GStreamer has no {}: apt-get install gstreamer1.0-libav gstreamer1.0-plugins-bad", missing_);
    }
    std::string line = message_line(message);
    if (line.find("not-negotiated") != std::string::npos) {  // GStreamer does not say by what
      line += fmt::format("; pictures may have 1 to {} pixels a side", kMostPixelsASide);
    }
    return line;
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

  // [blocks] until the file has shown its first picture. Throws Error(kSource) naming it.
  void preroll(const std::filesystem::path& path) {
    const TimePoint deadline = clock_.now() + kOpenPatience;
    switch (connection_->change(GST_STATE_PAUSED, kOpenPatience)) {
      case StateChange::kFailed: refuse(path, why_failed());
      case StateChange::kHung: refuse(path, fmt::format("cannot be opened within {}", seconds_text(kOpenPatience)));
      case StateChange::kDone:
      case StateChange::kLive: break;
    }
    for (;;) {
      const auto message = connection_->next_message(deadline - clock_.now());
      if (!message) refuse(path, fmt::format("shows no picture within {}", seconds_text(kOpenPatience)));
      const GstMessageType type = GST_MESSAGE_TYPE(message.get());
      if (type == GST_MESSAGE_ERROR) refuse(path, error_text(message.get()));
      if (gst_message_has_name(message.get(), kNoVideoMessage) != FALSE) refuse(path, "has no video in it");
      note(message.get());
      if (type == GST_MESSAGE_ASYNC_DONE || type == GST_MESSAGE_EOS) break;
    }
    if (connection_->at_end()) refuse(path, "has no picture in it");
  }

  [[nodiscard]] bool loops() const {
    const auto* const file = std::get_if<config::FileSource>(&camera_.source);
    return file != nullptr && file->loop;
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
        outcome.reason = error.what();
      }
      close();
      switch (outcome.verdict) {
        case Verdict::kStopped: return;
        case Verdict::kAgain: continue;
        case Verdict::kEnded: report(SourceState::kEnded, outcome.reason); return;
        case Verdict::kFailed: report(SourceState::kFailed, outcome.reason); return;
        case Verdict::kLost: break;
      }
      explain(outcome.reason);
      report(SourceState::kReconnecting, outcome.reason);
      // A camera that gives a picture now and then and breaks again is not asked any more often for that.
      if (first_frame_ && clock_.now() - opened > recovery_.timeout) backoff_.reset();
      if (!sleep(backoff_.next())) return;
    }
  }

  // [blocks] Opens the pipeline, unless start() did, and watches it to its end.
  [[nodiscard]] Outcome play() {
    if (const auto* const v4l2 = std::get_if<config::V4l2Source>(&camera_.source)) {
      std::error_code error;
      if (!std::filesystem::exists(v4l2->device, error)) {
        return {Verdict::kLost, fmt::format("{} is not there: is the camera plugged in?", v4l2->device.string())};
      }
    }
    if (!connection_) open();
    const auto give_up = [](void* self) { return static_cast<GstSource*>(self)->stopped(); };
    switch (connection_->change(GST_STATE_PLAYING, std::max(kOpenPatience, recovery_.timeout), give_up, this)) {
      case StateChange::kHung:
        if (stopped()) return {Verdict::kStopped, ""};
        return {broken(), "opening it hangs"};
      case StateChange::kFailed: return {broken(), why_failed()};
      case StateChange::kDone:
      case StateChange::kLive: break;
    }
    const TimePoint opened = clock_.now();
    for (;;) {
      if (stopped()) return {Verdict::kStopped, ""};
      Duration patience = std::chrono::seconds(1);
      if (connection_->live()) {
        const bool first = first_frame_;
        const Duration limit = first ? recovery_.timeout : std::max(recovery_.timeout, kFirstFramePatience);
        const TimePoint since = first ? base::from_ns(last_frame_ns_) : opened;
        const Duration silent = clock_.now() - since;
        if (silent >= limit) {
          const std::string reason = fmt::format("no frame for {}", seconds_text(limit));
          if (first) report(SourceState::kStalled, reason);
          return {Verdict::kLost, reason};
        }
        patience = std::min(patience, limit - silent);
      }
      const auto message = connection_->next_message(patience);
      if (!message) continue;
      note(message.get());
      switch (GST_MESSAGE_TYPE(message.get())) {
        case GST_MESSAGE_ERROR: return {broken(), error_text(message.get())};
        case GST_MESSAGE_EOS:
          if (const auto outcome = at_end()) return *outcome;
          break;
        case GST_MESSAGE_APPLICATION:
          if (gst_message_has_name(message.get(), kNoVideoMessage) != FALSE) return {broken(), "has no video in it"};
          if (gst_message_has_name(message.get(), kFirstFrameMessage) != FALSE) report(SourceState::kRunning, "");
          break;
        default: break;
      }
    }
  }

  // What follows from the end of the stream; empty: it plays on.
  [[nodiscard]] std::optional<Outcome> at_end() {
    if (connection_->live()) return Outcome{Verdict::kLost, "the stream ended"};
    if (!loops()) return Outcome{Verdict::kEnded, "the end of the stream"};
    if (frames_this_round_ == 0) return Outcome{Verdict::kFailed, "has no picture in it"};
    begin_round();
    if (connection_->rewind()) return std::nullopt;
    return Outcome{Verdict::kAgain, ""};  // an input that cannot seek is opened again
  }

  // Live sources may come back, others will not.
  [[nodiscard]] Verdict broken() const { return connection_->live() ? Verdict::kLost : Verdict::kFailed; }

  // A camera that was asked for what it cannot do: says what it can. The pipeline is closed by now.
  void explain(std::string& reason) {
    const auto* const v4l2 = std::get_if<config::V4l2Source>(&camera_.source);
    if (v4l2 == nullptr || reason.find("negotiat") == std::string::npos) return;
    reason = fmt::format("{} does not do {}x{} at {:g} frames/s", v4l2->device.string(), v4l2->width, v4l2->height,
                         v4l2->fps);
    const std::string offers = describe_v4l2(v4l2->device);
    if (!offers.empty()) reason += fmt::format("; it offers {}", offers);
  }

  void report(SourceState state, const std::string& reason) {
    if (state == reported_ && reason == reported_reason_) return;  // attempt after attempt with the same outcome
    reported_ = state;
    reported_reason_ = reason;
    listener_.state_changed(index_, state, reason);
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

  // ---- [streaming]

  bool take_sample(GstSample* sample, GstElement* pipeline) noexcept override {
    TimePoint arrived = clock_.now();
    TimePoint captured = arrived;
    if (paced_) {
      captured = due(sample, arrived);
      if (!wait_until_due(captured)) return false;
      arrived = clock_.now();
    } else if (!lossless_) {
      captured = clock_time_of(sample, pipeline).value_or(arrived);
    }
    if (ring_.closed()) return false;
    std::optional<FillLease> lease = ring_.begin();
    if (lossless_) captured = arrived = clock_.now();  // waiting for a slot is the file's time, not the frame's
    last_frame_ns_ = base::to_ns(arrived);
    captured = stamps_.next(captured, arrived);
    if (stamps_.was_backwards()) tell_once(told_backwards_, "its time stamps run backwards, they are held");
    if (lease) {
      std::string problem;
      try {
        problem = fill_from_sample(*lease, ring_.may_borrow(), sample);
      } catch (const std::exception& error) {
        problem = error.what();
      }
      if (problem.empty()) {
        lease->publish(captured, arrived);
      } else {
        tell_once(told_problem_, "frames are dropped as source_error: " + problem);
      }
    }
    ++frames_this_round_;
    if (!first_frame_.exchange(true)) {
      gst_element_post_message(
          pipeline, gst_message_new_application(GST_OBJECT(pipeline), gst_structure_new_empty(kFirstFrameMessage)));
    }
    return true;
  }

  // The sample's time in its stream.
  [[nodiscard]] static std::optional<Duration> running_time_of(GstSample* sample) {
    const GstClockTime pts = GST_BUFFER_PTS(gst_sample_get_buffer(sample));
    const GstSegment* const segment = gst_sample_get_segment(sample);
    if (!GST_CLOCK_TIME_IS_VALID(pts) || segment == nullptr || segment->format != GST_FORMAT_TIME) return std::nullopt;
    const GstClockTime running = gst_segment_to_running_time(segment, GST_FORMAT_TIME, pts);
    if (!GST_CLOCK_TIME_IS_VALID(running)) return std::nullopt;
    return Duration(static_cast<std::int64_t>(running));
  }

  // The sample's time on the pipeline's clock, which is CLOCK_MONOTONIC.
  [[nodiscard]] static std::optional<TimePoint> clock_time_of(GstSample* sample, GstElement* pipeline) {
    const auto running = running_time_of(sample);
    const GstClockTime base_time = gst_element_get_base_time(pipeline);
    if (!running || !GST_CLOCK_TIME_IS_VALID(base_time)) return std::nullopt;
    return base::from_ns(static_cast<std::int64_t>(base_time)) + *running;
  }

  [[nodiscard]] TimePoint due(GstSample* sample, TimePoint now) {
    const GstClockTime shown = GST_BUFFER_DURATION(gst_sample_get_buffer(sample));
    const Duration duration(GST_CLOCK_TIME_IS_VALID(shown) ? static_cast<std::int64_t>(shown) : 0);
    const auto running = running_time_of(sample);
    TimePoint due;
    bool moved = false;
    {
      const MutexLock lock(mutex_);
      due = pace_.due(running, duration, now);
      moved = pace_.moved();
    }
    if (moved) tell_once(told_moved_, "more than a second late, its schedule moves");
    return due;
  }

  // False when the pipeline is being closed.
  [[nodiscard]] bool wait_until_due(TimePoint due) {
    const MutexLock lock(mutex_);
    while (!stopping_ && !closing_ && clock_.now() < due) (void)clock_.wait_until(changed_, mutex_, due);
    return !stopping_ && !closing_;
  }

  void tell_once(bool& told, const std::string& what) const {
    if (!told) base::log().warn("camera {}: {}", camera_.name, what);
    told = true;
  }

  const config::Camera camera_;
  const CameraIndex index_;
  FrameRing& ring_;
  SourceListener& listener_;
  const base::Clock& clock_;
  const bool lossless_;
  const bool paced_;  // a file in real time
  const config::Recovery recovery_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  bool closing_ CAMD_GUARDED_BY(mutex_) = false;  // the pipeline
  FilePace pace_ CAMD_GUARDED_BY(mutex_);
  // Replaced by [control] under mutex_, so that stop() can wake it; [control] itself reads it without.
  std::unique_ptr<GstConnection> connection_;

  // [control]
  Backoff backoff_;
  std::string missing_;  // what GStreamer has no plug-in for
  SourceState reported_ = SourceState::kStarting;
  std::string reported_reason_;

  // Between [streaming] and [control]
  std::atomic<bool> first_frame_{false};
  std::atomic<std::int64_t> last_frame_ns_{0};
  std::atomic<std::uint64_t> frames_this_round_{0};

  // [streaming]; one thread after the other, with a detach() or the end of the stream between them
  CaptureStamps stamps_;
  bool told_moved_ = false;
  bool told_problem_ = false;
  bool told_backwards_ = false;

  std::thread thread_;
};

}  // namespace

std::unique_ptr<FrameSource> make_gst_source(const config::Camera& camera, CameraIndex index, FrameRing& ring,
                                             SourceListener& listener, const base::Clock& clock) {
  return std::make_unique<GstSource>(camera, index, ring, listener, clock);
}

}  // namespace camd::capture
