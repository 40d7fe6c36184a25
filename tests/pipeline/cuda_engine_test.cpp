// The CUDA engine in a frame's path, its kernels under emulation on the emulated GPU: every way that `camd bench`
// measures, outputs equal bit by bit, as the bench asks on a GPU.
#include <gtest/gtest.h>

#include <algorithm>

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
    infer::test::GraphBuilder g(infer::test::divisible_input(gpu_.limits().multiprocessors));
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
  // As large as the network's input.
  [[nodiscard]] base::PictureLayout layout() const {
    const infer::InputOptions& input = engine_->input_options();
    return base::tight_layout(base::PixelFormat::kNv12, input.width, input.height);
  }
  // Of the probe's pictures, one after the other.
  std::vector<std::vector<std::byte>> outputs(const FramePathOptions& path, const base::PictureLayout& layout) {
    const auto pictures = make_probe_pictures(layout);
    return PathProbe(gpu_, *engine_, plugins_, path, layout, pictures).outputs();
  }
  test::EmulatedGpu gpu_{base::system_clock()};
  std::unique_ptr<infer::CudaEngine> engine_;
  test::FakePlugin plugin_{test::takes_it};
  PluginHost plugins_{{}, base::system_clock()};
};

TEST_F(CudaEngineInItsPath, GivesTheSameOutputsBitByBitHoweverFramesTravel) {
  const auto outputs = [this](const FramePathOptions& path) { return this->outputs(path, layout()); };
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
  gpu_.before_copy([&](const void*, std::size_t bytes) {
    const base::MutexLock lock(mutex);
    copied.push_back(bytes);
  });
  (void)outputs({StreamStrategy::kPerFrame, Transfer::kDirect, false, true, true}, layout());
  ASSERT_EQ(copied.size(), 6U) << "two of each of three pictures";
  EXPECT_EQ(copied[0] + copied[1], layout().size_bytes);
  EXPECT_GT(copied[0], copied[1]) << "the lower part holds all chroma";
}

// What a frame in flight has captured for one layout stays as it is when it meets another.
TEST_F(CudaEngineInItsPath, FramesOfDifferentLayoutsByTurnsGiveEachItsOwnOutputs) {
  // The second is so flat that it is shown below the first layers' border alone: it comes whole.
  const base::PictureLayout layouts[] = {layout(), base::tight_layout(base::PixelFormat::kBgr, 640, 64),
                                         base::tight_layout(base::PixelFormat::kI420, 100, 300)};
  constexpr FramePathOptions kOneByOne{StreamStrategy::kSingle, Transfer::kPageable, true, false};
  constexpr FramePathOptions kParts{StreamStrategy::kPerFrame, Transfer::kDirect, false, true, true};
  test::NoObserver observer;
  capture::FrameRing ring(gpu_, observer, {});
  FramePath path(gpu_, *engine_, plugins_, kParts);
  const std::unique_ptr<InFlight> in_flight = path.make_in_flight();
  std::vector<std::vector<std::vector<std::byte>>> want;
  for (const base::PictureLayout& of : layouts) want.push_back(outputs(kOneByOne, of));
  for (std::size_t turn = 0; turn < 9; ++turn) {
    const base::PictureLayout& of = layouts[turn % 3];
    const std::vector<std::byte> picture = make_probe_pictures(of)[turn / 3];
    auto lease = ring.begin();
    std::copy(picture.begin(), picture.end(), lease->data(of));
    lease->publish(base::TimePoint(), base::TimePoint());
    in_flight->lease = std::move(*ring.take());
    in_flight->frame = in_flight->lease.frame();
    ASSERT_TRUE(path.enqueue(*in_flight).ok());
    ASSERT_TRUE(gpu_.synchronize(in_flight->downloaded).ok());
    in_flight->lease.release();
    std::vector<std::byte> got;
    for (std::size_t i = 0; i < engine_->outputs().size(); ++i) {
      const auto* const data = static_cast<const std::byte*>(in_flight->tensors.host[i].data);
      got.insert(got.end(), data, data + engine_->outputs()[i].size_bytes());
    }
    EXPECT_EQ(got, want[turn % 3][turn / 3]) << "turn " << turn;
  }
  ASSERT_EQ(in_flight->captured.size(), 3U);
  int in_parts = 0;
  for (const CapturedPath& captured : in_flight->captured) in_parts += captured.lower_part > 0 ? 1 : 0;
  EXPECT_EQ(in_parts, 2);
}

}  // namespace
}  // namespace camd::pipeline
