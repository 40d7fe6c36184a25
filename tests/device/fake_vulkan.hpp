// FakeVulkan: a GPU that decodes by Vulkan Video, as functions that VulkanDevice finds. What is submitted is done at
// once: a picture that is decoded paints its surface with the first byte of its slice; a copy writes that byte to the
// output. So who reads too early or from another surface sees other bytes. Objects are counted, and counted back.
//
// One at a time: the functions have no argument for it.
//
// Threads: one.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/vulkan_library.hpp"

namespace camd::test {

class FakeVulkan {
 public:
  // A picture that was decoded.
  struct Decoded {
    int surface = -1;
    std::vector<int> references;  // slots
    std::vector<int> begun_with;  // slots of the begin; -1: set up by this picture
    bool reset = false;
  };
  // A copy of a plane.
  struct Copied {
    int surface = -1;
    VkBufferImageCopy region{};
  };

  FakeVulkan() { current = this; }
  ~FakeVulkan() {
    for (auto& [handle, memory] : memories_) release(memory);
    current = nullptr;
  }
  FakeVulkan(const FakeVulkan&) = delete;
  FakeVulkan& operator=(const FakeVulkan&) = delete;

  // ---- What it has
  bool there = true;     // a driver
  bool coincide = true;  // what is decoded to is what is referred to
  bool extensions = true;
  std::string fails;              // the function of this name fails
  VkResult waiting = VK_SUCCESS;  // what waits answer
  unsigned max_slots = 17;

  // ---- What it saw
  std::vector<Decoded> decoded;
  std::vector<Copied> copied;
  int parameter_sets = 0;  // made so far
  int alive = 0;           // objects
  std::map<VkQueue, int> submissions;

  static PFN_vkVoidFunction VKAPI_CALL find(VkInstance /*instance*/, const char* name) { return function(name); }

 private:
  struct Memory {
    std::size_t size = 0;
    int file = -1;
    std::byte* bytes = nullptr;
  };
  struct Commands {
    std::vector<std::function<void()>> operations;
  };
  inline static FakeVulkan* current = nullptr;

  static void release(Memory& memory) {
    if (memory.bytes != nullptr) munmap(memory.bytes, memory.size);
    if (memory.file >= 0) close(memory.file);
    memory = {};
  }

  [[nodiscard]] VkResult result(std::string_view name) const {
    return !fails.empty() && fails == name ? VK_ERROR_OUT_OF_DEVICE_MEMORY : VK_SUCCESS;
  }
  template <class Handle>
  VkResult make(std::string_view name, Handle* handle) {
    if (result(name) != VK_SUCCESS) return result(name);
    *handle = reinterpret_cast<Handle>(++last_);  // NOLINT(performance-no-int-to-ptr)
    ++alive;
    return VK_SUCCESS;
  }

  // Functions that make and destroy what has no state here.
  template <class Handle, class Info>
  static VkResult VKAPI_CALL make_of(VkDevice, const Info*, const VkAllocationCallbacks*, Handle* handle) {
    return current->make("", handle);
  }
  template <class Owner, class Handle>
  static void VKAPI_CALL destroy(Owner, Handle, const VkAllocationCallbacks*) {
    --current->alive;
  }

  static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo*, const VkAllocationCallbacks*,
                                             VkInstance* made) {
    return current->there ? current->make("vkCreateInstance", made) : VK_ERROR_INCOMPATIBLE_DRIVER;
  }
  static void VKAPI_CALL destroy_instance(VkInstance, const VkAllocationCallbacks*) { --current->alive; }
  static VkResult VKAPI_CALL physical_devices(VkInstance, std::uint32_t* count, VkPhysicalDevice* all) {
    *count = 1;
    if (all != nullptr) all[0] = reinterpret_cast<VkPhysicalDevice>(1);
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL extensions_of(VkPhysicalDevice, const char*, std::uint32_t* count,
                                           VkExtensionProperties* all) {
    constexpr const char* kNames[] = {"VK_KHR_video_queue", "VK_KHR_video_decode_queue", "VK_KHR_video_decode_h264",
                                      "VK_KHR_video_decode_h265", "VK_KHR_external_memory_fd"};
    *count = current->extensions ? 5 : 3;
    for (std::uint32_t i = 0; all != nullptr && i < *count; ++i)
      std::strncpy(all[i].extensionName, kNames[i], VK_MAX_EXTENSION_NAME_SIZE - 1);
    return VK_SUCCESS;
  }
  static void VKAPI_CALL properties(VkPhysicalDevice,
                                    VkPhysicalDeviceProperties2* properties) {  // and 16 zeros as its name
    properties->properties.apiVersion = VK_API_VERSION_1_3;
  }
  static void VKAPI_CALL memory_properties(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties* memory) {
    memory->memoryTypeCount = 2;
    memory->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    memory->memoryTypes[1].propertyFlags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  }
  static void VKAPI_CALL families(VkPhysicalDevice, std::uint32_t* count, VkQueueFamilyProperties2* all) {
    *count = 2;
    if (all == nullptr) return;
    all[0].queueFamilyProperties.queueFlags = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_TRANSFER_BIT;
    all[1].queueFamilyProperties.queueFlags = VK_QUEUE_VIDEO_DECODE_BIT_KHR | VK_QUEUE_TRANSFER_BIT;
    all[1].queueFamilyProperties.queueCount = 2;
    all[1].queueFamilyProperties.minImageTransferGranularity = {1, 1, 1};
  }
  static VkResult VKAPI_CALL capabilities(VkPhysicalDevice, const VkVideoProfileInfoKHR*, VkVideoCapabilitiesKHR* can) {
    can->minBitstreamBufferSizeAlignment = 256;
    can->pictureAccessGranularity = {16, 16};
    can->minCodedExtent = {48, 16};
    can->maxCodedExtent = {4096, 4096};
    can->maxDpbSlots = current->max_slots;
    can->maxActiveReferencePictures = 16;
    static_cast<VkVideoDecodeCapabilitiesKHR*>(can->pNext)->flags =
        current->coincide ? VK_VIDEO_DECODE_CAPABILITY_DPB_AND_OUTPUT_COINCIDE_BIT_KHR
                          : VK_VIDEO_DECODE_CAPABILITY_DPB_AND_OUTPUT_DISTINCT_BIT_KHR;
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL create_device(VkPhysicalDevice, const VkDeviceCreateInfo*, const VkAllocationCallbacks*,
                                           VkDevice* made) {
    return current->make("vkCreateDevice", made);
  }
  static void VKAPI_CALL destroy_device(VkDevice, const VkAllocationCallbacks*) { --current->alive; }
  static void VKAPI_CALL queue_of(VkDevice, std::uint32_t, std::uint32_t index, VkQueue* queue) {
    *queue = reinterpret_cast<VkQueue>(static_cast<std::uintptr_t>(index) + 1);  // NOLINT(performance-no-int-to-ptr)
  }

  // ---- Memory
  static VkResult VKAPI_CALL allocate(VkDevice, const VkMemoryAllocateInfo* info, const VkAllocationCallbacks*,
                                      VkDeviceMemory* made) {
    if (const VkResult wrong = current->make("vkAllocateMemory", made); wrong != VK_SUCCESS) return wrong;
    Memory& memory = current->memories_[*made];
    memory.size = info->allocationSize;
    memory.file = memfd_create("camd-fake-vulkan", MFD_CLOEXEC);
    if (memory.file < 0 || ftruncate(memory.file, static_cast<off_t>(memory.size)) != 0)
      return VK_ERROR_OUT_OF_HOST_MEMORY;
    void* const bytes = mmap(nullptr, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.file, 0);
    if (bytes == MAP_FAILED) return VK_ERROR_OUT_OF_HOST_MEMORY;
    memory.bytes = static_cast<std::byte*>(bytes);
    return VK_SUCCESS;
  }
  static void VKAPI_CALL free_memory(VkDevice, VkDeviceMemory memory, const VkAllocationCallbacks*) {
    release(current->memories_[memory]);
    current->memories_.erase(memory);
    --current->alive;
  }
  static VkResult VKAPI_CALL map_memory(VkDevice, VkDeviceMemory memory, VkDeviceSize, VkDeviceSize, VkMemoryMapFlags,
                                        void** bytes) {
    *bytes = current->memories_[memory].bytes;
    return current->result("vkMapMemory");
  }
  static VkResult VKAPI_CALL descriptor_of(VkDevice, const VkMemoryGetFdInfoKHR* info, int* descriptor) {
    *descriptor = dup(current->memories_[info->memory].file);
    return current->result("vkGetMemoryFdKHR");
  }
  static VkResult VKAPI_CALL create_buffer(VkDevice, const VkBufferCreateInfo* info, const VkAllocationCallbacks*,
                                           VkBuffer* made) {
    const VkResult wrong = current->make("vkCreateBuffer", made);
    if (wrong == VK_SUCCESS) current->sizes_[*made] = info->size;
    return wrong;
  }
  static void VKAPI_CALL buffer_needs(VkDevice, VkBuffer buffer, VkMemoryRequirements* needs) {
    *needs = {current->sizes_[buffer], 256, 3};
  }
  static VkResult VKAPI_CALL bind_buffer(VkDevice, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize) {
    current->bound_[buffer] = memory;
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL create_image(VkDevice, const VkImageCreateInfo* info, const VkAllocationCallbacks*,
                                          VkImage* made) {
    current->painted_.assign(info->arrayLayers, std::byte{0xEE});
    return current->make("vkCreateImage", made);
  }
  static void VKAPI_CALL image_needs(VkDevice, VkImage, VkMemoryRequirements* needs) { *needs = {4096, 256, 3}; }
  static VkResult VKAPI_CALL bind_image(VkDevice, VkImage, VkDeviceMemory, VkDeviceSize) { return VK_SUCCESS; }
  static VkResult VKAPI_CALL create_view(VkDevice, const VkImageViewCreateInfo* info, const VkAllocationCallbacks*,
                                         VkImageView* made) {
    const VkResult wrong = current->make("vkCreateImageView", made);
    current->layers_[*made] = static_cast<int>(info->subresourceRange.baseArrayLayer);
    return wrong;
  }

  // ---- The session
  static VkResult VKAPI_CALL create_session(VkDevice, const VkVideoSessionCreateInfoKHR*, const VkAllocationCallbacks*,
                                            VkVideoSessionKHR* made) {
    return current->make("vkCreateVideoSessionKHR", made);
  }
  static VkResult VKAPI_CALL session_needs(VkDevice, VkVideoSessionKHR, std::uint32_t* count,
                                           VkVideoSessionMemoryRequirementsKHR* all) {
    *count = 1;
    if (all != nullptr) all[0].memoryRequirements = {4096, 256, 3};
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL bind_session(VkDevice, VkVideoSessionKHR, std::uint32_t,
                                          const VkBindVideoSessionMemoryInfoKHR*) {
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL create_parameters(VkDevice, const VkVideoSessionParametersCreateInfoKHR*,
                                               const VkAllocationCallbacks*, VkVideoSessionParametersKHR* made) {
    ++current->parameter_sets;
    return current->make("vkCreateVideoSessionParametersKHR", made);
  }

  // ---- Commands
  static VkResult VKAPI_CALL allocate_commands(VkDevice, const VkCommandBufferAllocateInfo* info,
                                               VkCommandBuffer* all) {
    for (std::uint32_t i = 0; i < info->commandBufferCount; ++i)
      all[i] = reinterpret_cast<VkCommandBuffer>(++current->last_);  // NOLINT(performance-no-int-to-ptr)
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL begin(VkCommandBuffer commands, const VkCommandBufferBeginInfo*) {
    current->commands_[commands] = {};
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL end(VkCommandBuffer) { return VK_SUCCESS; }
  static void VKAPI_CALL barrier(VkCommandBuffer, const VkDependencyInfo*) {}
  static void VKAPI_CALL begin_coding(VkCommandBuffer, const VkVideoBeginCodingInfoKHR* info) {
    current->next_ = {};
    for (std::uint32_t i = 0; i < info->referenceSlotCount; ++i)
      current->next_.begun_with.push_back(info->pReferenceSlots[i].slotIndex);
  }
  static void VKAPI_CALL control(VkCommandBuffer, const VkVideoCodingControlInfoKHR*) { current->next_.reset = true; }
  static void VKAPI_CALL decode(VkCommandBuffer commands, const VkVideoDecodeInfoKHR* info) {
    current->next_.surface = info->pSetupReferenceSlot->slotIndex;
    for (std::uint32_t i = 0; i < info->referenceSlotCount; ++i)
      current->next_.references.push_back(info->pReferenceSlots[i].slotIndex);
    current->commands_[commands].operations.emplace_back(
        [done = current->next_, layer = current->layers_[info->dstPictureResource.imageViewBinding],
         source = info->srcBuffer] {
          current->decoded.push_back(done);
          current->painted_[static_cast<std::size_t>(layer)] = current->memories_[current->bound_[source]].bytes[0];
        });
  }
  static void VKAPI_CALL end_coding(VkCommandBuffer, const VkVideoEndCodingInfoKHR*) {}
  static void VKAPI_CALL copy(VkCommandBuffer commands, VkImage, VkImageLayout, VkBuffer to, std::uint32_t count,
                              const VkBufferImageCopy* regions) {
    for (std::uint32_t i = 0; i < count; ++i) {
      current->commands_[commands].operations.emplace_back([region = regions[i], to] {
        const auto layer = region.imageSubresource.baseArrayLayer;
        current->copied.push_back({static_cast<int>(layer), region});
        current->memories_[current->bound_[to]].bytes[region.bufferOffset] = current->painted_[layer];
      });
    }
  }
  static VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t, const VkSubmitInfo2* info, VkFence) {
    if (const VkResult wrong = current->result("vkQueueSubmit2"); wrong != VK_SUCCESS) return wrong;
    ++current->submissions[queue];
    for (const auto& operation : current->commands_[info->pCommandBufferInfos->commandBuffer].operations) operation();
    current->signalled_[info->pSignalSemaphoreInfos->semaphore] = info->pSignalSemaphoreInfos->value;
    return VK_SUCCESS;
  }
  static VkResult VKAPI_CALL wait(VkDevice, const VkSemaphoreWaitInfo* info, std::uint64_t) {
    if (current->waiting != VK_SUCCESS) return current->waiting;
    return current->signalled_[*info->pSemaphores] >= *info->pValues ? VK_SUCCESS : VK_TIMEOUT;
  }
  template <class Function>
  static PFN_vkVoidFunction as(Function* of) {
    return reinterpret_cast<PFN_vkVoidFunction>(of);
  }
  static PFN_vkVoidFunction VKAPI_CALL find_of_device(VkDevice, const char* name) { return function(name); }
  static PFN_vkVoidFunction function(std::string_view name) {
    static const std::map<std::string_view, PFN_vkVoidFunction> all = {
        {"vkCreateInstance", as(&create_instance)},
        {"vkDestroyInstance", as(&destroy_instance)},
        {"vkEnumeratePhysicalDevices", as(&physical_devices)},
        {"vkEnumerateDeviceExtensionProperties", as(&extensions_of)},
        {"vkGetPhysicalDeviceProperties2", as(&properties)},
        {"vkGetPhysicalDeviceMemoryProperties", as(&memory_properties)},
        {"vkGetPhysicalDeviceQueueFamilyProperties2", as(&families)},
        {"vkGetPhysicalDeviceVideoCapabilitiesKHR", as(&capabilities)},
        {"vkCreateDevice", as(&create_device)},
        {"vkGetDeviceProcAddr", as(&find_of_device)},
        {"vkDestroyDevice", as(&destroy_device)},
        {"vkGetDeviceQueue", as(&queue_of)},
        {"vkQueueSubmit2", as(&submit)},
        {"vkAllocateMemory", as(&allocate)},
        {"vkFreeMemory", as(&free_memory)},
        {"vkMapMemory", as(&map_memory)},
        {"vkGetMemoryFdKHR", as(&descriptor_of)},
        {"vkCreateBuffer", as(&create_buffer)},
        {"vkDestroyBuffer", as(&destroy<VkDevice, VkBuffer>)},
        {"vkGetBufferMemoryRequirements", as(&buffer_needs)},
        {"vkBindBufferMemory", as(&bind_buffer)},
        {"vkCreateImage", as(&create_image)},
        {"vkDestroyImage", as(&destroy<VkDevice, VkImage>)},
        {"vkGetImageMemoryRequirements", as(&image_needs)},
        {"vkBindImageMemory", as(&bind_image)},
        {"vkCreateImageView", as(&create_view)},
        {"vkDestroyImageView", as(&destroy<VkDevice, VkImageView>)},
        {"vkCreateSemaphore", as(&make_of<VkSemaphore, VkSemaphoreCreateInfo>)},
        {"vkDestroySemaphore", as(&destroy<VkDevice, VkSemaphore>)},
        {"vkWaitSemaphores", as(&wait)},
        {"vkCreateCommandPool", as(&make_of<VkCommandPool, VkCommandPoolCreateInfo>)},
        {"vkDestroyCommandPool", as(&destroy<VkDevice, VkCommandPool>)},
        {"vkAllocateCommandBuffers", as(&allocate_commands)},
        {"vkBeginCommandBuffer", as(&begin)},
        {"vkEndCommandBuffer", as(&end)},
        {"vkCmdPipelineBarrier2", as(&barrier)},
        {"vkCmdCopyImageToBuffer", as(&copy)},
        {"vkCreateVideoSessionKHR", as(&create_session)},
        {"vkDestroyVideoSessionKHR", as(&destroy<VkDevice, VkVideoSessionKHR>)},
        {"vkGetVideoSessionMemoryRequirementsKHR", as(&session_needs)},
        {"vkBindVideoSessionMemoryKHR", as(&bind_session)},
        {"vkCreateVideoSessionParametersKHR", as(&create_parameters)},
        {"vkDestroyVideoSessionParametersKHR", as(&destroy<VkDevice, VkVideoSessionParametersKHR>)},
        {"vkCmdBeginVideoCodingKHR", as(&begin_coding)},
        {"vkCmdControlVideoCodingKHR", as(&control)},
        {"vkCmdDecodeVideoKHR", as(&decode)},
        {"vkCmdEndVideoCodingKHR", as(&end_coding)},
    };
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second;
  }

  std::uintptr_t last_ = 16;  // handles given so far
  std::map<VkDeviceMemory, Memory> memories_;
  std::map<VkBuffer, VkDeviceSize> sizes_;
  std::map<VkBuffer, VkDeviceMemory> bound_;
  std::map<VkImageView, int> layers_;
  std::map<VkCommandBuffer, Commands> commands_;
  std::map<VkSemaphore, std::uint64_t> signalled_;
  std::vector<std::byte> painted_;  // of each surface
  Decoded next_;                    // being recorded
};

}  // namespace camd::test
