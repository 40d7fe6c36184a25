#include "device/cuda/vulkan_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace camd::device {
namespace {

constexpr std::array<const char*, 5> kExtensions = {
    VK_KHR_VIDEO_QUEUE_EXTENSION_NAME, VK_KHR_VIDEO_DECODE_QUEUE_EXTENSION_NAME,
    VK_KHR_VIDEO_DECODE_H264_EXTENSION_NAME, VK_KHR_VIDEO_DECODE_H265_EXTENSION_NAME,
    VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};

bool has_extensions(const VulkanInstanceFunctions& calls, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  if (calls.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr) != VK_SUCCESS) return false;
  std::vector<VkExtensionProperties> there(count);
  if (calls.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, there.data()) < VK_SUCCESS) return false;
  return std::all_of(kExtensions.begin(), kExtensions.end(), [&](const char* name) {
    return std::any_of(there.begin(), there.end(),
                       [&](const VkExtensionProperties& one) { return std::strcmp(one.extensionName, name) == 0; });
  });
}

// That decodes, and copies pictures of any place and size; -1: none.
int decoding_family(const VulkanInstanceFunctions& calls, VkPhysicalDevice device, std::uint32_t& queues) {
  std::uint32_t count = 0;
  calls.vkGetPhysicalDeviceQueueFamilyProperties2(device, &count, nullptr);
  std::vector families(count, structure<VkQueueFamilyProperties2>(VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2));
  calls.vkGetPhysicalDeviceQueueFamilyProperties2(device, &count, families.data());
  constexpr VkQueueFlags kWanted = VK_QUEUE_VIDEO_DECODE_BIT_KHR | VK_QUEUE_TRANSFER_BIT;
  for (std::uint32_t i = 0; i < count; ++i) {
    const VkQueueFamilyProperties& family = families[i].queueFamilyProperties;
    const VkExtent3D step = family.minImageTransferGranularity;
    if ((family.queueFlags & kWanted) != kWanted) continue;
    if (step.width > 2 || step.height > 2 || step.width == 0 || step.height == 0) continue;
    queues = family.queueCount;
    return static_cast<int>(i);
  }
  return -1;
}

VulkanCodec codec_of(const VulkanInstanceFunctions& calls, VkPhysicalDevice device, bool h265) {
  const VulkanProfile profile(h265);
  auto of_h264 = structure<VkVideoDecodeH264CapabilitiesKHR>(VK_STRUCTURE_TYPE_VIDEO_DECODE_H264_CAPABILITIES_KHR);
  auto of_h265 = structure<VkVideoDecodeH265CapabilitiesKHR>(VK_STRUCTURE_TYPE_VIDEO_DECODE_H265_CAPABILITIES_KHR);
  auto decoding = structure<VkVideoDecodeCapabilitiesKHR>(VK_STRUCTURE_TYPE_VIDEO_DECODE_CAPABILITIES_KHR);
  decoding.pNext = h265 ? static_cast<void*>(&of_h265) : &of_h264;
  VulkanCodec codec;
  codec.capabilities.sType = VK_STRUCTURE_TYPE_VIDEO_CAPABILITIES_KHR;
  codec.capabilities.pNext = &decoding;
  const VkResult asked = calls.vkGetPhysicalDeviceVideoCapabilitiesKHR(device, &profile.profile, &codec.capabilities);
  codec.capabilities.pNext = nullptr;
  // What is decoded to is also what is referred to: other drivers want a copy for one of both.
  codec.there =
      asked == VK_SUCCESS && (decoding.flags & VK_VIDEO_DECODE_CAPABILITY_DPB_AND_OUTPUT_COINCIDE_BIT_KHR) != 0;
  return codec;
}

}  // namespace

VulkanProfile::VulkanProfile(bool is_h265) noexcept {
  h264.sType = VK_STRUCTURE_TYPE_VIDEO_DECODE_H264_PROFILE_INFO_KHR;
  h264.stdProfileIdc = STD_VIDEO_H264_PROFILE_IDC_HIGH;
  h264.pictureLayout = VK_VIDEO_DECODE_H264_PICTURE_LAYOUT_PROGRESSIVE_KHR;
  h265.sType = VK_STRUCTURE_TYPE_VIDEO_DECODE_H265_PROFILE_INFO_KHR;
  h265.stdProfileIdc = STD_VIDEO_H265_PROFILE_IDC_MAIN;
  profile.sType = VK_STRUCTURE_TYPE_VIDEO_PROFILE_INFO_KHR;
  profile.pNext = is_h265 ? static_cast<const void*>(&h265) : &h264;
  profile.videoCodecOperation =
      is_h265 ? VK_VIDEO_CODEC_OPERATION_DECODE_H265_BIT_KHR : VK_VIDEO_CODEC_OPERATION_DECODE_H264_BIT_KHR;
  profile.chromaSubsampling = VK_VIDEO_CHROMA_SUBSAMPLING_420_BIT_KHR;
  profile.lumaBitDepth = VK_VIDEO_COMPONENT_BIT_DEPTH_8_BIT_KHR;
  profile.chromaBitDepth = VK_VIDEO_COMPONENT_BIT_DEPTH_8_BIT_KHR;
  list.sType = VK_STRUCTURE_TYPE_VIDEO_PROFILE_LIST_INFO_KHR;
  list.profileCount = 1;
  list.pProfiles = &profile;
}

std::unique_ptr<VulkanDevice> VulkanDevice::open(PFN_vkGetInstanceProcAddr loader, const std::byte* uuid,
                                                 std::string& why) {
  std::unique_ptr<VulkanDevice> made(new VulkanDevice);
  why = made->find(loader, uuid);
  return why.empty() ? std::move(made) : nullptr;
}

// What is missing; "" when all is there.
std::string VulkanDevice::find(PFN_vkGetInstanceProcAddr loader, const std::byte* uuid) {
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(loader(nullptr, "vkCreateInstance"));
  auto application = structure<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = "camd";
  application.apiVersion = VK_API_VERSION_1_3;
  auto instance = structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  instance.pApplicationInfo = &application;
  if (create == nullptr || create(&instance, nullptr, &instance_) != VK_SUCCESS) return "Vulkan finds no driver";
  if (!find_functions(loader, instance_, instance_calls_)) return "Vulkan's loader is too old to know of decoding";

  std::uint32_t count = 0;
  (void)instance_calls_.vkEnumeratePhysicalDevices(instance_, &count, nullptr);
  std::vector<VkPhysicalDevice> all(count);
  if (instance_calls_.vkEnumeratePhysicalDevices(instance_, &count, all.data()) < VK_SUCCESS)
    return "Vulkan lists no GPUs";
  for (VkPhysicalDevice one : all) {
    auto id = structure<VkPhysicalDeviceIDProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
    auto properties = structure<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    properties.pNext = &id;
    instance_calls_.vkGetPhysicalDeviceProperties2(one, &properties);
    if (properties.properties.apiVersion >= VK_API_VERSION_1_3 && std::memcmp(id.deviceUUID, uuid, VK_UUID_SIZE) == 0)
      physical_ = one;
  }
  if (physical_ == VK_NULL_HANDLE) return "Vulkan does not find this GPU";
  if (!has_extensions(instance_calls_, physical_)) return "the GPU's driver for Vulkan does not decode H.264 and H.265";
  std::uint32_t queues = 0;
  const int family = decoding_family(instance_calls_, physical_, queues);
  if (family < 0) return "the GPU's driver for Vulkan has no queue that decodes and copies";
  family_ = static_cast<std::uint32_t>(family);
  codecs_ = {codec_of(instance_calls_, physical_, false), codec_of(instance_calls_, physical_, true)};
  instance_calls_.vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);

  const std::vector<float> priorities(queues, 1.0F);
  auto queue = structure<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queue.queueFamilyIndex = family_;
  queue.queueCount = queues;
  queue.pQueuePriorities = priorities.data();
  auto timeline = structure<VkPhysicalDeviceTimelineSemaphoreFeatures>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
  timeline.timelineSemaphore = VK_TRUE;
  auto synchronization =
      structure<VkPhysicalDeviceSynchronization2Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES);
  synchronization.synchronization2 = VK_TRUE;
  synchronization.pNext = &timeline;
  auto device = structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  device.pNext = &synchronization;
  device.queueCreateInfoCount = 1;
  device.pQueueCreateInfos = &queue;
  device.enabledExtensionCount = static_cast<std::uint32_t>(kExtensions.size());
  device.ppEnabledExtensionNames = kExtensions.data();
  if (instance_calls_.vkCreateDevice(physical_, &device, nullptr, &device_) != VK_SUCCESS) {
    return "the GPU's driver for Vulkan does not open it";
  }
  if (!find_functions(instance_calls_.vkGetDeviceProcAddr, device_, calls_))
    return "the GPU's driver for Vulkan lacks a function";
  for (std::uint32_t i = 0; i < queues; ++i) {
    auto made = std::make_unique<VulkanQueue>();
    calls_.vkGetDeviceQueue(device_, family_, i, &made->queue);
    queues_.push_back(std::move(made));
  }
  return "";
}

VulkanDevice::~VulkanDevice() {
  if (device_ != VK_NULL_HANDLE && calls_.vkDestroyDevice != nullptr) calls_.vkDestroyDevice(device_, nullptr);
  if (instance_ != VK_NULL_HANDLE && instance_calls_.vkDestroyInstance != nullptr)
    instance_calls_.vkDestroyInstance(instance_, nullptr);
}

VulkanQueue& VulkanDevice::take_queue() noexcept {
  const base::MutexLock lock(mutex_);
  VulkanQueue& least = **std::min_element(queues_.begin(), queues_.end(),
                                          [](const auto& a, const auto& b) { return a->sessions < b->sessions; });
  ++least.sessions;
  return least;
}

void VulkanDevice::give_back(VulkanQueue& queue) noexcept {
  const base::MutexLock lock(mutex_);
  --queue.sessions;
}

VkDeviceMemory VulkanDevice::allocate(const VkMemoryRequirements& needs, VkMemoryPropertyFlags wanted,
                                      bool exportable) const noexcept {
  auto exported = structure<VkExportMemoryAllocateInfo>(VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
  exported.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  for (std::uint32_t type = 0; type < memory_.memoryTypeCount; ++type) {
    if ((needs.memoryTypeBits >> type & 1U) == 0 || (memory_.memoryTypes[type].propertyFlags & wanted) != wanted)
      continue;
    auto info = structure<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
    info.pNext = exportable ? &exported : nullptr;
    info.allocationSize = needs.size;
    info.memoryTypeIndex = type;
    VkDeviceMemory made = VK_NULL_HANDLE;
    if (calls_.vkAllocateMemory(device_, &info, nullptr, &made) == VK_SUCCESS) return made;
  }
  return VK_NULL_HANDLE;
}

}  // namespace camd::device
