// Mutex, lock and condition variable annotated for clang's thread-safety analysis.
//
// Threads: [any]. std::mutex carries no capability attributes with libstdc++, so the analysis would
// see nothing; these thin types add them and change nothing else.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define CAMD_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define CAMD_THREAD_ATTRIBUTE(x)
#endif
#define CAMD_CAPABILITY(x) CAMD_THREAD_ATTRIBUTE(capability(x))
#define CAMD_SCOPED_CAPABILITY CAMD_THREAD_ATTRIBUTE(scoped_lockable)
#define CAMD_GUARDED_BY(x) CAMD_THREAD_ATTRIBUTE(guarded_by(x))
#define CAMD_REQUIRES(...) CAMD_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define CAMD_ACQUIRE(...) CAMD_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define CAMD_TRY_ACQUIRE(...) CAMD_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define CAMD_RELEASE(...) CAMD_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define CAMD_EXCLUDES(...) CAMD_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define CAMD_NO_THREAD_SAFETY_ANALYSIS CAMD_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace camd::base {

class CAMD_CAPABILITY("mutex") Mutex {
 public:
  void lock() CAMD_ACQUIRE() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() CAMD_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() CAMD_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class CAMD_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CAMD_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() CAMD_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits are written as explicit loops over wait(), so that the analysis sees the guarded reads:
//   MutexLock lock(mutex_); while (!ready_) changed_.wait(mutex_);
class CondVar {
 public:
  void wait(Mutex& mutex) CAMD_REQUIRES(mutex) CAMD_NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex.mutex_);
    cv_.wait(*held);
  }
  // Returns false on time-out.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      CAMD_REQUIRES(mutex) CAMD_NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex.mutex_);
    return cv_.wait_until(*held, deadline) == std::cv_status::no_timeout;
  }
  void notify_one() noexcept { cv_.notify_one(); }
  void notify_all() noexcept { cv_.notify_all(); }

 private:
  // The lock that the caller holds, in the form that std::condition_variable wants, which is the cheaper one by a
  // mutex.
  class Held {
   public:
    explicit Held(std::mutex& mutex) : lock_(mutex, std::adopt_lock) {}
    ~Held() { (void)lock_.release(); }  // stays the caller's
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    [[nodiscard]] std::unique_lock<std::mutex>& operator*() noexcept { return lock_; }

   private:
    std::unique_lock<std::mutex> lock_;
  };
  std::condition_variable cv_;
};

}  // namespace camd::base
