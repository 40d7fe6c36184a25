// The first convolution, from the camera's bytes: colour, resize and normalisation happen while the tile is fetched.
//
// The tile lies in shared memory as f16 with its three channels interleaved. A row of the 3x3 window is then 9
// neighbouring halfs that start at an even one (stride 2): with a tenth whose weight is zero these are 5 words, and
// the 15 words of three rows are the left matrix's row as it lies, so that no window is ever gathered.
#include "infer/cuda/activation.cuh"
#include "infer/cuda/launch.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTy = 8;
constexpr int kTx = 32;
constexpr int kHaloY = kTy * 2 + 1;
constexpr int kHaloX = kTx * 2 + 1;
constexpr int kRowWords = (kHaloX * 3 + 1) / 2 + 1;  // one spare half at least: the tenth of the last window

enum class Source : std::uint8_t { kPlanes, kPacked, kBiplanar, kAny };

// A picture that is shown pixel for pixel needs no interpolation (of luma).
bool shown_as_it_is(const SampleAxis& axis, int first) {
  return axis.step == 1.0F && axis.taps == 1 && axis.origin == -static_cast<float>(first);
}

Source source_of(const StemArguments& p) {
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

template <Source kSource>
CAMD_DEVICE void read_pixel(const StemArguments& p, int x, int y, float (&out)[3]) {
  if constexpr (kSource == Source::kPlanes) {
    const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(p.network_height) * p.network_width;
    const float* const from = p.planes + static_cast<std::ptrdiff_t>(y) * p.network_width + x;
    for (int c = 0; c < 3; ++c) out[c] = from[c * plane];
  } else if constexpr (kSource == Source::kAny) {
    sample_pixel(p.plan, p.picture, x, y, out);
  } else {
    const SamplePlan& plan = p.plan;
    if (x < plan.x0 || x >= plan.x1 || y < plan.y0 || y >= plan.y1) {
      for (int c = 0; c < 3; ++c) out[c] = plan.pad[c];
      return;
    }
    const SamplePlane& first = plan.planes[0];
    const std::uint8_t* const row =
        p.picture + first.offset_bytes + static_cast<std::ptrdiff_t>(y - plan.y0) * first.stride_bytes;
    if constexpr (kSource == Source::kPacked) {
      for (int c = 0; c < 3; ++c) {
        const auto v = static_cast<float>(row[(x - plan.x0) * 3 + plan.components[c].offset_bytes]);
        out[c] = v * plan.gain[c] + plan.bias[c];
      }
    } else {
      const auto luma = static_cast<float>(row[x - plan.x0]);
      const SampleTap tx = sample_tap(plan.components[1].x, x, 0);
      const SampleTap ty = sample_tap(plan.components[1].y, y, 0);
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
  }
}

template <Source kSource>
CAMD_KERNEL(kThreads, 2)
stem_kernel(const StemArguments p) {
  CAMD_SHARED(memory);
  auto* const tile = reinterpret_cast<__half*>(memory);
  const auto* const words = reinterpret_cast<const unsigned*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  let_next_kernel_start();
  wait_for_previous_kernel();

  const int tiles_x = (p.y.w + kTx - 1) / kTx;
  const int y0 = (static_cast<int>(blockIdx.x) / tiles_x) * kTy;
  const int x0 = (static_cast<int>(blockIdx.x) % tiles_x) * kTx;
  for (int i = thread; i < kHaloY * kHaloX; i += kThreads) {
    const int hy = i / kHaloX;
    const int hx = i % kHaloX;
    const int y = y0 * 2 - p.pad_top + hy;
    const int x = x0 * 2 - p.pad_left + hx;
    float v[3] = {0, 0, 0};
    if (y >= 0 && y < p.network_height && x >= 0 && x < p.network_width) read_pixel<kSource>(p, x, y, v);
    __half* const to = tile + hy * (kRowWords * 2) + hx * 3;
    for (int c = 0; c < 3; ++c) to[c] = __float2half_rn(v[c]);
  }
  // What lies behind a row's last pixel meets a weight of zero and must be finite.
  for (int i = thread; i < kHaloY; i += kThreads) {
    for (int j = kHaloX * 3; j < kRowWords * 2; ++j) tile[i * (kRowWords * 2) + j] = __float2half_rn(0.0F);
  }
  block_sync();

  // A warp makes one row of 32 pixels, as two left matrices of 16.
  const int lane = lane_index();
  const int g = lane >> 2;
  const int t = lane & 3;
  const int ty = warp_index();
  unsigned a[2][2][4];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int pixel = m * 16 + g + (r & 1) * 8;
        const int word = k * 8 + t + (r >> 1) * 4;
        a[m][k][r] = word < 15 ? words[(ty * 2 + word / 5) * kRowWords + pixel * 3 + word % 5] : 0U;
      }
    }
  }
  const int oy = y0 + ty;
  if (oy >= p.y.h) return;
  const Bounds bounds = bounds_of(p.activation);
  const int blocks = (p.y.c + 7) / 8;
  for (int n8 = 0; n8 < blocks; ++n8) {
    const uint2 b0 = static_cast<const uint2*>(p.weights)[(n8 * 2 + 0) * 32 + lane];
    const uint2 b1 = static_cast<const uint2*>(p.weights)[(n8 * 2 + 1) * 32 + lane];
    const int channel = n8 * 8 + t * 2;
    const float bias0 = p.bias[channel];
    const float bias1 = p.bias[channel + 1];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      float sums[4] = {bias0, bias1, bias0, bias1};
      multiply_add(sums, a[m][0], b0.x, b0.y);
      multiply_add(sums, a[m][1], b1.x, b1.y);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int ox = x0 + m * 16 + g + half * 8;
        if (ox >= p.y.w) continue;
        auto* const to =
            static_cast<__half*>(p.y.data) + (static_cast<std::ptrdiff_t>(oy) * p.y.w + ox) * p.y.pitch + channel;
        *reinterpret_cast<unsigned*>(to) = pack_halfs(activate(p.activation, bounds, sums[half * 2]),
                                                      activate(p.activation, bounds, sums[half * 2 + 1]));
      }
    }
  }
}

}  // namespace

int stem(const StemArguments& p, const LaunchContext& context) {
  const int tiles = ((p.y.w + kTx - 1) / kTx) * ((p.y.h + kTy - 1) / kTy);
  const dim3 grid(static_cast<unsigned>(tiles), 1, 1);
  constexpr std::size_t kBytes = static_cast<std::size_t>(kHaloY) * kRowWords * 4;
  switch (source_of(p)) {
    case Source::kPlanes: return launch(stem_kernel<Source::kPlanes>, grid, kThreads, kBytes, context, p);
    case Source::kPacked: return launch(stem_kernel<Source::kPacked>, grid, kThreads, kBytes, context, p);
    case Source::kBiplanar: return launch(stem_kernel<Source::kBiplanar>, grid, kThreads, kBytes, context, p);
    case Source::kAny: return launch(stem_kernel<Source::kAny>, grid, kThreads, kBytes, context, p);
  }
  return 1;
}

}  // namespace camd::infer::cuda
