// VideoDecoder: decodes one stream on the device and leaves its pictures in the device's memory.
// Device::make_video_decoder() makes it. Parsing (parameter sets, order of display) is the decoder's; the caller cuts
// the stream into access units.
//
// A picture is handed over in a call of the taker's, in the order of display. It is the taker's until it calls
// `release`, on any thread, also after the decoder is gone. A taker that keeps more than VideoDecoderOptions::held
// pictures gets no more until it gives one back: what comes meanwhile is counted as `crowded` and lost.
//
// Threads: a decoder is used by one thread at a time; release [any].
// Invariants: streams are untrusted. What a stream asks for is checked against the options and the device before
// anything is made for it. A decoder that has refused its stream refuses it for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/picture.hpp"

namespace camd::device {

class Fence;

enum class VideoCodec : std::uint8_t { kH264, kH265, kAv1, kVp8, kVp9, kJpeg };
inline constexpr int kVideoCodecCount = 6;
[[nodiscard]] std::string_view to_string(VideoCodec codec) noexcept;  // H.264, H.265, AV1, VP8, VP9, JPEG

struct DecodedPicture {
  base::PictureLayout layout;       // NV12; the offsets are from `data`
  const std::byte* data = nullptr;  // in the device's memory
  // Reached when the picture is complete. Valid until the taker's call returns.
  const Fence* ready = nullptr;
  std::optional<std::int64_t> time_ns;                 // of the access unit that it came in
  bool damaged = false;                                // the decoder says that it is not as it was sent
  void (*release)(void* argument) noexcept = nullptr;  // once
  void* argument = nullptr;
};

class VideoTaker {
 public:
  virtual ~VideoTaker() = default;
  // May wait. False: no more pictures are wanted from this call of decode() or drain(). Either way the picture is the
  // taker's.
  virtual bool take_picture(const DecodedPicture& picture) noexcept = 0;
  // The decoder waits, because others' decoders are made before, and asks now and then. False: waiting has no sense any
  // more, and this call of decode() returns.
  [[nodiscard]] virtual bool goes_on_waiting() noexcept { return true; }
};

struct VideoDecoderOptions {
  VideoCodec codec = VideoCodec::kH264;
  int held = 4;                          // pictures that the taker keeps at a time, the one in its call counted
  std::int64_t most_pixels = 1LL << 26;  // a larger picture is refused
  bool tells_damage = false;             // DecodedPicture::damaged is wanted, at the cost of who decodes faster
};

struct VideoDecoderCounts {
  std::uint64_t undecodable = 0;  // pictures that the device could not begin
  std::uint64_t damaged = 0;      // pictures that it says are not as they were sent
  std::uint64_t crowded = 0;      // lost because the taker kept too many
};

class VideoDecoder {
 public:
  virtual ~VideoDecoder() = default;
  // [blocks] One access unit: H.264 and H.265 as byte streams with their parameter sets, AV1 as temporal units. Calls
  // the taker for every picture that is complete by it. Errors: kSource: the stream is refused, the message says why;
  // kDeviceLost. A unit that is damaged is no error.
  virtual base::Status decode(std::span<const std::byte> unit, std::optional<std::int64_t> time_ns) = 0;
  // [blocks] The end of the stream: hands over what is left. Another may begin. Errors as decode().
  virtual base::Status drain() = 0;
  // Forgets what is left. The next unit begins a stream.
  virtual void reset() noexcept = 0;
  [[nodiscard]] virtual VideoDecoderCounts counts() const noexcept = 0;
};

// What a device's decoders can do with one kind of stream.
struct VideoSupport {
  VideoCodec codec = VideoCodec::kH264;
  int bits = 8;         // of a sample
  int engines = 0;      // decoders of the device that take it; 0: none
  int most_width = 0;   // pixels
  int most_height = 0;  // pixels
};

}  // namespace camd::device
