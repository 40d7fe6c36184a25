// The first convolution's way from the camera's bytes to the tensor cores: colour, resize and normalisation happen
// while a tile of the picture is fetched.
//
// The tile lies in shared memory as f16 with its three channels interleaved. A row of the 3x3 window is then 9
// neighbouring halfs that start at an even one (stride 2): with a tenth whose weight is zero these are 5 words, and
// the 15 words of three rows are the left matrix's row as it lies, so that no window is ever gathered.
// A second tile holds what rounding to f16 took from the first: the layers behind amplify what is lost here more than
// anything that is lost later (docs/adr/0014-precise-first-layers.md).
#pragma once

#include "infer/cuda/launch.cuh"

namespace camd::infer::cuda {

enum class Source : std::uint8_t { kPlanes, kPacked, kBiplanar, kAny };

// A picture that is shown pixel for pixel needs no interpolation (of luma).
inline bool shown_as_it_is(const SampleAxis& axis, int first) {
  return axis.step == 1.0F && axis.taps == 1 && axis.origin == -static_cast<float>(first);
}

inline Source source_of(const StemArguments& p) {
  if (p.picture == nullptr) return Source::kPlanes;
  const SamplePlan& plan = p.plan;
  const SampleComponent& first = plan.components[0];
  if (!shown_as_it_is(first.x, plan.x0) || !shown_as_it_is(first.y, plan.y0)) return Source::kAny;
  if (plan.color == SampleColor::kDirect && first.step_bytes == 3) return Source::kPacked;
  const SampleComponent& cb = plan.components[1];
  const SampleComponent& cr = plan.components[2];
  const bool pairs = plan.color == SampleColor::kYcc && cb.plane == 1 && cr.plane == 1 && cb.step_bytes == 2 &&
                     cr.step_bytes == 2 && cb.offset_bytes == 0 && cr.offset_bytes == 1 && first.step_bytes == 1 &&
                     cb.x.taps == 1 && cb.y.taps == 1;
  return pairs ? Source::kBiplanar : Source::kAny;
}

CAMD_DEVICE float blend(float a, float b, float weight) { return a + weight * (b - a); }

CAMD_DEVICE int clamped(int value, int first, int end) { return min(max(value, first), end - 1); }

// Pixel (y, x) of the network's input, zero outside. Where it does not lie in the picture, one that does is read in its
// place and not used: without branches, the loads of several pixels are under way at once.
template <Source kSource>
CAMD_DEVICE void read_pixel(const StemArguments& p, int x, int y, float (&out)[3]) {
  const bool in_network = y >= 0 && y < p.network_height && x >= 0 && x < p.network_width;
  if constexpr (kSource == Source::kPlanes) {
    const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(p.network_height) * p.network_width;
    const float* const from = p.planes +
                              static_cast<std::ptrdiff_t>(clamped(y, 0, p.network_height)) * p.network_width +
                              clamped(x, 0, p.network_width);
    for (int c = 0; c < 3; ++c) out[c] = from[c * plane];
  } else if constexpr (kSource == Source::kAny) {
    if (in_network) sample_pixel(p.plan, p.picture, x, y, out);
  } else {
    const SamplePlan& plan = p.plan;
    const bool in_picture = x >= plan.x0 && x < plan.x1 && y >= plan.y0 && y < plan.y1;
    const int px = clamped(x, plan.x0, plan.x1);
    const int py = clamped(y, plan.y0, plan.y1);
    const SamplePlane& first = plan.planes[0];
    const std::uint8_t* const row =
        p.picture + first.offset_bytes + static_cast<std::ptrdiff_t>(py - plan.y0) * first.stride_bytes;
    if constexpr (kSource == Source::kPacked) {
      for (int c = 0; c < 3; ++c) {
        const auto v = static_cast<float>(row[(px - plan.x0) * 3 + plan.components[c].offset_bytes]);
        out[c] = v * plan.gain[c] + plan.bias[c];
      }
    } else {
      const auto luma = static_cast<float>(row[px - plan.x0]);
      const SampleTap tx = sample_tap(plan.components[1].x, px, 0);
      const SampleTap ty = sample_tap(plan.components[1].y, py, 0);
      const std::uint8_t* const chroma = p.picture + plan.planes[1].offset_bytes;
      const std::uint8_t* const row0 = chroma + static_cast<std::ptrdiff_t>(ty.first) * plan.planes[1].stride_bytes;
      const std::uint8_t* const row1 = chroma + static_cast<std::ptrdiff_t>(ty.second) * plan.planes[1].stride_bytes;
      float c2[2];
      for (int c = 0; c < 2; ++c) {
        const float left = blend(row0[tx.first * 2 + c], row1[tx.first * 2 + c], ty.weight);
        const float right = blend(row0[tx.second * 2 + c], row1[tx.second * 2 + c], ty.weight);
        c2[c] = blend(left, right, tx.weight);
      }
      for (int c = 0; c < 3; ++c) {
        const float v =
            plan.matrix[c][0] * luma + plan.matrix[c][1] * c2[0] + plan.matrix[c][2] * c2[1] + plan.matrix[c][3];
        out[c] = clamp_channel(v) * plan.gain[c] + plan.bias[c];
      }
    }
    for (int c = 0; c < 3; ++c) out[c] = in_picture ? out[c] : plan.pad[c];
  }
  for (int c = 0; c < 3; ++c) out[c] = in_network ? out[c] : 0.0F;
}

// A tile of kRows x kColumns pixels: two of kWords words, values and what rounding took from them.
template <int kRows, int kColumns>
struct StemTile {
  static constexpr int kRowWords = (kColumns * 3 + 1) / 2 + 1;  // a spare half at least: the tenth of the last window
  static constexpr int kWords = kRows * kRowWords;
  static constexpr int kBytes = (2 * kWords * 4 + 15) / 16 * 16;

  // The picture from pixel (y0, x0) of the network's input on, zero outside; by all threads of the block.
  template <Source kSource>
  static CAMD_DEVICE void fetch(const StemArguments& p, int y0, int x0, void* memory, int thread, int threads) {
    auto* const values = static_cast<__half*>(memory);
    __half* const rests = values + kWords * 2;
    constexpr int kAtOnce = 3;
    for (int i = thread; i < kRows * kColumns; i += kAtOnce * threads) {
      float v[kAtOnce][3] = {};
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int pixel = min(i + u * threads, kRows * kColumns - 1);
        read_pixel<kSource>(p, x0 + pixel % kColumns, y0 + pixel / kColumns, v[u]);
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int pixel = i + u * threads;
        if (pixel >= kRows * kColumns) break;
        const int at = pixel / kColumns * (kRowWords * 2) + pixel % kColumns * 3;
        for (int c = 0; c < 3; ++c) {
          const __half value = __float2half_rn(v[u][c]);
          values[at + c] = value;
          rests[at + c] = __float2half_rn(v[u][c] - __half2float(value));
        }
      }
    }
    // What lies behind a row's last pixel meets a weight of zero and must be finite.
    for (int i = thread; i < 2 * kRows; i += threads) {
      for (int j = kColumns * 3; j < kRowWords * 2; ++j) values[i * (kRowWords * 2) + j] = __float2half_rn(0.0F);
    }
  }
};

// The windows of 16 pixels as a left matrix, k = 32.
struct StemWindows {
  unsigned values[2][4], rests[2][4];
};
// This lane's part; `first` and `second` are the places of the windows of rows lane / 4 and lane / 4 + 8 in the tile:
// pixel (y, x) of the convolution's output is at word (2 * y) * kRowWords + 3 * x.
template <typename Tile>
CAMD_DEVICE void load_windows(StemWindows& windows, const void* memory, int first, int second) {
  const auto* const words = static_cast<const unsigned*>(memory);
  const int t = lane_index() & 3;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int word = k * 8 + t + (r >> 1) * 4;
      const int at = ((r & 1) == 0 ? first : second) + word / 5 * Tile::kRowWords + word % 5;
      windows.values[k][r] = word < 15 ? words[at] : 0U;
      windows.rests[k][r] = word < 15 ? words[at + Tile::kWords] : 0U;
    }
  }
}

// This lane's part of the weights and biases of channels n8 * 8 to n8 * 8 + 7.
struct StemWeights {
  uint2 right[2];
  float bias[2];
};
CAMD_DEVICE void load_weights(const StemArguments& p, int n8, StemWeights& weights) {
  const int lane = lane_index();
  for (int k = 0; k < 2; ++k) weights.right[k] = static_cast<const uint2*>(p.weights)[(n8 * 2 + k) * 32 + lane];
  for (int i = 0; i < 2; ++i) weights.bias[i] = p.bias[n8 * 8 + (lane & 3) * 2 + i];
}

// The windows' sums for those channels: a lane gets channels 2t and 2t + 1 of both its windows.
CAMD_DEVICE void stem_product(const StemWeights& weights, const StemWindows& windows, float (&sums)[4]) {
  sums[0] = sums[2] = weights.bias[0];
  sums[1] = sums[3] = weights.bias[1];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    multiply_add(sums, windows.values[k], weights.right[k].x, weights.right[k].y);
    multiply_add(sums, windows.rests[k], weights.right[k].x, weights.right[k].y);
  }
}

// Calls run.template operator()<Source>() for the picture's kind.
template <typename Run>
int with_source(const StemArguments& p, const Run& run) {
  switch (source_of(p)) {
    case Source::kPlanes: return run.template operator()<Source::kPlanes>();
    case Source::kPacked: return run.template operator()<Source::kPacked>();
    case Source::kBiplanar: return run.template operator()<Source::kBiplanar>();
    case Source::kAny: return run.template operator()<Source::kAny>();
  }
  return 1;
}

}  // namespace camd::infer::cuda
