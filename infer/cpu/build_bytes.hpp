// The builder's family of operators whose result is bytes (infer/cpu/byte_plan.hpp).
//
// Threads: as Builder. Private to infer/cpu/.
#pragma once

#include "infer/cpu/builder.hpp"

namespace camd::infer::cpu {

// Only for ops of which the plan says that they make bytes.
void build_bytes(Builder& builder, const Op& op);

}  // namespace camd::infer::cpu
