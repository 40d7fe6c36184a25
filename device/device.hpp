// Device: where frames are computed. The interface has two implementations: the host (device/host_device.hpp) and CUDA
// (device/cuda/cuda_device.hpp). So the pipeline is asynchronous in the same way with and without a GPU.
//
// Words: a Stream is an ordered queue of work. An Event marks a point in a stream. A function that enqueues returns at
// once; its work happens later, in the stream's order. There is no default stream.
//
// Threads: set-up functions (allocate_*, register_host(), make_*) [any]; they may block and throw base::Error(kDevice).
//          Enqueuing functions: one thread at a time per stream; [no-alloc]; they return a Status and never throw.
//          Queries [any].
// Invariants: buffers, streams, events, signals and graphs are destroyed before their Device. The first failure of the
//          device is kept: from then on every enqueuing function returns it (kDeviceLost).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/video_decoder.hpp"

namespace camd::device {

using base::Duration;
using base::Status;

enum class DeviceKind : std::uint8_t { kHost, kCuda };

// How a device reaches host memory.
enum class HostMemory : std::uint8_t {
  kPageable,  // ordinary memory; on a GPU, copies of it block the caller
  kPinned,    // page-locked: copies are asynchronous
  kMapped,    // page-locked and visible to the device at its own address: no copies
};

// What a device is and what it can do. Code that uses a device asks what it can do (here, and supports_graphs(),
// supports_signals()). The kind is for naming it.
struct DeviceInfo {
  DeviceKind kind = DeviceKind::kHost;
  int index = 0;       // CUDA ordinal; 0 on the host
  std::string name;    // "host", "NVIDIA H200"
  std::string driver;  // "" on the host
  // Of the device on the PCI bus, as the kernel writes it: "0000:3b:00.0". "" on the host, and where there is no such
  // bus.
  std::string bus_address;
  // Its memory is the host's: it reads and writes every host address in place, and the CPU whatever it allocates.
  // False: data must be copied to and from it, or lie in HostMemory::kMapped.
  bool works_in_host_memory = false;
  bool integrated = false;  // its memory and the CPU's are the same chips
  // What one writes to HostMemory::kMapped the other sees by the order of streams and events alone. False: only behind
  // a barrier (Device::show_to_device(), show_to_host()).
  bool coherent = true;
  bool asynchronous = false;  // works on what is enqueued although nobody waits for it
  // The most frames to have on it at once, unless somebody says otherwise. Two where one is uploaded while another is
  // computed. One where a second would only wait: in its ring a newer frame can still supersede it.
  int default_depth = 1;
  int copy_engines = 0;   // 0 on the host
  int compute_major = 0;  // CUDA compute capability
  int compute_minor = 0;
  std::size_t memory_bytes = 0;
};

// What an implementation keeps for each object. The classes below own these.
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

// A view of a Stream, which must outlive it. It cannot be made from null or 0, which CUDA takes for its default stream.
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

// Owns a stream. The destructor waits for the work that was enqueued, also on a lost device. [blocks]
class Stream {
 public:
  explicit Stream(std::unique_ptr<StreamState> state) : state_(std::move(state)) {}
  // A Stream can be passed where a StreamRef is wanted.
  operator StreamRef() const noexcept { return StreamRef(*state_); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] StreamRef ref() const noexcept { return StreamRef(*state_); }

 private:
  std::unique_ptr<StreamState> state_;
};

// A point in a stream, for ordering only. It is cheaper to record than a TimedEvent and has no time.
class Event {
 public:
  explicit Event(std::unique_ptr<EventState> state) : state_(std::move(state)) {}
  [[nodiscard]] EventState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<EventState> state_;
};

// A point in a stream with its time. Device::elapsed() gives the time between two of them.
class TimedEvent {
 public:
  explicit TimedEvent(std::unique_ptr<EventState> state) : state_(std::move(state)) {}
  [[nodiscard]] EventState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<EventState> state_;
};

// A point in a stream that threads of the host wait for, and nothing else does. On a GPU it is cheaper to wait for than
// an Event: the stream writes a number into host memory, so that who waits need not call the driver, whose locks all
// threads share. Empty until it is made by Device::make_fence().
class Fence {
 public:
  Fence() noexcept = default;
  explicit Fence(std::unique_ptr<EventState> state) noexcept : state_(std::move(state)) {}
  // The fence must not be empty.
  [[nodiscard]] EventState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<EventState> state_;
};

// A binary semaphore on the device: one stream raises it, another waits for it (Device::raise(), Device::await()).
// Empty until it is made by Device::make_signal().
class Signal {
 public:
  Signal() noexcept = default;
  explicit Signal(std::unique_ptr<SignalState> state) noexcept : state_(std::move(state)) {}
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  // The signal must not be empty.
  [[nodiscard]] SignalState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<SignalState> state_;
};

// Owns captured work that is launched as one (Device::end_capture()). Empty until then.
class GraphExec {
 public:
  GraphExec() noexcept = default;
  explicit GraphExec(std::unique_ptr<GraphState> state) noexcept : state_(std::move(state)) {}
  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  // The graph must not be empty.
  [[nodiscard]] GraphState& state() const noexcept { return *state_; }

 private:
  std::unique_ptr<GraphState> state_;
};

// Owns host memory, aligned to 4096 bytes; memory from Device::register_host() is aligned as its owner made it and
// stays his.
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

// Owns device memory, aligned to 256 bytes. On the host device the CPU can access it too.
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

// Work for a stream of the host device. It must not throw and must not wait for its own stream.
using HostFunction = void (*)(void* argument) noexcept;

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceInfo& info() const noexcept = 0;

  // ---- Set-up [any] [blocks]. Throws Error(kDevice). Where memory cannot be page-locked, that is an error: nobody
  // gets pageable memory instead.
  [[nodiscard]] virtual HostBuffer allocate_host(HostMemory kind, std::size_t size_bytes) = 0;
  // Page-locks memory that the caller owns, for as long as the returned buffer lives. The memory must outlive the
  // buffer.
  [[nodiscard]] virtual HostBuffer register_host(void* data, std::size_t size_bytes, HostMemory kind) = 0;
  [[nodiscard]] virtual DeviceBuffer allocate_device(std::size_t size_bytes) = 0;
  // `name` names the stream's thread (host device) and appears in messages.
  [[nodiscard]] virtual Stream make_stream(const std::string& name) = 0;
  // A stream of higher priority: where both have work that is ready, its work goes before that of make_stream()'s.
  [[nodiscard]] virtual Stream make_urgent_stream(const std::string& name) { return make_stream(name); }
  [[nodiscard]] virtual Event make_event() = 0;
  [[nodiscard]] virtual TimedEvent make_timed_event() = 0;
  [[nodiscard]] virtual Fence make_fence() = 0;

  // ---- Enqueue; do not synchronise. [no-alloc]
  // Both pointers must stay valid until the copy has happened. They may be null where size_bytes is 0.
  virtual Status copy(void* to, const void* from, std::size_t size_bytes, CopyKind kind, StreamRef stream) = 0;
  // No other call may use `event` at the same time. A TimedEvent that is recorded again is recorded in the same stream,
  // or the record before has been reached.
  virtual Status record(Event& event, StreamRef stream) = 0;
  virtual Status record(TimedEvent& event, StreamRef stream) = 0;
  // Who waits for `fence` from now on waits until the earlier work of `stream` is done. Not in a capture. No other call
  // may use `fence` at the same time.
  virtual Status signal(Fence& fence, StreamRef stream) = 0;
  // Later work of `stream` starts after the latest record() of `event` has been reached. An event that was never
  // recorded holds nothing up.
  virtual Status wait(const Event& event, StreamRef stream) = 0;
  // Runs function(argument) in the stream's order; a capture records it. On a GPU it must not call the device.
  virtual Status call(HostFunction function, void* argument, StreamRef stream) = 0;

  // ---- Barriers, for memory that the CPU and the device share (HostMemory::kMapped). Each has caches of its own.
  // Where info().coherent is false, one sees what the other wrote only behind a barrier. A capture records them: they
  // then happen at every launch. `data` is the CPU's address (HostBuffer::data()), of memory of this device. Later work
  // of `stream` sees what the CPU wrote there before the stream's work comes to this point.
  virtual Status show_to_device(const void* data, std::size_t size_bytes, StreamRef stream) {
    (void)data;
    (void)size_bytes;
    (void)stream;
    return {};
  }
  // Who has waited for an Event that is recorded later sees what the earlier work of `stream` wrote there.
  virtual Status show_to_host(const void* data, std::size_t size_bytes, StreamRef stream) {
    (void)data;
    (void)size_bytes;
    (void)stream;
    return {};
  }

  // ---- Capture: enqueued work is recorded into a graph instead of run, and later launched as one. [setup]
  // Only where supports_graphs(); elsewhere these functions return kState.
  [[nodiscard]] virtual bool supports_graphs() const noexcept { return false; }
  // From here to end_capture() the work of `stream` is captured, and so is the work of every stream that waits for an
  // Event recorded in the capture. Each of these streams must be joined again before end_capture(): an Event is
  // recorded last in it, and `stream` waits for that Event. Inside a capture record(Event) only orders the captured
  // work. Nothing outside may wait for that Event or ask for it. record(TimedEvent) becomes part of the graph and
  // happens at every launch. Addresses are captured as they are: the memory must be the same at every launch.
  // [blocks] while a GPU's driver makes or destroys a decoder, some 50 ms.
  virtual Status begin_capture(StreamRef stream) {
    (void)stream;
    return Status(base::ErrorKind::kState, "this device cannot capture graphs: choose another strategy");
  }
  // `stream` is the one given to begin_capture(). Allocates. On failure `graph` stays as it was. Other libraries that
  // work in native_context() can break a capture off: what is enqueued from there on, and this call, return kState, the
  // device is well, and the same work can be captured again.
  virtual Status end_capture(StreamRef stream, GraphExec& graph) {
    (void)stream;
    (void)graph;
    return Status(base::ErrorKind::kState, "this device cannot capture graphs: choose another strategy");
  }
  // Enqueues the captured work as one; does not synchronise. [no-alloc] Two launches of one graph never overlap.
  virtual Status launch(const GraphExec& graph, StreamRef stream) {
    (void)graph;
    (void)stream;
    return Status(base::ErrorKind::kState, "this device cannot launch graphs: choose another strategy");
  }

  // ---- Signals: one stream lets a graph go on that already runs on another stream. An Event cannot do that: a graph
  // behind an Event starts only when the Event has been reached. Only where supports_signals(); elsewhere make_signal()
  // throws and the others return kState.
  [[nodiscard]] virtual bool supports_signals() const noexcept { return false; }
  // [any] [blocks] Makes a signal that is not raised.
  [[nodiscard]] virtual Signal make_signal() {
    throw base::Error(base::ErrorKind::kDevice, "this device has no signals");
  }
  // Enqueues; does not synchronise. [no-alloc] The signal is raised when the earlier work of `stream` is done. It
  // carries `value`, which is not 0, to who awaits it.
  virtual Status raise(Signal& signal, std::uint64_t value, StreamRef stream) {
    (void)signal;
    (void)value;
    (void)stream;
    return Status(base::ErrorKind::kState, "this device has no signals");
  }
  // Enqueues; does not synchronise. [no-alloc] Later work of `stream` starts when `signal` is raised; the signal is
  // lowered then, and its value stands at `to`, in device memory, unless that is null. Meant for a capture. A place on
  // the device stays taken until then, so raise() must have been enqueued before: before this call, or before the
  // launch of the graph that holds it.
  virtual Status await(Signal& signal, std::uint64_t* to, StreamRef stream) {
    (void)signal;
    (void)to;
    (void)stream;
    return Status(base::ErrorKind::kState, "this device has no signals");
  }

  // ---- Video
  // [any] [blocks] Makes a decoder; taker and device outlive it, the device also its pictures. What the stream needs is
  // made at its first unit, and anew when it changes its size. Throws Error(kDevice): the device has no decoders.
  [[nodiscard]] virtual std::unique_ptr<VideoDecoder> make_video_decoder(const VideoDecoderOptions& options,
                                                                         VideoTaker& taker) {
    (void)options;
    (void)taker;
    throw base::Error(base::ErrorKind::kDevice, "this device has no video decoders");
  }
  // [any] [blocks] What it decodes, 8 bits and 10. Empty: nothing, and `*why` says why where it is not null.
  [[nodiscard]] virtual std::vector<VideoSupport> video_support(std::string* why) {
    if (why != nullptr) *why = "this device has no video decoders";
    return {};
  }

  // [any] [blocks] 0.2 s at the first call. Whether it decodes more H.264 and H.265 streams than its driver makes
  // decoders for. False: `why` says why not.
  [[nodiscard]] virtual bool decodes_beyond_driver(std::string& why) {
    why = "this device has no video decoders";
    return false;
  }

  // ---- Ask
  // [blocks] until the latest record() of `event` has been reached. Returns status().
  virtual Status synchronize(const Event& event) = 0;
  // [blocks] until the latest signal() of `fence` has been reached; at once where there was none. Returns status(). A
  // device that is lost, which may be noticed a millisecond late, holds nobody up.
  virtual Status synchronize(const Fence& fence) = 0;
  // [blocks] until all work enqueued so far on `stream` is done. Returns status().
  virtual Status synchronize(StreamRef stream) = 0;
  // True when the latest record() has been reached, or when there was none. The CUDA device answers true once it is
  // lost, so that nobody waits for it.
  [[nodiscard]] virtual bool reached(const Event& event) = 0;
  // The time from `from` to `to`. Both must have been reached. Zero where one of them was never recorded.
  [[nodiscard]] virtual Duration elapsed(const TimedEvent& from, const TimedEvent& to) = 0;
  // Ok, or the first failure of this device.
  [[nodiscard]] virtual Status status() const = 0;
  // The context in which other libraries share this device's memory and addresses: a CUcontext of ordinal info().index.
  // It is alive as long as the Device. Null: there is none, or nobody else can use it.
  [[nodiscard]] virtual void* native_context() const noexcept { return nullptr; }
  // Bytes of device memory that DeviceBuffers of this Device hold (metrics: gpu_memory_bytes).
  [[nodiscard]] virtual std::size_t allocated_bytes() const noexcept = 0;
  // [blocks] Bytes of device memory that nobody has taken, this process or another; empty where that says nothing: a
  // device that works in host memory.
  [[nodiscard]] virtual std::optional<std::size_t> free_bytes() const { return std::nullopt; }
};

}  // namespace camd::device
