// The input of stem() and stem_block(): a tile of the camera's picture in shared memory, and how the tensor cores read
// it. Colour conversion, resizing and normalisation happen while the tile is fetched.
//
// The tile lies in shared memory as f16 with its three channels interleaved. With stride 2 a row of the 3x3 window is
// then 9 halfs side by side that begin at an even one: 5 words with a tenth half, whose weight is zero. The 15 words of
// the window's three rows are a row of the left matrix, in an order in which a lane finds its words at fixed distances.
// So no window is ever copied together.
// A second tile holds the differences that rounding to f16 took from the first one: the next layers amplify an error
// made here more than any later one (docs/adr/0014-precise-first-layers.md).
#pragma once

#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/stem.hpp"
#include "infer/cuda/kernels/tiles.hpp"

namespace camd::infer::cuda {

// What the kernel reads: f32 planes, packed BGR or RGB, NV12 and its like, or any picture. The middle two are for
// pictures that are shown pixel for pixel.
enum class Source : std::uint8_t { kPlanes, kPacked, kBiplanar, kAny };

// The picture is shown pixel for pixel along this axis: samples need no interpolation.
inline bool shown_as_it_is(const SampleAxis& axis, int first) {
  return axis.step == 1.0F && axis.taps == 1 && axis.origin == -static_cast<float>(first);
}
// Chroma has half as many samples as luma along this axis, each centred between the two luma samples it stands for.
inline bool halved(const SampleAxis& axis, int first) {
  return axis.step == 0.5F && axis.taps == 1 && axis.origin == -0.5F * static_cast<float>(first);
}

// Red does not depend on Cb, nor blue on Cr, and the network reads one of them first and the other one last.
inline bool red_and_blue_at_the_ends(const float (&matrix)[3][4]) {
  return (matrix[0][1] == 0.0F && matrix[2][2] == 0.0F) || (matrix[0][2] == 0.0F && matrix[2][1] == 0.0F);
}

inline Source source_of(const StemArguments& p) {
  if (p.picture.data == nullptr && p.picture.at == nullptr) return Source::kPlanes;
  const SamplePlan& plan = p.plan;
  const SampleComponent& first = plan.components[0];
  if (!shown_as_it_is(first.x, plan.x0) || !shown_as_it_is(first.y, plan.y0)) return Source::kAny;
  if (plan.color == SampleColor::kDirect && first.step_bytes == 3) return Source::kPacked;
  const SampleComponent& cb = plan.components[1];
  const SampleComponent& cr = plan.components[2];
  const bool pairs = plan.color == SampleColor::kYcc && red_and_blue_at_the_ends(plan.matrix) && cb.plane == 1 &&
                     cr.plane == 1 && cb.step_bytes == 2 && cr.step_bytes == 2 && cb.offset_bytes == 0 &&
                     cr.offset_bytes == 1 && first.step_bytes == 1 && first.offset_bytes == 0 &&
                     halved(cb.x, plan.x0) && halved(cb.y, plan.y0);
  // Rows are fetched in pieces of 16 bytes.
  const auto in_pieces = [&](const SamplePlane& plane) {
    // What is not known here is a multiple of 16.
    const auto address = reinterpret_cast<std::uintptr_t>(p.picture.data);
    return (plane.offset_bytes + address) % 16 == 0 && plane.stride_bytes % 16 == 0;
  };
  return pairs && in_pieces(plan.planes[0]) && in_pieces(plan.planes[1]) ? Source::kBiplanar : Source::kAny;
}

CAMD_DEVICE int clamped(int value, int first, int end) { return min(max(value, first), end - 1); }

CAMD_DEVICE bool in_network(const StemArguments& p, int x, int y) {
  return x >= 0 && x < p.network_width && y >= 0 && y < p.network_height;
}
CAMD_DEVICE bool in_picture(const SamplePlan& plan, int x, int y) {
  return x >= plan.x0 && x < plan.x1 && y >= plan.y0 && y < plan.y1;
}
// Replaces what was read for a pixel outside of the picture: by the padding, or by zero outside of the network's input.
CAMD_DEVICE void mask_pixel(const StemArguments& p, int x, int y, float (&out)[3]) {
  if (in_picture(p.plan, x, y)) return;
  const bool padding = in_network(p, x, y);
  for (int c = 0; c < 3; ++c) out[c] = padding ? p.plan.pad[c] : 0.0F;
}

// Reads two pixels side by side, (y, x) and (y, x + 1) of the network's input; zero outside of it. For a pixel outside
// of the picture one inside is read and not used: without branches all loads are under way at once.
template <Source kSource>
CAMD_DEVICE void read_pixels(const StemArguments& p, int x, int y, float (&out)[2][3]) {
  const SamplePlan& plan = p.plan;
  if constexpr (kSource == Source::kPlanes) {
    const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(p.network_height) * p.network_width;
    const float* const row = p.planes + static_cast<std::ptrdiff_t>(clamped(y, 0, p.network_height)) * p.network_width;
    for (int u = 0; u < 2; ++u) {
      const bool there = in_network(p, x + u, y);
      const float* const from = row + clamped(x + u, 0, p.network_width);
      for (int c = 0; c < 3; ++c) {
        const float value = from[c * plane];
        out[u][c] = there ? value : 0.0F;
      }
    }
  } else if constexpr (kSource == Source::kAny) {
    for (int u = 0; u < 2; ++u) {
      float(&pixel)[3] = out[u];
      for (int c = 0; c < 3; ++c) pixel[c] = 0.0F;
      if (in_network(p, x + u, y)) sample_pixel(plan, bytes_of(p.picture), x + u, y, pixel);
    }
  } else if constexpr (kSource == Source::kPacked) {
    const SamplePlane& plane = plan.planes[0];
    const std::uint8_t* const row =
        bytes_of(p.picture) + plane.offset_bytes +
        static_cast<std::ptrdiff_t>(clamped(y, plan.y0, plan.y1) - plan.y0) * plane.stride_bytes;
    for (int u = 0; u < 2; ++u) {
      const std::uint8_t* const from = row + (clamped(x + u, plan.x0, plan.x1) - plan.x0) * 3;
      for (int c = 0; c < 3; ++c) {
        const auto v = static_cast<float>(from[plan.components[c].offset_bytes]);
        out[u][c] = v * plan.gain[c] + plan.bias[c];
      }
    }
    if (in_picture(plan, x, y) && x + 1 < plan.x1) return;
    for (int u = 0; u < 2; ++u) mask_pixel(p, x + u, y, out[u]);
  }
}

// What a picture of Source::kBiplanar is multiplied by, so that 1 is the brightest value. Of the network's first and
// last channel, which are red and blue, each depends on one of Cb and Cr: `u` is that of the first, `v` that of the
// last. The middle one depends on both.
struct BiplanarColors {
  float luma[3], u[2], v[2], base[3];  // u of channels 0 and 1, v of channels 1 and 2
  float gain[3];                       // from 0..1 to what the network reads, without the bias
  unsigned first_pair, second_pair;    // u and v in a word of two samples, for __byte_perm()
};
inline BiplanarColors biplanar_colors(const SamplePlan& plan) {
  const bool swapped = plan.matrix[0][1] == 0.0F;  // the first channel is red
  const int u = swapped ? 2 : 1, v = swapped ? 1 : 2;
  BiplanarColors colors{};
  for (int c = 0; c < 3; ++c) {
    const float* const row = plan.matrix[c];
    colors.luma[c] = row[0] / 255.0F;
    colors.base[c] = (row[3] + 128.0F * (row[1] + row[2])) / 255.0F;
    colors.gain[c] = plan.gain[c] * 255.0F;
  }
  for (int c = 0; c < 2; ++c) {
    colors.u[c] = plan.matrix[c][u] / 255.0F;
    colors.v[c] = plan.matrix[c + 1][v] / 255.0F;
  }
  colors.first_pair = swapped ? 0x4041U : 0x4140U;
  colors.second_pair = swapped ? 0x4243U : 0x4342U;
  return colors;
}
// Two rows of four pixels of a picture in which a chroma sample stands for four pixels. The patch begins at an odd row
// and an odd column of the picture: pixels 2k + 1 and 2k + 2 lie at a quarter and at three quarters of the way from
// sample k to sample k + 1.
struct BiplanarPatch {
  uint2 luma[2], chroma[2];  // of two rows each: 8 bytes that begin with the first sample
};
// Of this patch's three samples, `before` lie in front of the picture's first column and `behind` lie behind its last
// one. They are replaced by the sample of that column. `edges`: the block has patches where that may be so.
CAMD_DEVICE void read_biplanar(const BiplanarColors& colors, const float (&bias)[3], const BiplanarPatch& patch,
                               bool edges, int before, int behind, float (&out)[2][4][3]) {
  // A byte becomes a half as the low bits of 1024. Cb and Cr lie together and are taken as differences from 128, so
  // that quarters and sixteenths of them are exact.
  const __half2 quarter = __float2half2_rn(0.25F), three_quarters = __float2half2_rn(0.75F);
  const auto halfs = [](unsigned bytes, unsigned which, float zero) {
    const unsigned bits = __byte_perm(bytes, 0x64646464U, which);
    return __hsub2(*reinterpret_cast<const __half2*>(&bits), __float2half2_rn(1024.0F + zero));
  };
  __half2 rows[2][3];  // interpolated vertically
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const unsigned which = i == 1 ? colors.second_pair : colors.first_pair;
    const __half2 top = halfs(i < 2 ? patch.chroma[0].x : patch.chroma[0].y, which, 128.0F);
    const __half2 bottom = halfs(i < 2 ? patch.chroma[1].x : patch.chroma[1].y, which, 128.0F);
    const __half2 change = __hsub2(bottom, top);
    rows[0][i] = __hfma2(change, quarter, top);
    rows[1][i] = __hfma2(change, three_quarters, top);
  }
  if (edges) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      __half2(&samples)[3] = rows[v];
      if (before >= 2) samples[1] = samples[2];
      if (before >= 1) samples[0] = samples[1];
      if (behind >= 2) samples[1] = samples[0];
      if (behind >= 1) samples[2] = samples[1];
    }
  }
#pragma unroll
  for (int v = 0; v < 2; ++v) {
    const __half2(&samples)[3] = rows[v];
    const __half2 luma[2] = {halfs(patch.luma[v].x, 0x4140U, 0.0F), halfs(patch.luma[v].x, 0x4342U, 0.0F)};
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const __half2 left = samples[u / 2], change = __hsub2(samples[u / 2 + 1], left);
      const float2 color = __half22float2(__hfma2(change, u % 2 == 0 ? quarter : three_quarters, left));
      const float2 both = __half22float2(luma[u / 2]);
      const float y = u % 2 == 0 ? both.x : both.y;
      const float colored[3] = {colors.u[0] * color.x + colors.base[0],
                                colors.u[1] * color.x + (colors.v[0] * color.y + colors.base[1]),
                                colors.v[1] * color.y + colors.base[2]};
#pragma unroll
      for (int c = 0; c < 3; ++c) {
        // Saturation to 0..1 costs no instruction.
        out[v][u][c] = __saturatef(colors.luma[c] * y + colored[c]) * colors.gain[c] + bias[c];
      }
    }
  }
}

// A tile of kRows x kColumns pixels: kWords words of values, then as many words of what rounding took from them.
template <int kRows, int kColumns>
struct StemTile {
  static_assert(kColumns % 2 == 1);                                // 3x3 windows with stride 2 cover an odd number
  static constexpr int kRowWords = stem_tile_row_words(kColumns);  // room for the last window's tenth half
  static constexpr int kWords = kRows * kRowWords;
  static constexpr int kBytes = stem_tile_bytes(kRows, kColumns);

  // Called by all threads of the block. Fetches the picture from pixel (y0, x0) of the network's input on; zero
  // outside. `bytes`: room for stem_picture_bytes().
  template <Source kSource>
  static CAMD_DEVICE void fetch(const StemArguments& p, const BiplanarColors& colors, int y0, int x0, void* memory,
                                void* bytes, int thread, int threads) {
    if constexpr (kSource == Source::kBiplanar) {
      fetch_biplanar(p, colors, y0, x0, memory, static_cast<unsigned char*>(bytes), thread, threads);
      return;
    }
    constexpr int kAcross = (kColumns + 1) / 2;
    constexpr int kAtOnce = kSource == Source::kAny ? 1 : 3;
    for (int i = thread; i < kRows * kAcross; i += kAtOnce * threads) {
      float pixels[kAtOnce][2][3];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int pair = min(i + u * threads, kRows * kAcross - 1);
        read_pixels<kSource>(p, x0 + pair % kAcross * 2, y0 + pair / kAcross, pixels[u]);
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int pair = i + u * threads;
        if (pair < kRows * kAcross) put(memory, pair / kAcross, pair % kAcross * 2, pixels[u]);
      }
    }
  }

 private:
  static constexpr int kDown = stem_picture_rows(kRows) / 2;  // patches down, and across
  static constexpr int kAcross = kRowWords / 6;
  static constexpr int kPieces = stem_picture_pieces(kColumns);

  // Copies the tile's bytes as they are, in pieces of 16 that are all under way at once, then converts their colours.
  static CAMD_DEVICE void fetch_biplanar(const StemArguments& p, const BiplanarColors& colors, int y0, int x0,
                                         void* memory, unsigned char* bytes, int thread, int threads) {
    const SamplePlan& plan = p.plan;
    const std::uint8_t* const picture = bytes_of(p.picture);
    // Patches begin at odd rows and columns of the picture.
    const int back_y = (y0 - plan.y0 + 1) & 1, back_x = (x0 - plan.x0 + 1) & 1;
    const int top = y0 - back_y - plan.y0, left = x0 - back_x - plan.x0;  // in the picture
    const int first = left & ~15;                                         // a row's first byte, of either plane
    unsigned char* const chroma = bytes + 2 * kDown * kPieces * 16;
    for (int i = thread; i < (3 * kDown + 1) * kPieces; i += threads) {
      const int row = i / kPieces, at = first + i % kPieces * 16;
      const bool of_luma = row < 2 * kDown;
      const SamplePlane& plane = plan.planes[of_luma ? 0 : 1];
      const int from = of_luma ? clamped(top + row, 0, plan.components[0].y.size)
                               : clamped((top >> 1) + row - 2 * kDown, 0, plan.components[1].y.size);
      const bool there = at >= 0 && at < plane.row_bytes;
      copy16_async(bytes + i * 16,
                   picture + plane.offset_bytes + static_cast<std::ptrdiff_t>(from) * plane.stride_bytes + max(at, 0),
                   there);
    }
    copy_wait_all();
    block_sync();
    const bool edges = !in_picture(plan, x0 - back_x, y0 - back_y) ||
                       !in_picture(plan, x0 - back_x + kAcross * 4 - 1, y0 - back_y + kDown * 2 - 1);
    const int into = left - first - 1;  // the byte of the first chroma sample, an even one; luma begins one byte later
    for (int i = thread; i < kDown * kAcross; i += threads) {
      const int row = i / kAcross * 2 - back_y, column = i % kAcross * 4 - back_x;
      const int offset = into + i % kAcross * 4;
      const unsigned char* const from = bytes + (offset & ~3);
      const unsigned shift = (static_cast<unsigned>(offset) & 3U) * 8;
      BiplanarPatch patch;
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const auto* const of_luma = reinterpret_cast<const unsigned*>(from + (i / kAcross * 2 + v) * kPieces * 16);
        patch.luma[v].x = __funnelshift_r(of_luma[0], of_luma[1], shift + 8);
        const auto* const of_chroma =
            reinterpret_cast<const unsigned*>(from + (chroma - bytes) + (i / kAcross + v) * kPieces * 16);
        patch.chroma[v].x = __funnelshift_r(of_chroma[0], of_chroma[1], shift);
        patch.chroma[v].y = of_chroma[1] >> shift;
      }
      const int x = x0 + column, y = y0 + row;
      const int sample = (left >> 1) + i % kAcross * 2, samples = plan.components[1].x.size;
      float pixels[2][4][3];
      read_biplanar(colors, plan.bias, patch, edges, -sample, sample + 3 - samples, pixels);
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        if (edges) {
          for (int u = 0; u < 4; ++u) mask_pixel(p, x + u, y + v, pixels[v][u]);
        }
        if (within(row + v, kRows)) put_four(memory, row + v, column, pixels[v]);
      }
    }
  }

  // Writes pixels of a row. Behind the last column there is room up to the next multiple of four. What is written there
  // is multiplied by weights of zero and must be finite.
  static CAMD_DEVICE void put(void* memory, int row, int column, const float (&pixels)[2][3]) {
    unsigned* const to = static_cast<unsigned*>(memory) + row * kRowWords + column / 2 * 3;
    put_pair(to, pixels[0][0], pixels[0][1]);
    put_pair(to + 1, pixels[0][2], pixels[1][0]);
    put_pair(to + 2, pixels[1][1], pixels[1][2]);
  }
  static CAMD_DEVICE void put_four(void* memory, int row, int column, const float (&pixels)[4][3]) {
    const float* const values = pixels[0];
    if ((column & 1) == 0) {
      auto* const to = reinterpret_cast<uint2*>(static_cast<unsigned*>(memory) + row * kRowWords + column / 2 * 3);
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        const SplitHalfs low = split_halfs(values[i * 4], values[i * 4 + 1]);
        const SplitHalfs high = split_halfs(values[i * 4 + 2], values[i * 4 + 3]);
        to[i] = make_uint2(low.values, high.values);
        to[kWords / 2 + i] = make_uint2(low.rests, high.rests);
      }
      return;
    }
    __half* const to = static_cast<__half*>(memory) + row * (kRowWords * 2);
    for (int i = 0; i < 12; ++i) {
      const int at = column * 3 + i;
      if (at >= 0) put_one(to + at, values[i]);
      if (column * 3 + i == kColumns * 3 - 1) put_one(to + at + 1, 0.0F);
    }
  }
  static CAMD_DEVICE void put_pair(unsigned* to, float low, float high) {
    const SplitHalfs both = split_halfs(low, high);
    to[0] = both.values;
    to[kWords] = both.rests;
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
// Loads this lane's part. `first` and `second` are the words of the tile at which the windows of matrix rows lane / 4
// and lane / 4 + 8 begin; the window of output pixel (y, x) begins at word (2 * y) * kRowWords + 3 * x. Of a window's
// 15 words lane t takes word t of each row, then the last word of row t (pack_stem()). There is no row 3: lane 3 reads
// a word whose weights are zero.
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

// The convolution's sums for those channels: a lane gets channels 2t and 2t + 1 of both its windows.
CAMD_DEVICE void stem_product(const StemWeights& weights, const StemWindows& windows, float (&sums)[4]) {
  sums[0] = sums[2] = weights.bias[0];
  sums[1] = sums[3] = weights.bias[1];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    multiply_add(sums, windows.values[k], weights.right[k].x, weights.right[k].y);
    multiply_add(sums, windows.rests[k], weights.right[k].x, weights.right[k].y);
  }
}

// Calls run.template operator()<Source>() for what the kernel is to read.
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
