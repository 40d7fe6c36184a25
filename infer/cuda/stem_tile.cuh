// The first convolution's way from the camera's bytes to the tensor cores: colour, resize and normalisation happen
// while a tile of the picture is fetched.
//
// The tile lies in shared memory as f16 with its three channels interleaved. A row of the 3x3 window is then 9
// neighbouring halfs that start at an even one (stride 2): with a tenth whose weight is zero these are 5 words. The 15
// words of three rows are the left matrix's row, in an order that a lane finds at fixed distances: no window is ever
// gathered.
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
// Chroma with half as many samples as luma, centred between the two that each stands for.
inline bool halved(const SampleAxis& axis, int first) {
  return axis.step == 0.5F && axis.taps == 1 && axis.origin == -0.5F * static_cast<float>(first);
}

inline Source source_of(const StemArguments& p) {
  if (p.picture == nullptr) return Source::kPlanes;
  const SamplePlan& plan = p.plan;
  const SampleComponent& first = plan.components[0];
  if (!shown_as_it_is(first.x, plan.x0) || !shown_as_it_is(first.y, plan.y0)) return Source::kAny;
  if (plan.color == SampleColor::kDirect && first.step_bytes == 3) return Source::kPacked;
  const SampleComponent& cb = plan.components[1];
  const SampleComponent& cr = plan.components[2];
  const SamplePlane& chroma = plan.planes[1];
  const bool pairs = plan.color == SampleColor::kYcc && cb.plane == 1 && cr.plane == 1 && cb.step_bytes == 2 &&
                     cr.step_bytes == 2 && cb.offset_bytes == 0 && cr.offset_bytes == 1 && first.step_bytes == 1 &&
                     halved(cb.x, plan.x0) && halved(cb.y, plan.y0) &&
                     (chroma.offset_bytes + reinterpret_cast<std::uintptr_t>(p.picture)) % 2 == 0 &&
                     chroma.stride_bytes % 2 == 0;
  return pairs ? Source::kBiplanar : Source::kAny;
}

CAMD_DEVICE float blend(float a, float b, float weight) { return a + weight * (b - a); }

CAMD_DEVICE int clamped(int value, int first, int end) { return min(max(value, first), end - 1); }

CAMD_DEVICE bool in_network(const StemArguments& p, int x, int y) {
  return x >= 0 && x < p.network_width && y >= 0 && y < p.network_height;
}
CAMD_DEVICE bool in_picture(const SamplePlan& plan, int x, int y) {
  return x >= plan.x0 && x < plan.x1 && y >= plan.y0 && y < plan.y1;
}
// What was read for a pixel that the picture does not show becomes what is there.
CAMD_DEVICE void mask_pixel(const StemArguments& p, int x, int y, float (&out)[3]) {
  if (in_picture(p.plan, x, y)) return;
  const bool padding = in_network(p, x, y);
  for (int c = 0; c < 3; ++c) out[c] = padding ? p.plan.pad[c] : 0.0F;
}

// Two pixels side by side; with chroma for four pixels also the two below them, so that each sample is read once.
template <Source kSource>
struct StemPatch {
  static constexpr int kRows = kSource == Source::kBiplanar ? 2 : 1;
  float pixels[kRows][2][3];
};

// The patch at pixel (y, x) of the network's input, zero outside. Where a pixel does not lie in the picture, one that
// does is read in its place and not used: without branches, all loads are under way at once.
template <Source kSource>
CAMD_DEVICE void read_patch(const StemArguments& p, int x, int y, StemPatch<kSource>& out) {
  const SamplePlan& plan = p.plan;
  if constexpr (kSource == Source::kPlanes) {
    const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(p.network_height) * p.network_width;
    const float* const row = p.planes + static_cast<std::ptrdiff_t>(clamped(y, 0, p.network_height)) * p.network_width;
    for (int u = 0; u < 2; ++u) {
      const bool there = in_network(p, x + u, y);
      const float* const from = row + clamped(x + u, 0, p.network_width);
      for (int c = 0; c < 3; ++c) {
        const float value = from[c * plane];
        out.pixels[0][u][c] = there ? value : 0.0F;
      }
    }
  } else if constexpr (kSource == Source::kAny) {
    for (int u = 0; u < 2; ++u) {
      float(&pixel)[3] = out.pixels[0][u];
      for (int c = 0; c < 3; ++c) pixel[c] = 0.0F;
      if (in_network(p, x + u, y)) sample_pixel(plan, p.picture, x + u, y, pixel);
    }
  } else if constexpr (kSource == Source::kPacked) {
    const SamplePlane& plane = plan.planes[0];
    const std::uint8_t* const row =
        p.picture + plane.offset_bytes +
        static_cast<std::ptrdiff_t>(clamped(y, plan.y0, plan.y1) - plan.y0) * plane.stride_bytes;
    for (int u = 0; u < 2; ++u) {
      const std::uint8_t* const from = row + (clamped(x + u, plan.x0, plan.x1) - plan.x0) * 3;
      for (int c = 0; c < 3; ++c) {
        const auto v = static_cast<float>(from[plan.components[c].offset_bytes]);
        out.pixels[0][u][c] = v * plan.gain[c] + plan.bias[c];
      }
    }
    if (in_picture(plan, x, y) && x + 1 < plan.x1) return;
    for (int u = 0; u < 2; ++u) mask_pixel(p, x + u, y, out.pixels[0][u]);
  } else {
    // Pixels 2k + 1 and 2k + 2 of the picture lie a quarter and three quarters of the way from sample k to k + 1.
    constexpr float kWeights[2] = {0.25F, 0.75F};
    const SampleComponent& sample = plan.components[1];
    const int k = (x - plan.x0) >> 1;
    const int column0 = clamped(k, 0, sample.x.size) * 2;
    const int column1 = clamped(k + 1, 0, sample.x.size) * 2;
    const int m = (y - plan.y0) >> 1;
    const std::uint8_t* const chroma = p.picture + plan.planes[1].offset_bytes;
    const std::uint8_t* const row0 =
        chroma + static_cast<std::ptrdiff_t>(clamped(m, 0, sample.y.size)) * plan.planes[1].stride_bytes;
    const std::uint8_t* const row1 =
        chroma + static_cast<std::ptrdiff_t>(clamped(m + 1, 0, sample.y.size)) * plan.planes[1].stride_bytes;
    float top[2][2], bottom[2][2];  // [column][Cb, Cr]
    unpack_bytes(top[0], row0 + column0);
    unpack_bytes(top[1], row0 + column1);
    unpack_bytes(bottom[0], row1 + column0);
    unpack_bytes(bottom[1], row1 + column1);
    float luma[2][2];
    const std::uint8_t* const picture = p.picture + plan.planes[0].offset_bytes;
    for (int v = 0; v < 2; ++v) {
      const std::uint8_t* const row =
          picture +
          static_cast<std::ptrdiff_t>(clamped(y + v, plan.y0, plan.y1) - plan.y0) * plan.planes[0].stride_bytes;
      for (int u = 0; u < 2; ++u) luma[v][u] = static_cast<float>(row[clamped(x + u, plan.x0, plan.x1) - plan.x0]);
    }
    for (int v = 0; v < 2; ++v) {
      float left[2], right[2];
      for (int c = 0; c < 2; ++c) {
        left[c] = blend(top[0][c], bottom[0][c], kWeights[v]);
        right[c] = blend(top[1][c], bottom[1][c], kWeights[v]);
      }
      for (int u = 0; u < 2; ++u) {
        const float cb = blend(left[0], right[0], kWeights[u]);
        const float cr = blend(left[1], right[1], kWeights[u]);
        for (int c = 0; c < 3; ++c) {
          const float* const matrix = plan.matrix[c];
          const float value = matrix[0] * luma[v][u] + matrix[1] * cb + matrix[2] * cr + matrix[3];
          out.pixels[v][u][c] = clamp_channel(value) * plan.gain[c] + plan.bias[c];
        }
      }
    }
    if (in_picture(plan, x, y) && in_picture(plan, x + 1, y + 1)) return;
    for (int v = 0; v < 2; ++v) {
      for (int u = 0; u < 2; ++u) mask_pixel(p, x + u, y + v, out.pixels[v][u]);
    }
  }
}

// A tile of kRows x kColumns pixels: two of kWords words, values and what rounding took from them.
template <int kRows, int kColumns>
struct StemTile {
  static_assert(kColumns % 2 == 1);                                // of windows with stride 2
  static constexpr int kRowWords = stem_tile_row_words(kColumns);  // room for the last window's tenth half
  static constexpr int kWords = kRows * kRowWords;
  static constexpr int kBytes = stem_tile_bytes(kRows, kColumns);

  // The picture from pixel (y0, x0) of the network's input on, zero outside; by all threads of the block.
  template <Source kSource>
  static CAMD_DEVICE void fetch(const StemArguments& p, int y0, int x0, void* memory, int thread, int threads) {
    using Patch = StemPatch<kSource>;
    constexpr bool kShared = kSource == Source::kBiplanar;
    // Patches that share chroma begin at odd pixels of the picture.
    const int back_y = kShared ? (y0 - p.plan.y0 + 1) & 1 : 0;
    const int back_x = kShared ? (x0 - p.plan.x0 + 1) & 1 : 0;
    constexpr int kDown = kShared ? (kRows + 2) / 2 : kRows;
    constexpr int kAcross = (kColumns + 1) / 2;  // enough with and without a column in front
    constexpr int kAtOnce = kShared || kSource == Source::kAny ? 1 : 3;
    for (int i = thread; i < kDown * kAcross; i += kAtOnce * threads) {
      Patch patches[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int patch = min(i + u * threads, kDown * kAcross - 1);
        read_patch<kSource>(p, x0 - back_x + patch % kAcross * 2, y0 - back_y + patch / kAcross * Patch::kRows,
                            patches[u]);
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int patch = i + u * threads;
        if (patch >= kDown * kAcross) break;
#pragma unroll
        for (int v = 0; v < Patch::kRows; ++v) {
          const int row = patch / kAcross * Patch::kRows + v - back_y;
          if (row >= 0 && row < kRows) put(memory, row, patch % kAcross * 2 - back_x, patches[u].pixels[v]);
        }
      }
    }
  }

 private:
  // Two pixels of a row; the second may be the one more that has room, whatever it shows: it meets a weight of zero and
  // must be finite.
  static CAMD_DEVICE void put(void* memory, int row, int column, const float (&pixels)[2][3]) {
    if ((column & 1) == 0) {
      unsigned* const to = static_cast<unsigned*>(memory) + row * kRowWords + column / 2 * 3;
      put_pair(to, pixels[0][0], pixels[0][1]);
      put_pair(to + 1, pixels[0][2], pixels[1][0]);
      put_pair(to + 2, pixels[1][1], pixels[1][2]);
      return;
    }
    __half* const to = static_cast<__half*>(memory) + row * (kRowWords * 2);
    for (int u = 0; u < 2; ++u) {
      for (int c = 0; c < 3; ++c) {
        const int at = (column + u) * 3 + c;
        if (at >= 0) put_one(to + at, pixels[u][c]);
        if (column + u == kColumns - 1) put_one(to + at + 3, 0.0F);
      }
    }
  }
  static CAMD_DEVICE void put_pair(unsigned* to, float low, float high) {
    const unsigned values = pack_halfs(low, high);
    const float2 kept = __half22float2(*reinterpret_cast<const __half2*>(&values));
    to[0] = values;
    to[kWords] = pack_halfs(low - kept.x, high - kept.y);
  }
  static CAMD_DEVICE void put_one(__half* to, float v) {
    const __half value = __float2half_rn(v);
    to[0] = value;
    to[kWords * 2] = __float2half_rn(v - __half2float(value));
  }
};

// The windows of 16 pixels as a left matrix, k = 32.
struct StemWindows {
  unsigned values[2][4], rests[2][4];
};
// This lane's part; `first` and `second` are the places of the windows of rows lane / 4 and lane / 4 + 8 in the tile:
// pixel (y, x) of the convolution's output is at word (2 * y) * kRowWords + 3 * x. Of a window's 15 words lane t takes
// word t of each row and then the last word of row t (pack_stem()); the last lane's is a word too many.
template <typename Tile>
CAMD_DEVICE void load_windows(StemWindows& windows, const void* memory, int first, int second) {
  const int t = lane_index() & 3;
  const auto* const words = static_cast<const unsigned*>(memory);
  const unsigned* const rows[2] = {words + first + t, words + second + t};
  const int last = min(t, 2) * Tile::kRowWords + 4;
  const unsigned* const lasts[2] = {words + first + last, words + second + last};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = k * 2 + (r >> 1);
      const unsigned* const from = row < 3 ? rows[r & 1] + row * Tile::kRowWords : lasts[r & 1];
      windows.values[k][r] = from[0];
      windows.rests[k][r] = from[Tile::kWords];
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
