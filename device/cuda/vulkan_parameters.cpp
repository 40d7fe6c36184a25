#include "device/cuda/vulkan_parameters.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace camd::device {
namespace {

// H.264 6.4.x, figure 8-8: zigzag scans. Place in the matrix, row by row, of each number of a list.
constexpr std::array<std::uint8_t, 16> kZigzag4x4 = {0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15};
constexpr std::array<std::uint8_t, 64> kZigzag8x8 = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                                     12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                                     35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                                     58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

constexpr std::uint8_t kFlat = 16;           // of a list that scales nothing
constexpr std::uint8_t kNoReference = 0xFF;  // in H.265's lists of references

template <class Number>
std::uint8_t byte(Number value) noexcept {
  return static_cast<std::uint8_t>(value);
}
template <class Number>
bool bit(Number value) noexcept {
  return value != Number{};
}

// The type of the first slice's NAL unit, for which H.264 has five bits behind three or four bytes of a start code.
unsigned nal_type(const CUVIDPICPARAMS& said) noexcept {
  if (said.nNumSlices == 0 || said.pSliceDataOffsets == nullptr) return 0;
  for (unsigned at = said.pSliceDataOffsets[0]; at + 1 < said.nBitstreamDataLen && at < said.pSliceDataOffsets[0] + 4;
       ++at) {
    if (said.pBitstreamData[at] == 1) return said.pBitstreamData[at + 1] & 0x1FU;
  }
  return 0;
}

}  // namespace

H264Parameters h264_parameters(const CUVIDPICPARAMS& said) noexcept {
  const CUVIDH264PICPARAMS& from = said.CodecSpecific.h264;
  H264Parameters to;
  StdVideoH264SequenceParameterSet& sequence = to.sequence;
  sequence.flags.direct_8x8_inference_flag = bit(from.direct_8x8_inference_flag);
  sequence.flags.mb_adaptive_frame_field_flag = bit(from.MbaffFrameFlag);
  sequence.flags.frame_mbs_only_flag = bit(from.frame_mbs_only_flag);
  sequence.flags.delta_pic_order_always_zero_flag = bit(from.delta_pic_order_always_zero_flag);
  sequence.flags.separate_colour_plane_flag = bit(from.residual_colour_transform_flag);
  sequence.flags.qpprime_y_zero_transform_bypass_flag = bit(from.qpprime_y_zero_transform_bypass_flag);
  sequence.profile_idc = STD_VIDEO_H264_PROFILE_IDC_HIGH;
  sequence.level_idc = STD_VIDEO_H264_LEVEL_IDC_5_1;
  sequence.chroma_format_idc = STD_VIDEO_H264_CHROMA_FORMAT_IDC_420;
  sequence.bit_depth_luma_minus8 = from.bit_depth_luma_minus8;
  sequence.bit_depth_chroma_minus8 = from.bit_depth_chroma_minus8;
  sequence.log2_max_frame_num_minus4 = byte(from.log2_max_frame_num_minus4);
  sequence.pic_order_cnt_type = static_cast<StdVideoH264PocType>(from.pic_order_cnt_type);
  sequence.log2_max_pic_order_cnt_lsb_minus4 = byte(from.log2_max_pic_order_cnt_lsb_minus4);
  sequence.max_num_ref_frames = byte(from.num_ref_frames);
  sequence.pic_width_in_mbs_minus1 = static_cast<std::uint32_t>(std::max(said.PicWidthInMbs, 1) - 1);
  const int rows = from.frame_mbs_only_flag != 0 ? said.FrameHeightInMbs : said.FrameHeightInMbs / 2;
  sequence.pic_height_in_map_units_minus1 = static_cast<std::uint32_t>(std::max(rows, 1) - 1);

  StdVideoH264PictureParameterSet& picture = to.picture;
  picture.flags.transform_8x8_mode_flag = bit(from.transform_8x8_mode_flag);
  picture.flags.redundant_pic_cnt_present_flag = bit(from.redundant_pic_cnt_present_flag);
  picture.flags.constrained_intra_pred_flag = bit(from.constrained_intra_pred_flag);
  picture.flags.deblocking_filter_control_present_flag = bit(from.deblocking_filter_control_present_flag);
  picture.flags.weighted_pred_flag = bit(from.weighted_pred_flag);
  picture.flags.bottom_field_pic_order_in_frame_present_flag = bit(from.pic_order_present_flag);
  picture.flags.entropy_coding_mode_flag = bit(from.entropy_coding_mode_flag);
  picture.num_ref_idx_l0_default_active_minus1 = byte(from.num_ref_idx_l0_active_minus1);
  picture.num_ref_idx_l1_default_active_minus1 = byte(from.num_ref_idx_l1_active_minus1);
  picture.weighted_bipred_idc = static_cast<StdVideoH264WeightedBipredIdc>(from.weighted_bipred_idc);
  picture.pic_init_qp_minus26 = static_cast<std::int8_t>(from.pic_init_qp_minus26);
  picture.pic_init_qs_minus26 = from.pic_init_qs_minus26;
  picture.chroma_qp_index_offset = static_cast<std::int8_t>(from.chroma_qp_index_offset);
  picture.second_chroma_qp_index_offset = static_cast<std::int8_t>(from.second_chroma_qp_index_offset);

  // The parser gives matrices; lists go along the zigzag.
  const auto flat = [](const auto& numbers) {
    return std::all_of(std::begin(numbers), std::end(numbers), [](unsigned char one) { return one == kFlat; });
  };
  for (int list = 0; list < 6; ++list) {
    to.scaled = to.scaled || !flat(from.WeightScale4x4[list]);
    for (std::size_t i = 0; i < kZigzag4x4.size(); ++i) {
      to.lists.ScalingList4x4[list][i] = from.WeightScale4x4[list][kZigzag4x4[i]];
    }
  }
  for (int list = 0; list < 6; ++list) {
    if (list < 2) to.scaled = to.scaled || !flat(from.WeightScale8x8[list]);
    for (std::size_t i = 0; i < kZigzag8x8.size(); ++i) {
      to.lists.ScalingList8x8[list][i] = list < 2 ? from.WeightScale8x8[list][kZigzag8x8[i]] : kFlat;
    }
  }
  constexpr std::uint16_t kEachList = 0xFFF;
  to.lists.scaling_list_present_mask = to.scaled ? kEachList : 0;
  picture.flags.pic_scaling_matrix_present_flag = bit(to.scaled);
  return to;
}

std::string h264_parameter_key(const CUVIDPICPARAMS& said) {
  const CUVIDH264PICPARAMS& from = said.CodecSpecific.h264;
  std::string key(reinterpret_cast<const char*>(&from), offsetof(CUVIDH264PICPARAMS, ref_pic_flag));
  key.append(reinterpret_cast<const char*>(from.WeightScale4x4), sizeof(from.WeightScale4x4));
  key.append(reinterpret_cast<const char*>(from.WeightScale8x8), sizeof(from.WeightScale8x8));
  key.push_back(static_cast<char>(from.pic_init_qs_minus26));
  return key;
}

std::string h265_parameter_key(const CUVIDPICPARAMS& said) {
  CUVIDHEVCPICPARAMS from = said.CodecSpecific.hevc;
  from.IrapPicFlag = from.IdrPicFlag = 0;  // the picture's
  const char* const bytes = reinterpret_cast<const char*>(&from);
  std::string key(bytes, offsetof(CUVIDHEVCPICPARAMS, NumBitsForShortTermRPSInSlice));
  constexpr std::size_t kLists = offsetof(CUVIDHEVCPICPARAMS, ScalingList4x4);
  key.append(bytes + kLists, sizeof(from) - kLists);
  return key;
}

VulkanPicture h264_picture(const CUVIDPICPARAMS& said, int surfaces) noexcept {
  constexpr unsigned kIdr = 5;
  const CUVIDH264PICPARAMS& from = said.CodecSpecific.h264;
  VulkanPicture to;
  to.h264.flags.is_intra = bit(said.intra_pic_flag);
  to.h264.flags.IdrPicFlag = nal_type(said) == kIdr;
  to.h264.flags.is_reference = bit(said.ref_pic_flag);
  to.h264.frame_num = static_cast<std::uint16_t>(from.frame_num);
  to.h264.PicOrderCnt[0] = from.CurrFieldOrderCnt[0];
  to.h264.PicOrderCnt[1] = from.CurrFieldOrderCnt[1];
  to.self.surface = said.CurrPicIdx;
  to.self.h264.FrameNum = to.h264.frame_num;
  to.self.h264.PicOrderCnt[0] = from.CurrFieldOrderCnt[0];
  to.self.h264.PicOrderCnt[1] = from.CurrFieldOrderCnt[1];
  for (const CUVIDH264DPBENTRY& entry : from.dpb) {
    if (entry.PicIdx < 0 || entry.PicIdx >= surfaces || entry.used_for_reference == 0 ||
        entry.PicIdx == said.CurrPicIdx)
      continue;
    VulkanReference& reference = to.references[static_cast<std::size_t>(to.reference_count++)];
    reference.surface = entry.PicIdx;
    reference.h264.flags.used_for_long_term_reference = bit(entry.is_long_term);
    reference.h264.flags.is_non_existing = bit(entry.not_existing);
    reference.h264.FrameNum = static_cast<std::uint16_t>(entry.FrameIdx);
    reference.h264.PicOrderCnt[0] = entry.FieldOrderCnt[0];
    reference.h264.PicOrderCnt[1] = entry.FieldOrderCnt[1];
  }
  return to;
}

H265Parameters h265_parameters(const CUVIDPICPARAMS& said, int surfaces) noexcept {
  const CUVIDHEVCPICPARAMS& from = said.CodecSpecific.hevc;
  H265Parameters to;
  to.level.flags.general_progressive_source_flag = 1;
  to.level.flags.general_frame_only_constraint_flag = 1;
  to.level.general_profile_idc = STD_VIDEO_H265_PROFILE_IDC_MAIN;
  to.level.general_level_idc = STD_VIDEO_H265_LEVEL_IDC_6_1;
  to.buffers.max_dec_pic_buffering_minus1[0] = byte(std::clamp(surfaces - 1, 0, kMostReferences - 1));
  to.video.flags.vps_temporal_id_nesting_flag = 1;

  StdVideoH265SequenceParameterSet& sequence = to.sequence;
  sequence.flags.sps_temporal_id_nesting_flag = 1;
  sequence.flags.separate_colour_plane_flag = bit(from.separate_colour_plane_flag);
  sequence.flags.scaling_list_enabled_flag = bit(from.scaling_list_enable_flag);
  sequence.flags.sps_scaling_list_data_present_flag = bit(from.scaling_list_enable_flag);
  sequence.flags.amp_enabled_flag = bit(from.amp_enabled_flag);
  sequence.flags.sample_adaptive_offset_enabled_flag = bit(from.sample_adaptive_offset_enabled_flag);
  sequence.flags.pcm_enabled_flag = bit(from.pcm_enabled_flag);
  sequence.flags.pcm_loop_filter_disabled_flag = bit(from.pcm_loop_filter_disabled_flag);
  sequence.flags.long_term_ref_pics_present_flag = bit(from.long_term_ref_pics_present_flag);
  sequence.flags.sps_temporal_mvp_enabled_flag = bit(from.sps_temporal_mvp_enabled_flag);
  sequence.flags.strong_intra_smoothing_enabled_flag = bit(from.strong_intra_smoothing_enabled_flag);
  sequence.chroma_format_idc = STD_VIDEO_H265_CHROMA_FORMAT_IDC_420;
  sequence.pic_width_in_luma_samples = static_cast<std::uint32_t>(from.pic_width_in_luma_samples);
  sequence.pic_height_in_luma_samples = static_cast<std::uint32_t>(from.pic_height_in_luma_samples);
  sequence.bit_depth_luma_minus8 = from.bit_depth_luma_minus8;
  sequence.bit_depth_chroma_minus8 = from.bit_depth_chroma_minus8;
  sequence.log2_max_pic_order_cnt_lsb_minus4 = from.log2_max_pic_order_cnt_lsb_minus4;
  sequence.log2_min_luma_coding_block_size_minus3 = from.log2_min_luma_coding_block_size_minus3;
  sequence.log2_diff_max_min_luma_coding_block_size = from.log2_diff_max_min_luma_coding_block_size;
  sequence.log2_min_luma_transform_block_size_minus2 = from.log2_min_transform_block_size_minus2;
  sequence.log2_diff_max_min_luma_transform_block_size = from.log2_diff_max_min_transform_block_size;
  sequence.max_transform_hierarchy_depth_inter = from.max_transform_hierarchy_depth_inter;
  sequence.max_transform_hierarchy_depth_intra = from.max_transform_hierarchy_depth_intra;
  // The driver reads that many of the session's arrays, which are as long as the standard allows.
  sequence.num_short_term_ref_pic_sets =
      std::min<std::uint8_t>(from.num_short_term_ref_pic_sets, STD_VIDEO_H265_MAX_SHORT_TERM_REF_PIC_SETS);
  sequence.num_long_term_ref_pics_sps =
      std::min<std::uint8_t>(from.num_long_term_ref_pics_sps, STD_VIDEO_H265_MAX_LONG_TERM_REF_PICS_SPS);
  sequence.pcm_sample_bit_depth_luma_minus1 = from.pcm_sample_bit_depth_luma_minus1;
  sequence.pcm_sample_bit_depth_chroma_minus1 = from.pcm_sample_bit_depth_chroma_minus1;
  sequence.log2_min_pcm_luma_coding_block_size_minus3 = from.log2_min_pcm_luma_coding_block_size_minus3;
  sequence.log2_diff_max_min_pcm_luma_coding_block_size = from.log2_diff_max_min_pcm_luma_coding_block_size;

  StdVideoH265PictureParameterSet& picture = to.picture;
  picture.flags.dependent_slice_segments_enabled_flag = bit(from.dependent_slice_segments_enabled_flag);
  picture.flags.output_flag_present_flag = bit(from.output_flag_present_flag);
  picture.flags.sign_data_hiding_enabled_flag = bit(from.sign_data_hiding_enabled_flag);
  picture.flags.cabac_init_present_flag = bit(from.cabac_init_present_flag);
  picture.flags.constrained_intra_pred_flag = bit(from.constrained_intra_pred_flag);
  picture.flags.transform_skip_enabled_flag = bit(from.transform_skip_enabled_flag);
  picture.flags.cu_qp_delta_enabled_flag = bit(from.cu_qp_delta_enabled_flag);
  picture.flags.pps_slice_chroma_qp_offsets_present_flag = bit(from.pps_slice_chroma_qp_offsets_present_flag);
  picture.flags.weighted_pred_flag = bit(from.weighted_pred_flag);
  picture.flags.weighted_bipred_flag = bit(from.weighted_bipred_flag);
  picture.flags.transquant_bypass_enabled_flag = bit(from.transquant_bypass_enabled_flag);
  picture.flags.tiles_enabled_flag = bit(from.tiles_enabled_flag);
  picture.flags.entropy_coding_sync_enabled_flag = bit(from.entropy_coding_sync_enabled_flag);
  picture.flags.uniform_spacing_flag = bit(from.uniform_spacing_flag);
  picture.flags.loop_filter_across_tiles_enabled_flag = bit(from.loop_filter_across_tiles_enabled_flag);
  picture.flags.pps_loop_filter_across_slices_enabled_flag = bit(from.loop_filter_across_slices_enabled_flag);
  picture.flags.deblocking_filter_override_enabled_flag = bit(from.deblocking_filter_override_enabled_flag);
  picture.flags.pps_deblocking_filter_disabled_flag = bit(from.pps_deblocking_filter_disabled_flag);
  picture.flags.deblocking_filter_control_present_flag =
      bit(from.deblocking_filter_override_enabled_flag != 0 || from.pps_deblocking_filter_disabled_flag != 0 ||
          from.pps_beta_offset_div2 != 0 || from.pps_tc_offset_div2 != 0);
  picture.flags.lists_modification_present_flag = bit(from.lists_modification_present_flag);
  picture.flags.slice_segment_header_extension_present_flag = bit(from.slice_segment_header_extension_present_flag);
  picture.num_extra_slice_header_bits = from.num_extra_slice_header_bits;
  picture.num_ref_idx_l0_default_active_minus1 = from.num_ref_idx_l0_default_active_minus1;
  picture.num_ref_idx_l1_default_active_minus1 = from.num_ref_idx_l1_default_active_minus1;
  picture.init_qp_minus26 = from.init_qp_minus26;
  picture.diff_cu_qp_delta_depth = from.diff_cu_qp_delta_depth;
  picture.pps_cb_qp_offset = from.pps_cb_qp_offset;
  picture.pps_cr_qp_offset = from.pps_cr_qp_offset;
  picture.pps_beta_offset_div2 = from.pps_beta_offset_div2;
  picture.pps_tc_offset_div2 = from.pps_tc_offset_div2;
  picture.log2_parallel_merge_level_minus2 = from.log2_parallel_merge_level_minus2;
  picture.num_tile_columns_minus1 =
      std::min<std::uint8_t>(from.num_tile_columns_minus1, STD_VIDEO_H265_CHROMA_QP_OFFSET_TILE_COLS_LIST_SIZE);
  picture.num_tile_rows_minus1 =
      std::min<std::uint8_t>(from.num_tile_rows_minus1, STD_VIDEO_H265_CHROMA_QP_OFFSET_TILE_ROWS_LIST_SIZE);
  std::copy_n(from.column_width_minus1, STD_VIDEO_H265_CHROMA_QP_OFFSET_TILE_COLS_LIST_SIZE,
              picture.column_width_minus1);
  std::copy_n(from.row_height_minus1, STD_VIDEO_H265_CHROMA_QP_OFFSET_TILE_ROWS_LIST_SIZE, picture.row_height_minus1);

  // Both in the order of the diagonal scan.
  static_assert(sizeof(to.lists.ScalingList4x4) == sizeof(from.ScalingList4x4));
  static_assert(sizeof(to.lists.ScalingList8x8) == sizeof(from.ScalingList8x8));
  static_assert(sizeof(to.lists.ScalingList16x16) == sizeof(from.ScalingList16x16));
  static_assert(sizeof(to.lists.ScalingList32x32) == sizeof(from.ScalingList32x32));
  std::memcpy(to.lists.ScalingList4x4, from.ScalingList4x4, sizeof(from.ScalingList4x4));
  std::memcpy(to.lists.ScalingList8x8, from.ScalingList8x8, sizeof(from.ScalingList8x8));
  std::memcpy(to.lists.ScalingList16x16, from.ScalingList16x16, sizeof(from.ScalingList16x16));
  std::memcpy(to.lists.ScalingList32x32, from.ScalingList32x32, sizeof(from.ScalingList32x32));
  std::memcpy(to.lists.ScalingListDCCoef16x16, from.ScalingListDCCoeff16x16, sizeof(from.ScalingListDCCoeff16x16));
  std::memcpy(to.lists.ScalingListDCCoef32x32, from.ScalingListDCCoeff32x32, sizeof(from.ScalingListDCCoeff32x32));
  return to;
}

VulkanPicture h265_picture(const CUVIDPICPARAMS& said, int surfaces) noexcept {
  const CUVIDHEVCPICPARAMS& from = said.CodecSpecific.hevc;
  VulkanPicture to;
  to.h265.flags.IrapPicFlag = bit(from.IrapPicFlag);
  to.h265.flags.IdrPicFlag = bit(from.IdrPicFlag);
  to.h265.flags.IsReference = bit(said.ref_pic_flag);
  to.h265.flags.short_term_ref_pic_set_sps_flag = from.NumBitsForShortTermRPSInSlice == 0;
  to.h265.NumDeltaPocsOfRefRpsIdx = byte(from.NumDeltaPocsOfRefRpsIdx);
  to.h265.PicOrderCntVal = from.CurrPicOrderCntVal;
  to.h265.NumBitsForSTRefPicSetInSlice = static_cast<std::uint16_t>(from.NumBitsForShortTermRPSInSlice);
  to.self.surface = said.CurrPicIdx;
  to.self.h265.PicOrderCntVal = from.CurrPicOrderCntVal;

  const auto usable = [&](int entry) {
    return entry >= 0 && entry < kMostReferences && from.RefPicIdx[entry] >= 0 && from.RefPicIdx[entry] < surfaces &&
           from.RefPicIdx[entry] != said.CurrPicIdx;
  };
  for (int entry = 0; entry < kMostReferences; ++entry) {
    if (!usable(entry)) continue;
    VulkanReference& reference = to.references[static_cast<std::size_t>(to.reference_count++)];
    reference.surface = from.RefPicIdx[entry];
    reference.h265.flags.used_for_long_term_reference = bit(from.IsLongTerm[entry]);
    reference.h265.PicOrderCntVal = from.PicOrderCntVal[entry];
  }
  const auto slots = [&](const unsigned char(&entries)[8], int count,
                         std::uint8_t(&of)[STD_VIDEO_DECODE_H265_REF_PIC_SET_LIST_SIZE]) {
    for (int i = 0; i < STD_VIDEO_DECODE_H265_REF_PIC_SET_LIST_SIZE; ++i) {
      of[i] = i < count && usable(entries[i]) ? byte(from.RefPicIdx[entries[i]]) : kNoReference;
    }
  };
  slots(from.RefPicSetStCurrBefore, from.NumPocStCurrBefore, to.h265.RefPicSetStCurrBefore);
  slots(from.RefPicSetStCurrAfter, from.NumPocStCurrAfter, to.h265.RefPicSetStCurrAfter);
  slots(from.RefPicSetLtCurr, from.NumPocLtCurr, to.h265.RefPicSetLtCurr);
  return to;
}

}  // namespace camd::device
