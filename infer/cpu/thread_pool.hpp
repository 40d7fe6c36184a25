// ThreadPool: the threads that run one network together. A network is a sequence of stages; a stage is a number of
// independent items.
//
// Threads: run() may be called from any thread. One call at a time has the pool; a call that finds it taken runs its
// items alone, on its own thread.
// How it works: the items of a stage are cut into as many parts as there are threads. Each part has an atomic ticket
// with the stage and the next item, so taking an item is one fetch-and-add. A thread first takes the items of its own
// part. Items go from the top of a picture to its bottom, so most of what an item reads was written by the same thread
// one stage before and is still in its core's cache. Then the thread takes items of the other parts. The calling thread
// works too. It waits only for items that another thread has taken, so a thread that the system does not schedule
// delays nothing. That matters where decoding competes for the same cores. Likewise a thread on a slow core takes fewer
// items than others (tests/bench/infer_cores.cpp).
// Invariants: items of one stage run in any order and at the same time. A stage begins when every item of the one
// before is done. run() does not allocate.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace camd::infer::cpu {

// What a ThreadPool runs.
class StageRunner {
 public:
  virtual ~StageRunner() = default;
  // [any] Runs item `item` of stage `stage`. `worker` is the number of the calling thread, in [0, ThreadPool::size()):
  // no two items run with one number at a time, so it may choose scratch memory.
  virtual void run_item(int stage, int item, int worker) noexcept = 0;
};

class ThreadPool {
 public:
  // [setup] `size` threads in all, the caller of run() included; 0: one for each CPU that the caller may use.
  explicit ThreadPool(int size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const noexcept { return size_; }
  // [any] [blocks] [no-alloc] Runs all items of stage 0, then of stage 1, and so on; items[s] is the number of items of
  // stage s. `done` is working memory of the caller's: as many counters as there are stages.
  void run(StageRunner& runner, const std::vector<int>& items, std::vector<std::atomic<int>>& done);

 private:
  struct Job {
    StageRunner* runner = nullptr;
    const std::vector<int>* items = nullptr;
    std::vector<std::atomic<int>>* done = nullptr;
  };
  struct alignas(64) Part {
    std::atomic<std::uint64_t> ticket{0};  // stage in the upper half, next item in the lower
  };
  [[nodiscard]] bool has_items(const Job& job, int part, std::uint64_t ticket) const noexcept;
  void begin_stage(const Job& job, int stage) noexcept;
  // Runs one item of the current stage that no thread has taken. False: there is none.
  bool run_one(const Job& job, int worker) noexcept;
  void work(int worker);
  void run_items(const Job& job, int worker) noexcept;

  const int size_;
  std::atomic<bool> busy_{false};
  std::vector<Part> parts_;           // one per thread
  std::atomic<bool> finished_{true};  // of the current job
  std::atomic<int> helpers_{0};       // threads that still look at the current job
  base::Mutex mutex_;
  base::CondVar changed_;
  Job job_ CAMD_GUARDED_BY(mutex_);
  std::uint64_t jobs_ CAMD_GUARDED_BY(mutex_) = 0;
  bool stop_ CAMD_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace camd::infer::cpu
