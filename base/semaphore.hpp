// What a thread sleeps on until another lets it go on, once for each release().
//
// Threads: [any]. POSIX semaphores: no mutex is taken to sleep or to wake, and std::binary_semaphore of GCC 12 may
// sleep for ever (its bug 104928).
#pragma once

#include <semaphore.h>

#include <cerrno>

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

 private:
  sem_t semaphore_{};
};

}  // namespace camd::base
