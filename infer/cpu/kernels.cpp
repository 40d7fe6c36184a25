#include "infer/cpu/kernels.hpp"

#include <algorithm>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "infer/cpu/byte_kernels.hpp"
#include "infer/cpu/half_conv.hpp"
#include "infer/cpu/kernels_avx2.hpp"
#include "infer/cpu/kernels_avx512.hpp"
#include "infer/cpu/kernels_baseline.hpp"
#include "infer/graph/window.hpp"

namespace camd::infer::cpu {
namespace {

// The same kernels, and those for bytes. Unused where this build has none, as the next one.
[[maybe_unused]] Kernels with_bytes(const Kernels& kernels, const ByteKernels& bytes) {
  Kernels both = kernels;
  both.name = bytes.name;
  both.bytes = &bytes;
  return both;
}

// The best kernels, with dense convolutions in half precision.
[[maybe_unused]] Kernels with_half(const char* name, HalfType type, decltype(Kernels::conv) conv, int together) {
  Kernels half = kernels();
  half.name = name;
  half.half = type;
  half.conv = conv;
  half.together = together;
  return half;
}

#if defined(CAMD_CPU_AVX512)
bool has_avx512() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

// Numbers of a dense convolution's weights in whole blocks of both sides.
std::size_t blocks_size(const Shape& s) {
  const std::int64_t out_blocks = (s[0] + kLanes - 1) / kLanes, in_blocks = (s[1] + kLanes - 1) / kLanes;
  return at(out_blocks * in_blocks * s[2] * s[3] * kLanes * kLanes);
}

// Calls visit(to, m, c, tap) for each weight, in the order in which they lie in the blocks, see pack_dense().
template <typename Visit>
void visit_blocks(const Shape& s, int together, Visit visit) {
  const std::int64_t out_blocks = (s[0] + kLanes - 1) / kLanes;
  const std::int64_t in_blocks = (s[1] + kLanes - 1) / kLanes;
  const std::int64_t taps = s[2] * s[3];
  std::size_t to = 0;
  for (std::int64_t first = 0; first < out_blocks; first += 2) {
    const std::int64_t count = std::min<std::int64_t>(2, out_blocks - first);
    for (std::int64_t c8 = 0; c8 < in_blocks; ++c8) {
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (std::int64_t part = 0; part < kLanes; part += together) {
          for (std::int64_t o = 0; o < count * kLanes; ++o) {
            for (std::int64_t i = 0; i < together; ++i, ++to) {
              const std::int64_t m = first * kLanes + o;
              const std::int64_t c = c8 * kLanes + part + i;
              if (m < s[0] && c < s[1]) visit(to, m, c, tap);
            }
          }
        }
      }
    }
  }
}

template <typename Number, typename Read>
std::vector<Number> pack_blocks(const Shape& s, int together, Read read) {
  std::vector<Number> packed(blocks_size(s), Number{});
  visit_blocks(s, together,
               [&](std::size_t to, std::int64_t m, std::int64_t c, std::int64_t tap) { packed[to] = read(m, c, tap); });
  return packed;
}

}  // namespace

std::vector<const Kernels*> kernel_sets() {
  std::vector<const Kernels*> sets;
#if defined(CAMD_CPU_AVX512)
  if (has_avx512()) {
    if (__builtin_cpu_supports("avx512vnni")) {
      static const Kernels kVnni = with_bytes(avx512_kernels(), byte_kernels_vnni());
      sets.push_back(&kVnni);
    }
    sets.push_back(&avx512_kernels());
  }
#endif
#if defined(CAMD_CPU_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&avx2_kernels());
#elif defined(__aarch64__)
  // Bits of the Linux kernel's arch/arm64/include/uapi/asm/hwcap.h, which older C libraries do not name.
  constexpr unsigned long kDotProducts = 1UL << 20, kMatrixProducts = 1UL << 13;
  const bool dot_products = (getauxval(AT_HWCAP) & kDotProducts) != 0;
  if (dot_products && (getauxval(AT_HWCAP2) & kMatrixProducts) != 0) {
    static const Kernels kMatrices = with_bytes(baseline_kernels(), byte_kernels_i8mm());
    sets.push_back(&kMatrices);
  }
  if (dot_products) {
    static const Kernels kDots = with_bytes(baseline_kernels(), byte_kernels_dotprod());
    sets.push_back(&kDots);
  }
#endif
  sets.push_back(&baseline_kernels());
  return sets;
}

const Kernels& kernels() {
  static const Kernels* const kBest = kernel_sets().front();
  return *kBest;
}

const Kernels* half_kernels([[maybe_unused]] HalfType type) {
#if defined(CAMD_CPU_AVX512)
  if (type == HalfType::kBf16 && has_avx512() && __builtin_cpu_supports("avx512bf16")) {
    static const Kernels kBf16 = with_half("bf16", type, conv_bf16, kBf16Together);
    return &kBf16;
  }
#elif defined(__aarch64__)
  constexpr unsigned long kHalfPrecision = 1UL << 10, kBrainFloat = 1UL << 14;  // HWCAP_ASIMDHP, HWCAP2_BF16
  if (type == HalfType::kF16 && (getauxval(AT_HWCAP) & kHalfPrecision) != 0) {
    static const Kernels kFp16 = with_half("fp16", type, conv_fp16, 1);
    return &kFp16;
  }
  if (type == HalfType::kBf16 && (getauxval(AT_HWCAP2) & kBrainFloat) != 0) {
    static const Kernels kBf16 = with_half("bf16", type, conv_bf16, kBf16Together);
    return &kBf16;
  }
#endif
  return nullptr;
}

std::size_t conv_planar_scratch(const ConvArguments& a) noexcept {
  const std::int64_t span = window_reach(a.out.width, a.kernel.x, a.stride.x, a.dilation.x);
  return at(span) * static_cast<std::size_t>(a.kernel.y) * static_cast<std::size_t>(a.in.channels);
}

std::size_t winograd_scratch(const ConvArguments& a, int tiles) noexcept {
  const auto line = static_cast<std::size_t>(tiles) * kLanes;
  const std::size_t planes =
      winograd_plane(at(tiles), blocks(a.in.channels)) + winograd_plane(at(tiles), blocks(a.out.channels));
  // Beside the spectra six rows of pixels, four of a tile and two of the next, or a block's 24 numbers of a tile.
  return 36 * planes + std::max(6 * (4 * line + std::size_t{2} * kLanes), 24 * line);
}

std::vector<float> pack_dense(const Constant& weight, int together) {
  const Shape& s = weight.shape;  // [M,C,kh,kw]
  return pack_blocks<float>(s, together, [&](std::int64_t m, std::int64_t c, std::int64_t tap) {
    return weight.f32[at((m * s[1] + c) * s[2] * s[3] + tap)];
  });
}

std::vector<std::int8_t> pack_bytes(const std::vector<std::int8_t>& weights, const Shape& s, BytePacking packing) {
  const int together = packing == BytePacking::kFours ? 4 : 8;
  return pack_blocks<std::int8_t>(s, together, [&](std::int64_t m, std::int64_t c, std::int64_t tap) {
    return weights[at((m * s[1] + c) * s[2] * s[3] + tap)];
  });
}

std::vector<std::int8_t> pack_bytes_depthwise(const std::vector<std::int8_t>& weights, const Shape& s) {
  const std::int64_t fours = (s[3] + 3) / 4;
  std::vector<std::int8_t> packed(at((s[0] + kLanes - 1) / kLanes * s[2] * fours * 4 * kLanes), 0);
  for (std::int64_t m = 0; m < s[0]; ++m) {
    for (std::int64_t y = 0; y < s[2]; ++y) {
      for (std::int64_t x = 0; x < s[3]; ++x) {
        const std::int64_t four = (m / kLanes * s[2] + y) * fours + x / 4;
        packed[at((four * kLanes + m % kLanes) * 4 + x % 4)] = weights[at((m * s[2] + y) * s[3] + x)];
      }
    }
  }
  return packed;
}

std::vector<float> pack_winograd(const Constant& weight) {
  constexpr double kG[6][3] = {{1.0 / 4, 0, 0},
                               {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                               {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                               {1.0 / 24, 1.0 / 12, 1.0 / 6},
                               {1.0 / 24, -1.0 / 12, 1.0 / 6},
                               {0, 0, 1}};
  const Shape one{weight.shape[0], weight.shape[1], 1, 1};
  const std::size_t size = blocks_size(one);
  std::vector<float> packed(36 * size, 0.0F);
  // Each filter is read once, and its rows are transformed before its columns.
  visit_blocks(one, 1, [&](std::size_t to, std::int64_t m, std::int64_t c, std::int64_t) {
    const float* const filter = &weight.f32[at((m * one[1] + c) * 9)];
    double rows[6][3];
    for (std::size_t v = 0; v < 6; ++v) {
      for (std::size_t x = 0; x < 3; ++x) {
        rows[v][x] = kG[v][0] * static_cast<double>(filter[x]) + kG[v][1] * static_cast<double>(filter[3 + x]) +
                     kG[v][2] * static_cast<double>(filter[6 + x]);
      }
    }
    for (std::size_t v = 0; v < 6; ++v) {
      for (std::size_t u = 0; u < 6; ++u) {
        const double sum = rows[v][0] * kG[u][0] + rows[v][1] * kG[u][1] + rows[v][2] * kG[u][2];
        packed[(v * 6 + u) * size + to] = static_cast<float>(sum);
      }
    }
  });
  return packed;
}

std::vector<float> pack_depthwise(const Constant& weight) {
  const Shape& s = weight.shape;
  const std::int64_t taps = s[2] * s[3];
  std::vector<float> packed(at((s[0] + kLanes - 1) / kLanes * taps * kLanes), 0.0F);
  for (std::int64_t m = 0; m < s[0]; ++m) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      packed[at((m / kLanes * taps + tap) * kLanes + m % kLanes)] = weight.f32[at(m * taps + tap)];
    }
  }
  return packed;
}

std::vector<float> pack_transposed(const Constant& weight) {
  const Shape& s = weight.shape;  // [C,M,kh,kw]
  const std::int64_t taps = s[2] * s[3];
  std::vector<float> packed(at((s[1] + kLanes - 1) / kLanes * taps * s[0] * kLanes), 0.0F);
  for (std::int64_t c = 0; c < s[0]; ++c) {
    for (std::int64_t m = 0; m < s[1]; ++m) {
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        packed[at(((m / kLanes * taps + tap) * s[0] + c) * kLanes + m % kLanes)] =
            weight.f32[at((c * s[1] + m) * taps + tap)];
      }
    }
  }
  return packed;
}

std::vector<float> pad_to_blocks(const std::vector<float>& values) {
  std::vector<float> padded = values;
  padded.resize((values.size() + kLanes - 1) / kLanes * kLanes, 0.0F);
  return padded;
}

}  // namespace camd::infer::cpu
