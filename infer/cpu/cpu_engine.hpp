// The CPU engine: runs a Graph with camd's own kernels on the host device.
//
// Threads: as Engine. The network runs in the compute stream's order on the thread that runs the stream and on the
// engine's ThreadPool (EngineOptions::threads in all). When several networks of one engine run at the same time, as
// with a stream per frame, one of them has the pool and the others run on their own thread alone. Memory: packed
// weights once; an arena for activations per Execution. Nothing is allocated per frame.
#pragma once

#include <memory>
#include <string>

#include "base/error.hpp"
#include "infer/engine.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

// [setup] [blocks] Throws Error(kModel) naming the operator and node that this engine cannot run; ModelTooLarge before
// anything is allocated for frames (infer/frame_memory.hpp).
[[nodiscard]] std::unique_ptr<Engine> make_cpu_engine(const OnnxFile& file, const EngineOptions& options,
                                                      device::Device& device);

namespace cpu {
// [any] One product of matrices with this machine's kernels, on this thread.
void multiply(const Product& product);
}  // namespace cpu

}  // namespace camd::infer
