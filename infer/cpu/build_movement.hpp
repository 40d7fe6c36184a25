// Steps of operators that only move data.
//
// Threads: as Builder. Private to infer/cpu/.
#pragma once

#include "infer/cpu/builder.hpp"

namespace camd::infer::cpu {

void build_concat(Builder& builder, const Op& op, const Concat& concat);
void build_slice(Builder& builder, const Op& op, const Slice& slice);
void build_gather(Builder& builder, const Op& op, const Gather& gather);
void build_transpose(Builder& builder, const Op& op, const Transpose& transpose);
void build_reshape(Builder& builder, const Op& op);

}  // namespace camd::infer::cpu
