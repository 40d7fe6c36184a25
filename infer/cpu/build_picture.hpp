// Adds the steps of operators on pictures [1,C,H,W]: pooling, resizing, padding and normalisation.
//
// Threads: as Builder. Private to infer/cpu/.
#pragma once

#include "infer/cpu/builder.hpp"

namespace camd::infer::cpu {

// Where the input is no such picture, the first three add the reference's step; padding also where the picture has no
// blocked form yet, and where it is not rows and columns of one number.
void build_pool(Builder& builder, const Op& op, const Pool& pool);
void build_resize(Builder& builder, const Op& op, const Resize& resize);
void build_pad(Builder& builder, const Op& op, const Pad& pad);
void build_normalization(Builder& builder, const Op& op, const Normalization& normalization);

}  // namespace camd::infer::cpu
