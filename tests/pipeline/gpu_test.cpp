// The whole pipeline on a GPU: every strategy keeps the accounting and the order, and copies only what is read.

#include <gtest/gtest.h>

#include <numeric>

#include "device/make_device.hpp"
#include "infer/engine.hpp"
#include "pipeline/run/path_probe.hpp"
#include "pipeline/run/session.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

class PipelineGpu : public testing::Test {
 protected:
  void SetUp() override {
    const device::GpuCount gpus = device::count_gpus();
    if (gpus.count == 0) GTEST_SKIP() << gpus.reason;
    device_ = device::make_device("cuda");
    engine_ = infer::make_engine(test::source_dir() + "/models/marker-640x360.onnx", {}, *device_);
  }
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<infer::Engine> engine_;
};

TEST_F(PipelineGpu, DeliversEveryFrameInOrderAndBalancesWithEveryStrategy) {
  const base::Clock& clock = base::system_clock();
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kNv12, 320, 180);
  for (const FramePathOptions& path : {FramePathOptions{StreamStrategy::kSplit, Transfer::kPinned, false, false},
                                       FramePathOptions{StreamStrategy::kPerFrame, Transfer::kPinned, false, true},
                                       FramePathOptions{StreamStrategy::kPerFrame, Transfer::kDirect, false, true},
                                       FramePathOptions{StreamStrategy::kSingle, Transfer::kMapped, false, false},
                                       FramePathOptions{StreamStrategy::kSingle, Transfer::kPageable, true, false}}) {
    std::vector<std::uint64_t> sequences;
    test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
      sequences.push_back(frame.sequence);
      EXPECT_NE(tensors.outputs[0], nullptr);
      EXPECT_EQ(tensors.outputs[1], nullptr);
      return static_cast<int>(CAMD_OK);
    });
    PluginHost plugins({}, clock);
    plugin.add_to(plugins);
    declare_model(plugins, *engine_, "marker", "{}", {"file"});
    Pipeline pipeline({{"cuda:0", *device_, *engine_, path}}, plugins, clock,
                      {test::fake_camera(
                          "file",
                          [&](capture::FrameRing& ring, const std::atomic<bool>&) {
                            for (int i = 0; i < 300; ++i) {
                              auto lease = ring.begin();
                              std::memset(lease->data(layout), i, layout.size_bytes);
                              lease->publish(clock.now(), clock.now());
                            }
                          },
                          true)},
                      {}, nullptr);
    pipeline.start();
    EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
    pipeline.stop(true);
    std::vector<std::uint64_t> expected(300);
    std::iota(expected.begin(), expected.end(), 0U);
    EXPECT_EQ(sequences, expected);
    EXPECT_TRUE(pipeline.ledger().totals().balanced());
    EXPECT_EQ(pipeline.ledger().totals().delivered, 300U);
    // Only output 0 is read, so only it crosses the bus; in mapped memory nothing is copied, and outputs
    // that the network writes itself are not.
    const CameraMetrics metrics = pipeline.metrics().take(0);
    const bool mapped = path.transfer == Transfer::kMapped, written = mapped || path.transfer == Transfer::kDirect;
    EXPECT_EQ(metrics.h2d_bytes_per_frame, mapped ? 0.0 : static_cast<double>(layout.size_bytes));
    EXPECT_EQ(metrics.d2h_bytes_per_frame, written ? 0.0 : static_cast<double>(engine_->outputs()[0].size_bytes()));
    EXPECT_TRUE(device_->status().ok());
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
