// Rounding and reordering of weights.
#include "infer/cuda/plan/packing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "infer/cuda/kernels/generic_conv.hpp"
#include "infer/half.hpp"

namespace camd::infer::cuda {
namespace {

float rounded(float value) { return half_to_float(float_to_half(value)); }

// The distance between neighbouring halfs at `value`: its power of two, ten binary places below.
float spacing(float value) {
  constexpr float kLeastNormal = 6.103515625e-05F, kLastPlace = 1.0F / 1024;
  constexpr std::uint32_t kExponent = 0x7F800000U;
  const auto bits = std::bit_cast<std::uint32_t>(std::max(std::abs(value), kLeastNormal));
  return std::bit_cast<float>(bits & kExponent) * kLastPlace;
}

float nearest_tf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value) + 0x1000U;  // half of the last digit that counts
  const auto rounded_bits = std::bit_cast<float>(bits & 0xFFFFE000U);
  return std::isfinite(rounded_bits) ? rounded_bits : value;
}

}  // namespace

std::vector<float> round_keeping_sums(std::vector<float> weights, int taps) {
  const auto n = static_cast<std::size_t>(taps);
  std::vector<std::size_t> order(n);
  for (std::size_t first = 0; first + n <= weights.size(); first += n) {
    float* const filter = &weights[first];
    double missing = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const float half = rounded(filter[i]);
      missing += static_cast<double>(filter[i]) - static_cast<double>(half);
      filter[i] = half;
      order[i] = i;
    }
    if (n == 1 || !std::isfinite(missing)) continue;
    // From the coarsest tap to the finest: each takes what it can in one step of its own, the finest all that is left.
    // Filters have few taps, so that they are put in order by insertion.
    for (std::size_t i = 1; i < n; ++i) {
      const std::size_t tap = order[i];
      std::size_t to = i;
      for (; to > 0 && std::abs(filter[order[to - 1]]) < std::abs(filter[tap]); --to) order[to] = order[to - 1];
      order[to] = tap;
    }
    for (const std::size_t i : order) {
      const double step = spacing(filter[i]);
      double steps = std::nearbyint(missing / step);
      if (i != order.back()) steps = std::clamp(steps, -1.0, 1.0);
      if (steps == 0) continue;
      const float moved = rounded(static_cast<float>(filter[i] + steps * step));
      missing -= static_cast<double>(moved) - static_cast<double>(filter[i]);
      filter[i] = moved;
    }
  }
  return weights;
}

std::vector<Half> pack_right(int n, int k, const WeightAt& at) {
  std::vector<Half> packed;
  packed.reserve(static_cast<std::size_t>(round_up(n, 16)) * static_cast<std::size_t>(round_up(k, 16)));
  const auto value = [&](int nn, int kk) { return nn < n && kk < k ? at(nn, kk) : 0.0F; };
  for (int k0 = 0; k0 < k; k0 += 16) {
    for (int n0 = 0; n0 < n; n0 += 16) {
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int e = 0; e < 2; ++e) {
          const int channel = n0 + g / 2 * 4 + e * 2 + g % 2;
          for (const int row : {2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9})
            packed.push_back(float_to_half(value(channel, k0 + row)));
        }
      }
    }
  }
  return packed;
}

std::vector<Half> pack_warpgroup_taps(int n, int c, int taps, int tile_n16, int slice_steps,
                                      const std::function<float(int n, int tap, int c)>& at) {
  const int tile_n = tile_n16 * 16, slice_c = slice_steps * 16;
  std::vector<Half> packed;
  packed.reserve(static_cast<std::size_t>(taps) * static_cast<std::size_t>(round_up(n, tile_n)) *
                 static_cast<std::size_t>(round_up(c, slice_c)));
  const auto block = [&](int n0, int c0, int tap) {
    for (int i = 0; i < 256; ++i) {
      const int e = i / 128, half = i / 64 % 2, column = i / 8 % 8;
      const int channel = n0 + column / 2 * 4 + e * 2 + column % 2, from = c0 + half * 8 + i % 8;
      packed.push_back(float_to_half(channel < n && from < c ? at(channel, tap, from) : 0.0F));
    }
  };
  for (int tile = 0; tile < n; tile += tile_n) {
    for (int slice = 0; slice < c; slice += slice_c) {
      for (int tap = 0; tap < taps; ++tap) {
        for (int c0 = slice; c0 < slice + slice_c; c0 += 16) {
          for (int n0 = tile; n0 < tile + tile_n; n0 += 16) block(n0, c0, tap);
        }
      }
    }
  }
  return packed;
}

std::vector<Half> pack_taps(int n, int c, int taps, const std::function<float(int n, int tap, int c)>& at) {
  std::vector<Half> packed;
  for (int tap = 0; tap < taps; ++tap) {
    const std::vector<Half> one = pack_right(n, c, [&](int nn, int cc) { return at(nn, tap, cc); });
    packed.insert(packed.end(), one.begin(), one.end());
  }
  return packed;
}

std::vector<Half> pack_stem(int n, const std::function<float(int n, int ky, int kx, int c)>& at) {
  std::vector<Half> packed;
  const auto value = [&](int nn, int k) {
    const int eight = k / 8, word = k % 8 / 2;
    const int ky = eight < 3 ? eight : word;
    const int half = (eight < 3 ? word : 4) * 2 + k % 2;
    return nn < n && ky < 3 && half < 9 ? at(nn, ky, half / 3, half % 3) : 0.0F;
  };
  for (int n0 = 0; n0 < n; n0 += 8) {
    for (int k0 = 0; k0 < 32; k0 += 16) {
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (const int row : {2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9})
          packed.push_back(float_to_half(value(n0 + g, k0 + row)));
      }
    }
  }
  return packed;
}

std::vector<float> pack_generic(int n, int rows, int taps, const std::function<float(int n, int tap, int row)>& at) {
  std::vector<float> packed;
  const int columns = round_up(n, kGenericConvColumns);
  packed.reserve(static_cast<std::size_t>(taps) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (int tap = 0; tap < taps; ++tap) {
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) packed.push_back(column < n ? at(column, tap, row) : 0.0F);
    }
  }
  return packed;
}

std::vector<float> pack_tf32(int n, int c, int taps, bool rounded,
                             const std::function<float(int n, int tap, int c)>& at) {
  std::vector<float> packed;
  const int columns = round_up(n, kGenericConvColumns);
  packed.reserve(static_cast<std::size_t>(taps) * static_cast<std::size_t>(round_up(c, 8)) *
                 static_cast<std::size_t>(columns));
  const auto weight = [&](int channel, int tap, int row) {
    const float value = channel < n && row < c ? at(channel, tap, row) : 0.0F;
    return rounded ? nearest_tf32(value) : value;
  };
  for (int tap = 0; tap < taps; ++tap) {
    for (int row = 0; row < c; row += 8) {
      for (int column = 0; column < columns; column += 16) {
        for (int lane = 0; lane < 32; ++lane) {
          for (int matrix = 0; matrix < 2; ++matrix) {
            const int channel = column + lane / 8 * 4 + matrix * 2 + lane / 4 % 2;
            packed.push_back(weight(channel, tap, row + lane % 4));
            packed.push_back(weight(channel, tap, row + lane % 4 + 4));
          }
        }
      }
    }
  }
  return packed;
}

std::vector<Half> pack_depthwise(int c, const std::function<float(int tap, int c)>& at) {
  std::vector<Half> packed;
  for (int first = 0; first < c; first += 8) {
    for (int tap = 0; tap < 9; ++tap) {
      for (int channel = first; channel < first + 8; ++channel)
        packed.push_back(float_to_half(channel < c ? at(tap, channel) : 0.0F));
    }
  }
  return packed;
}

}  // namespace camd::infer::cuda
