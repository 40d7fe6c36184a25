#include "device/video_decoder.hpp"

namespace camd::device {

std::string_view to_string(VideoCodec codec) noexcept {
  switch (codec) {
    case VideoCodec::kH264: return "H.264";
    case VideoCodec::kH265: return "H.265";
    case VideoCodec::kAv1: return "AV1";
    case VideoCodec::kVp8: return "VP8";
    case VideoCodec::kVp9: return "VP9";
    case VideoCodec::kJpeg: return "JPEG";
  }
  return "?";
}

}  // namespace camd::device
