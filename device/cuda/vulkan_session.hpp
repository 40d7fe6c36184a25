// VulkanSession: a DecodingSession of Vulkan Video.
//
//   decode ──► unit copied to a buffer that the GPU reads ──► submitted, signals n
//   map ─────► copy of the surface into an output, submitted behind it, signals n + 1 ──► waits for n + 1 ──► address
//
// Everything of a session goes to one queue, so pictures are decoded and copied in the order of the calls.
//
// Threads: as DecodingSession.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/decoding_session.hpp"
#include "device/cuda/vulkan_device.hpp"
#include "device/cuda/vulkan_parameters.hpp"

namespace camd::device {

class VulkanSession final : public DecodingSession {
 public:
  VulkanSession(VulkanDevice& device, CudaDevice& cuda, const CUVIDDECODECREATEINFO& info);
  ~VulkanSession() override;
  VulkanSession(const VulkanSession&) = delete;
  VulkanSession& operator=(const VulkanSession&) = delete;

  // [blocks] What could not be made; "" when all was. Before all else, once.
  [[nodiscard]] std::string open();

  bool decode(CUVIDPICPARAMS& picture) override;
  bool map(int surface, CUstream stream, unsigned long long& address, unsigned& pitch) override;
  void unmap(unsigned long long address) override;
  // The driver does not say: its queries called damaged pictures complete (docs/experiments.md).
  bool damaged(int /*surface*/) override { return false; }

 private:
  static constexpr int kUnits = 4;      // compressed pictures on their way
  static constexpr int kMostHeld = 32;  // outputs

  // A command buffer, and the signal behind what it last did.
  struct Commands {
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t done = 0;
  };
  struct Unit {
    VulkanMemory memory;  // in front of the buffer, which goes first
    VulkanBuffer buffer;
    std::byte* bytes = nullptr;
    std::size_t capacity = 0;
    Commands commands;
  };

  [[nodiscard]] bool make_session();
  [[nodiscard]] bool make_surfaces();
  [[nodiscard]] bool make_commands();
  [[nodiscard]] bool make_outputs();
  [[nodiscard]] bool fill(Unit& unit, const CUVIDPICPARAMS& picture);
  [[nodiscard]] bool use_parameters(const CUVIDPICPARAMS& picture);
  [[nodiscard]] bool begin(Commands& commands);
  [[nodiscard]] bool submit(Commands& commands);
  [[nodiscard]] bool wait(std::uint64_t signal) const;
  void order(VkCommandBuffer commands, int surface, VkImageLayout from, VkImageLayout to) const;
  void record(VkCommandBuffer commands, const Unit& unit, std::size_t range, const CUVIDPICPARAMS& picture,
              const VulkanPicture& said);

  VulkanDevice& device_;
  CudaDevice& cuda_;
  VulkanQueue& queue_;
  const bool h265_;
  const int surfaces_;
  const int outputs_;
  const VkExtent2D coded_;
  const VkOffset2D shown_from_;
  const VkExtent2D shown_;
  const unsigned pitch_;
  const std::size_t output_bytes_;
  const VulkanProfile profile_;

  // In the order in which they are made; they go in the other one.
  std::vector<VulkanMemory> session_memory_;
  VulkanVideoSession session_;
  VulkanParameters parameters_;
  std::string parameter_key_;  // of what parameters_ was made from
  VulkanMemory image_memory_;
  VulkanImage image_;
  std::vector<VulkanView> views_;
  VulkanSemaphore done_;
  VulkanCommandPool pool_;
  std::array<Unit, kUnits> units_;
  Commands copying_;
  VulkanMemory output_memory_;
  VulkanBuffer output_;
  std::unique_ptr<ImportedMemory> imported_;

  std::uint64_t submitted_ = 0;
  std::size_t next_unit_ = 0;
  bool begun_ = false;               // surfaces and session were set up on the GPU
  std::vector<bool> holds_picture_;  // surfaces that one was decoded to
  std::array<std::atomic<bool>, kMostHeld> lent_{};
};

}  // namespace camd::device
