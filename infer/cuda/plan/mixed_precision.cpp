// The picture that f16 and f32 are compared on, and the search for the number of convolutions in f32.
#include "infer/cuda/plan/mixed_precision.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace camd::infer::cuda {
namespace {

constexpr std::size_t kChannels = 3;

// Adds values of -amplitude to amplitude, random every `cell` pixels and linear between, mostly the same in all
// channels.
void add_texture(std::vector<float>& pixels, int width, int rows, int cell, float amplitude, std::minstd_rand& random) {
  const auto points = [&](int side) { return static_cast<std::size_t>(side / cell) + 2; };
  const std::size_t columns = points(width);
  std::vector<float> lattice(columns * points(rows) * kChannels);
  const auto next = [&] { return static_cast<float>(random() % 2001) / 1000.0F - 1.0F; };
  for (std::size_t i = 0; i < lattice.size(); i += kChannels) {
    const float light = next();
    for (std::size_t c = 0; c < kChannels; ++c) lattice[i + c] = amplitude * (0.7F * light + 0.3F * next());
  }
  float* to = pixels.data();
  for (int y = 0; y < rows; ++y) {
    const float* const row = &lattice[static_cast<std::size_t>(y / cell) * columns * kChannels];
    const float down = static_cast<float>(y % cell) / static_cast<float>(cell);
    for (int x = 0; x < width; ++x) {
      const float* const corner = row + static_cast<std::size_t>(x / cell) * kChannels;
      const float right = static_cast<float>(x % cell) / static_cast<float>(cell);
      for (std::size_t c = 0; c < kChannels; ++c) {
        const float* const below = corner + columns * kChannels;
        const float above = corner[c] + (corner[c + kChannels] - corner[c]) * right;
        *to++ += above + (below[c] + (below[c + kChannels] - below[c]) * right - above) * down;
      }
    }
  }
}

}  // namespace

std::vector<std::byte> trial_picture(int width, int height) {
  std::minstd_rand random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same picture each time
  std::vector<float> pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * kChannels, 120.0F);
  const int rows = (height + 1) / 2;
  add_texture(pixels, width, rows, 32, 60.0F, random);
  add_texture(pixels, width, rows, 8, 40.0F, random);
  add_texture(pixels, width, rows, 2, 20.0F, random);
  add_texture(pixels, width, rows, 1, 8.0F, random);
  for (int y = rows; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto at = (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x));
      std::fill_n(&pixels[at * kChannels], kChannels, x < width / 2 ? 114.0F : 0.0F);
    }
  }
  std::vector<std::byte> bytes(pixels.size());
  std::transform(pixels.begin(), pixels.end(), bytes.begin(),
                 [](float v) { return static_cast<std::byte>(std::clamp(v, 0.0F, 255.0F)); });
  return bytes;
}

float distance(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want) {
  float worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    float largest = std::numeric_limits<float>::min(), far = 0;
    for (std::size_t k = 0; k < want[i].size(); ++k) {
      largest = std::max(largest, std::abs(want[i][k]));
      const float off = std::abs(got[i][k] - want[i][k]);
      if (std::isnan(off)) return std::numeric_limits<float>::infinity();
      far = std::max(far, off);
    }
    worst = std::max(worst, far / largest);
  }
  return worst;
}

int choose_f32_convolutions(int convolutions, const std::function<float(int n)>& distance_of) {
  constexpr int kFirst = 8;
  if (distance_of(0) <= kToleratedDistance) return 0;
  // Each time half as many again: a network's costs are in its first layers, and each try costs some of the start.
  for (int n = kFirst; n < convolutions; n += n / 2) {
    if (distance_of(n) <= kWantedDistance) return n;
  }
  return convolutions;
}

}  // namespace camd::infer::cuda
