// VulkanDevice: the GPU as Vulkan sees it, opened for decoding, and owners of what is made there.
//
// Threads: everything [any]; a queue is locked by who submits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "device/cuda/vulkan_library.hpp"

namespace camd::device {

// Of a codec with 8 bits and 4:2:0, as the driver says.
struct VulkanCodec {
  bool there = false;
  VkVideoCapabilitiesKHR capabilities{};
};

struct VulkanQueue {
  base::Mutex mutex;
  VkQueue queue = VK_NULL_HANDLE;  // guarded by mutex
  int sessions = 0;                // guarded by VulkanDevice's
};

// The profile of a codec, for structures that want a chain or a list of it.
struct VulkanProfile {
  explicit VulkanProfile(bool h265) noexcept;
  VulkanProfile(const VulkanProfile&) = delete;
  VulkanProfile& operator=(const VulkanProfile&) = delete;

  VkVideoDecodeH264ProfileInfoKHR h264{};
  VkVideoDecodeH265ProfileInfoKHR h265{};
  VkVideoProfileInfoKHR profile{};
  VkVideoProfileListInfoKHR list{};
};

class VulkanDevice {
 public:
  // [blocks] The GPU with these 16 bytes as its name (cudaDeviceProp::uuid). Null: `why` says what is missing.
  [[nodiscard]] static std::unique_ptr<VulkanDevice> open(PFN_vkGetInstanceProcAddr loader, const std::byte* uuid,
                                                          std::string& why);
  ~VulkanDevice();
  VulkanDevice(const VulkanDevice&) = delete;
  VulkanDevice& operator=(const VulkanDevice&) = delete;

  [[nodiscard]] const VulkanDeviceFunctions& calls() const noexcept { return calls_; }
  [[nodiscard]] VkDevice handle() const noexcept { return device_; }
  [[nodiscard]] std::uint32_t family() const noexcept { return family_; }
  [[nodiscard]] const VulkanCodec& codec(bool h265) const noexcept { return codecs_[h265 ? 1 : 0]; }

  // The queue with the fewest sessions; one more is counted there until give_back().
  [[nodiscard]] VulkanQueue& take_queue() noexcept;
  void give_back(VulkanQueue& queue) noexcept;

  // Memory of a kind that `type_bits` allows with all of `wanted`. Exportable memory may go to CUDA. Null: none left.
  [[nodiscard]] VkDeviceMemory allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags wanted,
                                        bool exportable) const noexcept;

 private:
  VulkanDevice() = default;
  [[nodiscard]] std::string find(PFN_vkGetInstanceProcAddr loader, const std::byte* uuid);

  VulkanInstanceFunctions instance_calls_;
  VulkanDeviceFunctions calls_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  std::uint32_t family_ = 0;
  VkPhysicalDeviceMemoryProperties memory_{};
  std::array<VulkanCodec, 2> codecs_;  // H.264, H.265
  base::Mutex mutex_;                  // of the queues' counts
  std::vector<std::unique_ptr<VulkanQueue>> queues_;
};

// Destroys `handle` with a function of the device's table.
template <class Handle, auto Destroy>
class VulkanOwner {
 public:
  VulkanOwner() = default;
  VulkanOwner(const VulkanDevice& device, Handle handle) noexcept : device_(&device), handle_(handle) {}
  ~VulkanOwner() { reset(); }
  VulkanOwner(VulkanOwner&& other) noexcept
      : device_(other.device_), handle_(std::exchange(other.handle_, VK_NULL_HANDLE)) {}
  VulkanOwner& operator=(VulkanOwner&& other) noexcept {
    if (this == &other) return *this;
    reset();
    device_ = other.device_;
    handle_ = std::exchange(other.handle_, VK_NULL_HANDLE);
    return *this;
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }
  void reset() noexcept {
    if (handle_ != VK_NULL_HANDLE)
      (device_->calls().*Destroy)(device_->handle(), std::exchange(handle_, VK_NULL_HANDLE), nullptr);
  }

 private:
  const VulkanDevice* device_ = nullptr;
  Handle handle_ = VK_NULL_HANDLE;
};

using VulkanMemory = VulkanOwner<VkDeviceMemory, &VulkanDeviceFunctions::vkFreeMemory>;
using VulkanBuffer = VulkanOwner<VkBuffer, &VulkanDeviceFunctions::vkDestroyBuffer>;
using VulkanImage = VulkanOwner<VkImage, &VulkanDeviceFunctions::vkDestroyImage>;
using VulkanView = VulkanOwner<VkImageView, &VulkanDeviceFunctions::vkDestroyImageView>;
using VulkanSemaphore = VulkanOwner<VkSemaphore, &VulkanDeviceFunctions::vkDestroySemaphore>;
using VulkanCommandPool = VulkanOwner<VkCommandPool, &VulkanDeviceFunctions::vkDestroyCommandPool>;
using VulkanVideoSession = VulkanOwner<VkVideoSessionKHR, &VulkanDeviceFunctions::vkDestroyVideoSessionKHR>;
using VulkanParameters =
    VulkanOwner<VkVideoSessionParametersKHR, &VulkanDeviceFunctions::vkDestroyVideoSessionParametersKHR>;

}  // namespace camd::device
