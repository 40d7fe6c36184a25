#include "tests/support/rtsp_server_camera.hpp"

#include <gst/app/gstappsrc.h>

#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>

#include "capture/gst_support.hpp"

namespace camd::test {
namespace {

using base::Duration;
using base::MutexLock;
using base::TimePoint;
using capture::GstOwned;

constexpr int kSmallestSide = 64;
constexpr int kLargestSide = 2040;  // what RTP's JPEG format can say
constexpr std::size_t kMostPackets = 1'000'000;
constexpr std::size_t kMostPictures = 1'000;

}  // namespace

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

Camera::Camera(const Options& options)
    : fps_(options.fps), width_(options.width), height_(options.height), random_(options.seed) {
  clock_.set(TimePoint(), Duration::zero());
}

Camera::~Camera() {
  {
    const MutexLock lock(mutex_);
    leaving_ = true;
  }
  if (thread_.joinable()) thread_.join();
  const MutexLock lock(mutex_);
  forget_media();
}

void Camera::start() {
  thread_ = std::thread([this] { take_pictures(); });
}

void Camera::use(GstRTSPMedia* media) {
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

void Camera::unuse(GstRTSPMedia* media) {
  const MutexLock lock(mutex_);
  if (media_ == media) forget_media();
}

void Camera::use_rtcp(GstPad* pad) {
  gst_pad_add_probe(pad, static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_BUFFER_LIST),
                    &Camera::on_rtcp, this, nullptr);
}

std::string Camera::obey(const std::string& verb, const std::string& word) {
  double number = 0;
  const bool has_number = to_number(word, number);
  const bool is_percentage = has_number && number >= 0 && number <= 100;
  const std::string ok = "ok " + verb + (word.empty() ? "" : " " + word);
  const TimePoint now = base::system_clock().now();
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

void Camera::forget_media() {
  if (in_ != nullptr) gst_object_unref(in_);
  in_ = nullptr;
  media_ = nullptr;
  stamps_.clear();
  waiting_.clear();
}

void Camera::hasten_reports(double milliseconds) {
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

void Camera::take_pictures() {
  const Duration period(1'000'000'000 / fps_);
  TimePoint due = base::system_clock().now();
  for (std::uint64_t sequence = 0; take_picture(sequence); ++sequence) {
    due += period;
    std::this_thread::sleep_until(due);
  }
}

bool Camera::take_picture(std::uint64_t sequence) {
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
  const TimePoint now = base::system_clock().now();
  capture::TestStamp stamp{sequence, base::to_ns(now)};
  if (!pattern_ || pattern_->layout().width != width || pattern_->layout().height != height) {
    pattern_.emplace(base::tight_layout(base::PixelFormat::kI420, width, height));
    frozen = false;  // the old picture does not fit
  }
  if (frozen && !pixels_.empty()) {
    stamp = drawn_;
  } else {
    pixels_.resize(pattern_->layout().size_bytes);
    pattern_->draw(pixels_, sequence);
    (void)capture::stamp_test_pattern(pattern_->layout(), pixels_, stamp);
    drawn_ = stamp;
  }
  const MutexLock lock(mutex_);
  last_ = stamp;
  if (in_ != nullptr) send(now);
  return true;
}

void Camera::send(TimePoint taken) {
  if (GST_STATE(in_) != GST_STATE_PLAYING) return;
  const auto base = static_cast<std::int64_t>(gst_element_get_base_time(in_));
  const std::int64_t running = base::to_ns(taken) - base;
  if (running < 0) return;
  const auto& layout = pattern_->layout();
  if (caps_width_ != layout.width || caps_height_ != layout.height) {
    GstCaps* const caps =
        gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, "I420", "width", G_TYPE_INT, layout.width, "height",
                            G_TYPE_INT, layout.height, "framerate", GST_TYPE_FRACTION, fps_, 1, nullptr);
    gst_app_src_set_caps(GST_APP_SRC(in_), caps);
    gst_caps_unref(caps);
    caps_width_ = layout.width;
    caps_height_ = layout.height;
  }
  if (stamps_.empty()) origin_ = clock_.at(base::from_ns(base));  // the payloader counts from there, too
  const Duration said = held_.value_or(clock_.at(taken)) - origin_;
  const auto pts = static_cast<GstClockTime>(running);
  stamps_[pts] = static_cast<guint32>(static_cast<std::uint64_t>(said.count() / 1000 * 9 / 100));
  if (stamps_.size() > kMostPictures) stamps_.erase(stamps_.begin());
  GstBuffer* const buffer = gst_buffer_new_memdup(pixels_.data(), pixels_.size());
  GST_BUFFER_PTS(buffer) = pts;
  GST_BUFFER_DURATION(buffer) = static_cast<GstClockTime>(GST_SECOND) / static_cast<GstClockTime>(fps_);
  gst_app_src_push_buffer(GST_APP_SRC(in_), buffer);
}

GstPadProbeReturn Camera::on_rtcp(GstPad*, GstPadProbeInfo*, gpointer self) {
  auto* const camera = static_cast<Camera*>(self);
  const MutexLock lock(camera->mutex_);
  return camera->rtcp_ ? GST_PAD_PROBE_OK : GST_PAD_PROBE_DROP;
}

GstPadProbeReturn Camera::on_packets(GstPad* pad, GstPadProbeInfo* info, gpointer self) {
  return static_cast<Camera*>(self)->pass(pad, info);
}

GstPadProbeReturn Camera::pass(GstPad* pad, GstPadProbeInfo* info) {
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

void Camera::keep(GstBuffer* buffer, const GstSegment& segment) {
  Packet packet(buffer);
  if (chance() < drop_ || waiting_.size() >= kMostPackets) return;
  GstMapInfo bytes;
  if (gst_buffer_map(packet.get(), &bytes, GST_MAP_READWRITE) == FALSE) return;
  constexpr gsize kHeader = 12;
  const auto stamp = stamps_.find(gst_segment_to_running_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(packet.get())));
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

double Camera::chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }

}  // namespace camd::test
