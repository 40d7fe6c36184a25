// EmulatedGpu: the part of a GPU's contract that the host device has not, on streams of the host: it works beside the
// one who enqueues, has memory of its own that pictures and outputs must be copied to and from, captures graphs and
// knows signals. So what is written for a GPU runs under the sanitizers, on any machine. Kernels under emulation
// (infer/cuda/kernels/emulation.cuh) run on its streams, of several streams at the same time.
//
// A stream is one of the host device's, with a thread of its own. A captured graph is a list of operations; at a launch
// they are enqueued on streams of the graph's own, one for each stream of the capture.
//
// With GpuMemory::kIncoherent it is an integrated GPU that looks into no cache: in mapped memory it and the CPU see
// what the other wrote only behind a barrier, so that one that is forgotten shows.
//
// Threads: as Device; before_copy() is set before anything is enqueued and called by the streams' threads.
// Invariants: misuse that CUDA answers with an error (an Event of outside in a capture, one of a capture outside, work
// that nothing joins) is answered kInternal.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/emulated_stream.hpp"
#include "device/cuda/nvdec_decoder.hpp"
#include "device/cuda/vulkan_video.hpp"
#include "device/host_device.hpp"
#include "device/memory_exporter.hpp"
#include "tests/device/exported_file.hpp"
#include "tests/device/shared_views.hpp"

namespace camd::test {

// kCoherent, kIncoherent: an integrated GPU's, which is the CPU's memory as well.
enum class GpuMemory : std::uint8_t { kOwn, kCoherent, kIncoherent };
enum class Barrier : std::uint8_t { kToDevice, kToHost };

// Memory of a descriptor's file.
class MappedFile final : public device::ImportedMemory {
 public:
  // Takes the descriptor. Null: it cannot be mapped.
  static std::unique_ptr<MappedFile> map(int descriptor, std::size_t size_bytes) {
    void* const data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (data == MAP_FAILED) return nullptr;
    return std::unique_ptr<MappedFile>(new MappedFile(data, size_bytes));
  }
  ~MappedFile() override { munmap(data_, size_bytes_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] unsigned long long address() const noexcept override { return reinterpret_cast<std::uintptr_t>(data_); }

 private:
  MappedFile(void* data, std::size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  void* const data_;
  const std::size_t size_bytes_;
};

class EmulatedGpu : public device::CudaDevice, public device::MemoryExporter {
 public:
  explicit EmulatedGpu(const base::Clock& clock, int index = 0, GpuMemory memory = GpuMemory::kOwn)
      : host_(device::make_host_device(clock, with_threads())) {
    info_ = host_->info();
    info_.index = index;
    info_.kind = device::DeviceKind::kCuda;
    info_.name = "emulated GPU";
    info_.works_in_host_memory = false;
    info_.integrated = memory != GpuMemory::kOwn;
    info_.coherent = memory != GpuMemory::kIncoherent;
    info_.default_depth = 2;
    info_.copy_engines = 1;
  }

  // [setup] Called before each copy that a stream carries out, with where it reads.
  void before_copy(std::function<void(const void* from)> call) { before_copy_ = std::move(call); }

  // [setup] Called before each kernel that a stream runs, by several of them at once.
  void before_kernel(std::function<void()> call) { before_kernel_ = std::move(call); }

  // [setup] Such barriers do nothing, as if nobody had enqueued them.
  void forget(Barrier barrier) { forgotten_ = barrier; }

  // Of an incoherent one: pieces of memory that it shares with the CPU now.
  [[nodiscard]] std::size_t shared_pieces() const { return views_.count(); }
  [[nodiscard]] std::size_t captures() const noexcept {  // so far
    const base::MutexLock lock(captures_.mutex);
    return captures_.begun;
  }
  // [setup] The next `count` captures are broken off, as other libraries' calls do it.
  void break_off_captures(int count) {
    const base::MutexLock lock(captures_.mutex);
    captures_.broken_off = count;
  }

  // [setup] Decodes video by these functions (tests/device/fake_nvdec.hpp).
  void decode_with(const device::NvdecLibrary& library) { nvdec_ = &library; }

  [[nodiscard]] std::unique_ptr<device::VideoDecoder> make_video_decoder(const device::VideoDecoderOptions& options,
                                                                         device::VideoTaker& taker) override {
    if (nvdec_ == nullptr) return CudaDevice::make_video_decoder(options, taker);
    return device::make_nvdec_decoder(*nvdec_, *this, turns_, options, taker);
  }
  [[nodiscard]] std::vector<device::VideoSupport> video_support(std::string* why) override {
    return nvdec_ == nullptr ? CudaDevice::video_support(why) : device::nvdec_support(*nvdec_, *this);
  }

  [[nodiscard]] device::CudaUuid uuid() const noexcept override { return {}; }
  // Memory that is a file's (memfd).
  [[nodiscard]] std::unique_ptr<device::ImportedMemory> import_memory(int descriptor, std::size_t size_bytes) override {
    return MappedFile::map(descriptor, size_bytes);
  }

  // [setup] Decodes by these as well (tests/device/fake_vulkan.hpp).
  void decode_with(std::unique_ptr<device::VulkanVideo> vulkan) { vulkan_ = std::move(vulkan); }
  [[nodiscard]] device::VulkanVideo* vulkan_video() override { return vulkan_.get(); }

  [[nodiscard]] bool decodes_beyond_driver(std::string& why) override {
    why = "nobody has said so";
    return vulkan_ != nullptr;
  }

  // As HostDevice::inject_failure(): the device is lost from now on. [any]
  void lose(const base::Status& failure) {
    host_->inject_failure(failure);
    const base::MutexLock lock(signals_.mutex);
    signals_.lost = true;
    signals_.changed.notify_all();
  }

  [[nodiscard]] const device::DeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] device::HostBuffer allocate_host(device::HostMemory kind, std::size_t size_bytes) override {
    device::HostBuffer buffer = host_->allocate_host(kind, size_bytes);
    if (!info_.coherent) std::memset(buffer.data(), 0, size_bytes);  // so that what is read too early is known
    return shared(std::move(buffer));
  }
  [[nodiscard]] device::HostBuffer register_host(void* data, std::size_t size, device::HostMemory kind) override {
    return shared(host_->register_host(data, size, kind));
  }
  [[nodiscard]] device::DeviceBuffer allocate_device(std::size_t size_bytes) override {
    return host_->allocate_device(size_bytes);
  }
  [[nodiscard]] device::DeviceBuffer allocate_exported(std::size_t size_bytes) override {
    return ExportedFile::make(size_bytes);
  }
  [[nodiscard]] device::Stream make_stream(const std::string& name) override {
    return device::Stream(std::make_unique<StreamOfGpu>(*this, host_->make_stream(name)));
  }
  [[nodiscard]] device::Event make_event() override {
    return device::Event(std::make_unique<EventOfGpu>(host_->make_event()));
  }
  [[nodiscard]] device::TimedEvent make_timed_event() override { return host_->make_timed_event(); }
  [[nodiscard]] device::Fence make_fence() override { return host_->make_fence(); }

  base::Status copy(void* to, const void* from, std::size_t size, device::CopyKind kind,
                    device::StreamRef stream) override {
    if (StreamOfGpu& own = of(stream); own.capture != nullptr) {
      Operation operation{Kind::kCopy, own.lane};
      operation.copy = {to, from, size, kind};
      return note(*own.capture, operation);
    }
    return run_copy({to, from, size, kind}, of(stream).host);
  }

  base::Status record(device::Event& event, device::StreamRef stream) override {
    EventOfGpu& own = of(event);
    Capture* const capture = of(stream).capture;
    own.capture = capture == nullptr ? 0 : capture->number;
    if (capture == nullptr) return host_->record(own.host, of(stream).host);
    own.point = capture->points.size();
    capture->points.push_back(host_->make_event());
    Operation operation{Kind::kRecord, of(stream).lane};
    operation.point = own.point;
    return note(*capture, operation);
  }
  base::Status record(device::TimedEvent& event, device::StreamRef stream) override {
    StreamOfGpu& own = of(stream);
    if (own.capture == nullptr) return host_->record(event, own.host);
    Operation operation{Kind::kTime, own.lane};
    operation.time = &event;
    return note(*own.capture, operation);
  }
  base::Status signal(device::Fence& fence, device::StreamRef stream) override {
    if (of(stream).capture != nullptr) return misuse("a fence is signalled in a capture");
    return host_->signal(fence, of(stream).host);
  }
  base::Status wait(const device::Event& event, device::StreamRef stream) override {
    const EventOfGpu& waited = of(event);
    StreamOfGpu& own = of(stream);
    if (waited.capture == 0) {
      if (own.capture != nullptr) return misuse("a capture waits for an event of outside");
      return host_->wait(waited.host, own.host);
    }
    Capture* const capture = capture_of(waited.capture);
    if (capture == nullptr) return misuse("the event was recorded in a capture that has ended");
    if (own.capture == nullptr) join(own, *capture);
    if (own.capture != capture) return misuse("a capture waits for an event of another one");
    Operation operation{Kind::kWait, own.lane};
    operation.point = waited.point;
    return note(*own.capture, operation);
  }
  base::Status call(device::HostFunction function, void* argument, device::StreamRef stream) override {
    StreamOfGpu& own = of(stream);
    if (own.capture == nullptr) return host_->call(function, argument, own.host);
    Operation operation{Kind::kCall, own.lane};
    operation.function = function;
    operation.argument = argument;
    return note(*own.capture, operation);
  }

  // The bytes lie in memory of this device, which its own copies may write.
  // NOLINTBEGIN(cppcoreguidelines-pro-type-const-cast)
  base::Status show_to_device(const void* data, std::size_t size, device::StreamRef stream) override {
    return show(Barrier::kToDevice, const_cast<void*>(data), size, stream);
  }
  base::Status show_to_host(const void* data, std::size_t size, device::StreamRef stream) override {
    return show(Barrier::kToHost, const_cast<void*>(data), size, stream);
  }
  // NOLINTEND(cppcoreguidelines-pro-type-const-cast)

  // What kernels are enqueued with goes on until the device does.
  base::Status call(std::function<void()> function, device::StreamRef stream) {
    const base::MutexLock lock(kept_mutex_);
    kept_.push_back(std::move(function));
    return call([](void* kept) noexcept { (*static_cast<std::function<void()>*>(kept))(); }, &kept_.back(), stream);
  }

  [[nodiscard]] const device::CudaLimits& limits() const noexcept override { return limits_; }
  base::Status clear(void* data, std::size_t size_bytes, device::StreamRef stream) override {
    return call([data, size_bytes] { std::memset(data, 0, size_bytes); }, stream);
  }
  base::Status record_for_outside(device::Event& event, device::StreamRef stream) override {
    StreamOfGpu& own = of(stream);
    if (own.capture == nullptr) return record(event, stream);
    of(event).capture = 0;
    Operation operation{Kind::kRecordForOutside, own.lane};
    operation.event = &event;
    return note(*own.capture, operation);
  }
  base::Status check(int cuda_error, const char* call) noexcept override {
    return cuda_error == 0 ? host_->status() : base::Status(base::ErrorKind::kDeviceLost, call);
  }
  base::Status select() noexcept override { return host_->status(); }
  [[nodiscard]] bool capturing(device::StreamRef stream) noexcept override { return of(stream).capture != nullptr; }

  [[nodiscard]] bool supports_graphs() const noexcept override { return true; }
  base::Status begin_capture(device::StreamRef stream) override {
    if (of(stream).capture != nullptr) return misuse("the stream is in a capture already");
    const base::MutexLock lock(captures_.mutex);
    auto capture = std::make_unique<Capture>();
    capture->number = ++captures_.begun;
    join(of(stream), *capture);
    captures_.open.push_back(std::move(capture));
    return host_->status();
  }
  base::Status end_capture(device::StreamRef stream, device::GraphExec& graph) override {
    if (of(stream).capture == nullptr || of(stream).lane != 0) return misuse("this stream began no capture");
    std::unique_ptr<Capture> capture;
    {
      const base::MutexLock lock(captures_.mutex);
      const auto found = std::find_if(captures_.open.begin(), captures_.open.end(),
                                      [&](const auto& one) { return one.get() == of(stream).capture; });
      capture = std::move(*found);
      captures_.open.erase(found);
      for (StreamOfGpu* const member : capture->members) member->capture = nullptr;
      if (captures_.broken_off > 0) {
        --captures_.broken_off;
        return base::Status(base::ErrorKind::kState, "broken off");
      }
    }
    if (!joined(*capture)) return misuse("work of the capture is not joined at its end");
    auto made =
        std::make_unique<Graph>(std::move(capture->operations), std::move(capture->points), host_->make_event());
    for (std::size_t lane = 0; lane < capture->members.size(); ++lane) {
      made->lanes.push_back(host_->make_stream("graph " + std::to_string(lane)));
    }
    graph = device::GraphExec(std::move(made));
    return host_->status();
  }
  base::Status launch(const device::GraphExec& graph, device::StreamRef stream) override {
    auto& own = static_cast<Graph&>(graph.state());
    base::Status status = host_->record(own.border, of(stream).host);
    for (const device::Stream& lane : own.lanes) {
      if (status.ok()) status = host_->wait(own.border, lane);
    }
    for (Operation& operation : own.operations) {
      if (status.ok()) status = run(operation, own, own.lanes[operation.lane]);
    }
    if (status.ok()) status = host_->record(own.border, own.lanes.front());
    if (status.ok()) status = host_->wait(own.border, of(stream).host);
    // Lost in between: what has begun is in no stream that the caller knows, so nobody else could wait for it.
    for (const device::Stream& lane : own.lanes) {
      if (!status.ok()) (void)host_->synchronize(lane.ref());
    }
    return status;
  }

  [[nodiscard]] bool supports_signals() const noexcept override { return true; }
  [[nodiscard]] device::Signal make_signal() override {
    return device::Signal(std::make_unique<SignalOfGpu>(signals_));
  }
  base::Status raise(device::Signal& signal, std::uint64_t value, device::StreamRef stream) override {
    return call([&own = static_cast<SignalOfGpu&>(signal.state()), value] { own.raise(value); }, stream);
  }
  base::Status await(device::Signal& signal, std::uint64_t* to, device::StreamRef stream) override {
    return call([&own = static_cast<SignalOfGpu&>(signal.state()), to] { own.await(to); }, stream);
  }

  base::Status synchronize(const device::Event& event) override {
    if (of(event).capture != 0) return misuse("an event of a capture is asked outside of it");
    return host_->synchronize(of(event).host);
  }
  base::Status synchronize(const device::Fence& fence) override { return host_->synchronize(fence); }
  base::Status synchronize(device::StreamRef stream) override { return host_->synchronize(of(stream).host); }
  [[nodiscard]] bool reached(const device::Event& event) override { return host_->reached(of(event).host); }
  [[nodiscard]] base::Duration elapsed(const device::TimedEvent& from, const device::TimedEvent& to) override {
    return host_->elapsed(from, to);
  }
  [[nodiscard]] base::Status status() const override { return host_->status(); }
  [[nodiscard]] std::size_t allocated_bytes() const noexcept override { return host_->allocated_bytes(); }

 private:
  enum class Kind : std::uint8_t { kCopy, kCall, kTime, kRecord, kRecordForOutside, kWait };
  struct Copy {
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t size_bytes = 0;
    device::CopyKind kind = device::CopyKind::kHostToDevice;
  };
  struct Operation {
    Operation(Kind of_kind, std::size_t of_lane) : kind(of_kind), lane(of_lane) {}
    Kind kind;
    std::size_t lane;
    Copy copy;
    device::HostFunction function = nullptr;
    void* argument = nullptr;
    device::TimedEvent* time = nullptr;
    device::Event* event = nullptr;  // for outside
    std::size_t point = 0;           // that is recorded or waited for
  };
  struct StreamOfGpu;
  struct Capture {
    std::size_t number = 0;
    std::vector<StreamOfGpu*> members;  // one a lane, first the one that began
    std::vector<Operation> operations;
    std::vector<device::Event> points;
  };
  struct StreamOfGpu final : device::StreamState, device::EmulatedStream {
    StreamOfGpu(EmulatedGpu& of_gpu, device::Stream of_host) : gpu(of_gpu), host(std::move(of_host)) {}
    [[nodiscard]] void* native() const noexcept override { return self; }
    int enqueue(std::function<void()> kernel) override {
      // A captured kernel outlives this stream.
      const auto run = [&device = gpu, kernel = std::move(kernel)] {
        if (device.before_kernel_) device.before_kernel_();
        kernel();
      };
      return gpu.call(run, device::StreamRef(*this)).ok() ? 0 : 1;
    }
    EmulatedGpu& gpu;
    EmulatedStream* const self = this;
    device::Stream host;
    Capture* capture = nullptr;
    std::size_t lane = 0;
  };
  struct EventOfGpu final : device::EventState {
    explicit EventOfGpu(device::Event of_host) : host(std::move(of_host)) {}
    device::Event host;
    // The capture of the latest record(), 0 outside of any, and which of its points it is.
    std::size_t capture = 0, point = 0;
  };
  struct Graph final : device::GraphState {
    Graph(std::vector<Operation> of_capture, std::vector<device::Event> its_points, device::Event its_border)
        : operations(std::move(of_capture)), points(std::move(its_points)), border(std::move(its_border)) {}
    std::vector<Operation> operations;
    std::vector<device::Event> points;
    device::Event border;  // where it begins, then where it ends
    std::vector<device::Stream> lanes;
  };
  // What all signals of a device share: who waits for one is let go when the device is lost.
  struct Signals {
    base::Mutex mutex;
    base::CondVar changed;
    bool lost CAMD_GUARDED_BY(mutex) = false;
  };
  struct SignalOfGpu final : device::SignalState {
    explicit SignalOfGpu(Signals& of_device) : all(of_device) {}
    void raise(std::uint64_t value) {
      const base::MutexLock lock(all.mutex);
      raised = value;
      all.changed.notify_all();
    }
    void await(std::uint64_t* to) {
      const base::MutexLock lock(all.mutex);
      while (raised == 0 && !all.lost) all.changed.wait(all.mutex);
      if (to != nullptr) *to = raised;
      raised = 0;
    }
    Signals& all;
    std::uint64_t raised CAMD_GUARDED_BY(all.mutex) = 0;  // its value; 0: it is not raised
  };

  static device::HostDeviceOptions with_threads() {
    device::HostDeviceOptions options;
    options.stream_threads = true;
    return options;
  }
  static StreamOfGpu& of(device::StreamRef stream) { return static_cast<StreamOfGpu&>(stream.state()); }
  static EventOfGpu& of(const device::Event& event) { return static_cast<EventOfGpu&>(event.state()); }
  static base::Status misuse(const char* what) { return {base::ErrorKind::kInternal, what}; }

  device::HostBuffer shared(device::HostBuffer buffer) {
    if (info_.coherent || buffer.kind() != device::HostMemory::kMapped) return buffer;
    return views_.add_view(std::move(buffer));
  }
  base::Status show(Barrier barrier, void* on_cpu, std::size_t size, device::StreamRef stream) {
    if (info_.coherent) return host_->status();
    void* const on_device = views_.of_device(on_cpu, size);
    if (on_device == nullptr) return misuse("a barrier for memory that the device does not share");
    if (forgotten_ == barrier) return host_->status();
    const bool to_device = barrier == Barrier::kToDevice;
    void* const to = to_device ? on_device : on_cpu;
    const void* const from = to_device ? on_cpu : on_device;
    return call([to, from, size] { std::memcpy(to, from, size); }, stream);
  }

  // The open capture of this number; null: it has ended.
  Capture* capture_of(std::size_t number) {
    const base::MutexLock lock(captures_.mutex);
    const auto found = std::find_if(captures_.open.begin(), captures_.open.end(),
                                    [number](const auto& one) { return one->number == number; });
    return found == captures_.open.end() ? nullptr : found->get();
  }
  static void join(StreamOfGpu& stream, Capture& capture) {
    stream.capture = &capture;
    stream.lane = capture.members.size();
    capture.members.push_back(&stream);
  }
  base::Status note(Capture& capture, const Operation& operation) {
    capture.operations.push_back(operation);
    return host_->status();
  }
  // Whether the end of the first lane comes after all work.
  static bool joined(const Capture& capture) {
    std::vector<bool> lane_joined(capture.members.size(), false);
    std::vector<bool> point_joined(capture.points.size(), false);
    lane_joined[0] = true;
    for (std::size_t i = capture.operations.size(); i-- > 0;) {
      const Operation& operation = capture.operations[i];
      if (operation.kind == Kind::kRecord && point_joined[operation.point]) lane_joined[operation.lane] = true;
      if (operation.kind == Kind::kWait && lane_joined[operation.lane]) point_joined[operation.point] = true;
      const bool works =
          operation.kind != Kind::kRecord && operation.kind != Kind::kWait && operation.kind != Kind::kRecordForOutside;
      if (works && !lane_joined[operation.lane]) return false;
    }
    return true;
  }

  base::Status run_copy(const Copy& copy, const device::Stream& stream) {
    if (before_copy_) {
      const base::MutexLock lock(told_mutex_);
      told_.push_back({this, copy.from});
      base::Status status = host_->call(&Told::tell, &told_.back(), stream);
      if (!status.ok()) return status;
    }
    return host_->copy(copy.to, copy.from, copy.size_bytes, copy.kind, stream);
  }
  // A copy that before_copy() is called for.
  struct Told {
    static void tell(void* self) noexcept {
      const Told& told = *static_cast<Told*>(self);
      told.gpu->before_copy_(told.from);
    }
    EmulatedGpu* gpu;
    const void* from;
  };

  base::Status run(const Operation& operation, Graph& graph, const device::Stream& lane) {
    switch (operation.kind) {
      case Kind::kCopy: return run_copy(operation.copy, lane);
      case Kind::kCall: return host_->call(operation.function, operation.argument, lane);
      case Kind::kTime: return host_->record(*operation.time, lane);
      case Kind::kRecord: return host_->record(graph.points[operation.point], lane);
      case Kind::kRecordForOutside: return host_->record(of(*operation.event).host, lane);
      case Kind::kWait: return host_->wait(graph.points[operation.point], lane);
    }
    return {};
  }

  SharedViews views_;
  std::optional<Barrier> forgotten_;
  Signals signals_;
  base::Mutex kept_mutex_;
  std::deque<std::function<void()>> kept_ CAMD_GUARDED_BY(kept_mutex_);
  const device::CudaLimits limits_{2, std::size_t{227} * 1024, std::size_t{228} * 1024, true};
  base::Mutex told_mutex_;
  std::deque<Told> told_ CAMD_GUARDED_BY(told_mutex_);  // stay until the end: a stream may still hold them
  std::unique_ptr<device::HostDevice> host_;
  device::DeviceInfo info_;
  const device::NvdecLibrary* nvdec_ = nullptr;
  device::DecoderTurns turns_;
  std::unique_ptr<device::VulkanVideo> vulkan_;
  std::function<void(const void* from)> before_copy_;
  std::function<void()> before_kernel_;
  // Several threads may capture at a time, each on streams of its own (cudaStreamCaptureModeThreadLocal).
  struct Captures {
    mutable base::Mutex mutex;
    std::vector<std::unique_ptr<Capture>> open CAMD_GUARDED_BY(mutex);
    std::size_t begun CAMD_GUARDED_BY(mutex) = 0;
    int broken_off CAMD_GUARDED_BY(mutex) = 0;
  };
  Captures captures_;
};

}  // namespace camd::test
