// A code's part of the picture, as if seen from the front: grey, square, its first corner at the top left.
//
// Threads: values without shared state.
// Invariants: cut_patch() reads no pixel outside the picture; what lies outside is the nearest pixel of its edge.
#pragma once

#include <array>
#include <cstdint>
#include <opencv2/core.hpp>

#include "plugins/camd_plugin.h"

namespace camd::plugins::codes {

using Corners = std::array<cv::Point2f, 4>;  // source pixels, clockwise from the code's first one

// Mean length of the four sides.
[[nodiscard]] float mean_side(const Corners& corners) noexcept;
// Whether the corners lie clockwise and around something: convex, and at least a few pixels large.
[[nodiscard]] bool is_quad(const Corners& corners) noexcept;

// Cuts `corners` out of `picture` (any of camd's formats; its luma, or of colours the green) into `patch`, u8
// [side, side]. `margin` is left around the code, as a share of its side. Bilinear; where the picture is larger than
// the patch, the mean of four samples. `patch` keeps its memory.
void cut_patch(const camd_picture& picture, const Corners& corners, int side, float margin, cv::Mat& patch);

}  // namespace camd::plugins::codes
