// Clips for the tests of GStreamer sources: frames of the test pattern, so that every decoded picture says which it is.
//
// Threads: functions [any]; they [block] until the clip is written.
#pragma once

#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "capture/gst_support.hpp"
#include "capture/test_pattern.hpp"

namespace camd::capture::testing {

// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "camd-capture-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct ClipOptions {
  int frames = 10;
  int width = 320;
  int height = 240;
  int fps = 30;
  // From raw I420 frames to a byte stream for filesink.
  std::string encoder = "x264enc bframes=2 key-int-max=5 speed-preset=ultrafast bitrate=4000 ! h264parse ! matroskamux";
};

// False when this machine lacks an element; the test then skips.
[[nodiscard]] inline bool write_clip(const std::filesystem::path& path, const ClipOptions& options) {
  init_gstreamer();
  const std::string text =
      "appsrc name=in format=time caps=video/x-raw,format=I420,width=" + std::to_string(options.width) +
      ",height=" + std::to_string(options.height) + ",framerate=" + std::to_string(options.fps) + "/1 ! " +
      options.encoder + " ! filesink location=" + path.string();
  GError* error = nullptr;
  GstElement* const made = gst_parse_launch(text.c_str(), &error);
  if (error != nullptr) {
    g_error_free(error);
    if (made != nullptr) gst_object_unref(made);
    return false;
  }
  const GstOwned<GstElement> pipeline(made);
  const GstOwned<GstElement> in(gst_bin_get_by_name(GST_BIN(pipeline.get()), "in"));
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  const auto layout = base::tight_layout(base::PixelFormat::kI420, options.width, options.height);
  const TestPattern pattern(layout);
  std::vector<std::byte> pixels(layout.size_bytes);
  for (int k = 0; k < options.frames; ++k) {
    const auto sequence = static_cast<std::uint64_t>(k);
    pattern.draw(pixels, sequence);
    EXPECT_TRUE(stamp_test_pattern(layout, pixels, {sequence, 0}));
    GstBuffer* const buffer = gst_buffer_new_memdup(pixels.data(), pixels.size());
    const auto fps = static_cast<guint64>(options.fps);
    GST_BUFFER_PTS(buffer) = gst_util_uint64_scale(sequence, GST_SECOND, fps);
    GST_BUFFER_DURATION(buffer) = gst_util_uint64_scale(1, GST_SECOND, fps);
    gst_app_src_push_buffer(GST_APP_SRC(in.get()), buffer);
  }
  gst_app_src_end_of_stream(GST_APP_SRC(in.get()));
  GstBus* const bus = gst_element_get_bus(pipeline.get());
  const GstOwned<GstMessage> end(gst_bus_timed_pop_filtered(
      bus, 60 * GST_SECOND, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR)));
  gst_object_unref(bus);
  gst_element_set_state(pipeline.get(), GST_STATE_NULL);
  return end && GST_MESSAGE_TYPE(end.get()) == GST_MESSAGE_EOS;
}

}  // namespace camd::capture::testing

#define CAMD_CLIP_OR_SKIP(path, options)                  \
  if (!camd::capture::testing::write_clip(path, options)) \
  GTEST_SKIP() << "this machine's GStreamer cannot write " << (options).encoder
