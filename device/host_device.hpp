// HostDevice: the CPU as a Device. It has streams, events, copies in flight and can be lost, as a GPU can. So the
// pipeline runs the same code without a GPU, and runs it under the thread sanitizer.
//
// A stream is a bounded queue of operations. A thread that waits for an operation (synchronize(), or another stream's
// wait()) runs that operation and those before it: waking another thread for them would cost more than all bookkeeping
// of a frame. With `stream_threads` each stream has a thread that runs operations as soon as they are enqueued, as a
// GPU would. An event is a position in a stream. To wait for it is to wait until the stream has passed that position.
// As with CUDA, wait(), synchronize() and reached() mean the record() that was the latest when they were called.
//
// Threads: as Device; inject_failure() [any]. Set-up allocates, enqueuing does not.
// Invariants:
//  - Operations of a stream run one at a time, in order. Without `stream_threads` an operation runs only when a thread
//    waits for it or for a later one, or when the stream is destroyed. reached() runs nothing.
//  - When the device is lost, queued operations are discarded. The running one is finished first, and only then
//    reached() answers true and synchronize() returns: from then on the device touches no memory of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "device/device.hpp"

namespace camd::device {

struct HostDeviceOptions {
  // Each stream has a thread, so that its work runs beside the thread that enqueued it. For tests.
  bool stream_threads = false;
  // The most operations that a stream holds, the running one included. A frame needs about ten of a stream (copies,
  // events, outputs), and a pipeline has at most some tens of frames in flight. One more is refused with kInternal:
  // then some bound of the pipeline does not hold, and waiting would hide that.
  std::size_t queue_capacity = 1024;
  // For tests: instead of running this operation the device is lost. Operations are numbered from 0 over all streams;
  // record(Event) and a wait for an event of the same stream are none. Negative: never.
  std::int64_t fail_at_operation = -1;
};

class HostDevice : public Device {
 public:
  // For tests: from now on the device is lost, as after a CUDA error. The first failure is kept; an ok one stands for
  // "injected failure".
  virtual void inject_failure(const Status& failure) = 0;
};

// [setup] `clock` gives the times of TimedEvents and must outlive the device. Throws Error(kDevice) for a queue without
// room.
[[nodiscard]] std::unique_ptr<HostDevice> make_host_device(const base::Clock& clock,
                                                           const HostDeviceOptions& options = {});

}  // namespace camd::device
