#include "infer/cpu/run.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace camd::infer::cpu {
namespace {

float* allocate(std::size_t floats) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t bytes = (floats * sizeof(float) + kAlignment) / kAlignment * kAlignment;
  void* p = std::aligned_alloc(kAlignment, bytes);
  if (p == nullptr) throw std::bad_alloc();
  return static_cast<float*>(p);
}

}  // namespace

void Run::AlignedFree::operator()(float* p) const noexcept { std::free(p); }

Run::Run(std::shared_ptr<const Program> program, ThreadPool& threads)
    : program_(std::move(program)),
      threads_(threads),
      arena_(allocate(program_->arena_floats)),
      scratch_(allocate(program_->scratch_floats * static_cast<std::size_t>(threads.size()))),
      done_(program_->steps.size()) {
  // Lanes and halos that nobody writes must at least be numbers.
  std::fill_n(arena_.get(), program_->arena_floats, 0.0F);
}

Run::~Run() = default;

void Run::operator()(const float* input, const std::vector<float*>& outputs) {
  memory_ = {arena_.get(), input, &outputs, nullptr};
  threads_.run(*this, program_->items, done_);
}

void Run::run_item(int stage, int item, int worker) noexcept {
  Memory memory = memory_;
  memory.scratch = scratch_.get() + program_->scratch_floats * static_cast<std::size_t>(worker);
  program_->steps[static_cast<std::size_t>(stage)]->run(item, memory);
}

}  // namespace camd::infer::cpu
