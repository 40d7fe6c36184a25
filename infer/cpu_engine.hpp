// The CPU engine: camd's own graph and kernels on the host device, the fast way without a GPU.
//
// Threads: as Engine. The network runs in the compute stream's order together with the engine's own helper threads
// (EngineOptions::threads in all). Networks of one engine that run at once, as with a stream per frame, share the
// helpers: the first to come has them, others run alone.
// Memory: packed weights once; an arena for activations per Execution. Nothing is allocated per frame.
#pragma once

#include <memory>

#include "infer/engine.hpp"
#include "infer/onnx_file.hpp"

namespace camd::infer {

// [setup] [blocks] Throws Error(kModel) naming the operator and node that this engine cannot run.
[[nodiscard]] std::unique_ptr<Engine> make_cpu_engine(const OnnxFile& file, const EngineOptions& options,
                                                      device::Device& device);

}  // namespace camd::infer
