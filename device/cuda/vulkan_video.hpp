// VulkanVideo: decoding H.264 and H.265 by Vulkan Video on the GPU that a CudaDevice opened. The same engines (NVDEC)
// as behind libnvcuvid, without its bound on the number of decoders and without a thread for each: ADR 0040.
//
// A session's pictures are surfaces of an image. To be shown, one is copied on the GPU into memory that CUDA sees as
// well. The caller's thread waits for that copy, so that no CUDA stream has to: streams share few queues of the GPU,
// and one that waits for a decoder would hold up the network.
//
// Threads: takes() and make() [any]. The sessions' functions as DecodingSession.
#pragma once

#include <memory>
#include <string>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/decoding_session.hpp"
#include "device/cuda/vulkan_library.hpp"

namespace camd::device {

class VulkanVideo {
 public:
  virtual ~VulkanVideo() = default;
  // Whether sessions for such streams can be made here: the codec, 8 bits, the size, the number of surfaces.
  [[nodiscard]] virtual bool takes(const CUVIDDECODECREATEINFO& info) const noexcept = 0;
  // [blocks] Null: it could not be made; `why` says so.
  [[nodiscard]] virtual std::unique_ptr<DecodingSession> make(const CUVIDDECODECREATEINFO& info, std::string& why) = 0;
};

// [setup] [blocks] Opens the GPU that `device` is, with the functions that `loader` finds (vulkan_loader()). Null where
// it has no decoders for Vulkan, or no driver for it; `why` says so. `device` outlives what is returned.
[[nodiscard]] std::unique_ptr<VulkanVideo> make_vulkan_video(PFN_vkGetInstanceProcAddr loader, CudaDevice& device,
                                                             std::string& why);

}  // namespace camd::device
