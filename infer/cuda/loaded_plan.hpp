// LoadedPlan: a plan, and its weights in device memory.
//
// Threads: made and dropped by one thread; [any] may read it.
#pragma once

#include <string>
#include <utility>

#include "base/error.hpp"
#include "device/cuda/cuda_device.hpp"
#include "infer/cuda/plan/plan.hpp"

namespace camd::infer {

inline void require(const base::Status& status) {
  if (!status) throw base::Error(status.kind(), status.message());
}

struct LoadedPlan {
  // [setup] [blocks] Throws Error(kDevice).
  LoadedPlan(device::CudaDevice& device, cuda::Plan made)
      : plan(std::move(made)), constants(device.allocate_device(plan.constants.size())) {
    device::Stream stream = device.make_stream("weights");
    require(device.copy(constants.data(), plan.constants.data(), plan.constants.size(), device::CopyKind::kHostToDevice,
                        stream));
    require(device.synchronize(stream.ref()));
  }
  const cuda::Plan plan;
  const device::DeviceBuffer constants;
};

}  // namespace camd::infer
