#include "device/cuda/vulkan_library.hpp"

#include <dlfcn.h>

namespace camd::device {

PFN_vkGetInstanceProcAddr vulkan_loader(std::string* why) noexcept {
  static void* const library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  static const auto loader = reinterpret_cast<PFN_vkGetInstanceProcAddr>(
      library == nullptr ? nullptr : dlsym(library, "vkGetInstanceProcAddr"));
  if (loader == nullptr && why != nullptr) *why = "libvulkan.so.1 cannot be loaded (apt install libvulkan1)";
  return loader;
}

#define CAMD_VULKAN_FIND(name)                                     \
  table.name = reinterpret_cast<PFN_##name>(loader(owner, #name)); \
  all = all && table.name != nullptr;

bool find_functions(PFN_vkGetInstanceProcAddr loader, VkInstance owner, VulkanInstanceFunctions& table) noexcept {
  bool all = true;
  CAMD_VULKAN_INSTANCE_FUNCTIONS(CAMD_VULKAN_FIND)
  return all;
}

bool find_functions(PFN_vkGetDeviceProcAddr loader, VkDevice owner, VulkanDeviceFunctions& table) noexcept {
  bool all = true;
  CAMD_VULKAN_DEVICE_FUNCTIONS(CAMD_VULKAN_FIND)
  return all;
}

#undef CAMD_VULKAN_FIND

}  // namespace camd::device
