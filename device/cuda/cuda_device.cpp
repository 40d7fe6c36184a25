// Each function makes one CUDA call on its GPU, checks it and keeps the first failure.
#include "device/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "device/cuda/await.hpp"
#include "device/cuda/capture_gate.hpp"
#include "device/cuda/cuda_owners.hpp"
#include "device/cuda/cuda_video.hpp"
#include "device/cuda/driver_functions.hpp"
#include "device/cuda/polling.hpp"
#include "device/exported_memory.hpp"
#include "device/memory_exporter.hpp"
#include "device/sticky_failure.hpp"

namespace camd::device {
namespace {

using base::Error;
using base::ErrorKind;

std::uint64_t* native_word(const Signal& s) noexcept { return static_cast<const CudaSignal&>(s.state()).word(); }

cudaStream_t native_stream(StreamRef stream) noexcept { return static_cast<cudaStream_t>(stream.native()); }
cudaEvent_t native_event(const Event& e) noexcept { return static_cast<const CudaEvent&>(e.state()).handle(); }
cudaEvent_t event_of(const Fence& fence) noexcept { return static_cast<const CudaEvent&>(fence.state()).handle(); }
cudaEvent_t native_event(const TimedEvent& e) noexcept { return static_cast<const CudaEvent&>(e.state()).handle(); }

cudaMemcpyKind native_kind(CopyKind kind) noexcept {
  switch (kind) {
    case CopyKind::kHostToDevice: return cudaMemcpyHostToDevice;
    case CopyKind::kDeviceToHost: return cudaMemcpyDeviceToHost;
    case CopyKind::kDeviceToDevice: return cudaMemcpyDeviceToDevice;
  }
  return cudaMemcpyDefault;
}

class CudaDeviceImpl final : public CudaDevice, public MemoryExporter {
 public:
  CudaDeviceImpl(int index, const CudaDeviceOptions& options) : index_(index), options_(options) {
    setup(cudaSetDevice(index), "cudaSetDevice");
    setup(cudaFree(nullptr), "making the context");  // the context is made by the first call that needs it
    context_ = current_context();
    cudaDeviceProp properties{};
    setup(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    std::memcpy(uuid_.data(), properties.uuid.bytes, uuid_.size());
    info_.kind = DeviceKind::kCuda;
    info_.index = index;
    info_.name = properties.name;
    info_.driver = "CUDA " + version_text(driver_version());
    info_.bus_address =
        fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
    info_.integrated = properties.integrated != 0;
    // Page-locked memory is never cached on both sides: a Tegra's GPU does not cache it, and reads the CPU's caches, or
    // else, before compute capability 7.2, the CPU does not cache it either ("CUDA for Tegra", memory management). Work
    // of one stream and events order the rest. So no barrier is needed.
    info_.coherent = true;
    info_.asynchronous = true;
    info_.default_depth = 2;
    info_.copy_engines = properties.asyncEngineCount;
    info_.compute_major = properties.major;
    info_.compute_minor = properties.minor;
    info_.memory_bytes = properties.totalGlobalMem;
    limits_.multiprocessors = properties.multiProcessorCount;
    limits_.shared_bytes_per_block = properties.sharedMemPerBlockOptin;
    limits_.tf32 = properties.major >= 8;
    limits_.warpgroup_products = properties.major == 9 && properties.minor == 0;
    limits_.shared_bytes_per_multiprocessor = properties.sharedMemPerMultiprocessor;
    int least = 0;
    setup(cudaDeviceGetStreamPriorityRange(&least, &greatest_priority_), "cudaDeviceGetStreamPriorityRange");
    make_pool(least);
    find_out_about_signals();
  }
  ~CudaDeviceImpl() override {
    (void)select_gpu();
    if (memory_stream_ != nullptr) (void)cudaStreamDestroy(memory_stream_);
    if (pool_ != nullptr) (void)cudaMemPoolDestroy(pool_);
  }
  CudaDeviceImpl(const CudaDeviceImpl&) = delete;
  CudaDeviceImpl& operator=(const CudaDeviceImpl&) = delete;

  [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] const CudaLimits& limits() const noexcept override { return limits_; }

  [[nodiscard]] HostBuffer allocate_host(HostMemory kind, std::size_t size_bytes) override {
    const std::size_t size = std::max<std::size_t>(size_bytes, 1);
    if (kind == HostMemory::kPageable) {
      void* data = std::aligned_alloc(kHostAlignment, (size + kHostAlignment - 1) / kHostAlignment * kHostAlignment);
      if (data == nullptr) throw Error(ErrorKind::kDevice, "cannot allocate " + std::to_string(size) + " bytes");
      return HostBuffer(std::make_unique<PageableMemory>(data), kind, static_cast<std::byte*>(data), nullptr,
                        size_bytes);
    }
    select_for_setup();
    void* data = nullptr;
    unsigned flags = cudaHostAllocPortable;
    if (kind == HostMemory::kMapped) flags |= cudaHostAllocMapped;
    setup(call("cudaHostAlloc", [&] { return cudaHostAlloc(&data, size, flags); }),
          "page-locking " + std::to_string(size) + " bytes of host memory (see ulimit -l)");
    auto owner = std::make_unique<PinnedMemory>(index_, data);
    std::byte* mapped = kind == HostMemory::kMapped ? device_address(data) : nullptr;
    return HostBuffer(std::move(owner), kind, static_cast<std::byte*>(data), mapped, size_bytes);
  }

  [[nodiscard]] HostBuffer register_host(void* data, std::size_t size_bytes, HostMemory kind) override {
    if (kind == HostMemory::kPageable) {
      return HostBuffer(nullptr, kind, static_cast<std::byte*>(data), nullptr, size_bytes);
    }
    select_for_setup();
    unsigned flags = cudaHostRegisterPortable;
    if (kind == HostMemory::kMapped) flags |= cudaHostRegisterMapped;
    setup(call("cudaHostRegister", [&] { return cudaHostRegister(data, size_bytes, flags); }),
          "page-locking " + std::to_string(size_bytes) + " bytes of memory owned by somebody else");
    auto owner = std::make_unique<RegisteredMemory>(index_, data);
    std::byte* mapped = kind == HostMemory::kMapped ? device_address(data) : nullptr;
    return HostBuffer(std::move(owner), kind, static_cast<std::byte*>(data), mapped, size_bytes);
  }

  [[nodiscard]] DeviceBuffer allocate_device(std::size_t size_bytes) override {
    select_for_setup();
    void* data = nullptr;
    const std::size_t size = std::max<std::size_t>(size_bytes, 1);
    const auto allocate = [&] {
      if (pool_ == nullptr) return cudaMalloc(&data, size);
      const cudaError_t error = cudaMallocFromPoolAsync(&data, size, pool_, memory_stream_);
      return error != cudaSuccess ? error : cudaStreamSynchronize(memory_stream_);
    };
    setup(call("cudaMalloc", allocate), "allocating " + std::to_string(size) + " bytes of GPU memory");
    return DeviceBuffer(std::make_unique<DeviceMemory>(index_, data, memory_stream_, size, allocated_),
                        static_cast<std::byte*>(data), size_bytes);
  }

  [[nodiscard]] DeviceBuffer allocate_exported(std::size_t size_bytes) override {
    // cudaMalloc() cuts smaller pieces out of one of this size, and the handle would give away the others with it.
    constexpr std::size_t kWhole = std::size_t{2} << 20;
    select_for_setup();
    void* data = nullptr;
    const std::size_t size = (std::max<std::size_t>(size_bytes, 1) + kWhole - 1) / kWhole * kWhole;
    setup(call("cudaMalloc", [&] { return cudaMalloc(&data, size); }),
          "allocating " + std::to_string(size) + " bytes of GPU memory for other processes");
    auto owner = std::make_unique<ExportedMemory>(index_, data, size, allocated_);
    cudaIpcMemHandle_t native{};
    setup(call("cudaIpcGetMemHandle", [&] { return cudaIpcGetMemHandle(&native, data); }),
          "letting other processes open GPU memory");
    ExportHandle handle;
    static_assert(sizeof(native) == sizeof(handle.bytes));
    std::memcpy(handle.bytes.data(), &native, sizeof(native));
    note_exported(data, handle);
    return DeviceBuffer(std::move(owner), static_cast<std::byte*>(data), size_bytes);
  }

  [[nodiscard]] Stream make_stream(const std::string& name) override { return stream_of_priority(name, 0); }
  [[nodiscard]] Stream make_urgent_stream(const std::string& name) override {
    return stream_of_priority(name, greatest_priority_);
  }

  [[nodiscard]] Event make_event() override { return Event(make_event_state(cudaEventDisableTiming)); }
  [[nodiscard]] TimedEvent make_timed_event() override { return TimedEvent(make_event_state(cudaEventDefault)); }
  [[nodiscard]] Fence make_fence() override {
    if (write_value_ == nullptr) return Fence(make_event_state(cudaEventDisableTiming));
    return Fence(std::make_unique<CudaFence>(fence_words_, take_word(fence_words_, "a fence")));
  }

  Status copy(void* to, const void* from, std::size_t size_bytes, CopyKind kind, StreamRef stream) override {
    return enqueue("cudaMemcpyAsync",
                   [&] { return cudaMemcpyAsync(to, from, size_bytes, native_kind(kind), native_stream(stream)); });
  }

  Status clear(void* data, std::size_t size_bytes, StreamRef stream) override {
    if (size_bytes == 0) return status();
    return enqueue("cudaMemsetAsync", [&] { return cudaMemsetAsync(data, 0, size_bytes, native_stream(stream)); });
  }

  Status record(Event& event, StreamRef stream) override {
    return enqueue("cudaEventRecord", [&] { return cudaEventRecord(native_event(event), native_stream(stream)); });
  }

  Status signal(Fence& fence, StreamRef stream) override {
    if (write_value_ == nullptr) {
      return enqueue("cudaEventRecord", [&] { return cudaEventRecord(event_of(fence), native_stream(stream)); });
    }
    return enqueue("cuStreamWriteValue64", [&] {
      const auto [word, number] = static_cast<CudaFence&>(fence.state()).next(native_stream(stream));
      return write_word(stream, word, number);
    });
  }

  Status record(TimedEvent& event, StreamRef stream) override { return record_as_node(native_event(event), stream); }
  Status record_for_outside(Event& event, StreamRef stream) override {
    return record_as_node(native_event(event), stream);
  }

  Status wait(const Event& event, StreamRef stream) override {
    return enqueue("cudaStreamWaitEvent",
                   [&] { return cudaStreamWaitEvent(native_stream(stream), native_event(event), 0); });
  }

  Status call(HostFunction function, void* argument, StreamRef stream) override {
    return enqueue("cudaLaunchHostFunc", [&] { return cudaLaunchHostFunc(native_stream(stream), function, argument); });
  }

  [[nodiscard]] bool supports_graphs() const noexcept override { return true; }

  Status begin_capture(StreamRef stream) override {
    CaptureGate::of_the_process().begin_capture();
    // Thread-local: other cameras' threads may allocate and wait while this one captures.
    Status begun = enqueue("cudaStreamBeginCapture", [&] {
      return cudaStreamBeginCapture(native_stream(stream), cudaStreamCaptureModeThreadLocal);
    });
    if (begun.ok()) {
      captured_stream() = native_stream(stream);
    } else {
      CaptureGate::of_the_process().end_capture();
    }
    return begun;
  }

  Status end_capture(StreamRef stream, GraphExec& graph) override {
    captured_stream() = nullptr;
    cudaGraph_t captured = nullptr;
    Status ended =
        enqueue("cudaStreamEndCapture", [&] { return cudaStreamEndCapture(native_stream(stream), &captured); });
    CaptureGate::of_the_process().end_capture();
    if (!ended) return ended;
    cudaGraphExec_t executable = nullptr;
    Status made = enqueue("cudaGraphInstantiate", [&] { return cudaGraphInstantiate(&executable, captured, 0); });
    (void)cudaGraphDestroy(captured);
    if (!made) return made;
    auto state = std::make_unique<CudaGraph>(index_, executable);
    // The first launch shall not pay for the upload.
    Status uploaded = enqueue("cudaGraphUpload", [&] { return cudaGraphUpload(executable, native_stream(stream)); });
    if (!uploaded) return uploaded;
    graph = GraphExec(std::move(state));
    return {};
  }

  Status launch(const GraphExec& graph, StreamRef stream) override {
    return enqueue("cudaGraphLaunch", [&] {
      return cudaGraphLaunch(static_cast<const CudaGraph&>(graph.state()).handle(), native_stream(stream));
    });
  }

  [[nodiscard]] bool supports_signals() const noexcept override { return write_value_ != nullptr; }

  [[nodiscard]] Signal make_signal() override {
    std::uint64_t* const word = take_word(signal_words_, "a signal");
    auto state = std::make_unique<CudaSignal>(signal_words_, word);
    // On a stream, and waited for: streams of this device do not wait for the default stream, so a clearing there could
    // come behind the first raise() and undo it.
    const Stream stream = make_stream("signal");
    setup(call("cudaMemsetAsync", [&] { return cudaMemsetAsync(word, 0, sizeof(*word), native_stream(stream)); }),
          "clearing a signal");
    setup(call("cudaStreamSynchronize", [&] { return cudaStreamSynchronize(native_stream(stream)); }),
          "clearing a signal");
    return Signal(std::move(state));
  }

  Status raise(Signal& signal, std::uint64_t value, StreamRef stream) override {
    return enqueue("cuStreamWriteValue64", [&] { return write_word(stream, native_word(signal), value); });
  }

  Status await(Signal& signal, std::uint64_t* to, StreamRef stream) override {
    return enqueue("awaiting a signal", [&] {
      return static_cast<cudaError_t>(await_word(native_word(signal), to, native_stream(stream)));
    });
  }

  [[nodiscard]] CudaUuid uuid() const noexcept override { return uuid_; }

  [[nodiscard]] std::unique_ptr<ImportedMemory> import_memory(int descriptor, std::size_t size_bytes) override {
    if (!select().ok()) {
      (void)close(descriptor);
      return nullptr;
    }
    return CudaImportedMemory::import(descriptor, size_bytes);
  }

  [[nodiscard]] VulkanVideo* vulkan_video() override { return video_.vulkan(); }

  [[nodiscard]] std::unique_ptr<VideoDecoder> make_video_decoder(const VideoDecoderOptions& options,
                                                                 VideoTaker& taker) override {
    return video_.make_decoder(options, taker);
  }

  [[nodiscard]] std::vector<VideoSupport> video_support(std::string* why) override { return video_.support(why); }

  [[nodiscard]] bool decodes_beyond_driver(std::string& why) override {
    if (video_.vulkan() != nullptr) return true;
    why = video_.why_no_vulkan();
    return false;
  }

  Status synchronize(const Event& event) override { return poll(native_event(event)); }

  // The driver is asked, once in a while, only because a stream that has failed writes nothing.
  Status synchronize(const Fence& fence) override {
    if (write_value_ == nullptr) return poll(event_of(fence));
    const auto& own = static_cast<const CudaFence&>(fence.state());
    Polling polling(options_.spin);
    Duration next_question = kTrustInFences;
    while (!own.reached() && !failure_.lost()) {
      const Duration waited = polling.pause();
      if (waited < next_question) continue;
      next_question = waited + kTrustInFences;
      const cudaError_t error = call("cudaStreamQuery", [&] { return cudaStreamQuery(own.stream()); });
      if (error != cudaErrorNotReady) return check(error, "cudaStreamQuery");
    }
    return status();
  }

  Status synchronize(StreamRef stream) override {
    return enqueue("cudaStreamSynchronize", [&] { return cudaStreamSynchronize(native_stream(stream)); });
  }

  [[nodiscard]] bool reached(const Event& event) override {
    bool done = false;
    return !ask(native_event(event), done) || done;
  }

  [[nodiscard]] Duration elapsed(const TimedEvent& from, const TimedEvent& to) override {
    if (failure_.lost()) return Duration::zero();
    float ms = 0.0F;
    const cudaError_t error = cudaEventElapsedTime(&ms, native_event(from), native_event(to));
    if (error == cudaErrorInvalidResourceHandle || error == cudaErrorNotReady) {
      (void)cudaGetLastError();  // never recorded, or asked too early: no failure of the device
      return Duration::zero();
    }
    if (!check(error, "cudaEventElapsedTime")) return Duration::zero();
    return Duration(static_cast<std::int64_t>(static_cast<double>(ms) * 1e6));
  }

  [[nodiscard]] Status status() const override { return failure_.status(); }

  [[nodiscard]] std::size_t allocated_bytes() const noexcept override { return allocated_.load(); }
  [[nodiscard]] std::optional<std::size_t> free_bytes() const override {
    std::size_t free = 0;
    std::size_t total = 0;
    if (select_gpu() != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
    return free + unused_in_pool();
  }

  [[nodiscard]] void* native_context() const noexcept override { return context_; }

  Status check(int cuda_error, const char* name) noexcept override {
    if (cuda_error == cudaSuccess) return {};
    return fail(static_cast<cudaError_t>(cuda_error), name);
  }

  Status select() noexcept override {
    return enqueue("cudaSetDevice", [] { return cudaSuccess; });
  }

  [[nodiscard]] bool capturing(StreamRef stream) noexcept override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(native_stream(stream), &status) != cudaSuccess) {
      (void)cudaGetLastError();
      return false;
    }
    return status == cudaStreamCaptureStatusActive;
  }

 private:
  static constexpr std::size_t kHostAlignment = 4096;
  static constexpr std::uint64_t kKeptInPool = std::uint64_t{1} << 30U;  // bytes that nobody uses

  static constexpr Duration kTrustInFences = std::chrono::milliseconds(1);  // then the driver is asked

  // Makes one CUDA call on this GPU, or the test's error instead of it.
  template <typename Call>
  cudaError_t call(const char* name, Call&& make) noexcept {
    if (options_.fault != nullptr) {
      const int injected = options_.fault(name, options_.fault_argument);
      if (injected != 0) return static_cast<cudaError_t>(injected);
    }
    return make();
  }

  // The shape of every enqueuing function: refused when lost, on this GPU, checked, sticky.
  template <typename Call>
  Status enqueue(const char* name, Call&& make) noexcept {
    if (failure_.lost()) return status();
    cudaError_t error = select_gpu();
    if (error == cudaSuccess) error = call(name, std::forward<Call>(make));
    return check(error, name);
  }

  // External: inside a capture the event becomes a node of the graph, outside it is an ordinary record.
  Status record_as_node(cudaEvent_t event, StreamRef stream) {
    return enqueue("cudaEventRecordWithFlags", [&] {
      const bool inside =
          captured_stream() != nullptr && capturing(stream);  // the driver is asked only where it must be
      const unsigned flags = inside ? cudaEventRecordExternal : cudaEventRecordDefault;
      return cudaEventRecordWithFlags(event, native_stream(stream), flags);
    });
  }

  // [blocks] until the event is reached.
  Status poll(cudaEvent_t event) {
    Polling polling(options_.spin);
    for (;;) {
      bool done = false;
      Status asked = ask(event, done);
      if (!asked || done) return asked;
      (void)polling.pause();
    }
  }

  Status ask(cudaEvent_t event, bool& done) noexcept {
    if (failure_.lost()) return status();
    const cudaError_t error = call("cudaEventQuery", [&] { return cudaEventQuery(event); });
    if (error == cudaErrorNotReady) return {};
    done = true;
    return check(error, "cudaEventQuery");
  }

  // The driver's errors have the runtime's numbers.
  cudaError_t write_word(StreamRef stream, const std::uint64_t* word, std::uint64_t value) const noexcept {
    return static_cast<cudaError_t>(
        write_value_(native_stream(stream), reinterpret_cast<std::uintptr_t>(word), value, 0));
  }

  [[nodiscard]] std::uint64_t* take_word(StreamWords& words, const char* what) {
    select_for_setup();
    std::uint64_t* word = nullptr;
    const auto take = [&] {
      cudaError_t error = cudaSuccess;
      word = words.take(error);
      return error;
    };
    setup(call("cudaMalloc", take), std::string("allocating ") + what);
    return word;
  }

  Status fail(cudaError_t error, const char* name) noexcept {
    (void)cudaGetLastError();
    if (error == cudaErrorStreamCaptureInvalidated || capture_is_broken_off()) {
      return Status(ErrorKind::kState, "another thread's work on the GPU has broken off a capture");
    }
    failure_.set(Status(ErrorKind::kDeviceLost,
                        "GPU " + std::to_string(index_) + " (" + info_.name + "): " + name + ": " + describe(error)));
    return failure_.status();
  }

  // That of begin_capture(), until end_capture(); null: none. Captures are a thread's own: see the mode there.
  static cudaStream_t& captured_stream() noexcept {
    static thread_local cudaStream_t stream = nullptr;
    return stream;
  }

  // Calls with an event of such a capture fail with other errors.
  static bool capture_is_broken_off() noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (captured_stream() == nullptr || cudaStreamIsCapturing(captured_stream(), &status) != cudaSuccess) return false;
    return status == cudaStreamCaptureStatusInvalidated;
  }

  cudaError_t select_gpu() const noexcept { return device::select_gpu(index_); }
  void select_for_setup() { setup(select_gpu(), "cudaSetDevice"); }

  void setup(cudaError_t error, const std::string& what) const {
    if (error == cudaSuccess) return;
    (void)cudaGetLastError();  // an allocation that failed leaves the device usable
    throw Error(ErrorKind::kDevice, "GPU " + std::to_string(index_) + ": " + what + " failed: " + describe(error));
  }

  std::byte* device_address(void* data) const {
    void* mapped = nullptr;
    setup(cudaHostGetDevicePointer(&mapped, data, 0), "mapping host memory into the GPU");
    return static_cast<std::byte*>(mapped);
  }

  Stream stream_of_priority(const std::string& name, int priority) {
    select_for_setup();
    cudaStream_t stream = nullptr;
    setup(call("cudaStreamCreate",
               [&] { return cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority); }),
          "making stream '" + name + "'");
    return Stream(std::make_unique<CudaStream>(index_, stream));
  }

  // Some devices have no pools: then memory is taken and given back for all of the device at once.
  void make_pool(int least_priority) {
    int supported = 0;
    (void)cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, index_);
    if (supported == 0) return;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = index_;
    setup(cudaMemPoolCreate(&pool_, &properties), "making a pool of GPU memory");
    // Kept, because giving it back to the driver at once is what waits.
    std::uint64_t threshold = kKeptInPool;
    setup(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold), "making a pool of GPU memory");
    setup(cudaStreamCreateWithPriority(&memory_stream_, cudaStreamNonBlocking, least_priority),
          "making a stream for memory");
  }

  [[nodiscard]] std::size_t unused_in_pool() const noexcept {
    std::uint64_t reserved = 0;
    std::uint64_t used = 0;
    if (pool_ == nullptr ||
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved) != cudaSuccess ||
        cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used) != cudaSuccess) {
      return 0;
    }
    return reserved > used ? reserved - used : 0;
  }

  // Some drivers refuse writes by a stream: asked once, here, so that nobody comes to wait for one.
  void find_out_about_signals() {
    write_value_ = find_write_value();
    if (write_value_ == nullptr) return;
    const Stream stream = make_stream("signal");
    const Signal signal = make_signal();
    std::uint64_t word = 0;
    CudaFence fence(fence_words_, take_word(fence_words_, "a fence"));
    const auto [on_host, number] = fence.next(native_stream(stream));
    const bool works = write_word(stream, native_word(signal), 1) == cudaSuccess &&
                       write_word(stream, on_host, number) == cudaSuccess &&
                       cudaMemcpyAsync(&word, native_word(signal), sizeof(word), cudaMemcpyDeviceToHost,
                                       native_stream(stream)) == cudaSuccess &&
                       cudaStreamSynchronize(native_stream(stream)) == cudaSuccess && word == 1 && fence.reached();
    if (works) return;
    (void)cudaGetLastError();
    write_value_ = nullptr;
    base::log().info(
        "GPU {}: its driver refuses writes by a stream: a frame's graph starts when its picture has arrived", index_);
  }

  std::unique_ptr<EventState> make_event_state(unsigned flags) {
    select_for_setup();
    cudaEvent_t event = nullptr;
    setup(call("cudaEventCreate", [&] { return cudaEventCreateWithFlags(&event, flags); }), "making an event");
    return std::make_unique<CudaEvent>(index_, event);
  }

  // Constant after construction.
  const int index_;
  const CudaDeviceOptions options_;
  DeviceInfo info_;
  CudaLimits limits_;
  CudaUuid uuid_{};
  int greatest_priority_ = 0;
  cudaMemPool_t pool_ = nullptr;          // null: this device has none
  cudaStream_t memory_stream_ = nullptr;  // of the pool
  WriteValue write_value_ = nullptr;      // null: no signals, and fences are events
  void* context_ = nullptr;               // a CUcontext

  CudaVideo video_{*this};

  std::atomic<std::size_t> allocated_{0};
  StreamWords signal_words_{index_, StreamWords::Where::kDevice, allocated_};
  StreamWords fence_words_{index_, StreamWords::Where::kHost, allocated_};
  StickyFailure failure_;
};

}  // namespace

std::unique_ptr<CudaDevice> make_cuda_device(int index, const CudaDeviceOptions& options) {
  const CudaDevices found = cuda_devices();
  if (found.count == 0) throw Error(ErrorKind::kDevice, found.reason);
  if (index < 0 || index >= found.count) {
    throw Error(ErrorKind::kDevice, "there is no GPU " + std::to_string(index) + ": this machine has " +
                                        std::to_string(found.count) + ", numbered from 0");
  }
  return std::make_unique<CudaDeviceImpl>(index, options);
}

}  // namespace camd::device
