#include "capture/state_worker.hpp"

#include <algorithm>
#include <deque>
#include <thread>

#include "base/mutex.hpp"
#include "base/thread.hpp"
#include "capture/frame_source.hpp"

namespace camd::capture {
namespace {

// For so long the thread waits for another job. Hundreds of cameras that run have no use for it.
constexpr base::Duration kIdle = std::chrono::seconds(1);

// Of a pipeline that does not go down.
constexpr int kMostTries = 10;
constexpr base::Duration kBetweenTries = std::chrono::milliseconds(10);

// A bin stops on its way down where one of its elements fails, although GStreamer promises that going to NULL does not
// fail: decodebin (1.22) does when the stream breaks while it plugs its elements. All others run on then, and GLib
// aborts the process when they are disposed of. Asked again, it goes on where it stopped.
GstStateChangeReturn set_state(GstElement* element, GstState state) {
  GstStateChangeReturn made = gst_element_set_state(element, state);
  for (int i = 1; state == GST_STATE_NULL && made == GST_STATE_CHANGE_FAILURE && i < kMostTries; ++i) {
    std::this_thread::sleep_for(kBetweenTries);
    made = gst_element_set_state(element, state);
  }
  return made;
}

struct Job {
  GstElement* element = nullptr;  // a reference
  GstState state = GST_STATE_NULL;
  std::uint64_t number = 0;
};

}  // namespace

struct StateWorker::Core {
  base::Mutex mutex;
  base::CondVar changed;
  std::deque<Job> jobs CAMD_GUARDED_BY(mutex);
  std::uint64_t asked CAMD_GUARDED_BY(mutex) = 0;  // jobs so far
  std::uint64_t done CAMD_GUARDED_BY(mutex) = 0;
  GstStateChangeReturn result CAMD_GUARDED_BY(mutex) = GST_STATE_CHANGE_FAILURE;  // of the last one done
  bool running CAMD_GUARDED_BY(mutex) = false;
  bool closing CAMD_GUARDED_BY(mutex) = false;

  void run() {
    base::name_this_thread("gst-state");
    for (;;) {
      Job job;
      {
        const base::MutexLock lock(mutex);
        const auto until = std::chrono::steady_clock::now() + kIdle;
        while (jobs.empty() && !closing && std::chrono::steady_clock::now() < until) {
          (void)changed.wait_until(mutex, until);
        }
        if (jobs.empty()) {
          running = false;
          return;
        }
        job = jobs.front();
        jobs.pop_front();
      }
      const GstStateChangeReturn made = set_state(job.element, job.state);
      if (job.state == GST_STATE_NULL && made == GST_STATE_CHANGE_FAILURE) {
        note_left_behind();  // it runs on, and must not be disposed of
      } else {
        gst_object_unref(job.element);  // the last reference when the waiter has gone
      }
      const base::MutexLock lock(mutex);
      done = job.number;
      result = made;
      changed.notify_all();
    }
  }
};

StateWorker::StateWorker() : core_(std::make_shared<Core>()) {}

StateWorker::~StateWorker() {
  const base::MutexLock lock(core_->mutex);
  core_->closing = true;
  core_->changed.notify_all();
}

StateChange StateWorker::change(GstElement* element, GstState state, base::Duration patience, bool (*give_up)(void*),
                                void* argument) {
  Core& core = *core_;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const base::MutexLock lock(core.mutex);
  const std::uint64_t number = ++core.asked;
  core.jobs.push_back({static_cast<GstElement*>(gst_object_ref(element)), state, number});
  if (!core.running) std::thread([shared = core_] { shared->run(); }).detach();
  core.running = true;
  core.changed.notify_all();
  while (core.done < number) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline || (give_up != nullptr && give_up(argument))) return StateChange::kHung;
    (void)core.changed.wait_until(core.mutex, std::min(deadline, now + std::chrono::milliseconds(20)));
  }
  switch (core.result) {
    case GST_STATE_CHANGE_FAILURE: return StateChange::kFailed;
    case GST_STATE_CHANGE_NO_PREROLL: return StateChange::kLive;
    case GST_STATE_CHANGE_SUCCESS:
    case GST_STATE_CHANGE_ASYNC: break;
  }
  return StateChange::kDone;
}

bool StateWorker::wait_idle(base::Duration patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const base::MutexLock lock(core_->mutex);
  while (core_->done < core_->asked && std::chrono::steady_clock::now() < deadline) {
    (void)core_->changed.wait_until(core_->mutex, deadline);
  }
  return core_->done == core_->asked;
}

}  // namespace camd::capture
