#include "plugins/codes/reader.hpp"

#define ZX_USE_UTF8 1  // Result::text() is UTF-8
#include <ZXing/ReadBarcode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <opencv2/aruco.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <utility>

#include "plugins/json_object.hpp"

namespace camd::plugins::codes {
namespace {

constexpr std::array<std::pair<const char*, int>, 19> kFamilies = {{
    {"apriltag_16h5", cv::aruco::DICT_APRILTAG_16h5},   {"apriltag_25h9", cv::aruco::DICT_APRILTAG_25h9},
    {"apriltag_36h10", cv::aruco::DICT_APRILTAG_36h10}, {"apriltag_36h11", cv::aruco::DICT_APRILTAG_36h11},
    {"aruco_4x4_50", cv::aruco::DICT_4X4_50},           {"aruco_4x4_100", cv::aruco::DICT_4X4_100},
    {"aruco_4x4_250", cv::aruco::DICT_4X4_250},         {"aruco_4x4_1000", cv::aruco::DICT_4X4_1000},
    {"aruco_5x5_50", cv::aruco::DICT_5X5_50},           {"aruco_5x5_100", cv::aruco::DICT_5X5_100},
    {"aruco_5x5_250", cv::aruco::DICT_5X5_250},         {"aruco_5x5_1000", cv::aruco::DICT_5X5_1000},
    {"aruco_6x6_50", cv::aruco::DICT_6X6_50},           {"aruco_6x6_100", cv::aruco::DICT_6X6_100},
    {"aruco_6x6_250", cv::aruco::DICT_6X6_250},         {"aruco_6x6_1000", cv::aruco::DICT_6X6_1000},
    {"aruco_7x7_50", cv::aruco::DICT_7X7_50},           {"aruco_7x7_1000", cv::aruco::DICT_7X7_1000},
    {"aruco_original", cv::aruco::DICT_ARUCO_ORIGINAL},
}};

constexpr float kQrMargin = 0.15F, kWideQrMargin = 0.3F;
constexpr float kMarkerMargin = 0.25F;
constexpr int kCell = 8;  // pixels of a patch for each of a marker's cells

// The corners of the largest dark quadrilateral of a patch with margin, in shares of the code's side from its first
// corner: where the marker really is, which the detector says to a few hundredths. Nothing when there is none near.
std::optional<Corners> find_rim(const cv::Mat& patch) {
  cv::Mat dark;
  cv::threshold(patch, dark, 0, 255, cv::THRESH_BINARY_INV | cv::THRESH_OTSU);
  std::vector<std::vector<cv::Point>> outlines;
  cv::findContours(dark, outlines, cv::RETR_EXTERNAL, cv::CHAIN_APPROX_NONE);
  const double whole = static_cast<double>(patch.total());
  double largest = 0.2 * whole;
  std::optional<Corners> found;
  for (const std::vector<cv::Point>& outline : outlines) {
    std::vector<cv::Point> quad;
    cv::approxPolyDP(outline, quad, 0.05 * cv::arcLength(outline, true), true);
    if (quad.size() != 4 || !cv::isContourConvex(quad)) continue;
    const double area = cv::contourArea(quad);
    if (area < largest || area > 0.9 * whole) continue;
    largest = area;
    Corners corners;
    for (std::size_t i = 0; i < 4; ++i) corners[i] = quad[i];
    if (cv::contourArea(std::vector<cv::Point2f>(corners.begin(), corners.end()), true) < 0) {
      std::reverse(corners.begin(), corners.end());
    }
    found = corners;
  }
  if (!found) return found;
  // Clockwise from the corner that is nearest to the top left.
  const auto first = std::min_element(found->begin(), found->end(),
                                      [](const cv::Point2f& a, const cv::Point2f& b) { return a.x + a.y < b.x + b.y; });
  std::rotate(found->begin(), first, found->end());
  return found;
}

}  // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const auto& family : kFamilies) names.emplace_back(family.first);
  return names;
}

Reader::Reader(const std::vector<std::string>& families) {
  for (const std::string& name : families) {
    const auto known = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const auto& f) { return name == f.first; });
    if (known == kFamilies.end()) throw std::invalid_argument("'" + name + "' is none of " + joined(family_names()));
    families_.push_back({name, *cv::aruco::getPredefinedDictionary(known->second)});
  }
}

std::optional<std::string> Reader::qr(const camd_picture& picture, const Corners& corners, Looks looks) {
  const bool is_small = mean_side(corners) * (1.0F + 2.0F * kQrMargin) < 250.0F;
  std::optional<std::string> text;
  if (looks != Looks::kOther) {
    // Two pixels for one of the picture's help where modules are small; large codes lose nothing by being made smaller.
    text = look(picture, corners, {kQrMargin, is_small ? 2.0F : 1.0F, false});
    if (!text) text = look(picture, corners, {kQrMargin, is_small ? 1.0F : 0.5F, false});
  }
  if (!text && looks != Looks::kUsual) {
    // One threshold for the whole patch, where blur leaves small modules grey; and a wide patch, where corners are off.
    text = look(picture, corners, {kQrMargin, is_small ? 2.0F : 1.0F, true});
    if (!text) text = look(picture, corners, {kWideQrMargin, is_small ? 3.0F : 1.0F, false, 400});
  }
  return text;
}

std::optional<std::string> Reader::look(const camd_picture& picture, const Corners& corners, const Look& how) {
  const auto hints =
      ZXing::DecodeHints()
          .setFormats(ZXing::BarcodeFormat::QRCode)
          .setTryHarder(true)
          .setTryRotate(false)
          .setTryDownscale(false)
          .setBinarizer(how.one_threshold ? ZXing::Binarizer::GlobalHistogram : ZXing::Binarizer::LocalAverage);
  const float whole = 1.0F + 2.0F * how.margin;
  const int side = std::clamp(static_cast<int>(mean_side(corners) * whole * how.scale), 64, how.most);
  cut_patch(picture, corners, side, how.margin, patch_);
  const ZXing::Result read =
      ZXing::ReadBarcode({patch_.data, patch_.cols, patch_.rows, ZXing::ImageFormat::Lum}, hints);
  if (!read.isValid()) return std::nullopt;
  // A smaller code may lie in the margin; its text is not this one's.
  const ZXing::PointI middle = ZXing::Center(read.position());
  const float least = how.margin / whole * static_cast<float>(side), most = static_cast<float>(side) - least;
  const auto is_within = [&](int at) { return static_cast<float>(at) >= least && static_cast<float>(at) <= most; };
  if (!is_within(middle.x) || !is_within(middle.y)) return std::nullopt;
  return read.text();
}

std::optional<MarkerRead> Reader::marker(const camd_picture& picture, const Corners& corners) {
  if (families_.empty()) return std::nullopt;
  if (auto read = identify(picture, corners)) return read;
  // Once more from where the marker's rim is seen.
  constexpr int kSide = 160;
  cut_patch(picture, corners, kSide, kMarkerMargin, wide_);
  const std::optional<Corners> rim = find_rim(wide_);
  if (!rim) return std::nullopt;
  camd_picture seen{};
  seen.struct_size = sizeof(seen);
  seen.format = CAMD_PIXEL_GRAY8;
  seen.plane_count = 1;
  seen.planes[0] = {wide_.data, static_cast<std::int32_t>(wide_.step[0]), kSide, kSide};
  return identify(seen, *rim);
}

std::optional<MarkerRead> Reader::identify(const camd_picture& picture, const Corners& corners) {
  int cut = 0;  // bits that the patch was cut for
  bool fine = false;
  for (const Family& family : families_) {
    const int bits = family.dictionary.markerSize;
    if (bits != cut) {
      cut_patch(picture, corners, (bits + 2) * kCell, 0.0F, patch_);
      fine = read_bits(patch_, bits, bits_);
      cut = bits;
    }
    int number = 0, rotation = 0;
    if (!fine || !family.dictionary.identify(bits_, number, rotation, 0.0)) continue;
    // `rotation` counts the quarter turns, counter-clockwise, by which the marker stands turned.
    return MarkerRead{family.name + ":" + std::to_string(number), (4 - rotation) % 4};
  }
  return std::nullopt;
}

// Each cell clearly dark or light, and all of the rim dark.
bool Reader::read_bits(const cv::Mat& patch, int bits, cv::Mat& to) const {
  const int cells = bits + 2;
  std::array<float, 81> means{};
  float least = 255.0F, most = 0.0F;
  for (int y = 0; y < cells; ++y) {
    for (int x = 0; x < cells; ++x) {
      const cv::Rect inner(x * kCell + kCell / 4, y * kCell + kCell / 4, kCell / 2, kCell / 2);
      const auto mean = static_cast<float>(cv::mean(patch(inner))[0]);
      means[static_cast<std::size_t>(y * cells + x)] = mean;
      least = std::min(least, mean);
      most = std::max(most, mean);
    }
  }
  if (most - least < 20.0F) return false;
  const float middle = 0.5F * (least + most), unsure = 0.1F * (most - least);
  to.create(bits, bits, CV_8UC1);
  for (int y = 0; y < cells; ++y) {
    for (int x = 0; x < cells; ++x) {
      const float mean = means[static_cast<std::size_t>(y * cells + x)];
      if (std::abs(mean - middle) < unsure) return false;
      const bool light = mean > middle;
      const bool rim = x == 0 || y == 0 || x == cells - 1 || y == cells - 1;
      if (rim && light) return false;
      if (!rim) to.at<std::uint8_t>(y - 1, x - 1) = light ? 1 : 0;
    }
  }
  return true;
}

}  // namespace camd::plugins::codes
