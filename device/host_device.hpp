// HostDevice: the CPU as a Device, so that the pipeline's asynchrony (streams, events, copies in flight, a device
// that is lost) is the same without a GPU and can be run under the thread sanitizer.
//
// A stream is a bounded queue of operations. Whoever waits for one (synchronize(), another stream's wait()) runs what
// is before it, on his own thread: to wake a thread for it would cost more than a frame's whole bookkeeping. With
// `stream_threads` a thread of each stream runs them instead, as soon as they are enqueued, as a GPU would.
// An event is a position in a stream; waiting for it means until that stream has come past the position. As with CUDA,
// wait(), synchronize() and reached() mean the record() that was the latest when they were called.
//
// Threads: as Device; inject_failure() [any]. Set-up allocates, enqueuing does not.
// Invariants:
//  - Operations of a stream run one at a time, in order. Without `stream_threads` none runs before somebody waits for
//    it or a later one, or the stream is destroyed; reached() only looks.
//  - After the device was lost, queued operations are discarded, not run. The one that is running is finished first,
//    and only then reached() and synchronize() let its waiters go: nobody who was told "reached" finds the device
//    still reading his memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "device/device.hpp"

namespace camd::device {

struct HostDeviceOptions {
  // Streams have threads of their own: work goes on beside the one who enqueued it. For tests of asynchrony.
  bool stream_threads = false;
  // Operations that one stream holds, the running one included. A frame costs a stream at most about
  // ten (copies, events, outputs), and a pipeline has at most some tens of frames in flight. An operation beyond is
  // refused with kInternal: it means that somebody's bound does not hold, and waiting would hide that.
  std::size_t queue_capacity = 1024;
  // For tests: the device is lost instead of running this operation (0 is the first one of all streams); negative:
  // never. Records of Event and waits in their own stream are no operations.
  std::int64_t fail_at_operation = -1;
};

class HostDevice : public Device {
 public:
  // For tests: the device is lost from now on, as after a CUDA error. `failure` must not be ok; only the first counts.
  virtual void inject_failure(const Status& failure) = 0;
};

// `clock` gives the times of TimedEvents and must outlive the device.
[[nodiscard]] std::unique_ptr<HostDevice> make_host_device(const base::Clock& clock,
                                                           const HostDeviceOptions& options = {});

}  // namespace camd::device
