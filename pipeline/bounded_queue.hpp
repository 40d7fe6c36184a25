// BoundedQueue: hands items between the stages' threads; moodycamel's lock-free queue with a semaphore that sleeps.
//
// Threads: push() and pop() [any].
// Invariants: never holds more than its capacity; after construction nothing is allocated: a moodycamel queue allocates
// whenever a thread pushes for the first time, so the producers are made beforehand and threads borrow one for a push.
// Items of one thread stay in order where it is the only one that pushes. moodycamel's own blocking queue spins some
// ten thousand turns before it sleeps, which costs more CPU time than a frame's whole bookkeeping: here a waiter sleeps
// at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>

#include <concurrentqueue.h>
#include <lightweightsemaphore.h>

namespace camd::pipeline {

template <typename T>
class BoundedQueue {
 public:
  // `producers`: how many threads push at once.
  BoundedQueue(std::size_t capacity, std::size_t producers)
      : capacity_(capacity), queue_(capacity, producers, 0), available_(0, 0) {
    for (std::size_t i = 0; i < producers; ++i) producers_.emplace_back(queue_);
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // False when full: the caller's accounting says that this cannot happen, or counts a drop.
  [[nodiscard]] bool push(T item) {
    if (size_.fetch_add(1, std::memory_order_relaxed) >= capacity_) {
      size_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    Producer& producer = borrow();
    (void)queue_.enqueue(producer.token, item);
    producer.busy.store(false, std::memory_order_release);
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
  struct Producer {
    explicit Producer(moodycamel::ConcurrentQueue<T>& queue) : token(queue) {}
    moodycamel::ProducerToken token;
    std::atomic<bool> busy{false};
  };
  Producer& borrow() {
    for (;;) {
      for (Producer& producer : producers_) {
        if (!producer.busy.exchange(true, std::memory_order_acquire)) return producer;
      }
    }
  }
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
  std::deque<Producer> producers_;  // constant after construction
  moodycamel::LightweightSemaphore available_;
};

}  // namespace camd::pipeline
