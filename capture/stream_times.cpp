// RTP's packets on their way into and out of the jitter buffer, and which decoded picture they became.
#include "capture/stream_times.hpp"

#include <cstdlib>
#include <string_view>

#include "capture/gst_held.hpp"
#include "capture/picture_names.hpp"

namespace camd::capture {
namespace {

using base::Duration;
using base::MutexLock;
using base::TimePoint;

// The fixed header (RFC 3550, section 5.1).
struct RtpHeader {
  bool marker = false;  // the last packet of a picture
  std::uint16_t sequence = 0;
  std::uint32_t stamp = 0;
};

std::uint32_t word_at(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

std::optional<RtpHeader> rtp_header(GstBuffer* packet) {
  std::uint8_t bytes[12];
  if (gst_buffer_extract(packet, 0, bytes, sizeof bytes) != sizeof bytes || bytes[0] >> 6 != 2) return std::nullopt;
  return RtpHeader{(bytes[1] & 0x80) != 0, static_cast<std::uint16_t>(bytes[2] << 8 | bytes[3]), word_at(bytes + 4)};
}

// Which packets begin another picture: another stamp, or another packet behind the last one of a picture. And which are
// missing.
class PictureStarts {
 public:
  // False for packets out of their order: they belong to a picture that has begun.
  // How many packets are missing before this one. More than kMostLost is another beginning and no loss.
  [[nodiscard]] unsigned lost_before(const RtpHeader& header) const {
    const auto ahead = static_cast<std::int16_t>(header.sequence - sequence_);
    return begun_ && ahead > 1 && ahead <= kMostLost ? static_cast<unsigned>(ahead - 1) : 0;
  }
  // Whether the last packet of the picture has not been there.
  [[nodiscard]] bool is_open() const { return begun_ && !marker_; }
  [[nodiscard]] bool starts(const RtpHeader& header) {
    const auto ahead = static_cast<std::int16_t>(header.sequence - sequence_);
    if (begun_ && ahead <= 0 && ahead > -kMisordered) return false;
    const bool starts = !begun_ || marker_ || header.stamp != stamp_;
    begun_ = true;
    sequence_ = header.sequence;
    stamp_ = header.stamp;
    marker_ = header.marker;
    return starts;
  }

 private:
  static constexpr int kMisordered = 100;  // RFC 3550, appendix A.1
  static constexpr int kMostLost = 3000;   // likewise
  bool begun_ = false;
  bool marker_ = false;
  std::uint16_t sequence_ = 0;
  std::uint32_t stamp_ = 0;
};

constexpr Duration kSilent = std::chrono::seconds(1);  // of a jitter buffer whose sender has gone

}  // namespace

struct StreamTimes::Connection {
  std::shared_ptr<StreamTimes> times;
  std::uint32_t number = 0;
};

struct StreamTimes::Tap {
  std::shared_ptr<StreamTimes> times;
  std::uint32_t connection = 0;
  std::uint32_t number = 0;  // from 1

  // [arrival] of the streaming thread before the jitter buffer
  int clock_rate = 0;
  bool video = true;
  PictureStarts arriving;
  // [departure] of the one behind it
  PictureStarts departing;
  PictureNames names;  // its rate is read under the lock

  // Under the lock of `times`.
  bool begun = false;
  int rate = 0;
  std::uint32_t last = 0;      // stamp
  std::int64_t unwrapped = 0;  // of `last`, in ticks since the first

  [[nodiscard]] Duration since_first(std::uint32_t rtp) const {
    const std::int64_t ticks = unwrapped + static_cast<std::int32_t>(rtp - last);
    return Duration(ticks / rate * 1'000'000'000 + ticks % rate * 1'000'000'000 / rate);
  }
};

// ---- [control]

void StreamTimes::connect(GstElement* pipeline) {
  auto connection = std::make_shared<Connection>();
  connection->times = shared_from_this();
  {
    const MutexLock lock(mutex_);
    connection->number = ++connection_;
    active_tap_ = 0;
    several_ = false;
    has_packets_ = false;
    pictures_.fill({});
    losses_.connect();
    fresh_ = true;
  }
  // They are there from the beginning, while jitter buffers come with their streams.
  GstIterator* const drivers = gst_bin_iterate_all_by_element_factory_name(GST_BIN(pipeline), "v4l2src");
  GValue driver = G_VALUE_INIT;
  while (gst_iterator_next(drivers, &driver) == GST_ITERATOR_OK) {
    watch_driver(GST_ELEMENT(g_value_get_object(&driver)), connection);
    g_value_reset(&driver);
  }
  g_value_unset(&driver);
  gst_iterator_free(drivers);
  g_signal_connect_data(pipeline, "deep-element-added", G_CALLBACK(&StreamTimes::on_element),
                        Held<Connection>::make(std::move(connection)), &Held<Connection>::let_go_of,
                        static_cast<GConnectFlags>(0));
}

// ---- GStreamer's threads

void StreamTimes::on_element(GstBin*, GstBin*, GstElement* element, gpointer held) {
  GstElementFactory* const factory = gst_element_get_factory(element);
  if (factory == nullptr) return;
  const Held<Connection>::Use connection(held);
  constexpr GstElementFactoryListType kPictureDecoder =
      GST_ELEMENT_FACTORY_TYPE_DECODER | GST_ELEMENT_FACTORY_TYPE_MEDIA_VIDEO | GST_ELEMENT_FACTORY_TYPE_MEDIA_IMAGE;
  if (GST_IS_BIN(element) == FALSE && gst_element_factory_list_is_type(factory, kPictureDecoder) != FALSE) {
    watch_decoder(element, connection.share());
  }
  if (std::string_view(GST_OBJECT_NAME(factory)) != "rtpjitterbuffer") return;
  StreamTimes& times = *connection->times;
  auto tap = std::make_shared<Tap>();
  tap->times = connection->times;
  tap->connection = connection->number;
  {
    const MutexLock lock(times.mutex_);
    tap->number = ++times.taps_;
  }
  const auto type = static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_BUFFER_LIST);
  if (GstPad* const sink = gst_element_get_static_pad(element, "sink")) {
    gst_pad_add_probe(sink, type, &StreamTimes::on_arrival, Held<Tap>::make(tap), &Held<Tap>::let_go);
    gst_object_unref(sink);
  }
  if (GstPad* const source = gst_element_get_static_pad(element, "src")) {
    gst_pad_add_probe(source, GST_PAD_PROBE_TYPE_BUFFER, &StreamTimes::on_departure, Held<Tap>::make(tap),
                      &Held<Tap>::let_go);
    gst_object_unref(source);
  }
  g_signal_connect_data(element, "pad-added", G_CALLBACK(&StreamTimes::on_pad), Held<Tap>::make(tap),
                        &Held<Tap>::let_go_of, static_cast<GConnectFlags>(0));
}

void StreamTimes::watch_decoder(GstElement* element, const std::shared_ptr<Connection>& connection) {
  if (GstPad* const sink = gst_element_get_static_pad(element, "sink")) {
    gst_pad_add_probe(sink, GST_PAD_PROBE_TYPE_BUFFER, &StreamTimes::on_decode, Held<Connection>::make(connection),
                      &Held<Connection>::let_go);
    gst_object_unref(sink);
  }
}

void StreamTimes::watch_driver(GstElement* element, const std::shared_ptr<Connection>& connection) {
  if (GstPad* const source = gst_element_get_static_pad(element, "src")) {
    gst_pad_add_probe(source, GST_PAD_PROBE_TYPE_BUFFER, &StreamTimes::on_driver, Held<Connection>::make(connection),
                      &Held<Connection>::let_go);
    gst_object_unref(source);
  }
}

GstPadProbeReturn StreamTimes::on_driver(GstPad*, GstPadProbeInfo* info, gpointer held) {
  const Held<Connection>::Use connection(held);
  StreamTimes& times = *connection->times;
  const GstBuffer* const picture = GST_PAD_PROBE_INFO_BUFFER(info);
  const MutexLock lock(times.mutex_);
  if (connection->number == times.connection_ && GST_BUFFER_OFFSET_IS_VALID(picture) != FALSE) {
    times.losses_.driver_gave(GST_BUFFER_OFFSET(picture));
  }
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn StreamTimes::on_decode(GstPad*, GstPadProbeInfo* info, gpointer held) {
  const Held<Connection>::Use connection(held);
  StreamTimes& times = *connection->times;
  {
    const MutexLock lock(times.mutex_);
    if (connection->number != times.connection_) return GST_PAD_PROBE_OK;
  }
  times.decodes(GST_PAD_PROBE_INFO_BUFFER(info));
  return GST_PAD_PROBE_OK;
}

void StreamTimes::on_pad(GstElement*, GstPad* pad, gpointer held) {
  if (std::string_view(GST_OBJECT_NAME(pad)) != "sink_rtcp") return;
  const Held<Tap>::Use tap(held);
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, &StreamTimes::on_report, Held<Tap>::make(tap.share()),
                    &Held<Tap>::let_go);
}

GstPadProbeReturn StreamTimes::on_arrival(GstPad* pad, GstPadProbeInfo* info, gpointer held) {
  const Held<Tap>::Use use(held);
  Tap& tap = *use;
  if (!tap.times->has_packets_) tap.times->note_packets(tap);
  const auto take = [&tap, pad](GstBuffer* packet) {
    const auto header = rtp_header(packet);
    if (!header || !tap.arriving.starts(*header)) return;
    if (tap.clock_rate == 0) {
      GstCaps* const caps = gst_pad_get_current_caps(pad);
      if (caps == nullptr) return;
      const GstStructure* const first = gst_caps_get_structure(caps, 0);
      const char* const media = gst_structure_get_string(first, "media");
      tap.video = media == nullptr || std::string_view(media) == "video";
      if (gst_structure_get_int(first, "clock-rate", &tap.clock_rate) == FALSE) tap.clock_rate = 0;
      gst_caps_unref(caps);
    }
    if (tap.video && tap.clock_rate > 0) tap.times->arrived(tap, header->stamp, tap.times->clock_.now());
  };
  if ((GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER) != 0) {
    take(GST_PAD_PROBE_INFO_BUFFER(info));
  } else {
    GstBufferList* const list = GST_PAD_PROBE_INFO_BUFFER_LIST(info);
    for (guint i = 0; i < gst_buffer_list_length(list); ++i) take(gst_buffer_list_get(list, i));
  }
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn StreamTimes::on_departure(GstPad*, GstPadProbeInfo* info, gpointer held) {
  const Held<Tap>::Use use(held);
  Tap& tap = *use;
  GstBuffer* packet = GST_PAD_PROBE_INFO_BUFFER(info);
  const GstClockTime pts = GST_BUFFER_PTS(packet);
  const auto header = rtp_header(packet);
  if (!header || !GST_CLOCK_TIME_IS_VALID(pts)) return GST_PAD_PROBE_OK;
  const unsigned lost = tap.departing.lost_before(*header);
  if (lost > 0) tap.times->lost(tap, lost, tap.departing.is_open());
  if (tap.departing.starts(*header)) {
    tap.times->departed(tap, header->stamp, pts, lost > 0);
  }
  if (pts != tap.names.current()) {
    packet = gst_buffer_make_writable(packet);
    GST_BUFFER_PTS(packet) = tap.names.current();
    GST_PAD_PROBE_INFO_DATA(info) = packet;
  }
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn StreamTimes::on_report(GstPad*, GstPadProbeInfo* info, gpointer held) {
  const Held<Tap>::Use use(held);
  Tap& tap = *use;
  std::uint8_t bytes[20];
  GstBuffer* const packet = GST_PAD_PROBE_INFO_BUFFER(info);
  constexpr std::uint8_t kSenderReport = 200;
  if (gst_buffer_extract(packet, 0, bytes, sizeof bytes) != sizeof bytes) return GST_PAD_PROBE_OK;
  if (bytes[0] >> 6 != 2 || bytes[1] != kSenderReport) return GST_PAD_PROBE_OK;
  const std::uint32_t seconds = word_at(bytes + 8);  // since 1900
  const std::uint64_t fraction = word_at(bytes + 12);
  if (seconds == 0) return GST_PAD_PROBE_OK;  // a camera that knows no time says 0
  constexpr std::int64_t kUnixEpoch = 2'208'988'800;
  const std::int64_t wall_ns =
      (std::int64_t{seconds} - kUnixEpoch) * 1'000'000'000 + static_cast<std::int64_t>(fraction * 1'000'000'000 >> 32);
  tap.times->reported(tap, word_at(bytes + 16), wall_ns);
  return GST_PAD_PROBE_OK;
}

void StreamTimes::note_packets(const Tap& tap) noexcept {
  const MutexLock lock(mutex_);
  if (tap.connection == connection_) has_packets_ = true;
}

// Whether this jitter buffer's packets are the pictures'. When another sender takes over, its packets get another one.
bool StreamTimes::accepts(Tap& tap, TimePoint now) {
  if (tap.connection != connection_ || several_) return false;
  if (tap.number == active_tap_) return true;
  if (active_tap_ != 0 && now - last_packet_ < kSilent) {
    several_ = fresh_ = true;
    return false;
  }
  active_tap_ = tap.number;
  fresh_ = false;
  times_.reconnected(CameraClock::Stamps::kCameras);
  return true;
}

void StreamTimes::arrived(Tap& tap, std::uint32_t rtp, TimePoint now) noexcept {
  const MutexLock lock(mutex_);
  if (!accepts(tap, now)) return;
  if (now - last_packet_ >= kSilent) packets_since_ = now;
  last_packet_ = now;
  tap.rate = tap.clock_rate;
  if (tap.begun) tap.unwrapped += static_cast<std::int32_t>(rtp - tap.last);
  constexpr std::int64_t kLongest = 1'000'000'000;  // s; a sender that jumps to and fro does not overflow it
  if (std::abs(tap.unwrapped) / tap.rate > kLongest) tap.unwrapped = 0;
  tap.begun = true;
  tap.last = rtp;
  pictures_[next_] = {rtp, tap.number, GST_CLOCK_TIME_NONE, times_.observe(tap.since_first(rtp), now)};
  next_ = (next_ + 1) % kPictures;
}

void StreamTimes::departed(Tap& tap, std::uint32_t rtp, GstClockTime pts, bool holed) noexcept {
  const MutexLock lock(mutex_);
  const GstClockTime name = tap.names.next(rtp, tap.rate, pts);
  if (tap.number != active_tap_) return;
  losses_.begin(name, tap.since_first(rtp), holed);
  for (std::size_t i = 1; i <= kPictures; ++i) {
    Picture& one = pictures_[(next_ + kPictures - i) % kPictures];
    if (one.tap == 0) return;
    if (one.tap != tap.number || one.rtp != rtp || GST_CLOCK_TIME_IS_VALID(one.name)) continue;
    one.name = name;
    return;
  }
}

void StreamTimes::lost(const Tap& tap, unsigned packets, bool from_open) noexcept {
  const MutexLock lock(mutex_);
  if (tap.number == active_tap_) losses_.lost(packets, from_open);
}

void StreamTimes::decodes(GstBuffer* coded) noexcept {
  if (GST_BUFFER_FLAG_IS_SET(coded, GST_BUFFER_FLAG_DELTA_UNIT) != FALSE || GST_BUFFER_PTS_IS_VALID(coded) == FALSE)
    return;
  const MutexLock lock(mutex_);
  losses_.is_key(GST_BUFFER_PTS(coded));
}

void StreamTimes::reported(Tap& tap, std::uint32_t rtp, std::int64_t wall_ns) noexcept {
  const TimePoint now = clock_.now();
  const std::int64_t our_wall_ns = base::unix_now_ns();
  const MutexLock lock(mutex_);
  if (tap.number != active_tap_ || !tap.begun) return;
  times_.report({tap.since_first(rtp), wall_ns, our_wall_ns, now});
}

// ---- [streaming]

// The picture of that name; else, where a decoder has made up a time, the nearest before it.
const StreamTimes::Picture* StreamTimes::find(GstClockTime pts) const {
  const Picture* nearest = nullptr;
  for (std::size_t i = 1; i <= kPictures; ++i) {
    const Picture& one = pictures_[(next_ + kPictures - i) % kPictures];
    if (one.tap == 0) break;
    if (!GST_CLOCK_TIME_IS_VALID(one.name)) continue;
    if (one.name == pts) return &one;
    if (one.name < pts && (nearest == nullptr || one.name > nearest->name)) nearest = &one;
  }
  return nearest;
}

CaptureTime StreamTimes::picture(GstClockTime pts, std::optional<TimePoint> stamp, TimePoint arrived) noexcept {
  const MutexLock lock(mutex_);
  if (active_tap_ != 0 && !several_) {
    const Picture* const found = GST_CLOCK_TIME_IS_VALID(pts) ? find(pts) : nullptr;
    if (found == nullptr) return times_.captured_unstamped(arrived);
    return times_.captured(found->stamp, arrived);
  }
  if (fresh_) times_.reconnected(CameraClock::Stamps::kMonotonic);
  fresh_ = false;
  if (!stamp) return times_.captured_unstamped(arrived);
  return times_.captured(times_.observe(stamp->time_since_epoch(), arrived), arrived);
}

bool StreamTimes::is_damaged(GstClockTime pts, bool corrupted, TimePoint now) noexcept {
  const MutexLock lock(mutex_);
  if (active_tap_ == 0 || several_ || !GST_CLOCK_TIME_IS_VALID(pts)) return losses_.shown_unnamed(corrupted);
  const Picture* const found = find(pts);
  return found != nullptr ? losses_.shown(found->name, corrupted, now) : losses_.shown_unnamed(corrupted);
}

bool StreamTimes::packets_arrive() const noexcept {
  const TimePoint now = clock_.now();
  const MutexLock lock(mutex_);
  return active_tap_ != 0 && now - last_packet_ < kSilent && now - packets_since_ >= kSilent / 2;
}

UpstreamLosses StreamTimes::losses() const noexcept {
  const MutexLock lock(mutex_);
  return losses_.totals();
}

CaptureTime StreamTimes::known(TimePoint captured, TimePoint arrived) noexcept {
  const MutexLock lock(mutex_);
  return times_.known(captured, arrived);
}

ClockStatus StreamTimes::status() const noexcept {
  const MutexLock lock(mutex_);
  return times_.status();
}

}  // namespace camd::capture
