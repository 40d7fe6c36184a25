#include "plugins/annotate/canvas.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <string>

namespace camd::plugins {
namespace {

// OpenCV takes int: a detection far outside must not overflow it.
cv::Point point(double x, double y) {
  constexpr double kFar = 16000.0;
  return {static_cast<int>(std::lround(std::clamp(x, -kFar, kFar))),
          static_cast<int>(std::lround(std::clamp(y, -kFar, kFar)))};
}

cv::Mat plane_of(const camd_plane& plane, int type, int width, int height) {
  // OpenCV has no constant Mat header; nothing below writes to a source plane.
  return {height, width, type, const_cast<std::uint8_t*>(plane.data), static_cast<std::size_t>(plane.stride_bytes)};
}

// A row's bytes in GStreamer's I420 (gst_video_info_set_format).
std::size_t padded(int width) noexcept { return static_cast<std::size_t>((width + 3) / 4 * 4); }

void scale_into(const cv::Mat& from, cv::Mat& to) {
  if (from.size() == to.size()) {
    from.copyTo(to);
  } else {
    cv::resize(from, to, to.size(), 0, 0, from.cols > to.cols ? cv::INTER_AREA : cv::INTER_LINEAR);
  }
}

}  // namespace

Color color_of(std::uint8_t red, std::uint8_t green, std::uint8_t blue) noexcept {
  const double r = red, g = green, b = blue;
  const auto byte = [](double v) { return static_cast<std::uint8_t>(std::lround(v)); };
  return {byte(16.0 + (65.481 * r + 128.553 * g + 24.966 * b) / 255.0),
          byte(128.0 + (-37.797 * r - 74.203 * g + 112.0 * b) / 255.0),
          byte(128.0 + (112.0 * r - 93.786 * g - 18.214 * b) / 255.0)};
}

Color class_color(int class_id) noexcept {
  static const std::array<Color, 8> colors = {color_of(60, 220, 80),  color_of(255, 140, 0),  color_of(40, 160, 255),
                                              color_of(240, 60, 160), color_of(250, 230, 40), color_of(160, 90, 255),
                                              color_of(40, 220, 220), color_of(255, 80, 60)};
  return colors[static_cast<std::size_t>(class_id < 0 ? -(class_id + 1) : class_id) % colors.size()];
}

Size canvas_size(int width, int height, double scale) noexcept {
  const auto even = [scale](int side) {
    return std::max(16, static_cast<int>(std::lround(static_cast<double>(side) * scale)) / 2 * 2);
  };
  return {even(width), even(height)};
}

std::size_t i420_bytes(Size size) noexcept {
  return padded(size.width) * static_cast<std::size_t>(size.height) +
         padded(size.width / 2) * static_cast<std::size_t>(size.height);
}

Canvas::Canvas(std::uint8_t* pixels, Size size) : size_(size) {
  const std::size_t luma_stride = padded(size.width), chroma_stride = padded(size.width / 2);
  const std::size_t luma = luma_stride * static_cast<std::size_t>(size.height);
  const std::size_t chroma = chroma_stride * static_cast<std::size_t>(size.height / 2);
  y_ = cv::Mat(size.height, size.width, CV_8UC1, pixels, luma_stride);
  u_ = cv::Mat(size.height / 2, size.width / 2, CV_8UC1, pixels + luma, chroma_stride);
  v_ = cv::Mat(size.height / 2, size.width / 2, CV_8UC1, pixels + luma + chroma, chroma_stride);
}

void Canvas::fill(const camd_picture& picture, Scratch& scratch) {
  // An odd last column or row has no whole chroma sample: it is left out.
  const auto& planes = picture.planes;
  const int width = planes[0].width / 2 * 2, height = planes[0].height / 2 * 2;
  const cv::Size half(width / 2, height / 2);
  switch (picture.format) {
    case CAMD_PIXEL_I420:
      scale_into(plane_of(planes[0], CV_8UC1, width, height), y_);
      scale_into(plane_of(planes[1], CV_8UC1, half.width, half.height), u_);
      scale_into(plane_of(planes[2], CV_8UC1, half.width, half.height), v_);
      return;
    case CAMD_PIXEL_NV12: {
      scale_into(plane_of(planes[0], CV_8UC1, width, height), y_);
      const cv::Mat chroma = plane_of(planes[1], CV_8UC2, half.width, half.height);
      if (half == u_.size()) {
        std::array<cv::Mat, 2> parts = {u_, v_};
        cv::split(chroma, parts.data());
        return;
      }
      // Split first: OpenCV scales one channel several times faster than two.
      scratch.half.create(half, CV_8UC1);
      scratch.converted.create(half, CV_8UC1);
      std::array<cv::Mat, 2> parts = {scratch.half, scratch.converted};
      cv::split(chroma, parts.data());
      scale_into(scratch.half, u_);
      scale_into(scratch.converted, v_);
      return;
    }
    case CAMD_PIXEL_YUY2: {
      // Y0 U Y1 V: luma is every other byte, chroma that of the even rows.
      cv::Mat pairs(height, width, CV_8UC2, const_cast<std::uint8_t*>(planes[0].data),
                    static_cast<std::size_t>(planes[0].stride_bytes));
      cv::Mat quads(half.height, half.width, CV_8UC4, const_cast<std::uint8_t*>(planes[0].data),
                    2 * static_cast<std::size_t>(planes[0].stride_bytes));
      const bool same = cv::Size(width, height) == y_.size();
      if (!same) scratch.converted.create(height, width, CV_8UC1);
      cv::extractChannel(pairs, same ? y_ : scratch.converted, 0);
      if (!same) scale_into(scratch.converted, y_);
      if (!same) scratch.half.create(half, CV_8UC1);
      cv::extractChannel(quads, same ? u_ : scratch.half, 1);
      if (!same) scale_into(scratch.half, u_);
      cv::extractChannel(quads, same ? v_ : scratch.half, 3);
      if (!same) scale_into(scratch.half, v_);
      return;
    }
    case CAMD_PIXEL_GRAY8: {
      // Full range to limited range.
      cv::Mat grey = plane_of(planes[0], CV_8UC1, width, height);
      if (grey.size() != y_.size()) {
        scratch.scaled.create(y_.size(), CV_8UC1);
        scale_into(grey, scratch.scaled);
        grey = scratch.scaled;
      }
      grey.convertTo(y_, CV_8UC1, 219.0 / 255.0, 16.0);
      u_.setTo(128);
      v_.setTo(128);
      return;
    }
    case CAMD_PIXEL_BGR:
    case CAMD_PIXEL_RGB: {
      cv::Mat source = plane_of(planes[0], CV_8UC3, width, height);
      if (source.size() != y_.size()) {
        scratch.scaled.create(y_.size(), CV_8UC3);
        scale_into(source, scratch.scaled);
        source = scratch.scaled;
      }
      const int code = picture.format == CAMD_PIXEL_BGR ? cv::COLOR_BGR2YUV_I420 : cv::COLOR_RGB2YUV_I420;
      if (y_.isContinuous() && u_.isContinuous()) {
        // Three planes without gaps one after the other: OpenCV's I420.
        cv::Mat whole(size_.height * 3 / 2, size_.width, CV_8UC1, y_.data);
        cv::cvtColor(source, whole, code);
        return;
      }
      cv::cvtColor(source, scratch.converted, code);
      std::uint8_t* at = scratch.converted.data;
      for (cv::Mat* plane : {&y_, &u_, &v_}) {
        cv::Mat(plane->size(), CV_8UC1, at).copyTo(*plane);
        at += plane->total();
      }
      return;
    }
  }
}

int Canvas::line_thickness() const noexcept { return std::max(1, (size_.height + 180) / 360); }

void Canvas::rectangle(double x0, double y0, double x1, double y1, Color color, int thickness) {
  cv::rectangle(y_, point(x0, y0), point(x1, y1), cv::Scalar(color.y), thickness);
  const int chroma = thickness < 0 ? thickness : std::max(1, thickness / 2);
  cv::rectangle(u_, point(x0 / 2, y0 / 2), point(x1 / 2, y1 / 2), cv::Scalar(color.u), chroma);
  cv::rectangle(v_, point(x0 / 2, y0 / 2), point(x1 / 2, y1 / 2), cv::Scalar(color.v), chroma);
}

void Canvas::line(double x0, double y0, double x1, double y1, Color color, int thickness) {
  cv::line(y_, point(x0, y0), point(x1, y1), cv::Scalar(color.y), thickness);
  const int chroma = std::max(1, thickness / 2);
  cv::line(u_, point(x0 / 2, y0 / 2), point(x1 / 2, y1 / 2), cv::Scalar(color.u), chroma);
  cv::line(v_, point(x0 / 2, y0 / 2), point(x1 / 2, y1 / 2), cv::Scalar(color.v), chroma);
}

void Canvas::disc(double x, double y, int radius, Color color) {
  cv::circle(y_, point(x, y), radius, cv::Scalar(color.y), cv::FILLED);
  cv::circle(u_, point(x / 2, y / 2), std::max(1, radius / 2), cv::Scalar(color.u), cv::FILLED);
  cv::circle(v_, point(x / 2, y / 2), std::max(1, radius / 2), cv::Scalar(color.v), cv::FILLED);
}

void Canvas::label(double x, double y, std::string_view text, Color background) {
  constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
  const double scale = std::max(0.35, size_.height / 1100.0);
  const int thickness = size_.height >= 1000 ? 2 : 1;
  const std::string words(text);
  int below = 0;
  const cv::Size extent = cv::getTextSize(words, kFont, scale, thickness, &below);
  const int pad = 2;
  const int box_width = extent.width + 2 * pad, box_height = extent.height + below + 2 * pad;
  const double left = std::clamp(x, 0.0, std::max(0.0, static_cast<double>(size_.width - box_width)));
  const double top = std::clamp(y - box_height, 0.0, std::max(0.0, static_cast<double>(size_.height - box_height)));
  rectangle(left, top, left + box_width, top + box_height, background, cv::FILLED);
  // Luma alone makes the letters: the box' chroma tints them, which costs nothing and reads well.
  const bool dark = background.y > 110;
  cv::putText(y_, words, point(left + pad, top + pad + extent.height), kFont, scale, cv::Scalar(dark ? 16 : 235),
              thickness);
}

}  // namespace camd::plugins
