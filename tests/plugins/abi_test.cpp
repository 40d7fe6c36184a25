// The C interface's layout, field by field. A change here breaks every plug-in that users have built: new members go to
// the end of structs that have a `struct_size`, anything else needs a new CAMD_PLUGIN_ABI_VERSION and symbol.
#define CAMD_PLUGIN_OWN_DLPACK  // our own copy of DLPack's structs; dlpack_layout.hpp has the real ones
#include "plugins/camd_plugin.h"

#include <gtest/gtest.h>

#include "dlpack_layout.hpp"

namespace CAMD_TEST_FILE {

TEST(Abi, HasVersionOne) {
  EXPECT_EQ(CAMD_PLUGIN_ABI_VERSION, 1U);
  EXPECT_STREQ(CAMD_PLUGIN_SYMBOL, "camd_plugin_v1");
}

TEST(Abi, KeepsItsConstants) {
  EXPECT_EQ(CAMD_OK, 0);
  EXPECT_EQ(CAMD_ERROR_CONFIG, 1);
  EXPECT_EQ(CAMD_ERROR_FAILED, 2);
  EXPECT_EQ(CAMD_ERROR_FULL, 3);
  EXPECT_EQ(CAMD_ERROR_INVALID, 4);
  EXPECT_EQ(CAMD_LOG_ERROR, 0);
  EXPECT_EQ(CAMD_LOG_DEBUG, 3);
  EXPECT_EQ(CAMD_NEED_NONE, 0);
  EXPECT_EQ(CAMD_NEED_DEVICE, 3);
  EXPECT_EQ(CAMD_PIXEL_BGR, 0);
  EXPECT_EQ(CAMD_PIXEL_GRAY8, 5);
  EXPECT_EQ(CAMD_MAX_KEYPOINTS, 32);
  EXPECT_EQ(CAMD_CLASS_NAME_BYTES, 48);
  EXPECT_EQ(CAMD_TEXT_BYTES, 64);
  EXPECT_EQ(CAMD_ERROR_BYTES, 512);
  EXPECT_EQ(CAMD_DEFAULT_DETECTIONS, 512);
  EXPECT_EQ(CAMD_MAX_DETECTIONS, 16384);
  EXPECT_STREQ(CAMD_EXTENSION_COUNTERS, "camd.counters/1");
  EXPECT_EQ(CAMD_COUNTER, 0);
  EXPECT_EQ(CAMD_GAUGE, 1);
  EXPECT_EQ(CAMD_MAX_COUNTERS, 32);
  EXPECT_EQ(CAMD_COUNTER_NAME_BYTES, 48);
  EXPECT_STREQ(CAMD_EXTENSION_EVENTS, "camd.events/1");
  EXPECT_STREQ(CAMD_EXTENSION_CAMERAS, "camd.cameras/1");
  EXPECT_STREQ(CAMD_EXTENSION_REOPEN, "camd.reopen/1");
  EXPECT_STREQ(CAMD_EXTENSION_CHECK, "camd.check/1");
  EXPECT_STREQ(CAMD_EXTENSION_STATELESS, "camd.stateless/1");
  EXPECT_EQ(CAMD_MAX_EVENTS, 64);
  EXPECT_EQ(CAMD_EVENT_NAME_BYTES, 48);
  EXPECT_EQ(CAMD_EVENT_NUMBERS, 8);
  EXPECT_EQ(CAMD_NUMBER_NAME_BYTES, 24);
}

#define EXPECT_OFFSET(type, member, bytes) EXPECT_EQ(offsetof(type, member), static_cast<std::size_t>(bytes))
#define EXPECT_SIZE(type, bytes) EXPECT_EQ(sizeof(type), static_cast<std::size_t>(bytes))

TEST(Abi, KeepsTheLayoutOfThePluginsTable) {
  EXPECT_OFFSET(camd_plugin, abi_version, 0);
  EXPECT_OFFSET(camd_plugin, struct_size, 4);
  EXPECT_OFFSET(camd_plugin, name, 8);
  EXPECT_OFFSET(camd_plugin, version, 16);
  EXPECT_OFFSET(camd_plugin, description, 24);
  EXPECT_OFFSET(camd_plugin, create, 32);
  EXPECT_OFFSET(camd_plugin, outputs, 40);
  EXPECT_OFFSET(camd_plugin, process, 48);
  EXPECT_OFFSET(camd_plugin, destroy, 56);
  EXPECT_OFFSET(camd_plugin, get_extension, 64);
  EXPECT_SIZE(camd_plugin, 72);
}

TEST(Abi, KeepsTheLayoutOfTheHostAndErrors) {
  EXPECT_OFFSET(camd_host, struct_size, 0);
  EXPECT_OFFSET(camd_host, camd_version, 8);
  EXPECT_OFFSET(camd_host, log, 16);
  EXPECT_OFFSET(camd_host, now_mono_ns, 24);
  EXPECT_OFFSET(camd_host, get_extension, 32);
  EXPECT_OFFSET(camd_host, reloads, 40);
  EXPECT_SIZE(camd_host, 48);
  EXPECT_OFFSET(camd_error, struct_size, 0);
  EXPECT_OFFSET(camd_error, message, 8);
  EXPECT_SIZE(camd_error, 520);
}

TEST(Abi, KeepsTheLayoutOfTheModel) {
  EXPECT_OFFSET(camd_tensor_spec, name, 0);
  EXPECT_OFFSET(camd_tensor_spec, ndim, 8);
  EXPECT_OFFSET(camd_tensor_spec, shape, 16);
  EXPECT_OFFSET(camd_tensor_spec, dtype, 24);
  EXPECT_SIZE(camd_tensor_spec, 32);
  EXPECT_OFFSET(camd_model, struct_size, 0);
  EXPECT_OFFSET(camd_model, path, 8);
  EXPECT_OFFSET(camd_model, input, 16);
  EXPECT_OFFSET(camd_model, output_count, 48);
  EXPECT_OFFSET(camd_model, outputs, 56);
  EXPECT_OFFSET(camd_model, card_json, 64);
  EXPECT_OFFSET(camd_model, camera_count, 72);
  EXPECT_OFFSET(camd_model, camera_names, 80);
  EXPECT_OFFSET(camd_model, channels_last, 88);
  EXPECT_SIZE(camd_model, 96);
  EXPECT_OFFSET(camd_needs, struct_size, 0);
  EXPECT_OFFSET(camd_needs, outputs, 8);
  EXPECT_OFFSET(camd_needs, input, 16);
  EXPECT_OFFSET(camd_needs, picture, 20);
  EXPECT_OFFSET(camd_needs, detections, 24);
  EXPECT_OFFSET(camd_needs, filters, 32);
  EXPECT_OFFSET(camd_needs, filter_count, 40);
  EXPECT_SIZE(camd_needs, 48);
  EXPECT_OFFSET(camd_elements, output, 0);
  EXPECT_OFFSET(camd_elements, channels, 4);
  EXPECT_OFFSET(camd_elements, first, 8);
  EXPECT_OFFSET(camd_elements, cell_step, 16);
  EXPECT_OFFSET(camd_elements, anchor_step, 24);
  EXPECT_OFFSET(camd_elements, channel_step, 32);
  EXPECT_SIZE(camd_elements, 40);
  EXPECT_OFFSET(camd_filter, cells, 0);
  EXPECT_OFFSET(camd_filter, anchors, 8);
  EXPECT_OFFSET(camd_filter, floor, 12);
  EXPECT_OFFSET(camd_filter, scores, 16);
  EXPECT_OFFSET(camd_filter, value_count, 56);
  EXPECT_OFFSET(camd_filter, values, 64);
  EXPECT_SIZE(camd_filter, 304);
}

TEST(Abi, KeepsTheLayoutOfFrameAndPicture) {
  EXPECT_OFFSET(camd_plane, data, 0);
  EXPECT_OFFSET(camd_plane, stride_bytes, 8);
  EXPECT_OFFSET(camd_plane, width, 12);
  EXPECT_OFFSET(camd_plane, height, 16);
  EXPECT_SIZE(camd_plane, 24);
  EXPECT_OFFSET(camd_picture, struct_size, 0);
  EXPECT_OFFSET(camd_picture, format, 8);
  EXPECT_OFFSET(camd_picture, bt709, 12);
  EXPECT_OFFSET(camd_picture, full_range, 16);
  EXPECT_OFFSET(camd_picture, plane_count, 20);
  EXPECT_OFFSET(camd_picture, planes, 24);
  EXPECT_SIZE(camd_picture, 96);
  EXPECT_OFFSET(camd_frame, struct_size, 0);
  EXPECT_OFFSET(camd_frame, camera, 8);
  EXPECT_OFFSET(camd_frame, camera_index, 16);
  EXPECT_OFFSET(camd_frame, width, 20);
  EXPECT_OFFSET(camd_frame, height, 24);
  EXPECT_OFFSET(camd_frame, sequence, 32);
  EXPECT_OFFSET(camd_frame, captured_mono_ns, 40);
  EXPECT_OFFSET(camd_frame, arrived_mono_ns, 48);
  EXPECT_OFFSET(camd_frame, captured_unix_ns, 56);
  EXPECT_OFFSET(camd_frame, scale_x, 64);
  EXPECT_OFFSET(camd_frame, scale_y, 68);
  EXPECT_OFFSET(camd_frame, offset_x, 72);
  EXPECT_OFFSET(camd_frame, offset_y, 76);
  EXPECT_OFFSET(camd_frame, picture, 80);
  EXPECT_OFFSET(camd_frame, captured_uncertainty_ns, 88);
  EXPECT_OFFSET(camd_frame, flags, 96);
  EXPECT_SIZE(camd_frame, 104);
}

TEST(Abi, KeepsTheLayoutOfTensorsAndResults) {
  EXPECT_OFFSET(camd_tensors, struct_size, 0);
  EXPECT_OFFSET(camd_tensors, output_count, 8);
  EXPECT_OFFSET(camd_tensors, outputs, 16);
  EXPECT_OFFSET(camd_tensors, device_outputs, 24);
  EXPECT_OFFSET(camd_tensors, input, 32);
  EXPECT_OFFSET(camd_tensors, stream, 40);
  EXPECT_OFFSET(camd_tensors, passed, 48);
  EXPECT_SIZE(camd_tensors, 56);
  EXPECT_OFFSET(camd_detection, track_id, 0);
  EXPECT_OFFSET(camd_detection, class_id, 8);
  EXPECT_OFFSET(camd_detection, score, 12);
  EXPECT_OFFSET(camd_detection, box, 16);
  EXPECT_OFFSET(camd_detection, class_name, 32);
  EXPECT_OFFSET(camd_detection, text, 80);
  EXPECT_OFFSET(camd_detection, keypoint_count, 144);
  EXPECT_OFFSET(camd_detection, keypoints, 148);
  EXPECT_OFFSET(camd_detection, reserved, 404);
  EXPECT_SIZE(camd_detection, 448);  // without padding
  EXPECT_OFFSET(camd_results, struct_size, 0);
  EXPECT_OFFSET(camd_results, capacity, 8);
  EXPECT_OFFSET(camd_results, count, 12);
  EXPECT_OFFSET(camd_results, items, 16);
  EXPECT_SIZE(camd_results, 24);
}

TEST(Abi, KeepsTheLayoutOfTheExtensions) {
  EXPECT_OFFSET(camd_counters, struct_size, 0);
  EXPECT_OFFSET(camd_counters, make, 8);
  EXPECT_OFFSET(camd_counters, add, 16);
  EXPECT_OFFSET(camd_counters, set, 24);
  EXPECT_SIZE(camd_counters, 32);
  EXPECT_OFFSET(camd_plugin_counters, struct_size, 0);
  EXPECT_OFFSET(camd_plugin_counters, sample, 8);
  EXPECT_SIZE(camd_plugin_counters, 16);
  EXPECT_OFFSET(camd_number, name, 0);
  EXPECT_OFFSET(camd_number, value, 24);
  EXPECT_SIZE(camd_number, 32);
  EXPECT_OFFSET(camd_event, struct_size, 0);
  EXPECT_OFFSET(camd_event, track_id, 8);
  EXPECT_OFFSET(camd_event, name, 16);
  EXPECT_OFFSET(camd_event, zone, 64);
  EXPECT_OFFSET(camd_event, reserved, 112);
  EXPECT_OFFSET(camd_event, number_count, 116);
  EXPECT_OFFSET(camd_event, numbers, 120);
  EXPECT_SIZE(camd_event, 376);
  EXPECT_OFFSET(camd_events, struct_size, 0);
  EXPECT_OFFSET(camd_events, count, 8);
  EXPECT_OFFSET(camd_events, get, 16);
  EXPECT_OFFSET(camd_events, add, 24);
  EXPECT_SIZE(camd_events, 32);
  EXPECT_OFFSET(camd_plugin_cameras, struct_size, 0);
  EXPECT_OFFSET(camd_plugin_cameras, open, 8);
  EXPECT_OFFSET(camd_plugin_cameras, exchange, 16);
  EXPECT_OFFSET(camd_plugin_cameras, close, 24);
  EXPECT_SIZE(camd_plugin_cameras, 32);
  EXPECT_OFFSET(camd_plugin_reopen, struct_size, 0);
  EXPECT_OFFSET(camd_plugin_reopen, reopen, 8);
  EXPECT_SIZE(camd_plugin_reopen, 16);
}

TEST(Abi, TellsWhetherAStructIsLongEnoughToHoldAMember) {
  camd_needs needs{};
  needs.struct_size = offsetof(camd_needs, detections);
  EXPECT_TRUE(CAMD_HAS_MEMBER(camd_needs, &needs, picture));
  EXPECT_FALSE(CAMD_HAS_MEMBER(camd_needs, &needs, detections));
  needs.struct_size = offsetof(camd_needs, detections) + sizeof(needs.detections);
  EXPECT_TRUE(CAMD_HAS_MEMBER(camd_needs, &needs, detections));
}

// A plug-in built without dlpack.h and a camd built with it hand the same tensors to each other.
TEST(Abi, DeclaresDLPackAsItsOwnHeaderDoes) {
  const DlpackLayout real = dlpack_layout();
  const DlpackLayout ours = {sizeof(DLTensor),
                             offsetof(DLTensor, data),
                             offsetof(DLTensor, device),
                             offsetof(DLTensor, ndim),
                             offsetof(DLTensor, dtype),
                             offsetof(DLTensor, shape),
                             offsetof(DLTensor, strides),
                             offsetof(DLTensor, byte_offset),
                             sizeof(DLDevice),
                             offsetof(DLDevice, device_id),
                             sizeof(DLDataType),
                             offsetof(DLDataType, bits),
                             offsetof(DLDataType, lanes),
                             kDLCPU,
                             kDLCUDA,
                             kDLCUDAHost,
                             kDLInt,
                             kDLUInt,
                             kDLFloat,
                             kDLBfloat};
  EXPECT_EQ(ours, real);
}

TEST(Abi, KeepsTheLayoutOfTheCheck) {
  EXPECT_OFFSET(camd_check, struct_size, 0);
  EXPECT_OFFSET(camd_check, config_json, 8);
  EXPECT_OFFSET(camd_check, card_json, 16);
  EXPECT_OFFSET(camd_check, camera_count, 24);
  EXPECT_OFFSET(camd_check, camera_names, 32);
  EXPECT_OFFSET(camd_check, mistake, 40);
  EXPECT_OFFSET(camd_check, unknown_key, 48);
  EXPECT_OFFSET(camd_check, claim, 56);
  EXPECT_SIZE(camd_check, 64);
  EXPECT_OFFSET(camd_plugin_check, struct_size, 0);
  EXPECT_OFFSET(camd_plugin_check, check, 8);
  EXPECT_SIZE(camd_plugin_check, 16);
}

}  // namespace CAMD_TEST_FILE
