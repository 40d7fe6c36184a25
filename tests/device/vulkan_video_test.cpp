// Decoding by Vulkan Video, on a fake driver (fake_vulkan.hpp) and an emulated GPU.
#include "device/cuda/vulkan_video.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/device/fake_vulkan.hpp"

namespace camd::device {
namespace CAMD_TEST_FILE {

using test::FakeVulkan;

CUVIDDECODECREATEINFO h264_720p() {
  CUVIDDECODECREATEINFO info{};
  info.CodecType = cudaVideoCodec_H264;
  info.ulNumDecodeSurfaces = 5;
  info.ulNumOutputSurfaces = 2;
  info.ulWidth = 1280;
  info.ulHeight = 736;
  info.ulTargetWidth = 1278;
  info.ulTargetHeight = 720;
  info.display_area = {2, 8, 1280, 728};
  return info;
}

class VulkanVideoTest : public testing::Test {
 protected:
  std::unique_ptr<VulkanVideo> open() {
    why_.clear();
    return make_vulkan_video(&FakeVulkan::find, gpu_, why_);
  }

  // A picture whose slice begins with `first`, into `surface`, which refers to `references`.
  bool decode(DecodingSession& session, int surface, unsigned char first, const std::vector<int>& references = {}) {
    slice_[0] = first;
    CUVIDPICPARAMS picture{};
    picture.CurrPicIdx = surface;
    picture.pBitstreamData = slice_.data();
    picture.nBitstreamDataLen = static_cast<unsigned>(slice_.size());
    picture.nNumSlices = 1;
    picture.pSliceDataOffsets = offsets_.data();
    picture.ref_pic_flag = 1;
    CUVIDH264PICPARAMS& h264 = picture.CodecSpecific.h264;
    h264.frame_mbs_only_flag = 1;
    h264.pic_init_qp_minus26 = quantiser_;
    for (CUVIDH264DPBENTRY& entry : h264.dpb) entry.PicIdx = -1;
    for (std::size_t i = 0; i < references.size(); ++i) {
      h264.dpb[i].PicIdx = references[i];
      h264.dpb[i].used_for_reference = 3;
    }
    return session.decode(picture);
  }

  struct Mapped {
    bool there = false;
    unsigned long long address = 0;
    unsigned pitch = 0;
    [[nodiscard]] int first() const {
      return *reinterpret_cast<const unsigned char*>(address);  // NOLINT(performance-no-int-to-ptr)
    }
  };
  static Mapped map(DecodingSession& session, int surface) {
    Mapped mapped;
    mapped.there = session.map(surface, nullptr, mapped.address, mapped.pitch);
    return mapped;
  }

  test::EmulatedGpu gpu_{base::system_clock()};
  FakeVulkan vulkan_;
  std::string why_;
  std::vector<unsigned char> slice_ = std::vector<unsigned char>(300);
  std::array<unsigned, 1> offsets_ = {0};
  int quantiser_ = 0;
};

TEST_F(VulkanVideoTest, SaysWhatIsMissingWhereItCannotDecode) {
  vulkan_.there = false;
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(why_, "Vulkan finds no driver");
  vulkan_.there = true;
  vulkan_.extensions = false;
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(why_, "the GPU's driver for Vulkan does not decode H.264 and H.265");
  vulkan_.extensions = true;
  vulkan_.fails = "vkCreateDevice";
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(why_, "the GPU's driver for Vulkan does not open it");
  EXPECT_EQ(vulkan_.alive, 0);
}

TEST_F(VulkanVideoTest, TakesWhatItsDriverTakes) {
  const std::unique_ptr<VulkanVideo> video = open();
  ASSERT_NE(video, nullptr) << why_;
  CUVIDDECODECREATEINFO info = h264_720p();
  EXPECT_TRUE(video->takes(info));
  info.CodecType = cudaVideoCodec_HEVC;
  EXPECT_TRUE(video->takes(info));
  info.bitDepthMinus8 = 2;
  EXPECT_FALSE(video->takes(info)) << "10 bits are written as 8 by NVIDIA's interface alone";
  info = h264_720p();
  info.CodecType = cudaVideoCodec_AV1;
  EXPECT_FALSE(video->takes(info));
  info = h264_720p();
  info.ulNumDecodeSurfaces = 18;
  EXPECT_FALSE(video->takes(info)) << "more surfaces than slots";
  info = h264_720p();
  info.ulWidth = 4112;
  EXPECT_FALSE(video->takes(info));
  info = h264_720p();
  info.display_area.left = 1;
  EXPECT_FALSE(video->takes(info)) << "chroma belongs to two columns";
}

TEST_F(VulkanVideoTest, TakesNothingWhereReferencesWouldBeCopies) {
  vulkan_.coincide = false;
  const std::unique_ptr<VulkanVideo> video = open();
  ASSERT_NE(video, nullptr);
  EXPECT_FALSE(video->takes(h264_720p()));
}

TEST_F(VulkanVideoTest, APictureIsShownFromTheSurfaceThatItWasDecodedTo) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  ASSERT_TRUE(decode(*session, 0, 'a'));
  ASSERT_TRUE(decode(*session, 3, 'b', {0}));
  const Mapped second = map(*session, 3);
  const Mapped first = map(*session, 0);
  ASSERT_TRUE(first.there && second.there);
  EXPECT_EQ(second.first(), 'b');
  EXPECT_EQ(first.first(), 'a');
  EXPECT_EQ(first.pitch, 1280U) << "1278 bytes, rounded up to 256";

  ASSERT_EQ(vulkan_.copied.size(), 4U);  // two planes each
  const VkBufferImageCopy& luma = vulkan_.copied[0].region;
  const VkBufferImageCopy& chroma = vulkan_.copied[1].region;
  EXPECT_EQ(luma.imageOffset.x, 2);
  EXPECT_EQ(luma.imageOffset.y, 8);
  EXPECT_EQ(luma.imageExtent.width, 1278U);
  EXPECT_EQ(luma.bufferRowLength, 1280U);
  EXPECT_EQ(chroma.imageOffset.x, 1);
  EXPECT_EQ(chroma.imageOffset.y, 4);
  EXPECT_EQ(chroma.imageExtent.width, 639U);
  EXPECT_EQ(chroma.imageExtent.height, 360U);
  EXPECT_EQ(chroma.bufferRowLength, 640U) << "in pairs of bytes";
  EXPECT_EQ(chroma.bufferOffset - luma.bufferOffset, 1280U * 720U);
}

TEST_F(VulkanVideoTest, TheFirstPictureSetsTheSessionUpAndAllNameTheirReferences) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  ASSERT_TRUE(decode(*session, 1, 'a'));
  ASSERT_TRUE(decode(*session, 2, 'b', {1, 4}));  // nothing was decoded to 4
  ASSERT_EQ(vulkan_.decoded.size(), 2U);
  EXPECT_TRUE(vulkan_.decoded[0].reset);
  EXPECT_EQ(vulkan_.decoded[0].begun_with, (std::vector<int>{-1}));
  EXPECT_EQ(vulkan_.decoded[0].surface, 1);
  EXPECT_FALSE(vulkan_.decoded[1].reset);
  EXPECT_EQ(vulkan_.decoded[1].references, (std::vector<int>{1}));
  EXPECT_EQ(vulkan_.decoded[1].begun_with, (std::vector<int>{1, -1}));
}

TEST_F(VulkanVideoTest, ParameterSetsAreMadeAnewOnlyWhenTheyChange) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  ASSERT_TRUE(decode(*session, 0, 'a') && decode(*session, 1, 'b', {0}));
  EXPECT_EQ(vulkan_.parameter_sets, 1);
  quantiser_ = 3;
  ASSERT_TRUE(decode(*session, 2, 'c', {1}) && decode(*session, 3, 'd', {2}));
  EXPECT_EQ(vulkan_.parameter_sets, 2);
}

TEST_F(VulkanVideoTest, AnOutputIsLentUntilItIsGivenBack) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  ASSERT_TRUE(decode(*session, 0, 'a'));
  const Mapped first = map(*session, 0);
  const Mapped second = map(*session, 0);
  ASSERT_TRUE(first.there && second.there);
  EXPECT_NE(first.address, second.address);
  EXPECT_FALSE(map(*session, 0).there);
  session->unmap(first.address);
  EXPECT_EQ(map(*session, 0).address, first.address);
}

TEST_F(VulkanVideoTest, ASurfaceThatNothingWasDecodedToIsNotShown) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  EXPECT_FALSE(map(*session, 0).there);
  EXPECT_FALSE(map(*session, -1).there);
  EXPECT_FALSE(map(*session, 5).there);
}

TEST_F(VulkanVideoTest, SlicesOutsideOfTheUnitAreNotBegun) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  offsets_[0] = 300;
  EXPECT_FALSE(decode(*session, 0, 'a'));
  offsets_[0] = 0;
  EXPECT_FALSE(decode(*session, 5, 'a')) << "no such surface";
  EXPECT_TRUE(vulkan_.decoded.empty());
}

TEST_F(VulkanVideoTest, UnitsLargerThanTheBufferMakeALargerOne) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  slice_.resize(1'000'000);
  ASSERT_TRUE(decode(*session, 0, 'a'));
  slice_.resize(3'000'001);
  for (int surface = 1; surface < 5; ++surface) ASSERT_TRUE(decode(*session, surface, 'b'));
  EXPECT_EQ(map(*session, 4).first(), 'b');
}

TEST_F(VulkanVideoTest, ADecoderThatDoesNotAnswerShowsNothing) {
  const std::unique_ptr<VulkanVideo> video = open();
  const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
  ASSERT_NE(session, nullptr) << why_;
  ASSERT_TRUE(decode(*session, 0, 'a'));
  vulkan_.waiting = VK_TIMEOUT;
  EXPECT_FALSE(map(*session, 0).there);
  vulkan_.waiting = VK_SUCCESS;
  EXPECT_TRUE(map(*session, 0).there) << "its output was not lost";
}

TEST_F(VulkanVideoTest, SessionsSpreadOverTheQueues) {
  const std::unique_ptr<VulkanVideo> video = open();
  std::vector<std::unique_ptr<DecodingSession>> sessions;
  sessions.reserve(2);
  for (int i = 0; i < 2; ++i) sessions.push_back(video->make(h264_720p(), why_));
  ASSERT_TRUE(decode(*sessions[0], 0, 'a') && decode(*sessions[1], 0, 'b'));
  EXPECT_EQ(vulkan_.submissions.size(), 2U);
}

TEST_F(VulkanVideoTest, WhatCannotBeMadeLeavesNothingBehind) {
  for (const char* const name : {"vkCreateVideoSessionKHR", "vkAllocateMemory", "vkCreateBuffer", "vkGetMemoryFdKHR"}) {
    {
      const std::unique_ptr<VulkanVideo> video = open();
      vulkan_.fails = name;
      EXPECT_EQ(video->make(h264_720p(), why_), nullptr) << name;
      EXPECT_FALSE(why_.empty());
      vulkan_.fails.clear();
    }
    EXPECT_EQ(vulkan_.alive, 0) << name;
  }
}

TEST_F(VulkanVideoTest, NothingIsLeftOfASessionThatHasGone) {
  {
    const std::unique_ptr<VulkanVideo> video = open();
    const std::unique_ptr<DecodingSession> session = video->make(h264_720p(), why_);
    ASSERT_NE(session, nullptr) << why_;
    ASSERT_TRUE(decode(*session, 0, 'a'));
    ASSERT_TRUE(map(*session, 0).there);
  }
  EXPECT_EQ(vulkan_.alive, 0);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
