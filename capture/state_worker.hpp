// StateWorker: changes the states of one camera's pipelines, one after the other, on a thread of its own, because
// drivers and servers can hang in there. The thread is reused, and ends when it
// has had nothing to do for a second.
//
// Threads: all functions [control].
// Invariants: at most one thread for each worker, however often something hangs. What was handed over is done in order,
// also after the worker has gone; a pipeline lives until then. One that cannot be brought to NULL (change() says
// kFailed) lives for ever.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "capture/gst_support.hpp"

namespace camd::capture {

class StateWorker {
 public:
  StateWorker();
  // Does not wait: a thread that hangs goes on by itself.
  ~StateWorker();
  StateWorker(const StateWorker&) = delete;
  StateWorker& operator=(const StateWorker&) = delete;

  // [blocks] Changes the state, after all that was asked for before, and gives up waiting after `patience` or when
  // `give_up(argument)` says so (asked about every 20 ms): kHung, and the change is made when the thread gets to it.
  [[nodiscard]] StateChange change(GstElement* element, GstState state, base::Duration patience,
                                   bool (*give_up)(void*) = nullptr, void* argument = nullptr);
  // [blocks] until nothing is left to be done, or for `patience`. True: nothing is left.
  [[nodiscard]] bool wait_idle(base::Duration patience);

 private:
  struct Core;
  const std::shared_ptr<Core> core_;
};

}  // namespace camd::capture
