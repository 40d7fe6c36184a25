// Adds the steps of Conv and ConvTranspose to a Program: chooses the form of each (depthwise, dense, Winograd and so
// on) and packs its weights.
//
// Threads: as Builder. Private to infer/cpu/.
#pragma once

#include "infer/cpu/builder.hpp"

namespace camd::infer::cpu {

// Whether the convolution runs by Winograd's method: its input then needs a halo for whole tiles.
[[nodiscard]] bool suits_winograd(const Conv& conv, const Shape& in, const Shape& out);

// Whether the convolution can run in half precision: depthwise ones and Winograd's are computed in f32 always.
[[nodiscard]] bool suits_half(const Graph& graph, const Op& op, const Conv& conv);

// Both throw Error(kModel) for a batch other than one, and for grouped weights that are too big to make dense.
// `kernels`: of the convolution if it is dense.
void build_conv(Builder& builder, const Op& op, const Conv& conv, const Kernels& kernels);
void build_transposed(Builder& builder, const Op& op, const ConvTranspose& conv);

}  // namespace camd::infer::cpu
