// BoundedQueue: hands items between the stages' threads; moodycamel's lock-free queue with a semaphore that sleeps.
//
// Threads: push() and pop() [any].
// Invariants: never holds more than its capacity; after construction nothing is allocated, because every producer
// thread may find a preallocated block. moodycamel's own blocking queue spins some ten thousand turns before it
// sleeps, which costs more CPU time than a frame's whole bookkeeping: here a waiter sleeps at once.
#pragma once

#include <atomic>
#include <cstddef>

#include <concurrentqueue.h>
#include <lightweightsemaphore.h>

namespace camd::pipeline {

template <typename T>
class BoundedQueue {
 public:
  // `producers`: how many threads push.
  BoundedQueue(std::size_t capacity, std::size_t producers)
      : capacity_(capacity), queue_(capacity, 0, producers), available_(0, 0) {}
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False when full: the caller's accounting says that this cannot happen, or counts a drop.
  [[nodiscard]] bool push(T item) {
    if (size_.fetch_add(1, std::memory_order_relaxed) >= capacity_) {
      size_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    queue_.enqueue(item);
    available_.signal();
    return true;
  }
  // [blocks] until there is an item.
  [[nodiscard]] T pop() {
    available_.wait();
    return take();
  }
  [[nodiscard]] bool try_pop(T& item) {
    if (!available_.tryWait()) return false;
    item = take();
    return true;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  T take() {
    T item{};
    // The semaphore promises an item, but a producer's enqueue may still be becoming visible.
    while (!queue_.try_dequeue(item)) {
    }
    size_.fetch_sub(1, std::memory_order_relaxed);
    return item;
  }

  const std::size_t capacity_;
  std::atomic<std::size_t> size_{0};
  moodycamel::ConcurrentQueue<T> queue_;
  moodycamel::LightweightSemaphore available_;
};

}  // namespace camd::pipeline
