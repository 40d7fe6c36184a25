// The CUDA engine in a frame's path, its kernels under emulation on the emulated GPU: every way that `camd bench`
// measures, outputs equal bit by bit, as the bench asks on a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "infer/cuda/cuda_engine.hpp"
#include "pipeline/run/path_probe.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/infer/cuda_graphs.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using infer::Shape;

class CudaEngineInItsPath : public testing::Test {
 protected:
  CudaEngineInItsPath() {
    infer::test::GraphBuilder g({1, 3, 96, 160});
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
    return PathProbe(base::system_clock(), gpu_, *engine_, plugins_, path, layout, pictures).outputs();
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
}

// The plug-in reads scores (sigmoids) and boxes of the first level where a score passes, and nothing else.
TEST_F(CudaEngineInItsPath, WhatPassesAFilterIsTheSameHoweverFramesTravelAndNothingIsCopied) {
  const auto& outputs = engine_->outputs();
  const std::int64_t cells = outputs[0].shape[2] * outputs[0].shape[3];
  camd_filter filter{cells, 1, 0.6F, {0, 4, 0, 1, 0, cells}, 2, {}};
  filter.values[0] = filter.scores;
  filter.values[1] = {1, 8, 0, 1, 0, cells};
  test::FakePlugin filtering(test::takes_it);
  filtering.outputs = 2;
  filtering.filters = {filter};
  PluginHost plugins({}, base::system_clock());
  filtering.add_to(plugins);
  test::declare(plugins, *engine_);

  const std::vector<std::byte> picture = make_probe_pictures(layout())[1];
  test::NoObserver observer;
  struct Got {
    bool filtered = false;
    std::size_t copied = 0;
    std::vector<std::int32_t> places;
    std::vector<float> values;  // of these places
  };
  const auto run = [&](const FramePathOptions& options) {
    capture::FrameRing ring(gpu_, observer, {0, 3, capture::RingPolicy::kLossless, picture_memory(options.transfer)});
    FramePath path(gpu_, *engine_, plugins, options);
    const std::unique_ptr<InFlight> frame = path.make_in_flight();
    Got got;
    for (int turn = 0; turn < 2; ++turn) {
      auto lease = ring.begin();
      std::copy(picture.begin(), picture.end(), lease->data(layout()));
      lease->publish(base::TimePoint(), base::TimePoint());
      frame->lease = std::move(*ring.take());
      frame->frame = frame->lease.frame();
      EXPECT_TRUE(path.enqueue(*frame).ok());
      EXPECT_TRUE(gpu_.synchronize(frame->downloaded).ok());
      frame->lease.release();
    }
    const auto* const scores = static_cast<const float*>(frame->tensors.host[0].data);
    const auto* const boxes = static_cast<const float*>(frame->tensors.host[1].data);
    got.filtered = !frame->tensors.passed.empty();
    got.copied = frame->d2h_bytes;
    if (got.filtered) {
      const std::int32_t* const list = frame->tensors.passed.front();
      got.places.assign(list + 1, list + 1 + list[0]);
      std::sort(got.places.begin(), got.places.end());
    } else {
      for (std::int32_t place = 0; place < cells; ++place) {
        bool passes = false;
        for (std::int64_t c = 0; c < 4; ++c) passes = passes || scores[c * cells + place] >= filter.floor;
        if (passes) got.places.push_back(place);
      }
    }
    for (const std::int32_t place : got.places) {
      for (std::int64_t c = 0; c < 4; ++c) got.values.push_back(scores[c * cells + place]);
      for (std::int64_t c = 0; c < 8; ++c) got.values.push_back(boxes[c * cells + place]);
    }
    return got;
  };
  const Got want = run({StreamStrategy::kSingle, Transfer::kPageable, true, false});
  EXPECT_FALSE(want.filtered) << "a comparison with programs that copy";
  EXPECT_GT(want.places.size(), 0U);
  EXPECT_LT(want.places.size(), static_cast<std::size_t>(cells));
  for (const FramePathOptions& options :
       {FramePathOptions{StreamStrategy::kSplit, Transfer::kPinned, false, false},
        FramePathOptions{StreamStrategy::kPerFrame, Transfer::kPinned, false, true},
        FramePathOptions{StreamStrategy::kPerFrame, Transfer::kDirect, false, true},
        FramePathOptions{StreamStrategy::kPerFrame, Transfer::kMapped, false, true}}) {
    const Got got = run(options);
    EXPECT_TRUE(got.filtered) << to_string(options.transfer);
    EXPECT_EQ(got.copied, 0U) << to_string(options.transfer);
    EXPECT_EQ(got.places, want.places) << to_string(options.transfer);
    EXPECT_EQ(got.values, want.values) << to_string(options.transfer);
  }
}

// What a frame in flight has captured for one layout stays as it is when it meets another.
TEST_F(CudaEngineInItsPath, FramesOfDifferentLayoutsByTurnsGiveEachItsOwnOutputs) {
  const base::PictureLayout layouts[] = {layout(), base::tight_layout(base::PixelFormat::kBgr, 640, 64),
                                         base::tight_layout(base::PixelFormat::kI420, 100, 300)};
  constexpr FramePathOptions kOneByOne{StreamStrategy::kSingle, Transfer::kPageable, true, false};
  constexpr FramePathOptions kGraph{StreamStrategy::kPerFrame, Transfer::kDirect, false, true};
  test::NoObserver observer;
  capture::FrameRing ring(gpu_, observer, {});
  FramePath path(gpu_, *engine_, plugins_, kGraph);
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
  EXPECT_EQ(in_flight->captured.size(), 3U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
