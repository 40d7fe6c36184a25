// LaunchContext: where and how a kernel is launched. No CUDA header is needed to include this one.
//
// Contract of the launch functions of this folder (separable(), conv(), ..., each declared in the header that is named
// like its .cu file): each enqueues one kernel and does not synchronise; [no-alloc] unless the context says `prepare`;
// one thread at a time per stream. It returns a cudaError_t, 0 is success. Arguments are not checked: the planner
// (infer/cuda/plan/plan.hpp) makes them right. The memory that they name must stay valid until the kernel has ended.
#pragma once

#include <cstddef>

namespace camd::infer::cuda {

struct LaunchContext {
  void* stream = nullptr;  // cudaStream_t
  // The kernel may start before the work that it waits for has ended: the kernel in front of it in the stream and, in a
  // capture, all others that it depends on. It fetches its weights meanwhile and then waits itself. Only where it waits
  // for kernels and for nothing else.
  bool overlap_previous = false;
  // [setup] Set for the first launch of a step. Allows the kernel the shared memory that this launch uses, for every
  // kind of picture that it may read later. The driver allocates for that.
  bool prepare = false;
  // Spreads a small kernel over the GPU. Left alone, a GPU puts two blocks on some multiprocessors and none on others.
  // A kernel of more than spread_over / 2 and at most spread_over blocks therefore asks for at least `spread_bytes` of
  // shared memory a block, of which a multiprocessor has no room for two. 0: no kernel does.
  int spread_over = 0;
  std::size_t spread_bytes = 0;
};

}  // namespace camd::infer::cuda
