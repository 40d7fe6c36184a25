// A frame's way over an integrated GPU that is not coherent: each barrier is needed, and none is missing (the
// strategies of emulated_gpu_test.cpp run whole pipelines on it).
#include <gtest/gtest.h>

#include <atomic>

#include "pipeline/core/frame_path.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/pipeline/digest_engine.hpp"
#include "tests/pipeline/one_frame.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

// What a frame's two outputs are on the host. `lent`: pictures come in memory that is lent to who makes them.
test::Digest run_frames(test::EmulatedGpu& gpu, const FramePathOptions& options, bool lent = false) {
  const base::Clock& clock = base::system_clock();
  test::DigestEngine engine(gpu);
  test::FakePlugin plugin(test::takes_it);
  plugin.outputs = 2;
  PluginHost plugins({}, clock);
  plugin.add_to(plugins);
  test::declare(plugins, engine);
  test::NoObserver observer;
  capture::FrameRing::Options ring_options;
  ring_options.memory = picture_memory(options.transfer);
  capture::FrameRing ring(gpu, observer, ring_options);
  const capture::PictureMemory memory(ring.reader(), 10);
  FramePath path(gpu, engine, plugins, options);
  const std::unique_ptr<InFlight> in_flight = path.make_in_flight();
  test::Digest got;
  for (int value = 1; value <= 9; ++value) {
    test::run_one_frame(gpu, path, ring, *in_flight, 10, value, lent ? &memory : nullptr);
    got = {*static_cast<const float*>(in_flight->tensors.host[0].data),
           *static_cast<const float*>(in_flight->tensors.host[1].data)};
  }
  return got;
}

constexpr FramePathOptions kMapped{StreamStrategy::kSingle, Transfer::kMapped, false, false};
constexpr FramePathOptions kGraphMapped{StreamStrategy::kPerFrame, Transfer::kMapped, false, true};
constexpr FramePathOptions kDirect{StreamStrategy::kSplit, Transfer::kDirect, false, false};

TEST(IncoherentGpu, ReadsEachPictureAndItsOutputsAreReadInPlace) {
  for (const FramePathOptions& options : {kMapped, kGraphMapped, kDirect}) {
    test::EmulatedGpu gpu(base::system_clock(), 0, test::GpuMemory::kIncoherent);
    std::atomic<int> copies{0};
    gpu.before_copy([&](const void*) { ++copies; });
    EXPECT_EQ(run_frames(gpu, options), (test::Digest{90, 9}));
    EXPECT_EQ(copies, options.transfer == Transfer::kDirect ? 9 : 0);
  }
}

TEST(IncoherentGpu, ReadsPicturesThatADriverWroteIntoMemoryThatWasLentToIt) {
  for (const FramePathOptions& options : {kMapped, kGraphMapped, kDirect}) {
    test::EmulatedGpu gpu(base::system_clock(), 0, test::GpuMemory::kIncoherent);
    EXPECT_EQ(run_frames(gpu, options, true), (test::Digest{90, 9}));
  }
}

TEST(IncoherentGpu, WithoutTheBarrierInFrontOfItPreprocessingReadsOldBytes) {
  for (const bool lent : {false, true}) {
    for (const FramePathOptions& options : {kMapped, kGraphMapped}) {
      test::EmulatedGpu gpu(base::system_clock(), 0, test::GpuMemory::kIncoherent);
      gpu.forget(test::Barrier::kToDevice);
      EXPECT_EQ(run_frames(gpu, options, lent), (test::Digest{2050, 205})) << "what the device's view began with";
    }
  }
}

TEST(IncoherentGpu, WithoutTheBarrierBehindTheNetworkTheCpuReadsOldBytes) {
  for (const FramePathOptions& options : {kMapped, kGraphMapped, kDirect}) {
    test::EmulatedGpu gpu(base::system_clock(), 0, test::GpuMemory::kIncoherent);
    gpu.forget(test::Barrier::kToHost);
    EXPECT_EQ(run_frames(gpu, options), (test::Digest{0, 0}));
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
