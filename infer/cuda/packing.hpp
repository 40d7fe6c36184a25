// Weights in the order in which the kernels' lanes read them.
//
// Threads: functions of their arguments, [any]; part of preparing an engine. No GPU is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace camd::infer::cuda {

using Half = std::uint16_t;  // the bits of an IEEE 754 binary16

[[nodiscard]] constexpr int round_up(int value, int multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

// Weights [filters][taps] as f16 will have them, with every filter's sum kept: what rounding adds to one tap it takes
// from others. Pictures and what becomes of them are smooth, and there a filter that sees differences rests on its taps
// cancelling: rounded each by itself they do not, and the layers behind amplify what remains.
[[nodiscard]] std::vector<float> round_keeping_sums(std::vector<float> weights, int taps);

// Value of weight `k` of output channel `n`; asked for within the padded sizes too: answer 0 there.
using WeightAt = std::function<float(int n, int k)>;

// Right matrix [k][n] of a product for multiply_add(): 16x16 blocks, k outermost: [k / 16][n / 16][lane] of 8 halfs.
// Within a block the columns are permuted so that a lane ends with 4 neighbouring channels: channel 4t + 2e + i is
// column 2t + i of the e-th 16x8 matrix.
[[nodiscard]] std::vector<Half> pack_right(int n, int k, const WeightAt& at);
// The same for a convolution: one matrix after the other, a tap each. at(n, tap * c16 + c), c16 = c rounded up to 16.
[[nodiscard]] std::vector<Half> pack_taps(int n, int c, int taps,
                                          const std::function<float(int n, int tap, int c)>& at);
// For stem(): [n / 8][2][lane] of 4 halfs. A window's row is 5 words of 2 halfs, kx * 3 + c in their order; k runs over
// the first four words of each of three rows, then over the fifth words. at(n, ky, kx, c).
[[nodiscard]] std::vector<Half> pack_stem(int n, const std::function<float(int n, int ky, int kx, int c)>& at);
// For plain_conv(): [taps][rows][columns] of f32, columns being n rounded up to kPlainConvColumns. at(n, tap, row).
[[nodiscard]] std::vector<float> pack_plain(int n, int rows, int taps,
                                            const std::function<float(int n, int tap, int row)>& at);
// Depthwise 3x3 for separable(): [c8 / 8][9][8].
[[nodiscard]] std::vector<Half> pack_depthwise(int c, const std::function<float(int tap, int c)>& at);

}  // namespace camd::infer::cuda
