#include "plugins/codes/pose.hpp"

#include <cmath>
#include <cstddef>
#include <opencv2/calib3d.hpp>
#include <vector>

namespace camd::plugins::codes {

std::optional<Pose> find_pose(const Corners& corners, const Intrinsics& intrinsics, double size) {
  const double half = size / 2;
  const std::vector<cv::Point3d> flat = {{-half, -half, 0}, {half, -half, 0}, {half, half, 0}, {-half, half, 0}};
  const std::vector<cv::Point2d> seen(corners.begin(), corners.end());
  const cv::Matx33d camera(intrinsics.fx, 0, intrinsics.cx, 0, intrinsics.fy, intrinsics.cy, 0, 0, 1);
  cv::Vec3d turn, place;
  try {
    if (!cv::solvePnP(flat, seen, camera, cv::noArray(), turn, place, false, cv::SOLVEPNP_IPPE)) return std::nullopt;
  } catch (const cv::Exception&) {  // corners without an area
    return std::nullopt;
  }
  std::vector<cv::Point2d> shown;
  cv::projectPoints(flat, turn, place, camera, cv::noArray(), shown);
  double sum = 0.0;
  for (std::size_t i = 0; i < 4; ++i) sum += (shown[i] - seen[i]).dot(shown[i] - seen[i]);
  Pose pose{{place[0], place[1], place[2]}, {turn[0], turn[1], turn[2]}, std::sqrt(sum / 4)};
  for (const double value : {place[0], place[1], place[2], turn[0], turn[1], turn[2], pose.error_px}) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return pose;
}

}  // namespace camd::plugins::codes
