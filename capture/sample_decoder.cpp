#include "capture/sample_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>

#include "base/mutex.hpp"
#include "capture/gst_support.hpp"

namespace camd::capture {
namespace {

using base::ErrorKind;
using base::Status;
using device::VideoCodec;

constexpr std::array kKinds{
    CompressedKind{"video/x-h264", "h264parse", "video/x-h264, stream-format=(string)byte-stream, alignment=(string)au",
                   VideoCodec::kH264},
    CompressedKind{"video/x-h265", "h265parse", "video/x-h265, stream-format=(string)byte-stream, alignment=(string)au",
                   VideoCodec::kH265},
    CompressedKind{"video/x-av1", "av1parse", "video/x-av1, stream-format=(string)obu-stream, alignment=(string)tu",
                   VideoCodec::kAv1},
    CompressedKind{"video/x-vp9", "vp9parse", "video/x-vp9, alignment=(string)super-frame", VideoCodec::kVp9},
    CompressedKind{"video/x-vp8", nullptr, "video/x-vp8", VideoCodec::kVp8},
    CompressedKind{"image/jpeg", nullptr, "image/jpeg", VideoCodec::kJpeg},
};

// The right to have a decoder made. The driver makes them one after the other, some 50 ms each. With hundreds at a time
// all would be late; so the first are there at once, and each comes in its turn.
constexpr std::size_t kMadeAtATime = 3;
constexpr base::Duration kTurnPatience = std::chrono::milliseconds(100);  // between two looks whether to give up

class Turn;
class Turns {
 public:
  static Turns& of_the_process() {
    static Turns all;
    return all;
  }
  // [blocks] True: it is `one`'s turn, until leave(). False: the taker gives up.
  [[nodiscard]] bool wait(const Turn* one, DecodedTaker& taker) {
    const base::MutexLock lock(mutex_);
    all_.push_back(one);
    while (!taker.gives_up()) {
      const auto place = static_cast<std::size_t>(std::find(all_.begin(), all_.end(), one) - all_.begin());
      if (place < kMadeAtATime) return true;
      (void)one_left_.wait_until(mutex_, std::chrono::steady_clock::now() + kTurnPatience);
    }
    return false;
  }
  void leave(const Turn* one) {
    const base::MutexLock lock(mutex_);
    std::erase(all_, one);
    one_left_.notify_all();
  }

 private:
  base::Mutex mutex_;
  base::CondVar one_left_;
  std::deque<const Turn*> all_ CAMD_GUARDED_BY(mutex_);  // in the order in which they came
};

class Turn {
 public:
  // [blocks] until it has its turn, or the taker gives up.
  explicit Turn(DecodedTaker& taker) : has_(Turns::of_the_process().wait(this, taker)) {}
  ~Turn() { Turns::of_the_process().leave(this); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  [[nodiscard]] explicit operator bool() const noexcept { return has_; }

 private:
  const bool has_;
};

class MappedBytes {
 public:
  explicit MappedBytes(GstBuffer* buffer) noexcept
      : buffer_(buffer), mapped_(gst_buffer_map(buffer, &map_, GST_MAP_READ) != FALSE) {}
  ~MappedBytes() {
    if (mapped_) gst_buffer_unmap(buffer_, &map_);
  }
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return mapped_ ? std::span(reinterpret_cast<const std::byte*>(map_.data), map_.size) : std::span<const std::byte>();
  }

 private:
  GstBuffer* buffer_;
  GstMapInfo map_{};
  bool mapped_;
};

}  // namespace

const CompressedKind* compressed_kind_of(const GstCaps* caps) noexcept {
  if (caps == nullptr || gst_caps_is_any(caps) != FALSE || gst_caps_get_size(caps) == 0) return nullptr;
  const std::string_view media = gst_structure_get_name(gst_caps_get_structure(caps, 0));
  for (const CompressedKind& kind : kKinds) {
    if (kind.media == media) return &kind;
  }
  return nullptr;
}

StreamStamp StreamStamp::of(GstClockTime pts, GstClockTime duration, const GstSegment* segment) {
  StreamStamp stamp;
  stamp.pts = pts;
  if (GST_CLOCK_TIME_IS_VALID(duration)) stamp.shown = base::Duration(static_cast<std::int64_t>(duration));
  if (!GST_CLOCK_TIME_IS_VALID(pts) || segment == nullptr || segment->format != GST_FORMAT_TIME) return stamp;
  const GstClockTime running = gst_segment_to_running_time(segment, GST_FORMAT_TIME, pts);
  if (GST_CLOCK_TIME_IS_VALID(running)) stamp.running = base::Duration(static_cast<std::int64_t>(running));
  return stamp;
}

std::optional<base::TimePoint> StreamStamp::on_clock(GstElement* pipeline) const {
  const GstClockTime base_time = gst_element_get_base_time(pipeline);
  constexpr base::Duration kLongest = std::chrono::hours(24 * 365 * 30);  // streams can name any time
  if (!running || *running < base::Duration::zero() || *running > kLongest) return std::nullopt;
  if (!GST_CLOCK_TIME_IS_VALID(base_time)) return std::nullopt;
  return base::from_ns(static_cast<std::int64_t>(base_time)) + *running;
}

StreamStamp stamp_of(GstSample* sample) {
  GstBuffer* const buffer = gst_sample_get_buffer(sample);
  StreamStamp stamp =
      StreamStamp::of(GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer), gst_sample_get_segment(sample));
  stamp.corrupted = GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_CORRUPTED) != FALSE;
  return stamp;
}

SampleDecoder::SampleDecoder(device::Device& device, const device::VideoDecoderOptions& limits, DecodedTaker& taker)
    : device_(device), limits_(limits), taker_(taker) {
  gst_segment_init(&segment_, GST_FORMAT_UNDEFINED);
}

SampleDecoder::~SampleDecoder() = default;

void SampleDecoder::begin() noexcept {
  if (decoder_) decoder_->reset();
}

Status SampleDecoder::decode(GstSample* sample, GstElement* pipeline) noexcept {
  pipeline_ = pipeline;
  wanted_ = true;
  try {
    return decode_bytes(sample);
  } catch (const base::Error& error) {
    return Status(error.kind() == ErrorKind::kDeviceLost ? ErrorKind::kDeviceLost : ErrorKind::kSource, error.what());
  } catch (const std::exception& error) {
    return Status(ErrorKind::kSource, error.what());
  }
}

Status SampleDecoder::decode_bytes(GstSample* sample) {
  const CompressedKind* const kind = compressed_kind_of(gst_sample_get_caps(sample));
  GstBuffer* const buffer = gst_sample_get_buffer(sample);
  if (kind == nullptr || buffer == nullptr)
    return Status(ErrorKind::kSource, "the stream is of no kind that the GPU decodes");
  if (kind != kind_) {
    device::VideoDecoderOptions options = limits_;
    options.codec = kind->codec;
    decoder_.reset();
    decoder_ = device_.make_video_decoder(options, *this);
    kind_ = kind;
    opened_ = false;
  }
  if (const GstSegment* const segment = gst_sample_get_segment(sample)) segment_ = *segment;
  if (GST_BUFFER_DURATION_IS_VALID(buffer)) shown_ = GST_BUFFER_DURATION(buffer);
  const MappedBytes mapped(buffer);
  std::optional<std::int64_t> time;
  if (GST_BUFFER_PTS_IS_VALID(buffer)) time = static_cast<std::int64_t>(GST_BUFFER_PTS(buffer));
  return decode_unit(mapped.bytes(), time);
}

Status SampleDecoder::decode_unit(std::span<const std::byte> unit, std::optional<std::int64_t> time_ns) {
  if (opened_) return decoder_->decode(unit, time_ns);
  waits_ = true;
  const Turn turn(taker_);
  waits_ = false;
  if (!turn) {
    wanted_ = false;
    return {};
  }
  opened_ = true;
  return decoder_->decode(unit, time_ns);
}

Status SampleDecoder::end(GstElement* pipeline) noexcept {
  pipeline_ = pipeline;
  wanted_ = true;
  return decoder_ ? decoder_->drain() : Status();
}

std::string SampleDecoder::name() const {
  return kind_ == nullptr ? std::string() : fmt::format("NVDEC {}", device::to_string(kind_->codec));
}

bool SampleDecoder::take_picture(const device::DecodedPicture& picture) noexcept {
  LentPicture lent(picture);
  const GstClockTime pts = picture.time_ns ? static_cast<GstClockTime>(*picture.time_ns) : GST_CLOCK_TIME_NONE;
  StreamStamp stamp = StreamStamp::of(pts, shown_, &segment_);
  stamp.corrupted = picture.damaged;
  wanted_ = taker_.take_decoded(lent, stamp, pipeline_);
  return wanted_;
}

}  // namespace camd::capture
