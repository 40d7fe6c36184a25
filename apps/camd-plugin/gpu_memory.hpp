// Memory on a GPU that camd owns and this process opens (CUDA IPC), through NVIDIA's driver library, which is loaded
// when the first piece comes.
//
// What comes to process() is ready: camd has waited for the frame before it calls, so no event goes with it.
//
// Threads: one for each instance; the GPU's primary context becomes the thread's own, as CUDA's runtime has it.
#pragma once

#include <utility>

#include "pipeline/plugin_process/blob.hpp"

namespace camd::worker {

// A piece that is open as long as this lives. It can be written to: the driver knows no other way.
class OpenedMemory {
 public:
  // Throws Error(kPlugin): there is no driver, it refuses, or the process may not use the GPU.
  OpenedMemory(int device, const pipeline::wire::ExportHandle& handle);
  ~OpenedMemory();
  OpenedMemory(OpenedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;
  OpenedMemory& operator=(OpenedMemory&&) = delete;
  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  void* data_ = nullptr;
};

// [blocks] until all work of the thread's context is done. Throws Error(kPlugin).
void wait_for_gpu();

}  // namespace camd::worker
