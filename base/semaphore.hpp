// What a thread sleeps on until another lets it go on, once for each release().
//
// Threads: [any]. POSIX semaphores: no mutex is taken to sleep or to wake, and std::binary_semaphore of GCC 12 may
// sleep for ever (its bug 104928).
#pragma once

#include <semaphore.h>

#include <cerrno>
#include <ctime>

#include "base/clock.hpp"

namespace camd::base {

class Semaphore {
 public:
  Semaphore() noexcept { (void)sem_init(&semaphore_, 0, 0); }  // fails only for values that are too large
  ~Semaphore() { (void)sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void release() noexcept { (void)sem_post(&semaphore_); }  // [no-alloc]
  // [blocks] until a release() that no other acquire() has had.
  void acquire() noexcept {
    while (sem_wait(&semaphore_) != 0 && errno == EINTR) {
    }
  }
  // Like acquire() where that would not wait; else false. [no-alloc]
  [[nodiscard]] bool try_acquire() noexcept {
    int result = 0;
    while ((result = sem_trywait(&semaphore_)) != 0 && errno == EINTR) {
    }
    return result == 0;
  }
  // [blocks] Like acquire(), for `patience` of real time; false: nobody released it.
  [[nodiscard]] bool try_acquire_for(Duration patience) noexcept {
    timespec until{};
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const auto end = std::chrono::seconds(until.tv_sec) + std::chrono::nanoseconds(until.tv_nsec) + patience;
    until.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(end).count();
    until.tv_nsec = (end % std::chrono::seconds(1)).count();
    int result = 0;
    while ((result = sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &until)) != 0 && errno == EINTR) {
    }
    return result == 0;
  }

 private:
  sem_t semaphore_{};
};

}  // namespace camd::base
