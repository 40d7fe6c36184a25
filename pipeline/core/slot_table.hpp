// SlotTable: what there is for each camera's slot. It grows while others read it, and what is in it never moves.
//
// Threads: constructor, grow() [setup]; the rest [any] for slots that they were told of after grow() had made them.
// Invariants: at most kMostSlots. No lock: a slot's pointer is written once, before anybody hears of the slot.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace camd::pipeline {

// Twice the cameras that a configuration can have: a reload may replace them all.
inline constexpr std::size_t kMostSlots = 1024;

template <class T>
class SlotTable {
 public:
  explicit SlotTable(std::size_t count) : slots_(kMostSlots) { grow(count); }
  // Until there are `count` of them.
  void grow(std::size_t count) {
    for (std::size_t i = size(); i < count; ++i) {
      slots_.at(i) = std::make_unique<T>();
      size_.store(i + 1, std::memory_order_release);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  [[nodiscard]] T& operator[](std::size_t slot) const noexcept { return *slots_[slot]; }

 private:
  std::vector<std::unique_ptr<T>> slots_;  // constant size
  std::atomic<std::size_t> size_{0};
};

}  // namespace camd::pipeline
