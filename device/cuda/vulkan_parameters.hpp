// What NVIDIA's parser says of a picture, in the words of Vulkan Video: parameter sets, the picture, its references.
// Sources: ITU-T H.264 and H.265 (names of the syntax elements), Vulkan 1.3 specification, chapter "Video Coding".
//
// The index of a surface is the index of its slot in the decoded picture buffer.
//
// Threads: [any].
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "device/cuda/nvdec_library.hpp"
#include "device/cuda/vulkan_library.hpp"

namespace camd::device {

inline constexpr int kMostReferences = 16;

// A reference of a picture.
struct VulkanReference {
  int surface = 0;
  StdVideoDecodeH264ReferenceInfo h264{};
  StdVideoDecodeH265ReferenceInfo h265{};
};

// One picture. `references[0 .. reference_count)`; `self` is what it becomes as a reference.
struct VulkanPicture {
  StdVideoDecodeH264PictureInfo h264{};
  StdVideoDecodeH265PictureInfo h265{};
  VulkanReference self;
  std::array<VulkanReference, kMostReferences> references;
  int reference_count = 0;
};

// The parameter sets of one H.264 picture, all with the number 0. Pointers inside are null: the session sets them.
struct H264Parameters {
  StdVideoH264SequenceParameterSet sequence{};
  StdVideoH264PictureParameterSet picture{};
  StdVideoH264ScalingLists lists{};
  bool scaled = false;
};
struct H265Parameters {
  StdVideoH265VideoParameterSet video{};
  StdVideoH265SequenceParameterSet sequence{};
  StdVideoH265PictureParameterSet picture{};
  StdVideoH265ProfileTierLevel level{};
  StdVideoH265DecPicBufMgr buffers{};
  StdVideoH265ScalingLists lists{};
};

// `surfaces`: of the session. Pictures are progressive and 4:2:0.
[[nodiscard]] H264Parameters h264_parameters(const CUVIDPICPARAMS& said) noexcept;
[[nodiscard]] H265Parameters h265_parameters(const CUVIDPICPARAMS& said, int surfaces) noexcept;

// What the parameter sets are made of, as bytes: they are the same as long as this is.
[[nodiscard]] std::string h264_parameter_key(const CUVIDPICPARAMS& said);
[[nodiscard]] std::string h265_parameter_key(const CUVIDPICPARAMS& said);

// References to surfaces outside of [0, surfaces) are left out: streams are untrusted.
[[nodiscard]] VulkanPicture h264_picture(const CUVIDPICPARAMS& said, int surfaces) noexcept;
[[nodiscard]] VulkanPicture h265_picture(const CUVIDPICPARAMS& said, int surfaces) noexcept;

}  // namespace camd::device
