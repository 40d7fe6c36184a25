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

constexpr std::uint64_t kNobodyWaits = std::numeric_limits<std::uint64_t>::max();

// How far a stream has come. Outlives the stream for as long as an event points at it.
// A wake-up costs more than all the rest of an operation, so nobody is woken who has nothing to do yet.
struct Progress {
  Mutex mutex;
  CondVar work;     // for the stream's thread, while it sleeps
  CondVar reached;  // for those who wait for a position
  std::uint64_t enqueued CAMD_GUARDED_BY(mutex) = 0;
  std::uint64_t done CAMD_GUARDED_BY(mutex) = 0;
  std::uint64_t next_wanted CAMD_GUARDED_BY(mutex) = kNobodyWaits;  // the first position that somebody waits for

  // True when the position was reached.
  [[nodiscard]] bool past(std::uint64_t position) {
    const MutexLock lock(mutex);
    return done >= position;
  }
  void wait_past(std::uint64_t position) {
    const MutexLock lock(mutex);
    while (done < position) {
      next_wanted = std::min(next_wanted, position);
      reached.wait(mutex);
    }
  }
  // One more operation is done.
  void advance() {
    {
      const MutexLock lock(mutex);
      if (++done < next_wanted) return;
      next_wanted = kNobodyWaits;  // those whose position is further on say so again
    }
    reached.notify_all();
  }
};

// A record() as it stood at one moment: nothing recorded when progress is null.
struct Mark {
  std::shared_ptr<Progress> progress;
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

class HostStream final : public StreamState {
 public:
  HostStream(const base::Clock& clock, Failure& failure, std::atomic<std::int64_t>& operations_left,
             std::size_t capacity, std::string name)
      : clock_(clock),
        failure_(failure),
        operations_left_(operations_left),
        name_(std::move(name)),
        capacity_(capacity),
        queue_(capacity) {
    worker_ = std::thread([this] { run(); });
  }
  ~HostStream() override {
    {
      const MutexLock lock(progress_->mutex);
      stopping_ = true;
    }
    progress_->work.notify_one();
    worker_.join();
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  [[nodiscard]] void* native() const noexcept override { return nullptr; }
  [[nodiscard]] const std::shared_ptr<Progress>& progress() const noexcept { return progress_; }

  Status enqueue(Operation&& operation) {
    if (failure_.lost()) return failure_.status();
    bool asleep = false;
    {
      const MutexLock lock(progress_->mutex);
      if (progress_->enqueued - progress_->done >= capacity_) {
        return {ErrorKind::kInternal,
                fmt::format("host stream \"{}\": more than {} operations are in flight", name_, capacity_)};
      }
      queue_[progress_->enqueued % capacity_] = std::move(operation);
      ++progress_->enqueued;
      asleep = std::exchange(asleep_, false);
    }
    if (asleep) progress_->work.notify_one();
    return {};
  }

  // Where the stream ends now: reached when everything enqueued so far is done.
  [[nodiscard]] Mark here() const {
    const MutexLock lock(progress_->mutex);
    return {progress_, progress_->enqueued};
  }

 private:
  void run() {
    base::name_this_thread(name_);
    for (;;) {
      Operation operation;
      {
        const MutexLock lock(progress_->mutex);
        while (progress_->done == progress_->enqueued && !stopping_) {
          asleep_ = true;
          progress_->work.wait(progress_->mutex);
        }
        if (progress_->done == progress_->enqueued) return;
        operation = std::move(queue_[progress_->done % capacity_]);
      }
      execute(operation);
      operation = {};  // lets go of other streams' progress before anybody hears that this is done
      progress_->advance();
    }
  }

  void execute(const Operation& operation) {
    if (!failure_.lost() && operations_left_.load(std::memory_order_relaxed) >= 0 &&
        operations_left_.fetch_sub(1, std::memory_order_relaxed) == 0) {
      failure_.set({ErrorKind::kDeviceLost, "host: injected failure"});
    }
    // On a lost device too: what runs in the other stream may still touch memory, and who waits for this stream waits
    // for that as well. It ends, because the other stream discards its work and comes past the mark; no cycle is
    // possible, because a mark is always older than the operation that waits for it.
    if (operation.kind == Operation::Kind::kWait) operation.mark.progress->wait_past(operation.mark.position);
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
  const std::string name_;
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  const std::size_t capacity_;
  std::vector<Operation> queue_ CAMD_GUARDED_BY(progress_->mutex);  // preallocated; [done, enqueued) are in use
  bool stopping_ CAMD_GUARDED_BY(progress_->mutex) = false;
  bool asleep_ CAMD_GUARDED_BY(progress_->mutex) = false;  // waits for work and has not been woken
  std::thread worker_;
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
      return Stream(std::make_unique<HostStream>(clock_, failure_, operations_left_, options_.queue_capacity, name));
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
    return stream_of(stream).enqueue(std::move(operation));
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
    return stream_of(stream).enqueue(std::move(operation));
  }

  Status wait(const Event& event, StreamRef stream) override {
    if (failure_.lost()) return failure_.status();
    Operation operation;
    operation.kind = Operation::Kind::kWait;
    operation.mark = static_cast<const HostEvent&>(event.state()).mark();
    HostStream& target = stream_of(stream);
    if (operation.mark.progress == nullptr || operation.mark.progress == target.progress()) return {};
    return target.enqueue(std::move(operation));
  }

  Status call(HostFunction function, void* argument, StreamRef stream) override {
    Operation operation;
    operation.kind = Operation::Kind::kCall;
    operation.function = function;
    operation.to = argument;
    return stream_of(stream).enqueue(std::move(operation));
  }

  Status synchronize(const Event& event) override {
    const Mark mark = static_cast<const HostEvent&>(event.state()).mark();
    if (mark.progress != nullptr) mark.progress->wait_past(mark.position);
    return failure_.status();
  }

  Status synchronize(StreamRef stream) override {
    const Mark mark = stream_of(stream).here();
    mark.progress->wait_past(mark.position);
    return failure_.status();
  }

  [[nodiscard]] bool reached(const Event& event) override {
    const Mark mark = static_cast<const HostEvent&>(event.state()).mark();
    return mark.progress == nullptr || mark.progress->past(mark.position);
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
