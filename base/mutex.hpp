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
#define CAMD_RELEASE(...) CAMD_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define CAMD_EXCLUDES(...) CAMD_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define CAMD_NO_THREAD_SAFETY_ANALYSIS CAMD_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace camd::base {

class CAMD_CAPABILITY("mutex") Mutex {
 public:
  void lock() CAMD_ACQUIRE() { mutex_.lock(); }
  void unlock() CAMD_RELEASE() { mutex_.unlock(); }

 private:
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
  void wait(Mutex& mutex) CAMD_REQUIRES(mutex) CAMD_NO_THREAD_SAFETY_ANALYSIS { cv_.wait(mutex); }
  // Returns false on time-out.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      CAMD_REQUIRES(mutex) CAMD_NO_THREAD_SAFETY_ANALYSIS {
    return cv_.wait_until(mutex, deadline) == std::cv_status::no_timeout;
  }
  void notify_one() noexcept { cv_.notify_one(); }
  void notify_all() noexcept { cv_.notify_all(); }

 private:
  std::condition_variable_any cv_;
};

}  // namespace camd::base
