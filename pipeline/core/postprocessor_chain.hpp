// PostprocessorChain: the interface through which the pipeline runs the postprocessors behind the network. It is
// implemented by the plug-in host (pipeline/run/plugin_host.hpp), so that the pipeline's core knows no plug-ins.
//
//   function                         thread
//   needs(), prepare(), shared_memory()  [setup]
//   FramePostprocessing::process()   [post], for several frames at once
//   FramePostprocessing::inside()    [any], beside process()
//
// Invariants: needs() never changes. Chain and tensors outlive what prepare() returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

// What all postprocessors together want.
struct MergedNeeds {
  std::vector<camd_need> outputs;      // by output: NONE, SHAPE or HOST, the strongest wish of all
  std::vector<bool> device_outputs;    // by output: somebody wants it where the engine left it, too
  std::vector<bool> exported_outputs;  // by output: of those on the device, another process wants it
  // Outputs that these name are read on the host where they pass, and nowhere else. All are in order.
  std::vector<camd_filter> filters;
  camd_need input = CAMD_NEED_NONE;
  bool picture = false;
  // Makes memory for pictures that somebody reads in another process: aligned to 4096, as long as the pointer lives.
  // Throws Error(kPlugin). Null: any memory will do.
  std::shared_ptr<std::byte> (*picture_memory)(std::size_t size_bytes) = nullptr;
  std::int32_t detections = CAMD_DEFAULT_DETECTIONS;  // that a frame has room for
};

// The tensors of one frame in flight, on the host and on the device. Their addresses never change, so that each
// postprocessor's view of them is made once.
struct FrameTensors {
  std::vector<DLTensor> host;    // per output; data is null where only the shape is known
  std::vector<DLTensor> device;  // per output
  // For each of MergedNeeds::filters: how many places passed, then their numbers. Empty: outputs are there as a whole.
  std::vector<const std::int32_t*> passed;
  DLTensor input{};
  void* stream = nullptr;
};

// The chain as one frame in flight sees it.
class FramePostprocessing {
 public:
  virtual ~FramePostprocessing() = default;
  // [post] Runs the postprocessors in their order. `results.count` is 0 on entry; the frame has no events then. Stops
  // at the first one that fails: kPlugin with its name and message. `frame.picture` is handed only to those that asked
  // for it.
  virtual base::Status process(const camd_frame& frame, camd_results& results) noexcept = 0;
  // [post] The events of the frame that process() has just done. event(i) is valid until the next process().
  [[nodiscard]] virtual std::int32_t event_count() const noexcept { return 0; }
  [[nodiscard]] virtual const camd_event* event(std::int32_t /*index*/) const noexcept { return nullptr; }
  // [any] The postprocessor that is working on the frame at this moment, as messages name it; empty: none. Valid as
  // long as the chain.
  [[nodiscard]] virtual std::string_view inside() const noexcept = 0;
};

class PostprocessorChain {
 public:
  virtual ~PostprocessorChain() = default;
  [[nodiscard]] virtual const MergedNeeds& needs() const noexcept = 0;
  // [setup] For one frame in flight. `tensors` and this chain outlive what is returned; `tensors` must not move.
  [[nodiscard]] virtual std::unique_ptr<FramePostprocessing> prepare(const FrameTensors& tensors) = 0;
  // [setup] Host memory for a tensor that postprocessors read where it is, though they run in other processes: aligned
  // to 4096, as long as the pointer lives. Null: any memory will do. Throws Error(kPlugin).
  [[nodiscard]] virtual std::shared_ptr<std::byte> shared_memory(std::size_t size_bytes) {
    (void)size_bytes;
    return nullptr;
  }
};

}  // namespace camd::pipeline
