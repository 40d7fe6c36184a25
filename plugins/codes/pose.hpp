// Where a marker of known size is before a camera with known intrinsics.
//
// Threads: values without shared state.
#pragma once

#include <array>
#include <optional>

#include "plugins/codes/patch.hpp"

namespace camd::plugins::codes {

struct Intrinsics {  // of a camera without distortion, in source pixels
  double fx = 0.0, fy = 0.0, cx = 0.0, cy = 0.0;
};

struct Pose {
  // The marker's middle in metres, x right, y down, z away from the camera; and its turn as axis times angle in
  // radians. The marker's own axes are x right, y down, z into its face: one that faces the camera upright is not
  // turned.
  std::array<double, 3> position{}, rotation{};
  double error_px = 0.0;  // root of the mean square by which the corners are missed
};

// `corners` from the marker's own top left, clockwise; `size` is its side in metres, black rim to black rim. By
// OpenCV's infinitesimal plane-based method (Collins and Bartoli, 2014). Nothing where it finds none.
[[nodiscard]] std::optional<Pose> find_pose(const Corners& corners, const Intrinsics& intrinsics, double size);

}  // namespace camd::plugins::codes
