// What the parser says of a picture, in the words of Vulkan.
#include "device/cuda/vulkan_parameters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace camd::device {
namespace CAMD_TEST_FILE {

constexpr int kSurfaces = 6;

// A P picture of 80 x 45 macroblocks in surface 3, with the references of a stream.
class H264Said {
 public:
  H264Said() {
    said.PicWidthInMbs = 80;
    said.FrameHeightInMbs = 45;
    said.CurrPicIdx = 3;
    said.ref_pic_flag = 1;
    said.pBitstreamData = slice.data();
    said.nBitstreamDataLen = static_cast<unsigned>(slice.size());
    said.nNumSlices = 1;
    said.pSliceDataOffsets = offsets.data();
    CUVIDH264PICPARAMS& h264 = said.CodecSpecific.h264;
    h264.frame_mbs_only_flag = 1;
    h264.num_ref_frames = 4;
    h264.frame_num = 7;
    h264.CurrFieldOrderCnt[0] = h264.CurrFieldOrderCnt[1] = 14;
    std::fill_n(&h264.WeightScale4x4[0][0], sizeof(h264.WeightScale4x4), static_cast<unsigned char>(16));
    std::fill_n(&h264.WeightScale8x8[0][0], sizeof(h264.WeightScale8x8), static_cast<unsigned char>(16));
    for (CUVIDH264DPBENTRY& entry : h264.dpb) entry.PicIdx = -1;
  }
  CUVIDH264DPBENTRY& reference(int place, int surface) {
    CUVIDH264DPBENTRY& entry = said.CodecSpecific.h264.dpb[place];
    entry.PicIdx = surface;
    entry.used_for_reference = 3;
    return entry;
  }

  std::vector<unsigned char> slice = {0, 0, 1, 0x41, 0x9A};
  std::array<unsigned, 1> offsets = {0};
  CUVIDPICPARAMS said{};
};

TEST(VulkanParameters, SizesAreThoseOfTheCodedPicture) {
  const H264Said h264;
  const H264Parameters got = h264_parameters(h264.said);
  EXPECT_EQ(got.sequence.pic_width_in_mbs_minus1, 79U);
  EXPECT_EQ(got.sequence.pic_height_in_map_units_minus1, 44U);
  EXPECT_EQ(got.sequence.max_num_ref_frames, 4);
}

TEST(VulkanParameters, APictureOfRowsInPairsHasHalfAsManyMapUnits) {
  H264Said h264;
  h264.said.CodecSpecific.h264.frame_mbs_only_flag = 0;
  h264.said.FrameHeightInMbs = 46;
  EXPECT_EQ(h264_parameters(h264.said).sequence.pic_height_in_map_units_minus1, 22U);
}

TEST(VulkanParameters, FlatMatricesAreNoScalingLists) {
  const H264Said h264;
  const H264Parameters got = h264_parameters(h264.said);
  EXPECT_FALSE(got.scaled);
  EXPECT_EQ(got.picture.flags.pic_scaling_matrix_present_flag, 0U);
}

// The second number of a list is the matrix's first row, second column; the third is the second row's first.
TEST(VulkanParameters, ScalingListsGoAlongTheZigzagOfTheMatrix) {
  H264Said h264;
  CUVIDH264PICPARAMS& from = h264.said.CodecSpecific.h264;
  for (unsigned i = 0; i < 16; ++i) from.WeightScale4x4[2][i] = static_cast<unsigned char>(i + 1);
  for (unsigned i = 0; i < 64; ++i) from.WeightScale8x8[1][i] = static_cast<unsigned char>(i + 1);
  const H264Parameters got = h264_parameters(h264.said);
  EXPECT_TRUE(got.scaled);
  EXPECT_EQ(got.picture.flags.pic_scaling_matrix_present_flag, 1U);
  const std::vector<int> small(std::begin(got.lists.ScalingList4x4[2]), std::end(got.lists.ScalingList4x4[2]));
  EXPECT_EQ(small, (std::vector<int>{1, 2, 5, 9, 6, 3, 4, 7, 10, 13, 14, 11, 8, 12, 15, 16}));
  const std::vector<int> large(std::begin(got.lists.ScalingList8x8[1]), std::begin(got.lists.ScalingList8x8[1]) + 10);
  EXPECT_EQ(large, (std::vector<int>{1, 2, 9, 17, 10, 3, 4, 11, 18, 25}));
}

TEST(VulkanParameters, AReferencesSlotIsItsSurface) {
  H264Said h264;
  CUVIDH264DPBENTRY& of_short_term = h264.reference(0, 2);
  of_short_term.FrameIdx = 6;
  of_short_term.FieldOrderCnt[0] = of_short_term.FieldOrderCnt[1] = 12;
  h264.reference(5, 0).is_long_term = 1;
  const VulkanPicture got = h264_picture(h264.said, kSurfaces);
  ASSERT_EQ(got.reference_count, 2);
  EXPECT_EQ(got.references[0].surface, 2);
  EXPECT_EQ(got.references[0].h264.FrameNum, 6);
  EXPECT_EQ(got.references[0].h264.PicOrderCnt[1], 12);
  EXPECT_EQ(got.references[0].h264.flags.used_for_long_term_reference, 0U);
  EXPECT_EQ(got.references[1].surface, 0);
  EXPECT_EQ(got.references[1].h264.flags.used_for_long_term_reference, 1U);
  EXPECT_EQ(got.self.surface, 3);
  EXPECT_EQ(got.self.h264.FrameNum, 7);
  EXPECT_EQ(got.h264.PicOrderCnt[0], 14);
}

TEST(VulkanParameters, TheKeyChangesWithParameterSetsAndNotWithPictures) {
  H264Said h264;
  const std::string before = h264_parameter_key(h264.said);
  h264.said.CodecSpecific.h264.frame_num = 8;
  h264.reference(0, 2);
  EXPECT_EQ(h264_parameter_key(h264.said), before);
  h264.said.CodecSpecific.h264.WeightScale8x8[1][63] = 17;
  EXPECT_NE(h264_parameter_key(h264.said), before);

  CUVIDPICPARAMS said{};
  const std::string of_h265 = h265_parameter_key(said);
  said.CodecSpecific.hevc.IdrPicFlag = 1;
  said.CodecSpecific.hevc.CurrPicOrderCntVal = 4;
  EXPECT_EQ(h265_parameter_key(said), of_h265);
  said.CodecSpecific.hevc.init_qp_minus26 = -3;
  EXPECT_NE(h265_parameter_key(said), of_h265);
}

TEST(VulkanParameters, ReferencesToNoSurfaceAreLeftOut) {
  H264Said h264;
  h264.reference(0, kSurfaces);  // beyond the session's
  h264.reference(1, 3);          // the picture itself
  h264.reference(2, 1).used_for_reference = 0;
  h264.reference(3, 4);
  const VulkanPicture got = h264_picture(h264.said, kSurfaces);
  ASSERT_EQ(got.reference_count, 1);
  EXPECT_EQ(got.references[0].surface, 4);
}

TEST(VulkanParameters, TheFirstSliceSaysWhetherAPictureBeginsAStream) {
  H264Said h264;
  EXPECT_EQ(h264_picture(h264.said, kSurfaces).h264.flags.IdrPicFlag, 0U);
  h264.slice[3] = 0x65;
  EXPECT_EQ(h264_picture(h264.said, kSurfaces).h264.flags.IdrPicFlag, 1U);
  h264.slice = {0, 0, 0, 1, 0x65};  // a start code of four bytes
  h264.said.pBitstreamData = h264.slice.data();
  EXPECT_EQ(h264_picture(h264.said, kSurfaces).h264.flags.IdrPicFlag, 1U);
  h264.said.nBitstreamDataLen = 4;  // cut off behind the start code
  EXPECT_EQ(h264_picture(h264.said, kSurfaces).h264.flags.IdrPicFlag, 0U);
}

CUVIDPICPARAMS h265_said() {
  CUVIDPICPARAMS said{};
  said.CurrPicIdx = 1;
  CUVIDHEVCPICPARAMS& hevc = said.CodecSpecific.hevc;
  hevc.pic_width_in_luma_samples = 1280;
  hevc.pic_height_in_luma_samples = 720;
  hevc.CurrPicOrderCntVal = 9;
  std::fill_n(hevc.RefPicIdx, 16, -1);
  hevc.RefPicIdx[0] = 4;
  hevc.PicOrderCntVal[0] = 8;
  hevc.RefPicIdx[2] = 5;
  hevc.PicOrderCntVal[2] = 12;
  hevc.IsLongTerm[2] = 1;
  return said;
}

TEST(VulkanParameters, ListsOfH265NameTheSlotsOfReferences) {
  CUVIDPICPARAMS said = h265_said();
  CUVIDHEVCPICPARAMS& hevc = said.CodecSpecific.hevc;
  hevc.NumPocStCurrBefore = 1;
  hevc.RefPicSetStCurrBefore[0] = 0;
  hevc.NumPocLtCurr = 2;
  hevc.RefPicSetLtCurr[0] = 2;
  hevc.RefPicSetLtCurr[1] = 7;  // a reference that is not there
  const VulkanPicture got = h265_picture(said, kSurfaces);
  ASSERT_EQ(got.reference_count, 2);
  EXPECT_EQ(got.references[0].surface, 4);
  EXPECT_EQ(got.references[0].h265.PicOrderCntVal, 8);
  EXPECT_EQ(got.references[1].h265.flags.used_for_long_term_reference, 1U);
  EXPECT_EQ(got.h265.RefPicSetStCurrBefore[0], 4);
  EXPECT_EQ(got.h265.RefPicSetStCurrBefore[1], 0xFF);
  EXPECT_EQ(got.h265.RefPicSetStCurrAfter[0], 0xFF);
  EXPECT_EQ(got.h265.RefPicSetLtCurr[0], 5);
  EXPECT_EQ(got.h265.RefPicSetLtCurr[1], 0xFF);
  EXPECT_EQ(got.self.h265.PicOrderCntVal, 9);
}

TEST(VulkanParameters, ASetOfReferencesThatTheSliceDoesNotSpellOutIsTheSequences) {
  CUVIDPICPARAMS said = h265_said();
  EXPECT_EQ(h265_picture(said, kSurfaces).h265.flags.short_term_ref_pic_set_sps_flag, 1U);
  said.CodecSpecific.hevc.NumBitsForShortTermRPSInSlice = 5;
  const VulkanPicture got = h265_picture(said, kSurfaces);
  EXPECT_EQ(got.h265.flags.short_term_ref_pic_set_sps_flag, 0U);
  EXPECT_EQ(got.h265.NumBitsForSTRefPicSetInSlice, 5);
}

// The driver would read behind the arrays of which they are the lengths.
TEST(VulkanParameters, NumbersOfSetsAndTilesAreAtMostThoseOfTheStandard) {
  CUVIDPICPARAMS said = h265_said();
  CUVIDHEVCPICPARAMS& hevc = said.CodecSpecific.hevc;
  hevc.num_short_term_ref_pic_sets = hevc.num_long_term_ref_pics_sps = 255;
  hevc.num_tile_columns_minus1 = hevc.num_tile_rows_minus1 = 255;
  const H265Parameters got = h265_parameters(said, kSurfaces);
  EXPECT_EQ(got.sequence.num_short_term_ref_pic_sets, 64);
  EXPECT_EQ(got.sequence.num_long_term_ref_pics_sps, 32);
  EXPECT_EQ(got.picture.num_tile_columns_minus1, 19);
  EXPECT_EQ(got.picture.num_tile_rows_minus1, 21);
}

TEST(VulkanParameters, OffsetsOfTheDeblockingFilterTellThatItIsControlled) {
  CUVIDPICPARAMS said = h265_said();
  EXPECT_EQ(h265_parameters(said, kSurfaces).picture.flags.deblocking_filter_control_present_flag, 0U);
  said.CodecSpecific.hevc.pps_tc_offset_div2 = -2;
  const H265Parameters got = h265_parameters(said, kSurfaces);
  EXPECT_EQ(got.picture.flags.deblocking_filter_control_present_flag, 1U);
  EXPECT_EQ(got.picture.pps_tc_offset_div2, -2);
  EXPECT_EQ(got.sequence.pic_width_in_luma_samples, 1280U);
  EXPECT_EQ(got.buffers.max_dec_pic_buffering_minus1[0], kSurfaces - 1);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
