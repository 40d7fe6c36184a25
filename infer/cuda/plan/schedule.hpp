// schedule(): which steps of a plan run beside each other, and where its buffers lie. Private to the planner.
//
// Threads: a function of its argument, [any].
#pragma once

#include "infer/cuda/plan/plan.hpp"

namespace camd::infer::cuda {

// Gives every step its lane, waits, signals and overlap, and every arena buffer its offset. `lanes`: at most so many.
void schedule(Plan& plan, int lanes);

}  // namespace camd::infer::cuda
