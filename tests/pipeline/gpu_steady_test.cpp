// After warm-up a frame on the GPU allocates nothing on the host or on the device, captures nothing, and calls nothing
// that waits: whoever waits for the device asks for an event. A binary of its own: it replaces malloc() and the
// runtime's functions.

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "config/model_card.hpp"
#include "device/make_device.hpp"
#include "infer/engine.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/session.hpp"
#include "tests/pipeline/cuda_watch.hpp"
#include "tests/pipeline/heap_watch.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

struct Way {
  const char* name;
  FramePathOptions path;
};

class SteadyStateGpu : public testing::TestWithParam<Way> {};

TEST_P(SteadyStateGpu, AllocatesNothingAndCallsNothingThatWaits) {
  constexpr int kWarmup = 60;
  constexpr int kFrames = 300;
  const device::GpuCount gpus = device::count_gpus();
  if (gpus.count == 0) GTEST_SKIP() << gpus.reason;
  const base::Clock& clock = base::system_clock();
  const auto device = device::make_device("cuda");
  const auto engine = infer::make_engine(test::source_dir() + "/models/marker-640x360.onnx", {}, *device);
  PluginHost plugins({{"detections", R"({"score":0.05})", ""}, {"jsonl", R"({"path":"/dev/null"})", ""}}, clock);
  int frames = 0;
  std::optional<test::HeapReport> heap;
  std::optional<test::CudaReport> cuda;
  test::FakePlugin plugin([&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    ++frames;
    if (frames == kWarmup) {
      test::start_cuda_watch();
      test::start_heap_watch();
    }
    if (frames == kWarmup + kFrames) {
      heap = test::stop_heap_watch();
      cuda = test::stop_cuda_watch();
    }
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(plugins);
  const config::ModelCard card = config::load_model_card(test::source_dir() + "/models/marker.yaml", card_keys());
  declare_model(plugins, *engine, engine->model().path, card.rest_json, {"one", "two"});
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kNv12, 640, 360);
  const auto publishes = [&](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
    for (int i = 0; !stopping && i < kWarmup + kFrames; ++i) {
      auto lease = ring.begin();
      if (!lease) return;
      std::memset(lease->data(layout), i, layout.size_bytes);
      lease->publish(clock.now(), clock.now());
    }
  };
  Pipeline pipeline({{"cuda:0", *device, *engine, GetParam().path}}, plugins, clock,
                    {test::fake_camera("one", publishes, true), test::fake_camera("two", publishes, true)}, {},
                    nullptr);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  ASSERT_TRUE(cuda.has_value());
  EXPECT_EQ(heap->allocations, 0U) << heap->where;
  // The driver grows lists of its own now and then; what it does for each frame it does without.
  EXPECT_LT(heap->of_driver, static_cast<std::uint64_t>(kFrames) / 10);
  EXPECT_EQ(cuda->allocating, 0U) << cuda->names;
  EXPECT_EQ(cuda->waiting, 0U) << cuda->names;
  EXPECT_GE(cuda->launches, static_cast<std::uint64_t>(kFrames));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SteadyStateGpu,
    testing::Values(Way{"Graph", {StreamStrategy::kPerFrame, Transfer::kPinned, false, true}},
                    Way{"GraphWithDirectOutputs", {StreamStrategy::kPerFrame, Transfer::kDirect, false, true}},
                    Way{"SplitStreams", {StreamStrategy::kSplit, Transfer::kPinned, false, false}},
                    Way{"PerFrameStreams", {StreamStrategy::kPerFrame, Transfer::kPinned, false, false}},
                    Way{"Mapped", {StreamStrategy::kSingle, Transfer::kMapped, false, false}}),
    [](const auto& way) { return std::string(way.param.name); });

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
