#include "capture/sample_decoder.hpp"

#include <fmt/format.h>

#include <array>

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
  }
  if (const GstSegment* const segment = gst_sample_get_segment(sample)) segment_ = *segment;
  if (GST_BUFFER_DURATION_IS_VALID(buffer)) shown_ = GST_BUFFER_DURATION(buffer);
  const MappedBytes mapped(buffer);
  std::optional<std::int64_t> time;
  if (GST_BUFFER_PTS_IS_VALID(buffer)) time = static_cast<std::int64_t>(GST_BUFFER_PTS(buffer));
  Status decoded = decoder_->decode(mapped.bytes(), time);
  waits_ = false;
  return decoded;
}

Status SampleDecoder::end(GstElement* pipeline) noexcept {
  pipeline_ = pipeline;
  wanted_ = true;
  return decoder_ ? decoder_->drain() : Status();
}

std::string SampleDecoder::name() const {
  return kind_ == nullptr ? std::string() : fmt::format("NVDEC {}", device::to_string(kind_->codec));
}

bool SampleDecoder::goes_on_waiting() noexcept {
  waits_ = true;
  wanted_ = !taker_.gives_up();
  return wanted_;
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
