// SampleDecoder: a camera's compressed samples, decoded on the ring's device (device/video_decoder.hpp). GStreamer
// reads the file or the network and cuts the stream into pictures; the device's own decoder does the rest, on
// GStreamer's streaming thread.
//
// Threads: decode(), end() [streaming]; begin(), counts() [any] while no sample comes; the taker is called from within
// decode() and end(). [blocks] there as long as the taker does.
#pragma once

#include <gst/gst.h>

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "device/device.hpp"

namespace camd::capture {

// A kind of compressed video that devices may decode, as GStreamer names it.
struct CompressedKind {
  std::string_view media;  // of caps
  const char* parser;      // the element that cuts the stream into pictures; null: none is needed
  const char* caps;        // what the device's decoder reads
  device::VideoCodec codec;
};
// Null for other caps.
[[nodiscard]] const CompressedKind* compressed_kind_of(const GstCaps* caps) noexcept;

// What a stream says of one picture's time.
struct StreamStamp {
  GstClockTime pts = GST_CLOCK_TIME_NONE;
  base::Duration shown{0};                // how long; zero: it does not say
  std::optional<base::Duration> running;  // its time in the stream
  bool corrupted = false;                 // the decoder says that it is not as it was sent

  [[nodiscard]] static StreamStamp of(GstClockTime pts, GstClockTime duration, const GstSegment* segment);
  // On the pipeline's clock, which is CLOCK_MONOTONIC.
  [[nodiscard]] std::optional<base::TimePoint> on_clock(GstElement* pipeline) const;
};
[[nodiscard]] StreamStamp stamp_of(GstSample* sample);

// A decoded picture, given back when it goes unless somebody has taken the loan over.
class LentPicture {
 public:
  explicit LentPicture(const device::DecodedPicture& picture) noexcept : picture_(picture) {}
  ~LentPicture() {
    if (!taken_over_) picture_.release(picture_.argument);
  }
  LentPicture(const LentPicture&) = delete;
  LentPicture& operator=(const LentPicture&) = delete;
  [[nodiscard]] const device::DecodedPicture& operator*() const noexcept { return picture_; }
  [[nodiscard]] const device::DecodedPicture* operator->() const noexcept { return &picture_; }
  void take_over() noexcept { taken_over_ = true; }

 private:
  const device::DecodedPicture& picture_;
  bool taken_over_ = false;
};

class DecodedTaker {
 public:
  virtual ~DecodedTaker() = default;
  // [streaming] False: no more pictures are wanted.
  virtual bool take_decoded(LentPicture& picture, const StreamStamp& stamp, GstElement* pipeline) noexcept = 0;
  // [streaming] Whether waiting for a decoder has no sense any more.
  [[nodiscard]] virtual bool gives_up() noexcept = 0;
};

class SampleDecoder final : private device::VideoTaker {
 public:
  // `limits`: all but the codec counts. Device and taker outlive it.
  SampleDecoder(device::Device& device, const device::VideoDecoderOptions& limits, DecodedTaker& taker);
  ~SampleDecoder() override;

  // A stream begins: whatever is left of the last one is forgotten.
  void begin() noexcept;
  // One compressed picture. Errors: kSource: the device refuses the stream, the message says why; kDeviceLost.
  base::Status decode(GstSample* sample, GstElement* pipeline) noexcept;
  // The stream has ended: what is left is handed over. Errors as decode().
  base::Status end(GstElement* pipeline) noexcept;
  // False when the taker wanted no more in the last call.
  [[nodiscard]] bool wanted() const noexcept { return wanted_; }
  // [any] Whether a stream waits for its decoder to be made; others may be made before. The camera is not to
  // blame.
  [[nodiscard]] bool waits() const noexcept { return waits_.load(); }
  // [streaming] What decodes, for people: "NVDEC H.264"; "" before the first sample.
  [[nodiscard]] std::string name() const;

 private:
  bool take_picture(const device::DecodedPicture& picture) noexcept override;
  bool goes_on_waiting() noexcept override;
  base::Status decode_bytes(GstSample* sample);

  device::Device& device_;
  const device::VideoDecoderOptions limits_;
  DecodedTaker& taker_;
  std::unique_ptr<device::VideoDecoder> decoder_;
  const CompressedKind* kind_ = nullptr;      // of decoder_
  GstElement* pipeline_ = nullptr;            // of the call
  GstSegment segment_;                        // of the last sample
  GstClockTime shown_ = GST_CLOCK_TIME_NONE;  // of the last sample
  bool wanted_ = true;
  std::atomic<bool> waits_{false};
};

}  // namespace camd::capture
