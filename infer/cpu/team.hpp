// Team: the threads that run one network together, a sequence of stages each cut into items.
//
// Threads: run() by one thread at a time per Team; others' calls find the team busy and do their work alone.
// How it works: the items of a stage are cut into as many parts as there are threads. An atomic ticket of each part
// holds the stage and the part's next item, so taking an item is one fetch-and-add. A thread takes those of its own
// part first: where items go from the top of a picture to its bottom, most of what an item reads was written by the
// same thread a stage before and still lies in its core's cache. Then it helps with the others' parts. The caller works
// too, and waits only for items that a helper has taken: a helper that the system has not scheduled costs nothing,
// which matters where decoding competes for the same cores.
// Invariants: items of one stage run in any order, at once; a stage begins after every item of the one before is done.
// run() does not allocate.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace camd::infer::cpu {

// What a Team runs. Stages and their items are counted beforehand.
class StageRunner {
 public:
  virtual ~StageRunner() = default;
  // `worker` is in [0, Team::size()): for scratch memory of its own.
  virtual void run_item(int stage, int item, int worker) noexcept = 0;
};

class Team {
 public:
  // `size` threads in all, the caller of run() included; 0: one per core.
  explicit Team(int size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int size() const noexcept { return size_; }
  // Runs all items of stage 0, then of stage 1, ...; items[s] is the number of items of stage s.
  // `done` is working memory of as many counters.
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
  // Runs an item of the stage that is on, if there is one that nobody has taken.
  bool run_one(const Job& job, int worker) noexcept;
  void work(int worker);
  void help(const Job& job, int worker) noexcept;

  const int size_;
  std::atomic<bool> busy_{false};
  std::vector<Part> parts_;           // one per thread
  std::atomic<bool> finished_{true};  // of the current job
  std::atomic<int> helpers_{0};       // that still look at the current job
  base::Mutex mutex_;
  base::CondVar changed_;
  Job job_ CAMD_GUARDED_BY(mutex_);
  std::uint64_t jobs_ CAMD_GUARDED_BY(mutex_) = 0;
  bool stop_ CAMD_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace camd::infer::cpu
