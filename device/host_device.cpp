// Streams as bounded queues of operations, run by whoever waits or by threads of their own.
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
#include <variant>
#include <vector>

#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "device/sticky_failure.hpp"

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

class Work;

// A record() as it stood at one moment: nothing recorded when work is null.
struct Mark {
  Work* work = nullptr;
  std::uint64_t position = 0;
};

// Things of the device's that come back and are used again, so that whoever points at one need not own it: they live
// as long as the device, and there are no more than were ever in use at once.
template <class T>
class Pool {
 public:
  // One that nobody has, or else what `make` makes.
  template <class Make>
  [[nodiscard]] T& take(const Make& make) {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(), [](const T* one) { return one->idle(); });
    if (found != free_.end()) {
      T& one = **found;
      free_.erase(found);
      return one;
    }
    free_.reserve(all_.size() + 1);  // so that give_back() allocates nothing
    return *all_.emplace_back(make());
  }
  void give_back(T& one) noexcept {
    const MutexLock lock(mutex_);
    free_.push_back(&one);
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<T>> all_ CAMD_GUARDED_BY(mutex_);
  std::vector<T*> free_ CAMD_GUARDED_BY(mutex_);
};

class HostEvent final : public EventState {
 public:
  void set(Mark mark) noexcept { mark_ = mark; }
  [[nodiscard]] Mark mark() const noexcept { return mark_; }

 private:
  Mark mark_;
};

// The time of a timed event. Records are numbered: the time is that of the latest one only where that was reached.
class EventTime {
 public:
  [[nodiscard]] std::uint64_t begin_record() noexcept { return ++recorded_; }
  void reach(std::uint64_t record, base::TimePoint time) noexcept {
    time_ns_.store(base::to_ns(time), std::memory_order_relaxed);
    reached_.store(record, std::memory_order_release);
  }
  // False when the latest record was not reached, or there is none.
  [[nodiscard]] bool get(base::TimePoint& time) const noexcept {
    const std::uint64_t reached = reached_.load(std::memory_order_acquire);
    time = base::from_ns(time_ns_.load(std::memory_order_relaxed));
    return reached == recorded_ && reached != first_;
  }
  // Nobody has the event any more. Its last record may still be under way.
  void forget() noexcept { first_ = recorded_; }
  // No record is under way.
  [[nodiscard]] bool idle() const noexcept { return reached_.load(std::memory_order_acquire) == recorded_; }

 private:
  std::uint64_t recorded_ = 0;             // the latest record
  std::uint64_t first_ = 0;                // the last record of the event that had this before
  std::atomic<std::uint64_t> reached_{0};  // the latest record that was reached, and when
  std::atomic<std::int64_t> time_ns_{0};
};

class HostTimedEvent final : public EventState {
 public:
  explicit HostTimedEvent(Pool<EventTime>& pool)
      : pool_(pool), time_(pool.take([] { return std::make_unique<EventTime>(); })) {}
  // A record may be under way.
  ~HostTimedEvent() override {
    time_.forget();
    pool_.give_back(time_);
  }
  HostTimedEvent(const HostTimedEvent&) = delete;
  HostTimedEvent& operator=(const HostTimedEvent&) = delete;
  [[nodiscard]] EventTime& time() const noexcept { return time_; }

 private:
  Pool<EventTime>& pool_;
  EventTime& time_;
};

// What a stream can be asked to do.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t size_bytes = 0;
};
struct Call {
  HostFunction function = nullptr;
  void* argument = nullptr;
};
struct Time {
  EventTime* time = nullptr;
  std::uint64_t record = 0;
};
using Operation = std::variant<Copy, Call, Mark, Time>;  // Mark: waits until that is reached

constexpr std::uint64_t kNobodyWaits = std::numeric_limits<std::uint64_t>::max();

// What a stream was given and how far it has come. Another stream has it when this one has gone, and counts on: what
// events say of positions stays true.
// A wake-up costs more than all the rest of an operation, so nobody is woken who has nothing to do yet, and where
// `waiters_run` whoever waits for an operation runs what is before it instead of waking a thread for that.
//
// One thread enqueues, one at a time runs; both only count, and take the lock to sleep and to wake. Who goes to sleep
// says so and then looks once more at the count, who counts looks afterwards whether somebody sleeps: in the one order
// of all these steps one of them sees the other.
class Work {
 public:
  Work(const base::Clock& clock, StickyFailure& failure, std::atomic<std::int64_t>& operations_left,
       std::size_t capacity, bool waiters_run)
      : clock_(clock),
        failure_(failure),
        operations_left_(operations_left),
        waiters_run_(waiters_run),
        queue_(capacity) {}

  // False when the queue is full. One thread at a time.
  [[nodiscard]] bool enqueue(const Operation& operation) {
    const std::uint64_t end = enqueued_.load(std::memory_order_relaxed);
    const std::uint64_t done = done_.load(std::memory_order_acquire);
    if (end - done >= queue_.size()) return false;
    // An empty queue begins anew: at its beginning, which caches still hold from the frame before.
    if (end == done) origin_ = end;
    at(end) = operation;
    enqueued_.store(end + 1);
    if (!asleep_.load()) return true;
    {
      const MutexLock lock(mutex_);
      asleep_ = false;
    }
    given_.notify_one();
    return true;
  }
  // The position that is reached when everything enqueued so far is done.
  [[nodiscard]] std::uint64_t end() const noexcept { return enqueued_.load(std::memory_order_acquire); }
  [[nodiscard]] bool idle() const noexcept { return empty(); }
  [[nodiscard]] bool past(std::uint64_t position) const noexcept {
    return done_.load(std::memory_order_acquire) >= position;
  }

  // [blocks] until the position is reached.
  void wait_past(std::uint64_t position) {
    if (past(position) || !may_run(position)) return;
    while (!past(position)) run_one();
    running_ = false;
    if (next_wanted_.load() != kNobodyWaits) wake_waiters();  // who wants more must go on by himself
  }
  // The life of a stream's own thread: runs all that comes until stop().
  void run() {
    while (given()) run_one();
    const MutexLock lock(mutex_);
    stopping_ = false;  // another stream may have this next
  }
  void stop() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    given_.notify_one();
  }

 private:
  // [blocks] until the position is reached (false), or the caller shall run what is before it.
  bool may_run(std::uint64_t position) {
    if (waiters_run_ && !running_.exchange(true)) return true;
    const MutexLock lock(mutex_);
    for (;;) {
      next_wanted_ = std::min(next_wanted_.load(), position);
      if (done_.load() >= position) return false;
      if (waiters_run_ && !running_.exchange(true)) return true;
      reached_.wait(mutex_);
    }
  }
  void wake_waiters() {
    const MutexLock lock(mutex_);
    next_wanted_ = kNobodyWaits;  // those whose position is further on say so again
    reached_.notify_all();
  }
  // [blocks] until there is something to run. False when nothing more will come.
  bool given() {
    if (!empty()) return true;
    const MutexLock lock(mutex_);
    while (empty() && !stopping_) {
      asleep_.store(true);
      if (empty()) given_.wait(mutex_);
    }
    asleep_ = false;
    return !empty();
  }
  [[nodiscard]] bool empty() const noexcept { return done_.load() == enqueued_.load(); }

  void run_one() {
    const std::uint64_t position = done_.load(std::memory_order_relaxed);
    execute(at(position));
    done_.store(position + 1);
    if (next_wanted_.load() <= position + 1) wake_waiters();
  }

  void execute(const Operation& operation) {
    if (operations_left_.load(std::memory_order_relaxed) >= 0 && !failure_.lost() &&
        operations_left_.fetch_sub(1, std::memory_order_relaxed) == 0) {
      failure_.set({ErrorKind::kDeviceLost, "host: injected failure"});
    }
    // On a lost device too: what runs in the other stream may still touch memory, and who waits for this stream waits
    // for that as well. It ends, because the other stream discards its work and comes past the mark; no cycle is
    // possible, because a mark is always older than the operation that waits for it.
    if (const auto* const mark = std::get_if<Mark>(&operation)) mark->work->wait_past(mark->position);
    if (failure_.lost()) return;
    if (const auto* const copy = std::get_if<Copy>(&operation)) {
      // A GPU copies nothing from nowhere without a word; memcpy() may not be asked to.
      if (copy->size_bytes > 0) std::memcpy(copy->to, copy->from, copy->size_bytes);
    } else if (const auto* const call = std::get_if<Call>(&operation)) {
      call->function(call->argument);
    } else if (const auto* const time = std::get_if<Time>(&operation)) {
      time->time->reach(time->record, clock_.now());
    }
  }

  [[nodiscard]] Operation& at(std::uint64_t position) noexcept { return queue_[(position - origin_) % queue_.size()]; }

  const base::Clock& clock_;
  StickyFailure& failure_;
  std::atomic<std::int64_t>& operations_left_;
  const bool waiters_run_;
  // [done, enqueued) are in use: by the one who runs; the rest belongs to the one who enqueues.
  std::vector<Operation> queue_;
  std::uint64_t origin_ = 0;                // the position of queue_[0]; changes only while nothing is in use
  std::atomic<std::uint64_t> enqueued_{0};  // changed by the one who enqueues
  std::atomic<std::uint64_t> done_{0};      // changed by the one who runs
  std::atomic<std::uint64_t> next_wanted_{kNobodyWaits};  // the first position that somebody waits for
  std::atomic<bool> running_{false};                      // where waiters run the work: one of them does
  std::atomic<bool> asleep_{false};                       // the thread waits for work and has not been woken
  Mutex mutex_;
  CondVar given_;    // for the stream's thread, while it sleeps
  CondVar reached_;  // for those who wait for a position
  bool stopping_ CAMD_GUARDED_BY(mutex_) = false;
};

class HostStream final : public StreamState {
 public:
  HostStream(Pool<Work>& pool, Work& work, std::string name, bool own_thread)
      : pool_(pool), work_(work), name_(std::move(name)) {
    if (!own_thread) return;
    worker_ = std::thread([this] {
      base::name_this_thread(name_);
      work_.run();
    });
  }
  ~HostStream() override {
    if (worker_.joinable()) {
      work_.stop();
      worker_.join();
    } else {
      work_.wait_past(work_.end());
    }
    pool_.give_back(work_);
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  [[nodiscard]] void* native() const noexcept override { return nullptr; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Work& work() const noexcept { return work_; }
  // Where the stream ends now: reached when everything enqueued so far is done.
  [[nodiscard]] Mark here() const noexcept { return {&work_, work_.end()}; }

 private:
  Pool<Work>& pool_;
  Work& work_;
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
    info_.works_in_host_memory = true;
    info_.integrated = true;
    info_.asynchronous = options.stream_threads;
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
      Work& work = works_.take([this] {
        return std::make_unique<Work>(clock_, failure_, operations_left_, options_.queue_capacity,
                                      !options_.stream_threads);
      });
      return Stream(std::make_unique<HostStream>(works_, work, name, options_.stream_threads));
    } catch (const std::exception& error) {  // no thread or no memory for the queue
      throw Error(ErrorKind::kDevice, fmt::format("host: cannot make stream \"{}\": {}", name, error.what()));
    }
  }
  [[nodiscard]] Event make_event() override { return Event(std::make_unique<HostEvent>()); }
  [[nodiscard]] TimedEvent make_timed_event() override { return TimedEvent(std::make_unique<HostTimedEvent>(times_)); }
  [[nodiscard]] Fence make_fence() override { return Fence(std::make_unique<HostEvent>()); }

  Status copy(void* to, const void* from, std::size_t size_bytes, CopyKind /*kind*/, StreamRef stream) override {
    return enqueue(Copy{to, from, size_bytes}, stream);
  }

  Status record(Event& event, StreamRef stream) override { return set(event.state(), stream); }
  Status signal(Fence& fence, StreamRef stream) override { return set(fence.state(), stream); }

  Status record(TimedEvent& event, StreamRef stream) override {
    EventTime& time = static_cast<HostTimedEvent&>(event.state()).time();
    return enqueue(Time{&time, time.begin_record()}, stream);
  }

  Status wait(const Event& event, StreamRef stream) override {
    if (failure_.lost()) return failure_.status();
    const Mark mark = static_cast<const HostEvent&>(event.state()).mark();
    if (mark.work == nullptr || mark.work == &stream_of(stream).work()) return {};
    return enqueue(mark, stream);
  }

  Status call(HostFunction function, void* argument, StreamRef stream) override {
    return enqueue(Call{function, argument}, stream);
  }

  Status synchronize(const Event& event) override { return wait_for(event.state()); }
  Status synchronize(const Fence& fence) override { return wait_for(fence.state()); }

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
    if (!static_cast<const HostTimedEvent&>(from.state()).time().get(first)) return Duration::zero();
    if (!static_cast<const HostTimedEvent&>(to.state()).time().get(last)) return Duration::zero();
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
  Status set(EventState& event, StreamRef stream) {
    if (failure_.lost()) return failure_.status();
    static_cast<HostEvent&>(event).set(stream_of(stream).here());
    return {};
  }

  Status wait_for(const EventState& event) {
    const Mark mark = static_cast<const HostEvent&>(event).mark();
    if (mark.work != nullptr) mark.work->wait_past(mark.position);
    return failure_.status();
  }

  Status enqueue(const Operation& operation, StreamRef ref) {
    if (failure_.lost()) return failure_.status();
    const HostStream& stream = stream_of(ref);
    if (stream.work().enqueue(operation)) return {};
    return {ErrorKind::kInternal, fmt::format("host stream \"{}\": more than {} operations are in flight",
                                              stream.name(), options_.queue_capacity)};
  }

  const base::Clock& clock_;
  const HostDeviceOptions options_;
  DeviceInfo info_;
  StickyFailure failure_;
  Pool<Work> works_;
  Pool<EventTime> times_;
  std::atomic<std::int64_t> operations_left_;
  std::atomic<std::size_t> allocated_bytes_{0};
};

}  // namespace

std::unique_ptr<HostDevice> make_host_device(const base::Clock& clock, const HostDeviceOptions& options) {
  return std::make_unique<HostDeviceImpl>(clock, options);
}

}  // namespace camd::device
