// VulkanLibrary: the functions of Vulkan that decoding needs, as a table. The loader, libvulkan, is loaded at run time;
// the headers are Debian's libvulkan-dev.
//
// Threads: vulkan_library() [any], [blocks] at its first call; the functions as the Vulkan specification says.
#pragma once

#include <vulkan/vulkan.h>

#include <string>

// Found with an instance, and with a device.
#define CAMD_VULKAN_INSTANCE_FUNCTIONS(APPLY)      \
  APPLY(vkDestroyInstance)                         \
  APPLY(vkEnumeratePhysicalDevices)                \
  APPLY(vkEnumerateDeviceExtensionProperties)      \
  APPLY(vkGetPhysicalDeviceProperties2)            \
  APPLY(vkGetPhysicalDeviceMemoryProperties)       \
  APPLY(vkGetPhysicalDeviceQueueFamilyProperties2) \
  APPLY(vkGetPhysicalDeviceVideoCapabilitiesKHR)   \
  APPLY(vkCreateDevice)                            \
  APPLY(vkGetDeviceProcAddr)
#define CAMD_VULKAN_DEVICE_FUNCTIONS(APPLY)     \
  APPLY(vkDestroyDevice)                        \
  APPLY(vkGetDeviceQueue)                       \
  APPLY(vkQueueSubmit2)                         \
  APPLY(vkAllocateMemory)                       \
  APPLY(vkFreeMemory)                           \
  APPLY(vkMapMemory)                            \
  APPLY(vkGetMemoryFdKHR)                       \
  APPLY(vkCreateBuffer)                         \
  APPLY(vkDestroyBuffer)                        \
  APPLY(vkGetBufferMemoryRequirements)          \
  APPLY(vkBindBufferMemory)                     \
  APPLY(vkCreateImage)                          \
  APPLY(vkDestroyImage)                         \
  APPLY(vkGetImageMemoryRequirements)           \
  APPLY(vkBindImageMemory)                      \
  APPLY(vkCreateImageView)                      \
  APPLY(vkDestroyImageView)                     \
  APPLY(vkCreateSemaphore)                      \
  APPLY(vkDestroySemaphore)                     \
  APPLY(vkWaitSemaphores)                       \
  APPLY(vkCreateCommandPool)                    \
  APPLY(vkDestroyCommandPool)                   \
  APPLY(vkAllocateCommandBuffers)               \
  APPLY(vkBeginCommandBuffer)                   \
  APPLY(vkEndCommandBuffer)                     \
  APPLY(vkCmdPipelineBarrier2)                  \
  APPLY(vkCmdCopyImageToBuffer)                 \
  APPLY(vkCreateVideoSessionKHR)                \
  APPLY(vkDestroyVideoSessionKHR)               \
  APPLY(vkGetVideoSessionMemoryRequirementsKHR) \
  APPLY(vkBindVideoSessionMemoryKHR)            \
  APPLY(vkCreateVideoSessionParametersKHR)      \
  APPLY(vkDestroyVideoSessionParametersKHR)     \
  APPLY(vkCmdBeginVideoCodingKHR)               \
  APPLY(vkCmdControlVideoCodingKHR)             \
  APPLY(vkCmdDecodeVideoKHR)                    \
  APPLY(vkCmdEndVideoCodingKHR)

namespace camd::device {

// NOLINTBEGIN(bugprone-macro-parentheses)
#define CAMD_VULKAN_MEMBER(name) PFN_##name name = nullptr;
struct VulkanInstanceFunctions {
  CAMD_VULKAN_INSTANCE_FUNCTIONS(CAMD_VULKAN_MEMBER)
};
struct VulkanDeviceFunctions {
  CAMD_VULKAN_DEVICE_FUNCTIONS(CAMD_VULKAN_MEMBER)
};
#undef CAMD_VULKAN_MEMBER
// NOLINTEND(bugprone-macro-parentheses)

// Null where the loader is missing; `*why` then says so. Lives as long as the process.
[[nodiscard]] PFN_vkGetInstanceProcAddr vulkan_loader(std::string* why) noexcept;

// A structure of Vulkan with its type, all else zero.
template <class Structure>
[[nodiscard]] Structure structure(VkStructureType type) noexcept {
  Structure made{};
  made.sType = type;
  return made;
}

// Fill a table. False: a function is missing.
[[nodiscard]] bool find_functions(PFN_vkGetInstanceProcAddr loader, VkInstance owner,
                                  VulkanInstanceFunctions& table) noexcept;
[[nodiscard]] bool find_functions(PFN_vkGetDeviceProcAddr loader, VkDevice owner,
                                  VulkanDeviceFunctions& table) noexcept;

}  // namespace camd::device
