#include "plugins/codes/patch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace camd::plugins::codes {
namespace {

// Where a grey value is found in a picture.
struct Luma {
  const std::uint8_t* data = nullptr;
  std::ptrdiff_t row = 0, pixel = 1;
  int width = 0, height = 0;
};

Luma luma_of(const camd_picture& picture) noexcept {
  const camd_plane& plane = picture.planes[0];
  Luma luma{plane.data, plane.stride_bytes, 1, plane.width, plane.height};
  if (picture.format == CAMD_PIXEL_YUY2) luma.pixel = 2;
  if (picture.format == CAMD_PIXEL_BGR || picture.format == CAMD_PIXEL_RGB) {
    luma.pixel = 3;
    ++luma.data;  // green
  }
  return luma;
}

float sample(const Luma& luma, float x, float y) noexcept {
  x = std::clamp(x, 0.0F, static_cast<float>(luma.width - 1));
  y = std::clamp(y, 0.0F, static_cast<float>(luma.height - 1));
  const int x0 = static_cast<int>(x), y0 = static_cast<int>(y);
  const int x1 = std::min(x0 + 1, luma.width - 1), y1 = std::min(y0 + 1, luma.height - 1);
  const float fx = x - static_cast<float>(x0), fy = y - static_cast<float>(y0);
  const auto at = [&](int px, int py) { return static_cast<float>(luma.data[py * luma.row + px * luma.pixel]); };
  const float above = at(x0, y0) + (at(x1, y0) - at(x0, y0)) * fx;
  const float below = at(x0, y1) + (at(x1, y1) - at(x0, y1)) * fx;
  return above + (below - above) * fy;
}

// The unit square's corners (0,0), (1,0), (1,1), (0,1) to `to`: x = (a u + b v + c) / (g u + h v + 1), y likewise with
// d, e, f (Heckbert, "Fundamentals of Texture Mapping and Image Warping", 1989, section 2.2.3).
struct Projection {
  explicit Projection(const Corners& to) noexcept {
    const float sx = to[0].x - to[1].x + to[2].x - to[3].x, sy = to[0].y - to[1].y + to[2].y - to[3].y;
    const float x1 = to[1].x - to[2].x, x2 = to[3].x - to[2].x, y1 = to[1].y - to[2].y, y2 = to[3].y - to[2].y;
    const float area = x1 * y2 - x2 * y1;
    g = area != 0.0F ? (sx * y2 - x2 * sy) / area : 0.0F;
    h = area != 0.0F ? (x1 * sy - sx * y1) / area : 0.0F;
    a = to[1].x - to[0].x + g * to[1].x;
    b = to[3].x - to[0].x + h * to[3].x;
    c = to[0].x;
    d = to[1].y - to[0].y + g * to[1].y;
    e = to[3].y - to[0].y + h * to[3].y;
    f = to[0].y;
  }
  [[nodiscard]] cv::Point2f operator()(float u, float v) const noexcept {
    const float w = g * u + h * v + 1.0F;
    const float safe = std::abs(w) < 1e-6F ? 1e-6F : w;
    return {(a * u + b * v + c) / safe, (d * u + e * v + f) / safe};
  }
  float a, b, c, d, e, f, g, h;
};

}  // namespace

float mean_side(const Corners& corners) noexcept {
  float sum = 0.0F;
  for (std::size_t i = 0; i < 4; ++i) {
    const cv::Point2f side = corners[(i + 1) % 4] - corners[i];
    sum += std::sqrt(side.x * side.x + side.y * side.y);
  }
  return sum / 4.0F;
}

bool is_quad(const Corners& corners) noexcept {
  for (std::size_t i = 0; i < 4; ++i) {
    const cv::Point2f a = corners[i], b = corners[(i + 1) % 4], c = corners[(i + 2) % 4];
    // False for NaN as well.
    if (!((b.x - a.x) * (c.y - b.y) - (b.y - a.y) * (c.x - b.x) > 0.0F)) return false;
  }
  const float side = mean_side(corners);
  return side >= 8.0F && side < 16384.0F;
}

void cut_patch(const camd_picture& picture, const Corners& corners, int side, float margin, cv::Mat& patch) {
  patch.create(side, side, CV_8UC1);
  const Luma luma = luma_of(picture);
  const Projection to_picture(corners);
  const float whole = 1.0F + 2.0F * margin, step = whole / static_cast<float>(side);
  const bool shrinks = mean_side(corners) * whole > 1.5F * static_cast<float>(side);
  for (int y = 0; y < side; ++y) {
    std::uint8_t* row = patch.ptr(y);
    const float v = (static_cast<float>(y) + 0.5F) * step - margin;
    for (int x = 0; x < side; ++x) {
      const float u = (static_cast<float>(x) + 0.5F) * step - margin;
      const auto look = [&](float du, float dv) {
        const cv::Point2f at = to_picture(u + du * step, v + dv * step);
        return sample(luma, at.x, at.y);
      };
      const float value =
          shrinks ? 0.25F * (look(-0.25F, -0.25F) + look(0.25F, -0.25F) + look(-0.25F, 0.25F) + look(0.25F, 0.25F))
                  : look(0.0F, 0.0F);
      row[x] = static_cast<std::uint8_t>(value + 0.5F);
    }
  }
}

}  // namespace camd::plugins::codes
