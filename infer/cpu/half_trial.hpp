// The trial at start of half precision: which of a network's convolutions have to be computed in f32, so that f16 or
// bf16 does for the rest (docs/adr/0039-f16-by-layer.md). The network computes one made picture in f32, in half
// precision, and, where that is too far off, with each convolution alone in it.
//
// Threads: called while an engine is made, by one thread. Private to infer/cpu/.
#pragma once

#include <memory>
#include <string>

#include "infer/cpu/program.hpp"
#include "infer/cpu/thread_pool.hpp"
#include "infer/engine.hpp"

namespace camd::infer::cpu {

// [setup] [blocks] The program in half precision, with `half` for the dense convolutions that can do with it and
// `kernels` for the rest. `path` is for messages; `input` has its size. Throws what build_program() throws.
[[nodiscard]] std::shared_ptr<const Program> make_half_program(const Graph& graph, const InputOptions& input,
                                                               const Kernels& kernels, const Kernels& half,
                                                               ThreadPool& threads, const std::string& path);

}  // namespace camd::infer::cpu
