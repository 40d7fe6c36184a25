// Steps of operators on plain storage: products, reductions, softmax, and those that have no step of their own.
//
// Threads: as Builder. Private to infer/cpu/.
#pragma once

#include "infer/cpu/builder.hpp"

namespace camd::infer::cpu {

void build_softmax(Builder& builder, const Op& op, const Softmax& softmax);
void build_matmul(Builder& builder, const Op& op);
void build_attention(Builder& builder, const Op& op, const Attention& attention);
void build_reduce(Builder& builder, const Op& op, const Reduce& reduce);
// TopK, Pick, Scatter, CumSum, GridSample or Select.
void build_selection(Builder& builder, const Op& op);
// Any operator, by the reference evaluator: slow, so for what no detector runs on large tensors.
void build_reference(Builder& builder, const Op& op);

}  // namespace camd::infer::cpu
