#include "device/cuda/vulkan_video.hpp"

#include "device/cuda/vulkan_session.hpp"

namespace camd::device {
namespace {

class VulkanVideoImpl final : public VulkanVideo {
 public:
  VulkanVideoImpl(std::unique_ptr<VulkanDevice> device, CudaDevice& cuda) : device_(std::move(device)), cuda_(cuda) {}

  [[nodiscard]] bool takes(const CUVIDDECODECREATEINFO& info) const noexcept override {
    const bool h265 = info.CodecType == cudaVideoCodec_HEVC;
    if ((!h265 && info.CodecType != cudaVideoCodec_H264) || info.bitDepthMinus8 != 0) return false;
    const VulkanCodec& codec = device_->codec(h265);
    const VkVideoCapabilitiesKHR& can = codec.capabilities;
    return codec.there && info.ulWidth <= can.maxCodedExtent.width && info.ulHeight <= can.maxCodedExtent.height &&
           info.ulWidth >= can.minCodedExtent.width && info.ulHeight >= can.minCodedExtent.height &&
           info.ulNumDecodeSurfaces <= can.maxDpbSlots && info.ulNumDecodeSurfaces > 1 &&
           info.display_area.left % 2 == 0 && info.display_area.top % 2 == 0;
  }

  [[nodiscard]] std::unique_ptr<DecodingSession> make(const CUVIDDECODECREATEINFO& info, std::string& why) override {
    auto session = std::make_unique<VulkanSession>(*device_, cuda_, info);
    why = session->open();
    if (!why.empty()) return nullptr;
    return session;
  }

 private:
  std::unique_ptr<VulkanDevice> device_;
  CudaDevice& cuda_;
};

}  // namespace

std::unique_ptr<VulkanVideo> make_vulkan_video(PFN_vkGetInstanceProcAddr loader, CudaDevice& device, std::string& why) {
  static_assert(sizeof(CudaUuid) == VK_UUID_SIZE);
  const CudaUuid uuid = device.uuid();
  std::unique_ptr<VulkanDevice> opened = VulkanDevice::open(loader, uuid.data(), why);
  if (!opened) return nullptr;
  return std::make_unique<VulkanVideoImpl>(std::move(opened), device);
}

}  // namespace camd::device
