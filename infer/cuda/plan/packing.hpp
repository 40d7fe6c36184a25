// Weights in the order in which the kernels' lanes read them.
//
// Threads: functions of their arguments, [any]; called while an engine is made. No GPU is needed.
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

// Rounds weights [filters][taps] to numbers of f16 so that the sum of every filter stays the same: what rounding adds
// to one tap it takes from others. Pictures and activations are mostly smooth. There the taps of a filter that finds
// edges cancel; rounded one by one they would not, and later layers would amplify what remains.
[[nodiscard]] std::vector<float> round_keeping_sums(std::vector<float> weights, int taps);

// The weight of output channel `n` and input `k`.
using WeightAt = std::function<float(int n, int k)>;

// The right matrix [k][n] of a product by multiply_add(), padded with zeros to blocks of 16x16, k outermost:
// [k / 16][n / 16][lane] of 8 halfs. Columns are permuted within a block so that a lane ends with 4 neighbouring
// channels: channel 4t + 2e + i is column 2t + i of the block's 16x8 matrix e.
[[nodiscard]] std::vector<Half> pack_right(int n, int k, const WeightAt& at);
// The same for a convolution: a matrix for each tap, one after the other.
[[nodiscard]] std::vector<Half> pack_taps(int n, int c, int taps,
                                          const std::function<float(int n, int tap, int c)>& at);
// For warpgroup_conv() in tiles of `tile_n16` blocks of 16 channels and slices of `slice_steps` blocks of 16 inputs, as
// it fetches them: [tile][slice][tap][step][n / 16][e][c half][column][8] halfs, where column 2t + i of matrix e is
// channel 4t + 2e + i.
[[nodiscard]] std::vector<Half> pack_warpgroup_taps(int n, int c, int taps, int tile_n16, int slice_steps,
                                                    const std::function<float(int n, int tap, int c)>& at);
// For stem(): [n / 8][2][lane] of 4 halfs. A row of the window is 5 words of 2 halfs, which are kx * 3 + c in order. k
// runs over the first four words of each of the three rows, then over the fifth words.
[[nodiscard]] std::vector<Half> pack_stem(int n, const std::function<float(int n, int ky, int kx, int c)>& at);
// For generic_conv(): [taps][rows][columns] of f32; columns are n rounded up to kGenericConvColumns.
[[nodiscard]] std::vector<float> pack_generic(int n, int rows, int taps,
                                              const std::function<float(int n, int tap, int row)>& at);
// For tensor_core_f32(), the right matrix of each tap by multiply_add_tf32(): [taps][c8 / 8][columns / 16][lane][4], c8
// = c rounded up to 8, columns as above. A lane ends with 4 neighbouring channels, as by pack_right(). `rounded`: to
// numbers of TF32, the nearest.
[[nodiscard]] std::vector<float> pack_tf32(int n, int c, int taps, bool rounded,
                                           const std::function<float(int n, int tap, int c)>& at);
// For the depthwise 3x3 of separable(): [c8 / 8][9][8], c8 = c rounded up to 8.
[[nodiscard]] std::vector<Half> pack_depthwise(int c, const std::function<float(int tap, int c)>& at);

}  // namespace camd::infer::cuda
