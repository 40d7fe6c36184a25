// The reference is OpenCV: cvtColor, then resize with INTER_LINEAR (shrink up to 2) or INTER_AREA (beyond).
#include "infer/preprocess.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <opencv2/imgproc.hpp>
#include <tuple>

namespace camd::infer {
namespace CAMD_TEST_FILE {

using base::ColorMatrix;
using base::PictureLayout;
using base::PixelFormat;

// Smooth in space, every colour present: where interpolating before or after the colour conversion differs, it differs
// by rounding only.
cv::Mat smooth_bgr(int width, int height) {
  cv::Mat picture(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double u = static_cast<double>(x) / width;
      const double v = static_cast<double>(y) / height;
      const auto level = [](double t) { return static_cast<std::uint8_t>(std::lround(127.5 + 100 * std::sin(t))); };
      picture.at<cv::Vec3b>(y, x) = {level(6 * u + 1), level(5 * v + 4 * u), level(7 * v - 3 * u)};
    }
  }
  return picture;
}

struct Stored {
  std::vector<std::byte> bytes;
  PictureLayout layout;
  [[nodiscard]] PictureView view() const { return {bytes.data(), layout}; }
};

// Rows `extra` bytes further apart than the tight layout has them.
Stored store(const PictureLayout& tight, const std::vector<std::uint8_t>& data, int extra = 0) {
  Stored stored;
  stored.layout = tight;
  stored.layout.size_bytes = 0;
  for (int p = 0; p < tight.plane_count; ++p) {
    auto& plane = stored.layout.planes[static_cast<std::size_t>(p)];
    plane.offset_bytes = stored.layout.size_bytes;
    plane.stride_bytes += extra;
    stored.layout.size_bytes += static_cast<std::size_t>(plane.stride_bytes * plane.height);
  }
  stored.bytes.assign(stored.layout.size_bytes, std::byte{0x5A});
  for (int p = 0; p < tight.plane_count; ++p) {
    const auto& from = tight.planes[static_cast<std::size_t>(p)];
    const auto& to = stored.layout.planes[static_cast<std::size_t>(p)];
    for (int row = 0; row < from.height; ++row) {
      std::memcpy(stored.bytes.data() + to.offset_bytes + static_cast<std::size_t>(row * to.stride_bytes),
                  data.data() + from.offset_bytes + static_cast<std::size_t>(row * from.stride_bytes),
                  static_cast<std::size_t>(from.stride_bytes));
    }
  }
  return stored;
}

// Y'CbCr of one BGR pixel by the standards' own formula.
std::array<double, 3> ycc(const cv::Vec3b& p, ColorMatrix matrix, bool full) {
  const double kr = matrix == ColorMatrix::kBt709 ? 0.2126 : 0.299;
  const double kb = matrix == ColorMatrix::kBt709 ? 0.0722 : 0.114;
  const double y = kr * p[2] + (1 - kr - kb) * p[1] + kb * p[0];
  const double cb = (p[0] - y) / (2 * (1 - kb));
  const double cr = (p[2] - y) / (2 * (1 - kr));
  if (full) return {y, cb + 128, cr + 128};
  return {16 + y * 219 / 255, 128 + cb * 224 / 255, 128 + cr * 224 / 255};
}

// Encodes a BGR picture: chroma is the mean of the pixels it covers.
Stored encode(const cv::Mat& bgr, PixelFormat format, ColorMatrix matrix = ColorMatrix::kBt601, bool full = false,
              int extra = 0) {
  PictureLayout layout = base::tight_layout(format, bgr.cols, bgr.rows);
  layout.matrix = matrix;
  layout.full_range = full;
  std::vector<std::uint8_t> data(layout.size_bytes);
  const auto byte = [](double v) { return static_cast<std::uint8_t>(std::clamp(std::lround(v), 0L, 255L)); };
  const int half_rows = format == PixelFormat::kYuy2 ? 1 : 2;
  for (int y = 0; y < bgr.rows; ++y) {
    for (int x = 0; x < bgr.cols; ++x) {
      const cv::Vec3b pixel = bgr.at<cv::Vec3b>(y, x);
      const auto at = [&](int plane, int byte_x, int row) -> std::uint8_t& {
        const auto& p = layout.planes[static_cast<std::size_t>(plane)];
        return data[p.offset_bytes + static_cast<std::size_t>(row * p.stride_bytes + byte_x)];
      };
      if (format == PixelFormat::kBgr || format == PixelFormat::kRgb) {
        for (int c = 0; c < 3; ++c) at(0, 3 * x + c, y) = pixel[format == PixelFormat::kBgr ? c : 2 - c];
        continue;
      }
      const auto own = ycc(pixel, matrix, full);
      if (format == PixelFormat::kGray8) {
        at(0, x, y) = byte(ycc(pixel, ColorMatrix::kBt601, true)[0]);
        continue;
      }
      at(0, format == PixelFormat::kYuy2 ? 2 * x : x, y) = byte(own[0]);
      if (x % 2 != 0 || y % half_rows != 0) continue;
      double cb = 0, cr = 0;
      for (int dy = 0; dy < half_rows; ++dy) {
        for (int dx = 0; dx < 2; ++dx) {
          const auto v =
              ycc(bgr.at<cv::Vec3b>(std::min(y + dy, bgr.rows - 1), std::min(x + dx, bgr.cols - 1)), matrix, full);
          cb += v[1] / (2 * half_rows);
          cr += v[2] / (2 * half_rows);
        }
      }
      if (format == PixelFormat::kNv12) {
        at(1, x, y / 2) = byte(cb);
        at(1, x + 1, y / 2) = byte(cr);
      } else if (format == PixelFormat::kI420) {
        at(1, x / 2, y / 2) = byte(cb);
        at(2, x / 2, y / 2) = byte(cr);
      } else {
        at(0, 2 * x + 1, y) = byte(cb);
        at(0, 2 * x + 3, y) = byte(cr);
      }
    }
  }
  return store(layout, data, extra);
}

InputOptions plain(int width, int height, ResizeMode mode = ResizeMode::kStretch) {
  InputOptions options;
  options.width = width;
  options.height = height;
  options.scale = {1, 1, 1};
  options.resize = mode;
  return options;
}

std::vector<float> run(const Stored& picture, const InputOptions& options) {
  std::vector<float> out(static_cast<std::size_t>(3 * options.width * options.height), -1.0F);
  Preprocessor(options).run(picture.view(), out.data());
  return out;
}

// The largest difference to a BGR picture of the network's size, over channels in `color` order.
double distance(const std::vector<float>& out, const cv::Mat& bgr, ColorOrder color = ColorOrder::kBgr) {
  double worst = 0;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < bgr.rows; ++y) {
      for (int x = 0; x < bgr.cols; ++x) {
        const cv::Vec3b& pixel = bgr.at<cv::Vec3b>(y, x);
        const double want = pixel[color == ColorOrder::kBgr ? c : 2 - c];
        worst = std::max(
            worst,
            std::abs(want - static_cast<double>(out[static_cast<std::size_t>((c * bgr.rows + y) * bgr.cols + x)])));
      }
    }
  }
  return worst;
}

cv::Mat resized(const cv::Mat& bgr, int width, int height, int mode = cv::INTER_LINEAR) {
  cv::Mat result;
  cv::resize(bgr, result, {width, height}, 0, 0, mode);
  return result;
}

TEST(Preprocess, BgrStretchEqualsOpenCvBilinear) {
  const cv::Mat picture = smooth_bgr(121, 67);
  for (const auto& [w, h] : {std::pair{121, 67}, {64, 40}, {200, 130}, {61, 34}}) {
    // OpenCV rounds its weights to 11 bits, its columns and its result to whole numbers.
    EXPECT_LT(distance(run(encode(picture, PixelFormat::kBgr), plain(w, h)), resized(picture, w, h)), 0.8) << w;
  }
}

TEST(Preprocess, RgbNetworkGetsChannelsInItsOrder) {
  const cv::Mat picture = smooth_bgr(50, 30);
  InputOptions options = plain(50, 30);
  options.color = ColorOrder::kRgb;
  for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kRgb}) {
    EXPECT_EQ(distance(run(encode(picture, format), options), picture, ColorOrder::kRgb), 0.0);
  }
  EXPECT_LT(distance(run(encode(picture, PixelFormat::kYuy2), options), picture, ColorOrder::kRgb), 8.0);
}

TEST(Preprocess, ChessboardHalvedIsItsMean) {
  cv::Mat board(8, 8, CV_8UC3);
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x)
      board.at<cv::Vec3b>(y, x) = cv::Vec3b::all(static_cast<std::uint8_t>((x + y) % 2 * 200));
  }
  for (const float v : run(encode(board, PixelFormat::kBgr), plain(4, 4))) EXPECT_FLOAT_EQ(v, 100.0F);
}

TEST(Preprocess, ShrinkingByMoreThanTwoLosesNoSourcePixel) {
  // Bilinear at a third reads only every third column; stripes would vanish or fill the picture.
  cv::Mat stripes(12, 12, CV_8UC3);
  for (int x = 0; x < 12; ++x) stripes.col(x).setTo(x % 3 == 0 ? cv::Scalar::all(240) : cv::Scalar::all(0));
  for (const float v : run(encode(stripes, PixelFormat::kBgr), plain(4, 4))) EXPECT_NEAR(v, 80.0F, 15.0F);
  const cv::Mat picture = smooth_bgr(400, 300);
  for (const auto& [w, h] : {std::pair{100, 75}, {133, 100}, {90, 60}, {50, 50}}) {
    EXPECT_LT(distance(run(encode(picture, PixelFormat::kBgr), plain(w, h)), resized(picture, w, h, cv::INTER_AREA)),
              1.5)
        << w;
  }
}

class PreprocessYcc : public ::testing::TestWithParam<std::tuple<PixelFormat, ColorMatrix, bool>> {};

TEST_P(PreprocessYcc, BackToBgrWithinRoundingOnOddSizesAndStrides) {
  const auto [format, matrix, full] = GetParam();
  for (const auto& [w, h] : {std::pair{128, 96}, {97, 53}, {33, 1}, {1, 17}}) {
    const cv::Mat picture = smooth_bgr(w, h);
    const int nw = std::max(1, w / 2);
    const int nh = std::max(1, h / 2);
    const Stored tight = encode(picture, format, matrix, full);
    const Stored strided = encode(picture, format, matrix, full, 13);
    const std::vector<float> out = run(tight, plain(nw, nh));
    EXPECT_EQ(out, run(strided, plain(nw, nh)));
    // A thin picture is not smooth across its single row or column of chroma.
    if (w > 40 && h > 40) {
      EXPECT_LT(distance(out, resized(picture, nw, nh)), 5.0) << w;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllFormats, PreprocessYcc,
    ::testing::Combine(::testing::Values(PixelFormat::kNv12, PixelFormat::kI420, PixelFormat::kYuy2),
                       ::testing::Values(ColorMatrix::kBt601, ColorMatrix::kBt709), ::testing::Bool()));

TEST(Preprocess, LimitedRange601AgreesWithOpenCvsOwnConversion) {
  const cv::Mat picture = smooth_bgr(128, 96);
  const Stored nv12 = encode(picture, PixelFormat::kNv12);
  cv::Mat raw(96 * 3 / 2, 128, CV_8UC1, const_cast<std::byte*>(nv12.bytes.data()));
  cv::Mat bgr;
  cv::cvtColor(raw, bgr, cv::COLOR_YUV2BGR_NV12);
  EXPECT_LT(distance(run(nv12, plain(64, 48)), resized(bgr, 64, 48)), 2.0);
}

TEST(Preprocess, GreyStandsForAllChannels) {
  const cv::Mat picture = smooth_bgr(40, 30);
  const Stored grey = encode(picture, PixelFormat::kGray8);
  const std::vector<float> out = run(grey, plain(40, 30));
  for (std::size_t i = 0; i < 1200; ++i) {
    EXPECT_EQ(out[i], static_cast<float>(grey.bytes[i]));
    EXPECT_EQ(out[i], out[i + 1200]);
    EXPECT_EQ(out[i], out[i + 2400]);
  }
}

TEST(Preprocess, BlackAndWhiteOfLimitedRangeAreTheEnds) {
  PictureLayout layout = base::tight_layout(PixelFormat::kI420, 4, 2);
  std::vector<std::uint8_t> data(layout.size_bytes, 128);
  for (std::size_t i = 0; i < 8; ++i) data[i] = i % 4 < 2 ? 16 : 235;
  const std::vector<float> out = run(store(layout, data), plain(4, 2));
  for (std::size_t i = 0; i < 24; ++i) EXPECT_NEAR(out[i], i % 4 < 2 ? 0.0F : 255.0F, 1e-3F);
}

TEST(Preprocess, LetterboxCentresAndFillsWithThePaddedValue) {
  cv::Mat white(20, 40, CV_8UC3, cv::Scalar::all(200));
  InputOptions options = plain(32, 32, ResizeMode::kLetterbox);
  options.mean = {10, 20, 30};
  options.scale = {0.5F, 0.25F, 2.0F};
  const std::vector<float> out = run(encode(white, PixelFormat::kBgr), options);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t y = 0; y < 32; ++y) {
      const float raw = y < 8 || y >= 24 ? 114.0F : 200.0F;
      for (std::size_t x = 0; x < 32; ++x) {
        EXPECT_FLOAT_EQ(out[(c * 32 + y) * 32 + x], (raw - options.mean[c]) * options.scale[c])
            << c << " " << y << " " << x;
      }
    }
  }
}

TEST(Preprocess, LetterboxTopLeftStartsAtTheOrigin) {
  cv::Mat white(40, 20, CV_8UC3, cv::Scalar::all(200));
  const std::vector<float> out = run(encode(white, PixelFormat::kRgb), plain(32, 32, ResizeMode::kLetterboxTopLeft));
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_FLOAT_EQ(out[i], i % 32 < 16 ? 200.0F : 114.0F) << i;
}

TEST(Preprocess, TransformMapsSourceCornersToTheShownRectangle) {
  const PictureTransform t = picture_transform(1280, 720, 640, 640, ResizeMode::kLetterbox);
  EXPECT_FLOAT_EQ(t.scale_x, 0.5F);
  EXPECT_FLOAT_EQ(t.scale_y, 0.5F);
  EXPECT_FLOAT_EQ(t.offset_x, 0.0F);
  EXPECT_FLOAT_EQ(t.offset_y, 140.0F);
  const PictureTransform s = picture_transform(1280, 720, 640, 640, ResizeMode::kStretch);
  EXPECT_FLOAT_EQ(s.scale_y, 640.0F / 720.0F);
  EXPECT_FLOAT_EQ(s.offset_y, 0.0F);
  const PictureTransform l = picture_transform(100, 333, 64, 64, ResizeMode::kLetterboxTopLeft);
  EXPECT_FLOAT_EQ(l.scale_y * 333.0F, 64.0F);
  EXPECT_FLOAT_EQ(l.scale_x * 100.0F, 19.0F);
}

TEST(Preprocess, FastFormEqualsThePerPixelDefinition) {
  for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kRgb, PixelFormat::kNv12, PixelFormat::kI420,
                                   PixelFormat::kYuy2, PixelFormat::kGray8}) {
    for (const auto& [w, h, nw, nh] : {std::tuple{97, 53, 64, 64},
                                       {64, 48, 96, 96},
                                       {321, 243, 50, 33},
                                       // Whole steps, where all pixels but those at the border have one weight.
                                       {40, 30, 40, 30},
                                       {80, 60, 40, 30},
                                       {120, 90, 40, 30},
                                       {160, 120, 40, 30}}) {
      const Stored picture = encode(smooth_bgr(w, h), format, ColorMatrix::kBt709, false, 5);
      for (const ResizeMode mode : {ResizeMode::kLetterbox, ResizeMode::kStretch}) {
        const InputOptions options = plain(nw, nh, mode);
        const std::vector<float> fast = run(picture, options);
        const SamplePlan plan = make_sample_plan(picture.layout, options);
        for (int y = 0; y < nh; ++y) {
          for (int x = 0; x < nw; ++x) {
            float want[3];
            sample_pixel(plan, reinterpret_cast<const std::uint8_t*>(picture.bytes.data()), x, y, want);
            for (int c = 0; c < 3; ++c)
              ASSERT_NEAR(fast[static_cast<std::size_t>((c * nh + y) * nw + x)], want[c], 2e-3F);
          }
        }
      }
    }
  }
}

TEST(Preprocess, NextPictureMayHaveAnotherLayout) {
  const InputOptions options = plain(32, 24);
  Preprocessor preprocessor(options);
  std::vector<float> out(3 * 32 * 24);
  const cv::Mat picture = smooth_bgr(64, 48);
  for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kNv12, PixelFormat::kBgr}) {
    const Stored stored = encode(picture, format);
    preprocessor.run(stored.view(), out.data());
    EXPECT_EQ(out, run(stored, options));
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
