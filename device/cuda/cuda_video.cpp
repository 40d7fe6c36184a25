#include "device/cuda/cuda_video.hpp"

#include "base/log.hpp"
#include "device/cuda/nvdec_decoder.hpp"
#include "device/cuda/nvdec_library.hpp"

namespace camd::device {
namespace {

// With so many decoders more than NVIDIA's interface makes (288 on an H100) may be wanted. When all of those are made,
// Vulkan cannot be opened any more: the card has no channel left for its queues.
constexpr int kManyDecoders = 64;

}  // namespace

using base::Error;
using base::ErrorKind;

std::unique_ptr<VideoDecoder> CudaVideo::make_decoder(const VideoDecoderOptions& options, VideoTaker& taker) {
  std::string why;
  const NvdecLibrary* const library = nvdec_library(&why);
  if (library == nullptr) throw Error(ErrorKind::kDevice, why);
  if (++made_ == kManyDecoders) (void)vulkan();
  return make_nvdec_decoder(*library, device_, turns_, options, taker);
}

std::vector<VideoSupport> CudaVideo::support(std::string* why) {
  const NvdecLibrary* const library = nvdec_library(why);
  if (library == nullptr) return {};
  // Asked once: it takes the driver some 100 ms, and every camera wants to know.
  std::call_once(support_asked_, [this, library] { support_ = nvdec_support(*library, device_); });
  return support_;
}

VulkanVideo* CudaVideo::vulkan() {
  std::call_once(vulkan_asked_, [this] {
    const PFN_vkGetInstanceProcAddr loader = vulkan_loader(&why_no_vulkan_);
    if (loader != nullptr) vulkan_ = make_vulkan_video(loader, device_, why_no_vulkan_);
    const std::string told = vulkan_ ? "Vulkan Video decodes what NVIDIA's interface has no session for"
                                     : "no more decoders by Vulkan Video: " + why_no_vulkan_;
    base::log().info("{}: {}", device_.info().name, told);
  });
  return vulkan_.get();
}

}  // namespace camd::device
