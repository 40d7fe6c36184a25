// A picture in memory for tests, in every format; and what a JPEG shows.
#pragma once

#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins::testing {

// A picture with its own memory. Every sample of a plane has the value that it is made with.
struct TestPicture {
  TestPicture(camd_pixel_format format, int width, int height, std::array<std::uint8_t, 3> values) {
    picture.struct_size = sizeof(picture);
    picture.format = format;
    const int half_width = (width + 1) / 2, half_height = (height + 1) / 2;
    const auto plane = [this](int samples, int rows, std::vector<std::uint8_t> repeated) {
      const int stride = samples * static_cast<int>(repeated.size()) + 8;  // rows have an end that nobody shows
      std::vector<std::uint8_t>& bytes =
          memory.emplace_back(static_cast<std::size_t>(stride) * static_cast<std::size_t>(rows), std::uint8_t{255});
      for (int y = 0; y < rows; ++y) {
        for (int x = 0; x < stride - 8; ++x) {
          bytes[static_cast<std::size_t>(y) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(x)] =
              repeated[static_cast<std::size_t>(x) % repeated.size()];
        }
      }
      picture.planes[picture.plane_count++] = {bytes.data(), stride, samples, rows};
    };
    memory.reserve(3);
    switch (format) {
      case CAMD_PIXEL_NV12:
        plane(width, height, {values[0]});
        plane(half_width, half_height, {values[1], values[2]});
        break;
      case CAMD_PIXEL_I420:
        plane(width, height, {values[0]});
        plane(half_width, half_height, {values[1]});
        plane(half_width, half_height, {values[2]});
        break;
      case CAMD_PIXEL_YUY2: plane(half_width, height, {values[0], values[1], values[0], values[2]}); break;
      case CAMD_PIXEL_GRAY8: plane(width, height, {values[0]}); break;
      case CAMD_PIXEL_BGR:
      case CAMD_PIXEL_RGB: plane(width, height, {values[0], values[1], values[2]}); break;
    }
  }
  std::vector<std::vector<std::uint8_t>> memory;
  camd_picture picture{};
};

// The pixels of a JPEG, R G B.
struct JpegPixels {
  int width = 0, height = 0;
  std::vector<unsigned char> rgb;
  [[nodiscard]] const unsigned char* at(int x, int y) const {
    return &rgb[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * 3];
  }
};

inline JpegPixels decoded(const std::string& jpeg) {
  JpegPixels picture;
  const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitDecompress(), &tjDestroy);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(jpeg.data());
  int sampling = 0, space = 0;
  EXPECT_EQ(tjDecompressHeader3(handle.get(), bytes, jpeg.size(), &picture.width, &picture.height, &sampling, &space),
            0);
  EXPECT_EQ(sampling, TJSAMP_420);
  picture.rgb.resize(static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height) * 3);
  EXPECT_EQ(tjDecompress2(handle.get(), bytes, jpeg.size(), picture.rgb.data(), picture.width, 0, picture.height,
                          TJPF_RGB, 0),
            0);
  return picture;
}

}  // namespace camd::plugins::testing
