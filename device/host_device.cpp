#include "device/host_device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/thread.hpp"

namespace camd::device {
namespace {

using base::CondVar;
using base::Error;
using base::ErrorKind;
using base::Mutex;
using base::MutexLock;

constexpr std::size_t kHostAlignment = 4096;   // HostBuffer's promise
constexpr std::size_t kDeviceAlignment = 256;  // DeviceBuffer's promise

class AlignedMemory final : public MemoryState {
 public:
  AlignedMemory(std::size_t size_bytes, std::size_t alignment, std::atomic<std::size_t>* counted)
      : alignment_(std::align_val_t(alignment)), size_bytes_(size_bytes), counted_(counted) {
    // Whole alignment units, so that vector loads past the last element stay inside the allocation.
    const std::size_t rounded = (std::max<std::size_t>(size_bytes, 1) + alignment - 1) / alignment * alignment;
    const bool overflow = rounded < size_bytes;
    if (!overflow) data_ = static_cast<std::byte*>(::operator new(rounded, alignment_, std::nothrow));
    if (data_ == nullptr) {
      throw Error(ErrorKind::kDevice, fmt::format("host: cannot allocate {} bytes of memory", size_bytes));
    }
    if (counted_ != nullptr) counted_->fetch_add(size_bytes_, std::memory_order_relaxed);
  }
  ~AlignedMemory() override {
    ::operator delete(data_, alignment_);
    if (counted_ != nullptr) counted_->fetch_sub(size_bytes_, std::memory_order_relaxed);
  }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  const std::align_val_t alignment_;
  const std::size_t size_bytes_;
  std::atomic<std::size_t>* const counted_;
  std::byte* data_ = nullptr;
};

// The device's sticky failure. Shared by device and streams, because streams look at it from their own threads.
class Failure {
 public:
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  [[nodiscard]] Status status() const {
    if (!lost()) return {};
    const MutexLock lock(mutex_);
    return status_;
  }
  void set(const Status& status) {
    const MutexLock lock(mutex_);
    if (!status_.ok()) return;
    status_ = status;
    lost_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> lost_{false};
  mutable Mutex mutex_;
  Status status_ CAMD_GUARDED_BY(mutex_);
};

class Work;

// A record() as it stood at one moment: nothing recorded when work is null.
struct Mark {
  std::shared_ptr<Work> work;
  std::uint64_t position = 0;
};

class HostEvent final : public EventState {
 public:
  void set(Mark mark) {
    const MutexLock lock(mutex_);
    mark_ = std::move(mark);
  }
  [[nodiscard]] Mark mark() const {
    const MutexLock lock(mutex_);
    return mark_;
  }

 private:
  mutable Mutex mutex_;
  Mark mark_ CAMD_GUARDED_BY(mutex_);
};

// The time of a timed event, kept apart from the event so that the event may be destroyed with a record under way.
class EventTime {
 public:
  [[nodiscard]] std::uint64_t begin_record() {
    const MutexLock lock(mutex_);
    reached_ = false;
    return ++generation_;
  }
  void reach(std::uint64_t generation, base::TimePoint time) {
    const MutexLock lock(mutex_);
    if (generation != generation_) return;  // recorded again meanwhile: only the latest record has a time
    reached_ = true;
    time_ = time;
  }
  // False when the latest record was not reached.
  [[nodiscard]] bool get(base::TimePoint& time) const {
    const MutexLock lock(mutex_);
    time = time_;
    return reached_;
  }

 private:
  mutable Mutex mutex_;
  std::uint64_t generation_ CAMD_GUARDED_BY(mutex_) = 0;
  bool reached_ CAMD_GUARDED_BY(mutex_) = false;
  base::TimePoint time_ CAMD_GUARDED_BY(mutex_);
};

class HostTimedEvent final : public EventState {
 public:
  [[nodiscard]] const std::shared_ptr<EventTime>& time() const noexcept { return time_; }

 private:
  const std::shared_ptr<EventTime> time_ = std::make_shared<EventTime>();
};

struct Operation {
  enum class Kind : std::uint8_t { kCopy, kCall, kWait, kTime };
  Kind kind = Kind::kCopy;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t size_bytes = 0;
  HostFunction function = nullptr;
  Mark mark;                        // kWait
  std::shared_ptr<EventTime> time;  // kTime
  std::uint64_t generation = 0;     // kTime
};

constexpr std::uint64_t kNobodyWaits = std::numeric_limits<std::uint64_t>::max();

// What a stream was given and how far it has come. Outlives the stream for as long as an event points at it.
// A wake-up costs more than all the rest of an operation, so nobody is woken who has nothing to do yet, and where
// `waiters_run` whoever waits for an operation runs what is before it instead of waking a thread for that.
class Work {
 public:
  Work(const base::Clock& clock, Failure& failure, std::atomic<std::int64_t>& operations_left, std::size_t capacity,
       bool waiters_run)
      : clock_(clock),
        failure_(failure),
        operations_left_(operations_left),
        capacity_(capacity),
        waiters_run_(waiters_run),
        queue_(capacity) {}

  // False when the queue is full.
  [[nodiscard]] bool enqueue(Operation&& operation) {
    bool asleep = false;
    {
      const MutexLock lock(mutex_);
      if (enqueued_ - done_ >= capacity_) return false;
      queue_[enqueued_ % capacity_] = std::move(operation);
      ++enqueued_;
      asleep = std::exchange(asleep_, false);
    }
    if (asleep) given_.notify_one();
    return true;
  }
  // The position that is reached when everything enqueued so far is done.
  [[nodiscard]] std::uint64_t end() const {
    const MutexLock lock(mutex_);
    return enqueued_;
  }
  [[nodiscard]] bool past(std::uint64_t position) const {
    const MutexLock lock(mutex_);
    return done_ >= position;
  }

  // [blocks] until the position is reached.
  void wait_past(std::uint64_t position) {
    Operation operation;
    while (next_before(position, operation)) finish(operation);
  }
  // The life of the stream's own thread: runs all that comes until stop().
  void run() {
    Operation operation;
    while (next(operation)) finish(operation);
  }
  void stop() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    given_.notify_one();
  }

 private:
  // False once the position is reached; true when it is for the caller to run `operation`, and to finish() it.
  bool next_before(std::uint64_t position, Operation& operation) {
    const MutexLock lock(mutex_);
    while (done_ < position && (running_ || !waiters_run_)) {
      next_wanted_ = std::min(next_wanted_, position);
      reached_.wait(mutex_);
    }
    if (done_ < position) {
      take(operation);
      return true;
    }
    // Those who wait for more must go on by themselves.
    if (waiters_run_ && std::exchange(next_wanted_, kNobodyWaits) != kNobodyWaits) reached_.notify_all();
    return false;
  }
  // False when nothing more will come.
  bool next(Operation& operation) {
    const MutexLock lock(mutex_);
    while (done_ == enqueued_ && !stopping_) {
      asleep_ = true;
      given_.wait(mutex_);
    }
    if (done_ == enqueued_) return false;
    take(operation);
    return true;
  }
  void take(Operation& operation) CAMD_REQUIRES(mutex_) {
    running_ = true;
    operation = std::move(queue_[done_ % capacity_]);
  }
  void finish(Operation& operation) {
    execute(operation);
    operation = {};  // lets go of other streams' work before anybody hears that this is done
    {
      const MutexLock lock(mutex_);
      running_ = false;
      if (++done_ < next_wanted_) return;
      next_wanted_ = kNobodyWaits;  // those whose position is further on say so again
    }
    reached_.notify_all();
  }

  void execute(const Operation& operation) {
    if (!failure_.lost() && operations_left_.load(std::memory_order_relaxed) >= 0 &&
        operations_left_.fetch_sub(1, std::memory_order_relaxed) == 0) {
      failure_.set({ErrorKind::kDeviceLost, "host: injected failure"});
    }
    // On a lost device too: what runs in the other stream may still touch memory, and who waits for this stream waits
    // for that as well. It ends, because the other stream discards its work and comes past the mark; no cycle is
    // possible, because a mark is always older than the operation that waits for it.
    if (operation.kind == Operation::Kind::kWait) operation.mark.work->wait_past(operation.mark.position);
    if (failure_.lost()) return;
    switch (operation.kind) {
      case Operation::Kind::kCopy: std::memcpy(operation.to, operation.from, operation.size_bytes); break;
      case Operation::Kind::kCall: operation.function(operation.to); break;
      case Operation::Kind::kWait: break;
      case Operation::Kind::kTime: operation.time->reach(operation.generation, clock_.now()); break;
    }
  }

  const base::Clock& clock_;
  Failure& failure_;
  std::atomic<std::int64_t>& operations_left_;
  const std::size_t capacity_;
  const bool waiters_run_;
  mutable Mutex mutex_;
  CondVar given_;                                         // for the stream's thread, while it sleeps
  CondVar reached_;                                       // for those who wait for a position
  std::vector<Operation> queue_ CAMD_GUARDED_BY(mutex_);  // preallocated; [done, enqueued) are in use
  std::uint64_t enqueued_ CAMD_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ CAMD_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_wanted_ CAMD_GUARDED_BY(mutex_) = kNobodyWaits;  // the first position that somebody waits for
  bool running_ CAMD_GUARDED_BY(mutex_) = false;
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
  bool asleep_ CAMD_GUARDED_BY(mutex_) = false;  // the thread waits for work and has not been woken
};

class HostStream final : public StreamState {
 public:
  HostStream(std::shared_ptr<Work> work, std::string name, bool own_thread)
      : work_(std::move(work)), name_(std::move(name)) {
    if (!own_thread) return;
    worker_ = std::thread([this] {
      base::name_this_thread(name_);
      work_->run();
    });
  }
  ~HostStream() override {
    if (worker_.joinable()) {
      work_->stop();
      worker_.join();
    } else {
      work_->wait_past(work_->end());
    }
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  [[nodiscard]] void* native() const noexcept override { return nullptr; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Work& work() const noexcept { return *work_; }
  // Where the stream ends now: reached when everything enqueued so far is done.
  [[nodiscard]] Mark here() const { return {work_, work_->end()}; }

 private:
  const std::shared_ptr<Work> work_;
  const std::string name_;
  std::thread worker_;  // none where waiters run the work
};

HostStream& stream_of(StreamRef stream) { return static_cast<HostStream&>(stream.state()); }

class HostDeviceImpl final : public HostDevice {
 public:
  HostDeviceImpl(const base::Clock& clock, const HostDeviceOptions& options)
      : clock_(clock), options_(options), operations_left_(options.fail_at_operation) {
    if (options.queue_capacity == 0) {
      throw Error(ErrorKind::kDevice, "host: the streams' queue must hold at least one operation");
    }
    info_.kind = DeviceKind::kHost;
    info_.name = "host";
    info_.integrated = true;
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page_bytes = ::sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) {
      info_.memory_bytes = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
    }
  }

  [[nodiscard]] const DeviceInfo& info() const noexcept override { return info_; }

  [[nodiscard]] HostBuffer allocate_host(HostMemory kind, std::size_t size_bytes) override {
    auto memory = std::make_unique<AlignedMemory>(size_bytes, kHostAlignment, nullptr);
    std::byte* const data = memory->data();
    return {std::move(memory), kind, data, kind == HostMemory::kMapped ? data : nullptr, size_bytes};
  }

  [[nodiscard]] HostBuffer register_host(void* data, std::size_t size_bytes, HostMemory kind) override {
    if (data == nullptr) throw Error(ErrorKind::kDevice, "host: cannot register memory at a null address");
    auto* const bytes = static_cast<std::byte*>(data);
    return {nullptr, kind, bytes, kind == HostMemory::kMapped ? bytes : nullptr, size_bytes};
  }

  [[nodiscard]] DeviceBuffer allocate_device(std::size_t size_bytes) override {
    auto memory = std::make_unique<AlignedMemory>(size_bytes, kDeviceAlignment, &allocated_bytes_);
    std::byte* const data = memory->data();
    return {std::move(memory), data, size_bytes};
  }

  [[nodiscard]] Stream make_stream(const std::string& name) override {
    try {
      auto work =
          std::make_shared<Work>(clock_, failure_, operations_left_, options_.queue_capacity, !options_.stream_threads);
      return Stream(std::make_unique<HostStream>(std::move(work), name, options_.stream_threads));
    } catch (const std::exception& error) {  // no thread or no memory for the queue
      throw Error(ErrorKind::kDevice, fmt::format("host: cannot make stream \"{}\": {}", name, error.what()));
    }
  }
  [[nodiscard]] Event make_event() override { return Event(std::make_unique<HostEvent>()); }
  [[nodiscard]] TimedEvent make_timed_event() override { return TimedEvent(std::make_unique<HostTimedEvent>()); }

  Status copy(void* to, const void* from, std::size_t size_bytes, CopyKind /*kind*/, StreamRef stream) override {
    Operation operation;
    operation.kind = Operation::Kind::kCopy;
    operation.to = to;
    operation.from = from;
    operation.size_bytes = size_bytes;
    return enqueue(std::move(operation), stream);
  }

  Status record(Event& event, StreamRef stream) override {
    if (failure_.lost()) return failure_.status();
    static_cast<HostEvent&>(event.state()).set(stream_of(stream).here());
    return {};
  }

  Status record(TimedEvent& event, StreamRef stream) override {
    Operation operation;
    operation.kind = Operation::Kind::kTime;
    operation.time = static_cast<HostTimedEvent&>(event.state()).time();
    operation.generation = operation.time->begin_record();
    return enqueue(std::move(operation), stream);
  }

  Status wait(const Event& event, StreamRef stream) override {
    if (failure_.lost()) return failure_.status();
    Operation operation;
    operation.kind = Operation::Kind::kWait;
    operation.mark = static_cast<const HostEvent&>(event.state()).mark();
    if (operation.mark.work == nullptr || operation.mark.work.get() == &stream_of(stream).work()) return {};
    return enqueue(std::move(operation), stream);
  }

  Status call(HostFunction function, void* argument, StreamRef stream) override {
    Operation operation;
    operation.kind = Operation::Kind::kCall;
    operation.function = function;
    operation.to = argument;
    return enqueue(std::move(operation), stream);
  }

  Status synchronize(const Event& event) override {
    const Mark mark = static_cast<const HostEvent&>(event.state()).mark();
    if (mark.work != nullptr) mark.work->wait_past(mark.position);
    return failure_.status();
  }

  Status synchronize(StreamRef stream) override {
    Work& work = stream_of(stream).work();
    work.wait_past(work.end());
    return failure_.status();
  }

  [[nodiscard]] bool reached(const Event& event) override {
    const Mark mark = static_cast<const HostEvent&>(event.state()).mark();
    return mark.work == nullptr || mark.work->past(mark.position);
  }

  [[nodiscard]] Duration elapsed(const TimedEvent& from, const TimedEvent& to) override {
    base::TimePoint first;
    base::TimePoint last;
    if (!static_cast<const HostTimedEvent&>(from.state()).time()->get(first)) return Duration::zero();
    if (!static_cast<const HostTimedEvent&>(to.state()).time()->get(last)) return Duration::zero();
    return last - first;
  }

  [[nodiscard]] Status status() const override { return failure_.status(); }
  [[nodiscard]] std::size_t allocated_bytes() const noexcept override {
    return allocated_bytes_.load(std::memory_order_relaxed);
  }

  void inject_failure(const Status& failure) override {
    failure_.set(failure.ok() ? Status(ErrorKind::kDeviceLost, "host: injected failure") : failure);
  }

 private:
  Status enqueue(Operation&& operation, StreamRef ref) {
    if (failure_.lost()) return failure_.status();
    const HostStream& stream = stream_of(ref);
    if (stream.work().enqueue(std::move(operation))) return {};
    return {ErrorKind::kInternal, fmt::format("host stream \"{}\": more than {} operations are in flight",
                                              stream.name(), options_.queue_capacity)};
  }

  const base::Clock& clock_;
  const HostDeviceOptions options_;
  DeviceInfo info_;
  Failure failure_;
  std::atomic<std::int64_t> operations_left_;
  std::atomic<std::size_t> allocated_bytes_{0};
};

}  // namespace

std::unique_ptr<HostDevice> make_host_device(const base::Clock& clock, const HostDeviceOptions& options) {
  return std::make_unique<HostDeviceImpl>(clock, options);
}

}  // namespace camd::device
