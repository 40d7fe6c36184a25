#include "infer/cpu/thread_pool.hpp"

#include "base/cpus.hpp"
#include "base/thread.hpp"

namespace camd::infer::cpu {
namespace {

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` does nothing on most processors; this one waits for some tens of cycles
#endif
}

// Spins a little, then lets others run: stages last tens of microseconds.
class Backoff {
 public:
  void wait() noexcept {
    if (++spins_ < 200)
      pause();
    else
      std::this_thread::yield();
  }

 private:
  int spins_ = 0;
};

int stage_of(std::uint64_t ticket) noexcept { return static_cast<int>(ticket >> 32U); }
int item_of(std::uint64_t ticket) noexcept { return static_cast<int>(ticket & 0xFFFFFFFFU); }

}  // namespace

ThreadPool::ThreadPool(int size)
    : size_(size > 0 ? size : base::usable_cpus()), parts_(static_cast<std::size_t>(size_)) {
  for (int worker = 1; worker < size_; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(StageRunner& runner, const std::vector<int>& items, std::vector<std::atomic<int>>& done) {
  bool free = false;
  const bool alone = size_ == 1 || !busy_.compare_exchange_strong(free, true, std::memory_order_acquire);
  if (alone) {
    // Another network has the threads. Waiting for them would add its time to this one's.
    for (std::size_t stage = 0; stage < items.size(); ++stage) {
      for (int item = 0; item < items[stage]; ++item) runner.run_item(static_cast<int>(stage), item, 0);
    }
    return;
  }
  for (std::atomic<int>& count : done) count.store(0, std::memory_order_relaxed);
  const Job job{&runner, &items, &done};
  begin_stage(job, 0);
  finished_.store(false, std::memory_order_relaxed);
  {
    const base::MutexLock lock(mutex_);
    job_ = job;
    ++jobs_;
  }
  changed_.notify_all();
  for (std::size_t stage = 0; stage < items.size(); ++stage) {
    if (stage > 0) begin_stage(job, static_cast<int>(stage));
    while (run_one(job, 0)) {
    }
    Backoff backoff;
    while (done[stage].load(std::memory_order_acquire) != items[stage]) backoff.wait();
  }
  finished_.store(true, std::memory_order_release);
  {
    // From here on no other thread begins with this job, and those inside leave at once.
    const base::MutexLock lock(mutex_);
    job_ = {};
  }
  Backoff backoff;
  while (helpers_.load(std::memory_order_acquire) != 0) backoff.wait();
  busy_.store(false, std::memory_order_release);
}

// Whether the item that a part's ticket names exists.
bool ThreadPool::has_items(const Job& job, int part, std::uint64_t ticket) const noexcept {
  const auto stage = static_cast<std::size_t>(stage_of(ticket));
  if (stage >= job.items->size()) return false;
  return item_of(ticket) < static_cast<int>(std::int64_t{(*job.items)[stage]} * (part + 1) / size_);
}

void ThreadPool::begin_stage(const Job& job, int stage) noexcept {
  const std::int64_t items =
      stage < static_cast<int>(job.items->size()) ? (*job.items)[static_cast<std::size_t>(stage)] : 0;
  for (int part = 0; part < size_; ++part) {
    const auto first = static_cast<std::uint64_t>(items * part / size_);
    parts_[static_cast<std::size_t>(part)].ticket.store(static_cast<std::uint64_t>(stage) << 32U | first,
                                                        std::memory_order_release);
  }
}

bool ThreadPool::run_one(const Job& job, int worker) noexcept {
  for (int i = 0; i < size_; ++i) {
    const int part = (worker + i) % size_;
    std::atomic<std::uint64_t>& next = parts_[static_cast<std::size_t>(part)].ticket;
    // Looking first keeps idle threads from counting tickets up.
    if (!has_items(job, part, next.load(std::memory_order_acquire))) continue;
    const std::uint64_t ticket = next.fetch_add(1, std::memory_order_acq_rel);
    if (!has_items(job, part, ticket)) continue;
    job.runner->run_item(stage_of(ticket), item_of(ticket), worker);
    (*job.done)[static_cast<std::size_t>(stage_of(ticket))].fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

void ThreadPool::run_items(const Job& job, int worker) noexcept {
  Backoff backoff;
  while (!finished_.load(std::memory_order_acquire)) {
    if (run_one(job, worker))
      backoff = Backoff();
    else
      backoff.wait();
  }
}

void ThreadPool::work(int worker) {
  base::name_this_thread("camd-net-" + std::to_string(worker));
  std::uint64_t seen = 0;
  for (;;) {
    Job job;
    {
      const base::MutexLock lock(mutex_);
      while (!stop_ && (jobs_ == seen || job_.runner == nullptr)) changed_.wait(mutex_);
      if (stop_) return;
      seen = jobs_;
      job = job_;
      helpers_.fetch_add(1, std::memory_order_relaxed);  // under the mutex, so run() sees it after taking job_ away
    }
    run_items(job, worker);
    helpers_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace camd::infer::cpu
