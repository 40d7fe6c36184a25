// What `camd doctor --clip` measures: the demo clip, decoded by the CPU and by an emulated GPU whose decoders are
// faked.
#include "pipeline/diagnose/decode_rate.hpp"

#include <gtest/gtest.h>

#include "capture/gst_elements.hpp"
#include "device/host_device.hpp"
#include "pipeline/diagnose/doctor.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/device/fake_nvdec.hpp"
#include "tests/device/fake_vulkan.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using test::FakeNvdec;

std::filesystem::path demo_clip() { return test::source_dir() + "/models/demo/demo.mp4"; }

bool can_decode() {
  for (const capture::ElementFinding& element : capture::find_elements()) {
    if (element.element == "avdec_h264") return element.present;
  }
  return false;
}

DecodeTrial trial(config::DecodeMode mode) {
  DecodeTrial trial;
  trial.mode = mode;
  trial.streams = 2;
  trial.frames = 20;
  trial.patience = std::chrono::hours(1);
  return trial;
}

TEST(DecodeRate, SaysWhatTheCpuDecodes) {
  if (!can_decode()) GTEST_SKIP() << "GStreamer has no avdec_h264";
  const auto host = device::make_host_device(base::system_clock());
  const DecodeRate rate = measure_decoding(*host, demo_clip(), trial(config::DecodeMode::kCpu));
  EXPECT_EQ(rate.decoder, "avdec_h264");
  EXPECT_EQ(rate.device, "cpu");
  EXPECT_EQ(rate.width, 1280);
  EXPECT_EQ(rate.height, 720);
  EXPECT_EQ(rate.streams, 2);
  EXPECT_GT(rate.frames_per_second, 0);
}

TEST(DecodeRate, SaysWhatAGpuDecodesAndWhyItDoesNot) {
  FakeNvdec::instance().reset();
  test::EmulatedGpu gpu(base::system_clock());
  gpu.decode_with(FakeNvdec::library());
  const DecodeRate rate = measure_decoding(gpu, demo_clip(), trial(config::DecodeMode::kGpu));
  EXPECT_EQ(rate.decoder, "NVDEC H.264");
  EXPECT_EQ(rate.device, "cuda:0");
  EXPECT_GT(rate.frames_per_second, 0);
  EXPECT_EQ(FakeNvdec::instance().sessions_alive(), 0);

  FakeNvdec::Settings settings;
  settings.most_side = 100;
  FakeNvdec::instance().set(settings);
  const Finding refused = examine_decoding(gpu, "cuda:0", demo_clip(), trial(config::DecodeMode::kGpu));
  EXPECT_EQ(refused.name, "cuda:0 demo.mp4");
  EXPECT_EQ(refused.health, Health::kAbsent);
  EXPECT_EQ(refused.detail, "the GPU decodes H.264 up to 100x100, not 320x240; the CPU decodes");
}

TEST(DecodeRate, NamesAFileThatCannotBeDecoded) {
  const auto host = device::make_host_device(base::system_clock());
  const Finding broken =
      examine_decoding(*host, "cpu", test::source_dir() + "/LICENSE", trial(config::DecodeMode::kCpu));
  EXPECT_EQ(broken.name, "cpu LICENSE");
  EXPECT_EQ(broken.health, Health::kBroken);
  EXPECT_NE(broken.detail.find("LICENSE: "), std::string::npos) << broken.detail;
}

TEST(DecodeRate, TellsWhetherMoreCamerasCanBeDecodedThanTheDriverMakesDecodersFor) {
  test::EmulatedGpu gpu(base::system_clock());
  const Finding without = examine_more_decoders(gpu, "cuda:0 more decoders");
  EXPECT_EQ(without.health, Health::kAbsent);
  EXPECT_EQ(without.detail, "nobody has said so; wanted for some 290 cameras and more");
  const test::FakeVulkan vulkan;
  std::string why;
  gpu.decode_with(device::make_vulkan_video(&test::FakeVulkan::find, gpu, why));
  const Finding with = examine_more_decoders(gpu, "cuda:0 more decoders");
  EXPECT_EQ(with.health, Health::kOk);
  EXPECT_EQ(with.detail, "H.264 and H.265 by Vulkan Video, for cameras beyond those");
  gpu.decode_with(std::unique_ptr<device::VulkanVideo>());
}

TEST(DecodeRate, TellsHowManyCamerasThatIs) {
  EXPECT_EQ(decode_rate_text({"NVDEC H.264", "cuda:0", 1280, 720, 14, 10499.6}),
            "NVDEC H.264 1280x720: 10500 frames/s in 14 streams at once, as much as 349 cameras of 30 frames/s");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
