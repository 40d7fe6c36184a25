// The CUDA engine in a frame's path, its kernels under emulation on the emulated GPU: every way that `camd bench`
// measures, outputs equal bit by bit, as the bench asks on a GPU.
#include <gtest/gtest.h>

#include "infer/cuda/cuda_engine.hpp"
#include "pipeline/path_probe.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/infer/cuda_graphs.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace {

using infer::Shape;

class CudaEngineInItsPath : public testing::Test {
 protected:
  CudaEngineInItsPath() {
    // Tiles of 16 x 32 of the first layer's output enough to divide some layers of.
    const int down = 8, across = 2 * gpu_.limits().multiprocessors / down + 1;
    infer::test::GraphBuilder g({1, 3, 2 * 16 * down, 2 * 32 * across});
    const infer::Graph graph = infer::test::small_detector(g);
    const Shape& shape = graph.shape(graph.input);
    infer::EngineOptions options;
    options.input.height = static_cast<int>(shape[2]);
    options.input.width = static_cast<int>(shape[3]);
    infer::ModelDescription model;
    model.path = "test";
    engine_ = infer::make_cuda_engine(graph, model, {"input", shape, infer::DataType::kF32}, options, gpu_);
    plugin_.outputs = static_cast<int>(engine_->outputs().size());
    plugin_.add_to(plugins_);
    test::declare(plugins_, *engine_);
  }
  std::vector<std::vector<std::byte>> outputs(const FramePathOptions& path) {
    const infer::InputOptions& input = engine_->input_options();
    const auto layout = base::tight_layout(base::PixelFormat::kNv12, input.width, input.height);
    const auto pictures = make_probe_pictures(layout);
    return PathProbe(gpu_, *engine_, plugins_, path, layout, pictures).outputs();
  }
  test::EmulatedGpu gpu_{base::system_clock()};
  std::unique_ptr<infer::CudaEngine> engine_;
  test::FakePlugin plugin_{test::takes_it};
  PluginHost plugins_{{}, base::system_clock()};
};

TEST_F(CudaEngineInItsPath, GivesTheSameOutputsBitByBitHoweverFramesTravel) {
  const auto want = outputs({StreamStrategy::kSingle, Transfer::kPageable, true, false});
  EXPECT_NE(want[0], want[1]) << "of different pictures";
  EXPECT_EQ(outputs({StreamStrategy::kPerFrame, Transfer::kPinned, false, false}), want) << "per-frame-streams";
  EXPECT_EQ(outputs({StreamStrategy::kSplit, Transfer::kPinned, false, false}), want) << "split-streams";
  EXPECT_EQ(outputs({StreamStrategy::kSingle, Transfer::kMapped, false, false}), want) << "mapped";
  EXPECT_EQ(outputs({StreamStrategy::kPerFrame, Transfer::kPinned, false, true}), want) << "graph";
  EXPECT_EQ(outputs({StreamStrategy::kPerFrame, Transfer::kDirect, false, true}), want) << "graph-direct";
  EXPECT_EQ(outputs({StreamStrategy::kPerFrame, Transfer::kDirect, false, true, true}), want) << "graph-direct-parts";
}

TEST_F(CudaEngineInItsPath, UploadsAPictureInTwoPartsWhereTheFirstLayersFollowIt) {
  std::vector<std::size_t> copied;
  base::Mutex mutex;
  const auto path = FramePathOptions{StreamStrategy::kPerFrame, Transfer::kDirect, false, true, true};
  gpu_.before_copy([&](const void*, std::size_t bytes) {
    const base::MutexLock lock(mutex);
    copied.push_back(bytes);
  });
  (void)outputs(path);
  ASSERT_EQ(copied.size(), 6U) << "two of each of three pictures";
  const infer::InputOptions& input = engine_->input_options();
  const auto layout = base::tight_layout(base::PixelFormat::kNv12, input.width, input.height);
  EXPECT_EQ(copied[0] + copied[1], layout.size_bytes);
  EXPECT_GT(copied[0], copied[1]) << "the lower part holds all chroma";
}

}  // namespace
}  // namespace camd::pipeline
