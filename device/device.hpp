// Device: where frames are computed. One interface, two implementations: the host (device/host_device.hpp) and
// CUDA (device/cuda/cuda_device.hpp), so that the pipeline's asynchrony is the same with and without a GPU.
//
// Vocabulary: a Stream is an ordered queue of work; an Event marks a point in a stream. "Enqueues" means: returns
// at once, the work happens later in the stream's order. There is no default stream.
//
// Threads: set-up functions (allocate_*, make_*) [any], may block and throw base::Error(kDevice).
//          Enqueuing functions: one thread at a time per stream; [no-alloc]; return Status, never throw.
//          Event queries [any].
// Invariants: buffers, streams and events must be destroyed before their Device. After the first failure of the
//          device every enqueuing function returns the same kDeviceLost status (sticky).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace camd::device {

using base::Duration;
using base::Status;

enum class DeviceKind : std::uint8_t { kHost, kCuda };

// How a device reaches host memory.
enum class HostMemory : std::uint8_t {
  kPageable,  // ordinary memory; copies wait on a GPU
  kPinned,    // page-locked: copies are asynchronous
  kMapped,    // page-locked and visible to the device at its own address: no copies
};

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kHost;
  int index = 0;              // CUDA ordinal; 0 on the host
  std::string name;           // "host", "NVIDIA H200"
  std::string driver;         // "" on the host
  bool integrated = false;    // shares memory with the CPU
  bool asynchronous = false;  // does what is enqueued without being waited for
  int copy_engines = 0;       // 0 on the host
  int compute_major = 0;      // CUDA compute capability
  int compute_minor = 0;
  std::size_t memory_bytes = 0;
};

// Bases of the backends' objects, owned through the handles below.
class StreamState {
 public:
  virtual ~StreamState() = default;
  [[nodiscard]] virtual void* native() const noexcept = 0;  // cudaStream_t; nullptr on the host
};
class EventState {
 public:
  virtual ~EventState() = default;
};
class MemoryState {
 public:
  virtual ~MemoryState() = default;
};

class GraphState {
 public:
  virtual ~GraphState() = default;
};

class SignalState {
 public:
  virtual ~SignalState() = default;
};

// A view of a Stream. Cannot be made from nothing: there is no default stream.
class StreamRef {
 public:
  StreamRef() = delete;
  StreamRef(std::nullptr_t) = delete;
  StreamRef(int) = delete;
  explicit StreamRef(StreamState& state) noexcept : state_(&state) {}
  [[nodiscard]] StreamState& state() const noexcept { return *state_; }
  [[nodiscard]] void* native() const noexcept { return state_->native(); }

 private:
  StreamState* state_;
};

// Sole owner of a stream. Destruction waits for the work that was enqueued; it tolerates a lost device.
class Stream {
 public:
  explicit Stream(std::unique_ptr<StreamState> state) : state_(std::move(state)) {}
  // An owner goes wherever its view is wanted.
  operator StreamRef() const noexcept { return StreamRef(*state_); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] StreamRef ref() const noexcept { return StreamRef(*state_); }

 private:
  std::unique_ptr<StreamState> state_;
};

// Ordering only: cheaper to record and cannot be asked for a time.
class Event {
 public:
  explicit Event(std::unique_ptr<EventState> state) : state_(std::move(state)) {}
  [[nodiscard]] EventState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<EventState> state_;
};

// Can be asked for the time between two of its kind (Device::elapsed).
class TimedEvent {
 public:
  explicit TimedEvent(std::unique_ptr<EventState> state) : state_(std::move(state)) {}
  [[nodiscard]] EventState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<EventState> state_;
};

// Something on the device that one stream raises and another waits for (Device::raise, Device::await). Empty until
// made.
class Signal {
 public:
  Signal() noexcept = default;
  explicit Signal(std::unique_ptr<SignalState> state) noexcept : state_(std::move(state)) {}
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  // Only of a signal that is not empty.
  [[nodiscard]] SignalState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<SignalState> state_;
};

// Sole owner of captured work that is launched as one (Device::end_capture). Empty until then.
class GraphExec {
 public:
  GraphExec() noexcept = default;
  explicit GraphExec(std::unique_ptr<GraphState> state) noexcept : state_(std::move(state)) {}
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  // Only of a graph that is not empty.
  [[nodiscard]] GraphState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<GraphState> state_;
};

// Sole owner of host memory of a kind, aligned to 4096 bytes.
class HostBuffer {
 public:
  HostBuffer() noexcept = default;
  HostBuffer(std::unique_ptr<MemoryState> owner, HostMemory kind, std::byte* data, std::byte* device_data,
             std::size_t size_bytes) noexcept
      : owner_(std::move(owner)), kind_(kind), data_(data), device_data_(device_data), size_bytes_(size_bytes) {}
  [[nodiscard]] HostMemory kind() const noexcept { return kind_; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  // The address at which the device reads and writes this memory; nullptr unless kMapped.
  [[nodiscard]] std::byte* device_data() const noexcept { return device_data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::unique_ptr<MemoryState> owner_;
  HostMemory kind_ = HostMemory::kPageable;
  std::byte* data_ = nullptr;
  std::byte* device_data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Sole owner of device memory, aligned to 256 bytes. On the host device the CPU can read it too.
class DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  DeviceBuffer(std::unique_ptr<MemoryState> owner, std::byte* data, std::size_t size_bytes) noexcept
      : owner_(std::move(owner)), data_(data), size_bytes_(size_bytes) {}
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::unique_ptr<MemoryState> owner_;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

enum class CopyKind : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice };

// Work for a stream of the host device. Must not throw and must not call into its own stream.
using HostFunction = void (*)(void* argument) noexcept;

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;

  // ---- Set-up [any] [blocks], throws Error(kDevice). Page-locking that fails is an error, never pageable memory.
  [[nodiscard]] virtual HostBuffer allocate_host(HostMemory kind, std::size_t size_bytes) = 0;
  // Page-locks memory owned by somebody else for as long as the returned buffer lives; the owner must outlive it.
  [[nodiscard]] virtual HostBuffer register_host(void* data, std::size_t size_bytes, HostMemory kind) = 0;
  [[nodiscard]] virtual DeviceBuffer allocate_device(std::size_t size_bytes) = 0;
  // `name` shows in thread lists (host) and profilers (CUDA).
  [[nodiscard]] virtual Stream make_stream(const std::string& name) = 0;
  // A stream whose work goes before that of make_stream()'s where both are ready (the compute stream's).
  [[nodiscard]] virtual Stream make_urgent_stream(const std::string& name) { return make_stream(name); }
  [[nodiscard]] virtual Event make_event() = 0;
  [[nodiscard]] virtual TimedEvent make_timed_event() = 0;

  // ---- Enqueue; do not synchronise. [no-alloc]
  // Both pointers must stay valid until the copy has happened; of no bytes they may be null.
  virtual Status copy(void* to, const void* from, std::size_t size_bytes, CopyKind kind, StreamRef stream) = 0;
  virtual Status record(Event& event, StreamRef stream) = 0;
  virtual Status record(TimedEvent& event, StreamRef stream) = 0;
  // Later work of `stream` starts after the latest record() of `event` (at once if it was never recorded).
  virtual Status wait(const Event& event, StreamRef stream) = 0;
  // Host device only (the CUDA device returns kInternal): runs function(argument) in the stream's order.
  virtual Status call(HostFunction function, void* argument, StreamRef stream) = 0;

  // ---- Capture: work is noted instead of run, and later launched as one. [setup]
  // A device without graphs answers kState from begin_capture(); supports_graphs() says so beforehand.
  [[nodiscard]] virtual bool supports_graphs() const noexcept { return false; }
  // From now to end_capture() the work of `stream`, and of every stream that waits for an Event recorded in the
  // capture, is noted. Such streams must be joined again: `stream` waits for an Event recorded last in each of them.
  // Inside a capture record(Event) only orders the captured work: nothing outside may wait for or ask that Event.
  // record(TimedEvent) becomes part of the graph and happens at every launch.
  // Addresses are noted as they are: the memory must be the same at every launch.
  virtual Status begin_capture(StreamRef stream) {
    (void)stream;
    return Status(base::ErrorKind::kState, "this device cannot capture graphs: choose another strategy");
  }
  // `stream` is the one given to begin_capture(). Allocates. On failure `graph` is left as it was.
  virtual Status end_capture(StreamRef stream, GraphExec& graph) {
    (void)stream;
    (void)graph;
    return Status(base::ErrorKind::kState, "this device cannot capture graphs: choose another strategy");
  }
  // Enqueues the captured work as one; does not synchronise. [no-alloc] Launches of one graph do not overlap.
  virtual Status launch(const GraphExec& graph, StreamRef stream) {
    (void)graph;
    (void)stream;
    return Status(base::ErrorKind::kState, "this device cannot launch graphs: choose another strategy");
  }

  // ---- Signals: a stream lets captured work of another go on while that is already running. An Event of outside
  // cannot: a graph that is behind it is launched only when it has been reached.
  [[nodiscard]] virtual bool supports_signals() const noexcept { return false; }
  // [setup] Not raised.
  [[nodiscard]] virtual Signal make_signal() {
    throw base::Error(base::ErrorKind::kDevice, "this device has no signals");
  }
  // Raised when what was enqueued on `stream` so far has happened. [no-alloc]
  virtual Status raise(Signal& signal, StreamRef stream) {
    (void)signal;
    (void)stream;
    return Status(base::ErrorKind::kState, "this device has no signals");
  }
  // Does not block the host. [no-alloc] Later work of `stream` starts when `signal` is raised, and lowers it. Meant for
  // a capture. The device is kept waiting until then: what raises the signal must have been enqueued before this is, or
  // before the graph of it is launched.
  virtual Status await(Signal& signal, StreamRef stream) {
    (void)signal;
    (void)stream;
    return Status(base::ErrorKind::kState, "this device has no signals");
  }

  // ---- Ask
  // [blocks] until the latest record() of `event` has been reached. Returns the device's sticky status.
  virtual Status synchronize(const Event& event) = 0;
  // [blocks] until all work enqueued so far on `stream` is done.
  virtual Status synchronize(StreamRef stream) = 0;
  // True when the latest record() has been reached (or there was none). A lost device answers true:
  // nobody shall wait for it.
  [[nodiscard]] virtual bool reached(const Event& event) = 0;
  // Time from `from` to `to`, both reached. Zero when either was never recorded.
  [[nodiscard]] virtual Duration elapsed(const TimedEvent& from, const TimedEvent& to) = 0;
  // Ok, or the first failure of this device (sticky).
  [[nodiscard]] virtual Status status() const = 0;
  // Device memory held through this Device, in bytes (metrics: gpu_memory_bytes).
  [[nodiscard]] virtual std::size_t allocated_bytes() const noexcept = 0;
};

}  // namespace camd::device
