#include "device/cuda/vulkan_session.hpp"

#include <algorithm>
#include <cstring>

namespace camd::device {
namespace {

constexpr std::uint64_t kPatienceNs = 2'000'000'000;  // with a picture; then the decoder does not answer
constexpr std::size_t kSmallestUnit = 1U << 18U;
constexpr unsigned kPitchStep = 256;
constexpr VkImageLayout kDecoding = VK_IMAGE_LAYOUT_VIDEO_DECODE_DPB_KHR;

template <class Number>
Number rounded_up(Number value, Number step) noexcept {
  return (value + step - 1) / step * step;
}

}  // namespace

VulkanSession::VulkanSession(VulkanDevice& device, CudaDevice& cuda, const CUVIDDECODECREATEINFO& info)
    : device_(device),
      cuda_(cuda),
      queue_(device.take_queue()),
      h265_(info.CodecType == cudaVideoCodec_HEVC),
      surfaces_(static_cast<int>(info.ulNumDecodeSurfaces)),
      outputs_(static_cast<int>(info.ulNumOutputSurfaces)),
      coded_{static_cast<std::uint32_t>(info.ulWidth), static_cast<std::uint32_t>(info.ulHeight)},
      shown_from_{info.display_area.left, info.display_area.top},
      shown_{static_cast<std::uint32_t>(info.ulTargetWidth), static_cast<std::uint32_t>(info.ulTargetHeight)},
      pitch_(rounded_up(static_cast<unsigned>(info.ulTargetWidth), kPitchStep)),
      output_bytes_(static_cast<std::size_t>(pitch_) * info.ulTargetHeight * 3 / 2),
      profile_(h265_),
      holds_picture_(static_cast<std::size_t>(surfaces_), false) {}

VulkanSession::~VulkanSession() {
  (void)wait(submitted_);
  (void)cuda_.select();
  device_.give_back(queue_);
}

std::string VulkanSession::open() {
  if (!make_session()) return "the GPU's driver makes no session for decoding";
  if (!make_surfaces() || !make_outputs()) return "the GPU has no memory left for another decoder";
  if (!make_commands()) return "the GPU's driver makes no commands for decoding";
  return "";
}

bool VulkanSession::make_session() {
  const VulkanDeviceFunctions& calls = device_.calls();
  const VkVideoCapabilitiesKHR& can = device_.codec(h265_).capabilities;
  auto info = structure<VkVideoSessionCreateInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_SESSION_CREATE_INFO_KHR);
  info.queueFamilyIndex = device_.family();
  info.pVideoProfile = &profile_.profile;
  info.pictureFormat = VK_FORMAT_G8_B8R8_2PLANE_420_UNORM;
  info.referencePictureFormat = info.pictureFormat;
  info.maxCodedExtent = coded_;
  info.maxDpbSlots = static_cast<std::uint32_t>(surfaces_);
  info.maxActiveReferencePictures = std::min(can.maxActiveReferencePictures, static_cast<std::uint32_t>(surfaces_ - 1));
  info.pStdHeaderVersion = &can.stdHeaderVersion;
  VkVideoSessionKHR session = VK_NULL_HANDLE;
  if (calls.vkCreateVideoSessionKHR(device_.handle(), &info, nullptr, &session) != VK_SUCCESS) return false;
  session_ = VulkanVideoSession(device_, session);

  std::uint32_t count = 0;
  (void)calls.vkGetVideoSessionMemoryRequirementsKHR(device_.handle(), session, &count, nullptr);
  std::vector needs(
      count, structure<VkVideoSessionMemoryRequirementsKHR>(VK_STRUCTURE_TYPE_VIDEO_SESSION_MEMORY_REQUIREMENTS_KHR));
  (void)calls.vkGetVideoSessionMemoryRequirementsKHR(device_.handle(), session, &count, needs.data());
  std::vector<VkBindVideoSessionMemoryInfoKHR> binds;
  for (const VkVideoSessionMemoryRequirementsKHR& need : needs) {
    VkDeviceMemory memory = device_.allocate(need.memoryRequirements, 0, false);
    if (memory == VK_NULL_HANDLE) return false;
    session_memory_.emplace_back(device_, memory);
    auto bind = structure<VkBindVideoSessionMemoryInfoKHR>(VK_STRUCTURE_TYPE_BIND_VIDEO_SESSION_MEMORY_INFO_KHR);
    bind.memoryBindIndex = need.memoryBindIndex;
    bind.memory = memory;
    bind.memorySize = need.memoryRequirements.size;
    binds.push_back(bind);
  }
  return calls.vkBindVideoSessionMemoryKHR(device_.handle(), session, static_cast<std::uint32_t>(binds.size()),
                                           binds.data()) == VK_SUCCESS;
}

bool VulkanSession::make_surfaces() {
  const VulkanDeviceFunctions& calls = device_.calls();
  const VkExtent2D step = device_.codec(h265_).capabilities.pictureAccessGranularity;
  auto info = structure<VkImageCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO);
  info.pNext = &profile_.list;
  info.imageType = VK_IMAGE_TYPE_2D;
  info.format = VK_FORMAT_G8_B8R8_2PLANE_420_UNORM;
  info.extent = {rounded_up(coded_.width, std::max(step.width, 2U)),
                 rounded_up(coded_.height, std::max(step.height, 2U)), 1};
  info.mipLevels = 1;
  info.arrayLayers = static_cast<std::uint32_t>(surfaces_);
  info.samples = VK_SAMPLE_COUNT_1_BIT;
  info.tiling = VK_IMAGE_TILING_OPTIMAL;
  info.usage = VK_IMAGE_USAGE_VIDEO_DECODE_DPB_BIT_KHR | VK_IMAGE_USAGE_VIDEO_DECODE_DST_BIT_KHR |
               VK_IMAGE_USAGE_TRANSFER_SRC_BIT;
  VkImage image = VK_NULL_HANDLE;
  if (calls.vkCreateImage(device_.handle(), &info, nullptr, &image) != VK_SUCCESS) return false;
  VulkanImage owner(device_, image);
  VkMemoryRequirements needs{};
  calls.vkGetImageMemoryRequirements(device_.handle(), image, &needs);
  image_memory_ = VulkanMemory(device_, device_.allocate(needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, false));
  if (image_memory_.get() == VK_NULL_HANDLE) return false;
  image_ = std::move(owner);
  if (calls.vkBindImageMemory(device_.handle(), image, image_memory_.get(), 0) != VK_SUCCESS) return false;
  for (int surface = 0; surface < surfaces_; ++surface) {
    auto view = structure<VkImageViewCreateInfo>(VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO);
    view.image = image;
    view.viewType = VK_IMAGE_VIEW_TYPE_2D;
    view.format = info.format;
    view.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, static_cast<std::uint32_t>(surface), 1};
    VkImageView made = VK_NULL_HANDLE;
    if (calls.vkCreateImageView(device_.handle(), &view, nullptr, &made) != VK_SUCCESS) return false;
    views_.emplace_back(device_, made);
  }
  return true;
}

bool VulkanSession::make_outputs() {
  const VulkanDeviceFunctions& calls = device_.calls();
  auto external = structure<VkExternalMemoryBufferCreateInfo>(VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  auto info = structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  info.pNext = &external;
  info.size = output_bytes_ * static_cast<std::size_t>(outputs_);
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  if (calls.vkCreateBuffer(device_.handle(), &info, nullptr, &buffer) != VK_SUCCESS) return false;
  VulkanBuffer owner(device_, buffer);
  VkMemoryRequirements needs{};
  calls.vkGetBufferMemoryRequirements(device_.handle(), buffer, &needs);
  output_memory_ = VulkanMemory(device_, device_.allocate(needs, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, true));
  if (output_memory_.get() == VK_NULL_HANDLE) return false;
  output_ = std::move(owner);
  if (calls.vkBindBufferMemory(device_.handle(), buffer, output_memory_.get(), 0) != VK_SUCCESS) return false;
  auto get = structure<VkMemoryGetFdInfoKHR>(VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR);
  get.memory = output_memory_.get();
  get.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  int descriptor = -1;
  if (calls.vkGetMemoryFdKHR(device_.handle(), &get, &descriptor) != VK_SUCCESS) return false;
  imported_ = cuda_.import_memory(descriptor, needs.size);
  return imported_ != nullptr;
}

bool VulkanSession::make_commands() {
  const VulkanDeviceFunctions& calls = device_.calls();
  auto timeline = structure<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
  timeline.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &timeline, 0};
  VkSemaphore semaphore = VK_NULL_HANDLE;
  if (calls.vkCreateSemaphore(device_.handle(), &info, nullptr, &semaphore) != VK_SUCCESS) return false;
  done_ = VulkanSemaphore(device_, semaphore);
  auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = device_.family();
  VkCommandPool made = VK_NULL_HANDLE;
  if (calls.vkCreateCommandPool(device_.handle(), &pool, nullptr, &made) != VK_SUCCESS) return false;
  pool_ = VulkanCommandPool(device_, made);
  auto buffers = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  buffers.commandPool = made;
  buffers.commandBufferCount = kUnits + 1;
  std::array<VkCommandBuffer, kUnits + 1> all{};
  if (calls.vkAllocateCommandBuffers(device_.handle(), &buffers, all.data()) != VK_SUCCESS) return false;
  for (std::size_t i = 0; i < kUnits; ++i) units_[i].commands.buffer = all[i];
  copying_.buffer = all[kUnits];
  return true;
}

// ---- Commands

bool VulkanSession::wait(std::uint64_t signal) const {
  if (signal == 0) return true;
  VkSemaphore semaphore = done_.get();
  auto info = structure<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &signal;
  return device_.calls().vkWaitSemaphores(device_.handle(), &info, kPatienceNs) == VK_SUCCESS;
}

bool VulkanSession::begin(Commands& commands) {
  if (!wait(commands.done)) return false;
  auto info = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  return device_.calls().vkBeginCommandBuffer(commands.buffer, &info) == VK_SUCCESS;
}

bool VulkanSession::submit(Commands& commands) {
  const VulkanDeviceFunctions& calls = device_.calls();
  if (calls.vkEndCommandBuffer(commands.buffer) != VK_SUCCESS) return false;
  auto signal = structure<VkSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO);
  signal.semaphore = done_.get();
  signal.value = submitted_ + 1;
  signal.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  auto work = structure<VkCommandBufferSubmitInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO);
  work.commandBuffer = commands.buffer;
  auto info = structure<VkSubmitInfo2>(VK_STRUCTURE_TYPE_SUBMIT_INFO_2);
  info.commandBufferInfoCount = 1;
  info.pCommandBufferInfos = &work;
  info.signalSemaphoreInfoCount = 1;
  info.pSignalSemaphoreInfos = &signal;
  {
    const base::MutexLock lock(queue_.mutex);
    if (calls.vkQueueSubmit2(queue_.queue, 1, &info, VK_NULL_HANDLE) != VK_SUCCESS) return false;
  }
  commands.done = ++submitted_;
  return true;
}

// What follows sees what the queue did to the surface before; -1: to all surfaces.
void VulkanSession::order(VkCommandBuffer commands, int surface, VkImageLayout from, VkImageLayout to) const {
  constexpr VkPipelineStageFlags2 kStages = VK_PIPELINE_STAGE_2_VIDEO_DECODE_BIT_KHR | VK_PIPELINE_STAGE_2_COPY_BIT;
  auto barrier = structure<VkImageMemoryBarrier2>(VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER_2);
  barrier.srcStageMask = kStages;
  barrier.srcAccessMask = VK_ACCESS_2_VIDEO_DECODE_WRITE_BIT_KHR;
  barrier.dstStageMask = kStages;
  barrier.dstAccessMask =
      VK_ACCESS_2_VIDEO_DECODE_READ_BIT_KHR | VK_ACCESS_2_VIDEO_DECODE_WRITE_BIT_KHR | VK_ACCESS_2_TRANSFER_READ_BIT;
  barrier.oldLayout = from;
  barrier.newLayout = to;
  barrier.srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.image = image_.get();
  barrier.subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, surface < 0 ? 0U : static_cast<std::uint32_t>(surface),
                              surface < 0 ? static_cast<std::uint32_t>(surfaces_) : 1U};
  auto dependency = structure<VkDependencyInfo>(VK_STRUCTURE_TYPE_DEPENDENCY_INFO);
  dependency.imageMemoryBarrierCount = 1;
  dependency.pImageMemoryBarriers = &barrier;
  device_.calls().vkCmdPipelineBarrier2(commands, &dependency);
}

// ---- A picture is decoded

bool VulkanSession::fill(Unit& unit, const CUVIDPICPARAMS& picture) {
  const VulkanDeviceFunctions& calls = device_.calls();
  const std::size_t step = std::max<std::size_t>(device_.codec(h265_).capabilities.minBitstreamBufferSizeAlignment, 1);
  const auto needed = rounded_up<std::size_t>(picture.nBitstreamDataLen, step);
  if (unit.capacity < needed) {
    auto info = structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    info.pNext = &profile_.list;
    info.size = rounded_up(std::max(needed, kSmallestUnit), kSmallestUnit);
    info.usage = VK_BUFFER_USAGE_VIDEO_DECODE_SRC_BIT_KHR;
    VkBuffer buffer = VK_NULL_HANDLE;
    if (calls.vkCreateBuffer(device_.handle(), &info, nullptr, &buffer) != VK_SUCCESS) return false;
    VulkanBuffer owner(device_, buffer);
    VkMemoryRequirements needs{};
    calls.vkGetBufferMemoryRequirements(device_.handle(), buffer, &needs);
    VulkanMemory memory(
        device_,
        device_.allocate(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, false));
    void* bytes = nullptr;
    if (memory.get() == VK_NULL_HANDLE ||
        calls.vkBindBufferMemory(device_.handle(), buffer, memory.get(), 0) != VK_SUCCESS ||
        calls.vkMapMemory(device_.handle(), memory.get(), 0, VK_WHOLE_SIZE, 0, &bytes) != VK_SUCCESS) {
      return false;
    }
    unit.buffer = std::move(owner);
    unit.memory = std::move(memory);
    unit.bytes = static_cast<std::byte*>(bytes);
    unit.capacity = info.size;
  }
  std::memcpy(unit.bytes, picture.pBitstreamData, picture.nBitstreamDataLen);
  std::memset(unit.bytes + picture.nBitstreamDataLen, 0, needed - picture.nBitstreamDataLen);
  return true;
}

// Parameter sets change seldom: each change makes a new object, behind all that uses the old one.
bool VulkanSession::use_parameters(const CUVIDPICPARAMS& picture) {
  auto info =
      structure<VkVideoSessionParametersCreateInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_SESSION_PARAMETERS_CREATE_INFO_KHR);
  info.videoSession = session_.get();
  auto h264_sets = structure<VkVideoDecodeH264SessionParametersAddInfoKHR>(
      VK_STRUCTURE_TYPE_VIDEO_DECODE_H264_SESSION_PARAMETERS_ADD_INFO_KHR);
  auto h264 = structure<VkVideoDecodeH264SessionParametersCreateInfoKHR>(
      VK_STRUCTURE_TYPE_VIDEO_DECODE_H264_SESSION_PARAMETERS_CREATE_INFO_KHR);
  auto h265_sets = structure<VkVideoDecodeH265SessionParametersAddInfoKHR>(
      VK_STRUCTURE_TYPE_VIDEO_DECODE_H265_SESSION_PARAMETERS_ADD_INFO_KHR);
  auto h265 = structure<VkVideoDecodeH265SessionParametersCreateInfoKHR>(
      VK_STRUCTURE_TYPE_VIDEO_DECODE_H265_SESSION_PARAMETERS_CREATE_INFO_KHR);
  const std::array<StdVideoH265ShortTermRefPicSet, STD_VIDEO_H265_MAX_SHORT_TERM_REF_PIC_SETS> short_term{};
  const StdVideoH265LongTermRefPicsSps long_term{};
  std::string key = h265_ ? h265_parameter_key(picture) : h264_parameter_key(picture);
  if (parameters_.get() != VK_NULL_HANDLE && key == parameter_key_) return true;
  if (!wait(submitted_)) return false;
  H264Parameters of_h264;
  H265Parameters of_h265;
  if (h265_) {
    of_h265 = h265_parameters(picture, surfaces_);
    of_h265.video.pDecPicBufMgr = of_h265.sequence.pDecPicBufMgr = &of_h265.buffers;
    of_h265.video.pProfileTierLevel = of_h265.sequence.pProfileTierLevel = &of_h265.level;
    of_h265.sequence.pScalingLists = &of_h265.lists;
    of_h265.sequence.pShortTermRefPicSet = short_term.data();
    of_h265.sequence.pLongTermRefPicsSps = &long_term;
    h265_sets.stdVPSCount = h265_sets.stdSPSCount = h265_sets.stdPPSCount = 1;
    h265_sets.pStdVPSs = &of_h265.video;
    h265_sets.pStdSPSs = &of_h265.sequence;
    h265_sets.pStdPPSs = &of_h265.picture;
    h265.maxStdVPSCount = h265.maxStdSPSCount = h265.maxStdPPSCount = 1;
    h265.pParametersAddInfo = &h265_sets;
    info.pNext = &h265;
  } else {
    of_h264 = h264_parameters(picture);
    of_h264.picture.pScalingLists = of_h264.scaled ? &of_h264.lists : nullptr;
    h264_sets.stdSPSCount = h264_sets.stdPPSCount = 1;
    h264_sets.pStdSPSs = &of_h264.sequence;
    h264_sets.pStdPPSs = &of_h264.picture;
    h264.maxStdSPSCount = h264.maxStdPPSCount = 1;
    h264.pParametersAddInfo = &h264_sets;
    info.pNext = &h264;
  }
  VkVideoSessionParametersKHR made = VK_NULL_HANDLE;
  parameters_.reset();
  if (device_.calls().vkCreateVideoSessionParametersKHR(device_.handle(), &info, nullptr, &made) != VK_SUCCESS)
    return false;
  parameters_ = VulkanParameters(device_, made);
  parameter_key_ = std::move(key);
  return true;
}

bool VulkanSession::decode(CUVIDPICPARAMS& picture) {
  if (picture.CurrPicIdx < 0 || picture.CurrPicIdx >= surfaces_ || picture.nNumSlices == 0 ||
      picture.nBitstreamDataLen == 0)
    return false;
  if (!std::all_of(picture.pSliceDataOffsets, picture.pSliceDataOffsets + picture.nNumSlices,
                   [&](unsigned at) { return at < picture.nBitstreamDataLen; })) {
    return false;
  }
  Unit& unit = units_[next_unit_];
  next_unit_ = (next_unit_ + 1) % kUnits;
  if (!wait(unit.commands.done) || !fill(unit, picture) || !use_parameters(picture) || !begin(unit.commands))
    return false;
  const std::size_t step = std::max<std::size_t>(device_.codec(h265_).capabilities.minBitstreamBufferSizeAlignment, 1);
  const VulkanPicture said = h265_ ? h265_picture(picture, surfaces_) : h264_picture(picture, surfaces_);
  record(unit.commands.buffer, unit, rounded_up<std::size_t>(picture.nBitstreamDataLen, step), picture, said);
  if (!submit(unit.commands)) return false;
  begun_ = true;
  holds_picture_[static_cast<std::size_t>(picture.CurrPicIdx)] = true;
  return true;
}

void VulkanSession::record(VkCommandBuffer commands, const Unit& unit, std::size_t range, const CUVIDPICPARAMS& picture,
                           const VulkanPicture& said) {
  constexpr std::size_t kMost = kMostReferences + 1;
  const VulkanDeviceFunctions& calls = device_.calls();
  // The references, then the picture itself.
  std::array<VkVideoPictureResourceInfoKHR, kMost> resources{};
  std::array<VkVideoDecodeH264DpbSlotInfoKHR, kMost> h264{};
  std::array<VkVideoDecodeH265DpbSlotInfoKHR, kMost> h265{};
  std::array<VkVideoReferenceSlotInfoKHR, kMost> slots{};
  std::size_t count = 0;
  const auto add = [&](const VulkanReference& reference) {
    resources[count].sType = VK_STRUCTURE_TYPE_VIDEO_PICTURE_RESOURCE_INFO_KHR;
    resources[count].codedExtent = coded_;
    resources[count].imageViewBinding = views_[static_cast<std::size_t>(reference.surface)].get();
    h264[count] = {VK_STRUCTURE_TYPE_VIDEO_DECODE_H264_DPB_SLOT_INFO_KHR, nullptr, &reference.h264};
    h265[count] = {VK_STRUCTURE_TYPE_VIDEO_DECODE_H265_DPB_SLOT_INFO_KHR, nullptr, &reference.h265};
    slots[count].sType = VK_STRUCTURE_TYPE_VIDEO_REFERENCE_SLOT_INFO_KHR;
    slots[count].pNext = h265_ ? static_cast<const void*>(&h265[count]) : &h264[count];
    slots[count].slotIndex = reference.surface;
    slots[count].pPictureResource = &resources[count];
    ++count;
  };
  for (int i = 0; i < said.reference_count; ++i) {
    const VulkanReference& reference = said.references[static_cast<std::size_t>(i)];
    if (holds_picture_[static_cast<std::size_t>(reference.surface)]) add(reference);
  }
  const std::size_t references = count;
  add(said.self);

  order(commands, -1, begun_ ? kDecoding : VK_IMAGE_LAYOUT_UNDEFINED, kDecoding);
  VkVideoReferenceSlotInfoKHR self = slots[references];
  slots[references].slotIndex = -1;  // is set up by this picture
  auto coding = structure<VkVideoBeginCodingInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_BEGIN_CODING_INFO_KHR);
  coding.videoSession = session_.get();
  coding.videoSessionParameters = parameters_.get();
  coding.referenceSlotCount = static_cast<std::uint32_t>(count);
  coding.pReferenceSlots = slots.data();
  calls.vkCmdBeginVideoCodingKHR(commands, &coding);
  if (!begun_) {
    auto control = structure<VkVideoCodingControlInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_CODING_CONTROL_INFO_KHR);
    control.flags = VK_VIDEO_CODING_CONTROL_RESET_BIT_KHR;
    calls.vkCmdControlVideoCodingKHR(commands, &control);
  }
  auto of_h264 = structure<VkVideoDecodeH264PictureInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_DECODE_H264_PICTURE_INFO_KHR);
  of_h264.pStdPictureInfo = &said.h264;
  of_h264.sliceCount = picture.nNumSlices;
  of_h264.pSliceOffsets = picture.pSliceDataOffsets;
  StdVideoDecodeH265PictureInfo std_h265 = said.h265;
  auto of_h265 = structure<VkVideoDecodeH265PictureInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_DECODE_H265_PICTURE_INFO_KHR);
  of_h265.pStdPictureInfo = &std_h265;
  of_h265.sliceSegmentCount = picture.nNumSlices;
  of_h265.pSliceSegmentOffsets = picture.pSliceDataOffsets;
  auto info = structure<VkVideoDecodeInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_DECODE_INFO_KHR);
  info.pNext = h265_ ? static_cast<const void*>(&of_h265) : &of_h264;
  info.srcBuffer = unit.buffer.get();
  info.srcBufferRange = range;
  info.dstPictureResource = resources[references];
  info.pSetupReferenceSlot = &self;
  info.referenceSlotCount = static_cast<std::uint32_t>(references);
  info.pReferenceSlots = slots.data();
  calls.vkCmdDecodeVideoKHR(commands, &info);
  const auto end = structure<VkVideoEndCodingInfoKHR>(VK_STRUCTURE_TYPE_VIDEO_END_CODING_INFO_KHR);
  calls.vkCmdEndVideoCodingKHR(commands, &end);
}

// ---- A picture is shown

bool VulkanSession::map(int surface, CUstream /*complete when this returns*/, unsigned long long& address,
                        unsigned& pitch) {
  if (surface < 0 || surface >= surfaces_ || !holds_picture_[static_cast<std::size_t>(surface)]) return false;
  int output = 0;
  while (output < outputs_ && lent_[static_cast<std::size_t>(output)].exchange(true)) ++output;
  if (output == outputs_) return false;
  const std::size_t at = static_cast<std::size_t>(output) * output_bytes_;
  const auto give_up = [&] {
    lent_[static_cast<std::size_t>(output)] = false;
    return false;
  };
  if (!begin(copying_)) return give_up();
  order(copying_.buffer, surface, kDecoding, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
  std::array<VkBufferImageCopy, 2> planes{};
  for (std::uint32_t plane = 0; plane < 2; ++plane) {
    const std::uint32_t shrunk = plane + 1;  // chroma has half as many pairs of bytes in each direction
    VkBufferImageCopy& copy = planes[plane];
    copy.bufferOffset = at + (plane == 0 ? 0 : static_cast<std::size_t>(pitch_) * shown_.height);
    copy.bufferRowLength = pitch_ / shrunk;
    copy.imageSubresource = {plane == 0 ? VK_IMAGE_ASPECT_PLANE_0_BIT : VK_IMAGE_ASPECT_PLANE_1_BIT, 0,
                             static_cast<std::uint32_t>(surface), 1};
    copy.imageOffset = {shown_from_.x / static_cast<int>(shrunk), shown_from_.y / static_cast<int>(shrunk), 0};
    copy.imageExtent = {shown_.width / shrunk, shown_.height / shrunk, 1};
  }
  device_.calls().vkCmdCopyImageToBuffer(copying_.buffer, image_.get(), VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL,
                                         output_.get(), 2, planes.data());
  order(copying_.buffer, surface, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, kDecoding);
  if (!submit(copying_) || !wait(copying_.done)) return give_up();
  address = imported_->address() + at;
  pitch = pitch_;
  return true;
}

void VulkanSession::unmap(unsigned long long address) {
  const std::size_t output = static_cast<std::size_t>(address - imported_->address()) / output_bytes_;
  if (output < static_cast<std::size_t>(outputs_)) lent_[output] = false;
}

}  // namespace camd::device
