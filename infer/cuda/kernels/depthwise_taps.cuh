// A depthwise 3x3 filter on the tensor cores, though most of what they multiply is zero. 16 pixels and 8 channels of
// two taps are a left matrix that lies ready in the input's tile; the weights of the two taps lie on the diagonals of
// the right matrix. That takes a third of the instructions of single products, and sums stay f32.
#pragma once

#include "infer/cuda/kernels/primitives.cuh"

namespace camd::infer::cuda {

// The nine taps' weights of 8 channels as right matrices, two taps each: this lane's part. A row's first two taps make
// one; the third ones of the first two rows make one; that of the last row stands alone.
struct DiagonalTaps {
  unsigned first_two[3][2];  // of each row
  unsigned third[2][2];
};
// `taps`: f16 [9][8].
CAMD_DEVICE void load_taps(DiagonalTaps& to, const uint4* taps) {
  const int column = lane_index() >> 2, row = (lane_index() & 3) * 2;  // and the row below: those of this lane
  const auto* const words = reinterpret_cast<const unsigned*>(taps) + column / 2;
  const unsigned kept = column == row ? 0x0000FFFFU : column == row + 1 ? 0xFFFF0000U : 0U;
#pragma unroll
  for (int ky = 0; ky < 3; ++ky) {
#pragma unroll
    for (int kx = 0; kx < 2; ++kx) to.first_two[ky][kx] = words[(ky * 3 + kx) * 4] & kept;
    to.third[ky / 2][ky % 2] = words[(ky * 3 + 2) * 4] & kept;
  }
  to.third[1][1] = 0;
}

// Where a lane finds the pixels for the first two taps of a row, and those for the third tap of that row and the next.
struct TapAddresses {
  SharedAddress first_two, third;
  int next_row;  // bytes, of lanes that read the next row, else 0
};

// Adds the filter's products to `sums`, for kRun groups of 16 pixels, one below the other. A row of the input,
// `row_bytes` long, is read once for all rows of the filter that use it.
template <typename T>
CAMD_DEVICE void add_taps(float (&sums)[T::kRun][4], const TapAddresses& from, int row_bytes,
                          const DiagonalTaps& taps) {
  constexpr int kLast = (T::kRun - 1) * T::kDown + 2;
#pragma unroll
  for (int row = 0; row <= kLast; ++row) {
    unsigned a[4];
    bool loaded = false;
#pragma unroll
    for (int m = 0; m < T::kRun; ++m) {
      const int ky = row - m * T::kDown;
      if (ky < 0 || ky > 2) continue;
      if (!loaded) load_matrices(a, from.first_two + row * row_bytes);
      loaded = true;
      multiply_add(sums[m], a, taps.first_two[ky][0], taps.first_two[ky][1]);
    }
    loaded = false;
#pragma unroll
    for (int m = 0; m < T::kRun; ++m) {
      const int ky = row - m * T::kDown;
      if (ky != 0 && ky != 2) continue;
      // Behind the last row is nothing: it is read again there, as what no tap uses must be finite.
      if (!loaded) load_matrices(a, from.third + (row * row_bytes - (row == kLast ? from.next_row : 0)));
      loaded = true;
      multiply_add(sums[m], a, taps.third[ky / 2][0], taps.third[ky / 2][1]);
    }
  }
}

}  // namespace camd::infer::cuda
