// Run: the memory in which one Program runs, and running it.
//
// Threads: a Run belongs to one Execution and is used by one thread at a time.
// Memory: the arena, and scratch memory for each thread of the pool.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "infer/cpu/program.hpp"
#include "infer/cpu/thread_pool.hpp"

namespace camd::infer::cpu {

class Run : private StageRunner {
 public:
  // [setup] Allocates; throws std::bad_alloc. `threads` must outlive the Run.
  Run(std::shared_ptr<const Program> program, ThreadPool& threads);
  ~Run() override;
  // [blocks] [no-alloc] input: the graph's input, [1,3,H,W] f32; outputs[i]: room for graph output i, f32, row-major.
  void operator()(const float* input, const std::vector<float*>& outputs);

 private:
  void run_item(int stage, int item, int worker) noexcept override;

  std::shared_ptr<const Program> program_;
  ThreadPool& threads_;
  struct AlignedFree {
    void operator()(float* p) const noexcept;
  };
  std::unique_ptr<float, AlignedFree> arena_, scratch_;
  std::vector<std::atomic<int>> done_;
  Memory memory_;
};

}  // namespace camd::infer::cpu
