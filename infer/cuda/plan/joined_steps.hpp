// join_steps(): small steps that may be made together become one. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include "infer/cuda/plan/plan.hpp"

namespace camd::infer::cuda {

// Steps know their `reads` and `writes`, and have no lanes yet. Joined are moves, and small elementwise() steps, behind
// each other that make parts of one value, that read the same, or that make outputs of the network. Each by itself
// would wait for a kernel's start, and what reads their results for all of them.
void join_steps(Plan& plan);

}  // namespace camd::infer::cuda
