// CudaVideo: what decodes video on a CudaDevice: NVIDIA's interface, and Vulkan Video beyond its sessions.
//
// Threads: [any]. Everything may wait for the driver: make_decoder() some 50 ms, and 0.2 s where it opens Vulkan.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/decoder_turns.hpp"
#include "device/cuda/vulkan_video.hpp"
#include "device/video_decoder.hpp"

namespace camd::device {

class CudaVideo {
 public:
  // The device outlives it.
  explicit CudaVideo(CudaDevice& device) : device_(device) {}

  // As Device::make_video_decoder() and Device::video_support().
  [[nodiscard]] std::unique_ptr<VideoDecoder> make_decoder(const VideoDecoderOptions& options, VideoTaker& taker);
  [[nodiscard]] std::vector<VideoSupport> support(std::string* why);
  // As CudaDevice::vulkan_video().
  [[nodiscard]] VulkanVideo* vulkan();
  [[nodiscard]] const std::string& why_no_vulkan() const noexcept { return why_no_vulkan_; }  // behind vulkan()

 private:
  CudaDevice& device_;
  DecoderTurns turns_;
  std::atomic<int> made_{0};  // decoders
  std::once_flag support_asked_;
  std::vector<VideoSupport> support_;  // constant once it was asked
  std::once_flag vulkan_asked_;
  // Constant once it was asked for.
  std::unique_ptr<VulkanVideo> vulkan_;  // null: not here
  std::string why_no_vulkan_;
};

}  // namespace camd::device
