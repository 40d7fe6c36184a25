// A DecodingSession of NVIDIA's decoder interface: one decoder of libnvcuvid.
//
// Threads: make_nvdec_session() [any] [blocks], with the device's context current.
#pragma once

#include <memory>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/decoding_session.hpp"

namespace camd::device {

// What the driver says; `made` is there when it is CUDA_SUCCESS. Library and device outlive it. Waits while a graph is
// captured, as its destructor does (capture_gate.hpp).
[[nodiscard]] CUresult make_nvdec_session(const NvdecLibrary& library, CudaDevice& device, CUVIDDECODECREATEINFO& info,
                                          std::unique_ptr<DecodingSession>& made);

}  // namespace camd::device
