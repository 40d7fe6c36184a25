// Owners of what the CUDA driver gives: events, graphs, streams and memory. They free it on their GPU, and ignore
// errors then.
//
// Threads: as device/device.hpp says of the objects that hold them.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/device.hpp"
#include "device/exported_memory.hpp"

namespace camd::device {

// Both are a thread's settings; asking for the same GPU again costs some 20 ns. The mode: while another thread captures
// in CUDA's global mode, as NVIDIA's decoder does when it is made, a thread's launches, allocations and waits fail as
// if its own stream were captured, and may break that capture off. Not in this mode.
inline cudaError_t select_gpu(int index) noexcept {
  static thread_local bool minds_own_captures = false;
  if (!std::exchange(minds_own_captures, true)) {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
  }
  return cudaSetDevice(index);
}

// Frees what `release` frees; errors do not matter any more when an owner goes.
template <typename Base, typename Handle, cudaError_t (*release)(Handle)>
class Owned final : public Base {
 public:
  Owned(int index, Handle handle) : index_(index), handle_(handle) {}
  ~Owned() override {
    (void)select_gpu(index_);
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
    (void)select_gpu(index_);
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
    (void)select_gpu(index_);
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
    (void)select_gpu(index_);
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

// The words that streams write: those of signals lie in device memory, those of fences in page-locked host memory,
// where both sides use the same address. In device memory they are cudaMalloc()'s own: drivers refused to let a stream
// write into memory from a pool (CUDA_ERROR_INVALID_VALUE). Freeing such memory waits for all of the GPU, so what was
// taken stays until the end. [any] Outlives signals and fences.
class StreamWords {
 public:
  enum class Where : std::uint8_t { kDevice, kHost };

  // `total` counts the bytes of device memory.
  StreamWords(int index, Where where, std::atomic<std::size_t>& total) : index_(index), where_(where), total_(total) {}
  ~StreamWords() {
    (void)select_gpu(index_);
    for (void* block : blocks_) (void)(where_ == Where::kHost ? cudaFreeHost(block) : cudaFree(block));
    if (where_ == Where::kDevice) total_ -= blocks_.size() * kBlock;
  }
  StreamWords(const StreamWords&) = delete;
  StreamWords& operator=(const StreamWords&) = delete;

  // A word that nobody has, on the current GPU; null and an error where there is no memory. What it holds is not set.
  [[nodiscard]] std::uint64_t* take(cudaError_t& error) {
    const base::MutexLock lock(mutex_);
    error = cudaSuccess;
    if (free_.empty()) {
      void* block = nullptr;
      error = where_ == Where::kHost ? cudaHostAlloc(&block, kBlock, cudaHostAllocPortable | cudaHostAllocMapped)
                                     : cudaMalloc(&block, kBlock);
      if (error != cudaSuccess) return nullptr;
      blocks_.push_back(block);
      if (where_ == Where::kDevice) total_ += kBlock;
      free_.reserve(blocks_.size() * kBlock / kApart);
      for (std::size_t at = 0; at < kBlock; at += kApart) {
        free_.push_back(reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(block) + at));
      }
    }
    std::uint64_t* const word = free_.back();
    free_.pop_back();
    return word;
  }
  void give(std::uint64_t* word) noexcept {
    const base::MutexLock lock(mutex_);
    free_.push_back(word);  // has room
  }

 private:
  static constexpr std::size_t kBlock = 4096;
  static constexpr std::size_t kApart = 64;  // a line of the CPU's caches: a word that is waited for shares none

  const int index_;
  const Where where_;
  std::atomic<std::size_t>& total_;
  base::Mutex mutex_;
  std::vector<void*> blocks_ CAMD_GUARDED_BY(mutex_);
  std::vector<std::uint64_t*> free_ CAMD_GUARDED_BY(mutex_);
};

// A word of device memory: 0, or its value when raised.
class CudaSignal final : public SignalState {
 public:
  CudaSignal(StreamWords& words, std::uint64_t* word) : words_(words), word_(word) {}
  ~CudaSignal() override { words_.give(word_); }
  CudaSignal(const CudaSignal&) = delete;
  CudaSignal& operator=(const CudaSignal&) = delete;
  [[nodiscard]] std::uint64_t* word() const noexcept { return word_; }

 private:
  StreamWords& words_;
  std::uint64_t* const word_;
};

// A word of host memory, into which streams write the number of the signal that they have come to.
class CudaFence final : public EventState {
 public:
  CudaFence(StreamWords& words, std::uint64_t* word) : words_(words), word_(word), signalled_(*word) {}
  // A word that a stream may still write is nobody else's.
  ~CudaFence() override {
    if (reached()) words_.give(word_);
  }
  CudaFence(const CudaFence&) = delete;
  CudaFence& operator=(const CudaFence&) = delete;

  // The word, and what `stream` shall write there.
  struct Next {
    std::uint64_t* word;
    std::uint64_t number;
  };
  [[nodiscard]] Next next(cudaStream_t stream) noexcept {
    stream_ = stream;
    return {word_, ++signalled_};
  }
  // The latest signal.
  [[nodiscard]] bool reached() const noexcept {
    return std::atomic_ref(*word_).load(std::memory_order_acquire) == signalled_;
  }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }  // that the latest signal is of

 private:
  StreamWords& words_;
  std::uint64_t* const word_;
  std::uint64_t signalled_;
  cudaStream_t stream_ = nullptr;
};

class CudaImportedMemory final : public ImportedMemory {
 public:
  // Takes the descriptor. The device is selected. Null: CUDA refuses it.
  [[nodiscard]] static std::unique_ptr<CudaImportedMemory> import(int descriptor, std::size_t size_bytes) {
    cudaExternalMemoryHandleDesc handle{};
    handle.type = cudaExternalMemoryHandleTypeOpaqueFd;
    handle.handle.fd = descriptor;
    handle.size = size_bytes;
    cudaExternalMemory_t memory = nullptr;
    if (cudaImportExternalMemory(&memory, &handle) != cudaSuccess) {
      (void)close(descriptor);
      (void)cudaGetLastError();
      return nullptr;
    }
    // The descriptor is CUDA's now.
    std::unique_ptr<CudaImportedMemory> made(new CudaImportedMemory(memory, size_bytes));
    return made->address_ == nullptr ? nullptr : std::move(made);
  }
  ~CudaImportedMemory() override {
    if (address_ != nullptr) (void)cudaFree(address_);
    (void)cudaDestroyExternalMemory(memory_);
    (void)cudaGetLastError();
  }
  CudaImportedMemory(const CudaImportedMemory&) = delete;
  CudaImportedMemory& operator=(const CudaImportedMemory&) = delete;
  [[nodiscard]] unsigned long long address() const noexcept override {
    return reinterpret_cast<std::uintptr_t>(address_);
  }

 private:
  CudaImportedMemory(cudaExternalMemory_t memory, std::size_t size_bytes) : memory_(memory) {
    cudaExternalMemoryBufferDesc all{};
    all.size = size_bytes;
    if (cudaExternalMemoryGetMappedBuffer(&address_, memory, &all) != cudaSuccess) address_ = nullptr;
    (void)cudaGetLastError();
  }

  cudaExternalMemory_t memory_;
  void* address_ = nullptr;
};

}  // namespace camd::device
