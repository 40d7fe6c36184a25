// Frames as the pipeline gives them to a tap.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pipeline/core/frame_tap.hpp"

namespace camd::test {

struct NoEvents final : pipeline::FramePostprocessing {
  base::Status process(const camd_frame&, camd_results&) noexcept override { return {}; }
  [[nodiscard]] std::string_view inside() const noexcept override { return {}; }
};

inline camd_frame tapped_frame(const char* camera, std::uint64_t sequence, base::TimePoint returned) {
  camd_frame frame{};
  frame.struct_size = sizeof(frame);
  frame.camera = camera;
  frame.sequence = sequence;
  frame.width = 64;
  frame.height = 36;
  frame.captured_mono_ns = base::to_ns(returned) - 7000;
  frame.captured_unix_ns = 1'700'000'000'000'001'000;
  return frame;
}

inline void deliver(pipeline::FrameTap& tap, const char* camera, std::uint64_t sequence, base::TimePoint returned,
                    std::vector<camd_detection> detections = {}) {
  const auto count = static_cast<std::int32_t>(detections.size());
  const camd_results results{sizeof(camd_results), count, count, detections.data()};
  tap.delivered(tapped_frame(camera, sequence, returned), results, NoEvents(), returned, nullptr);
}

inline void deliver_picture(pipeline::FrameTap& tap, const char* camera, capture::CameraIndex slot,
                            std::uint64_t sequence, base::TimePoint returned, const base::PictureLayout& layout,
                            const std::vector<std::byte>& pixels) {
  capture::Frame picture;
  picture.camera = slot;
  picture.layout = layout;
  picture.pixels = pixels;
  const camd_results results{sizeof(camd_results), 0, 0, nullptr};
  tap.delivered(tapped_frame(camera, sequence, returned), results, NoEvents(), returned, &picture);
}

// A grey one.
inline void deliver_picture(pipeline::FrameTap& tap, const char* camera, capture::CameraIndex slot,
                            std::uint64_t sequence, base::TimePoint returned) {
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, 64, 36);
  deliver_picture(tap, camera, slot, sequence, returned, layout, std::vector(layout.size_bytes, std::byte{128}));
}

}  // namespace camd::test
