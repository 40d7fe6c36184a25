// Owners of what the CUDA driver gives: events, graphs, streams and memory. They free it on their GPU, and ignore
// errors then.
//
// Threads: as device/device.hpp says of the objects that hold them.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "device/device.hpp"
#include "device/exported_memory.hpp"

namespace camd::device {

// Frees what `release` frees; errors do not matter any more when an owner goes.
template <typename Base, typename Handle, cudaError_t (*release)(Handle)>
class Owned final : public Base {
 public:
  Owned(int index, Handle handle) : index_(index), handle_(handle) {}
  ~Owned() override {
    (void)cudaSetDevice(index_);
    (void)release(handle_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  [[nodiscard]] Handle handle() const noexcept { return handle_; }

 private:
  int index_;
  Handle handle_;
};

using CudaEvent = Owned<EventState, cudaEvent_t, cudaEventDestroy>;
using CudaGraph = Owned<GraphState, cudaGraphExec_t, cudaGraphExecDestroy>;
using PinnedMemory = Owned<MemoryState, void*, cudaFreeHost>;
using RegisteredMemory = Owned<MemoryState, void*, cudaHostUnregister>;

class CudaStream final : public StreamState {
 public:
  CudaStream(int index, cudaStream_t stream) : index_(index), stream_(stream) {}
  ~CudaStream() override {
    (void)cudaSetDevice(index_);
    (void)cudaStreamSynchronize(stream_);
    (void)cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  [[nodiscard]] void* native() const noexcept override { return stream_; }

 private:
  int index_;
  cudaStream_t stream_;
};

class PageableMemory final : public MemoryState {
 public:
  explicit PageableMemory(void* data) : data_(data) {}
  ~PageableMemory() override { std::free(data_); }
  PageableMemory(const PageableMemory&) = delete;
  PageableMemory& operator=(const PageableMemory&) = delete;

 private:
  void* data_;
};

// Memory is taken and given back in the order of a stream of its own. cudaMalloc() and cudaFree() would wait for all
// that the device does, and so hold up running cameras whenever a model is made ready beside them.
class DeviceMemory final : public MemoryState {
 public:
  // `stream`: null where the device has no pools of memory.
  DeviceMemory(int index, void* data, cudaStream_t stream, std::size_t size_bytes, std::atomic<std::size_t>& total)
      : index_(index), data_(data), stream_(stream), size_bytes_(size_bytes), total_(total) {
    total_ += size_bytes_;
  }
  ~DeviceMemory() override {
    (void)cudaSetDevice(index_);
    (void)(stream_ != nullptr ? cudaFreeAsync(data_, stream_) : cudaFree(data_));
    total_ -= size_bytes_;
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

 private:
  int index_;
  void* data_;
  cudaStream_t stream_;
  std::size_t size_bytes_;
  std::atomic<std::size_t>& total_;
};

// Memory that other processes can open: it must be cudaMalloc()'s own.
class ExportedMemory final : public MemoryState {
 public:
  ExportedMemory(int index, void* data, std::size_t size_bytes, std::atomic<std::size_t>& total)
      : index_(index), data_(data), size_bytes_(size_bytes), total_(total) {
    total_ += size_bytes_;
  }
  ~ExportedMemory() override {
    forget_exported(data_);
    (void)cudaSetDevice(index_);
    (void)cudaFree(data_);
    total_ -= size_bytes_;
  }
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;

 private:
  int index_;
  void* data_;
  std::size_t size_bytes_;
  std::atomic<std::size_t>& total_;
};

// A word of device memory: 0, or 1 when raised.
class CudaSignal final : public SignalState {
 public:
  explicit CudaSignal(DeviceBuffer word) : word_(std::move(word)) {}
  [[nodiscard]] unsigned* word() const noexcept { return reinterpret_cast<unsigned*>(word_.data()); }

 private:
  DeviceBuffer word_;
};

}  // namespace camd::device
