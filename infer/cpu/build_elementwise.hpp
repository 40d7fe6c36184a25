// Steps of functions of one value and of two, on blocked and on plain storage.
//
// Threads: as Builder. Private to infer/cpu/.
#pragma once

#include "infer/cpu/builder.hpp"
#include "infer/cpu/chains.hpp"

namespace camd::infer::cpu {

// y = function(x)
void build_unary(Builder& builder, const Op& op, const Activation& function);
// Of its last op.
void build_chain(Builder& builder, const Op& op, const Chain& chain);
void build_binary(Builder& builder, const Op& op, const Binary& binary);

}  // namespace camd::infer::cpu
