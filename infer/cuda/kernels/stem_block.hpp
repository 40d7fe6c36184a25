// stem_block(): a network's first convolution and its first depthwise block, as one kernel. stem() calls it. No CUDA
// header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include "infer/cuda/kernels/launch.hpp"
#include "infer/cuda/kernels/stem.hpp"

namespace camd::infer::cuda {

// `arguments.block.depthwise` is not null.
int stem_block(const StemArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
