// How many frames in flight a lane has, and how it waits for one of them.
#include "pipeline/core/lane.hpp"

#include <algorithm>
#include <utility>

namespace camd::pipeline {
namespace {

using base::Status;

// To dispatch must not make the source wait, and helps only where the device then works while a worker wakes up.
bool may_dispatch_from_sources(const device::Device& device, const FramePathOptions& path) {
  return device.info().asynchronous && path.transfer != Transfer::kPageable && !path.wait_each;
}

// Enough for every camera to have one frame with its plug-ins while the device is full.
int frames_of(const LaneOptions& options) {
  const auto cameras = std::count_if(options.limits.begin(), options.limits.end(), [](int limit) { return limit > 0; });
  return static_cast<int>(cameras) + options.device_depth + 1;
}

}  // namespace

Lane::Lane(device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors, const base::Clock& clock,
           const LaneOptions& options)
    : device_(device),
      engine_(engine),
      clock_(clock),
      sources_dispatch_(may_dispatch_from_sources(device, options.path)),
      holds_pictures_(postprocessors.needs().picture),
      path_(device, engine, postprocessors, options.path),
      jobs_({options.limits, options.device_depth, frames_of(options), options.adopted}) {
  for (int i = 0; i < frames_of(options); ++i) frames_.push_back(path_.make_in_flight());
}

bool Lane::complete(InFlight& in_flight) {
  Status& status = in_flight.status;
  if (status.ok()) status = device_.synchronize(in_flight.slot_read);
  if (!holds_pictures_ && status.ok()) in_flight.lease.release();
  if (status.ok()) status = device_.synchronize(in_flight.downloaded);
  if (status.ok()) {
    status = in_flight.execution->result();
  } else {
    path_.finish(in_flight);  // before its slot and its tensors are let go
  }
  in_flight.completed = clock_.now();
  Status device_status = device_.status();
  if (device_status.ok()) return false;
  status = std::move(device_status);
  return !lost_.exchange(true);
}

}  // namespace camd::pipeline
