// Every way of a frame through a GPU, on one that is emulated: what no host device does (copies there and back, graphs,
// signals) and what therefore no other test without a GPU sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <ostream>
#include <utility>

#include "pipeline/run/path_probe.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/device/exported_file.hpp"
#include "tests/pipeline/digest_engine.hpp"
#include "tests/pipeline/one_frame.hpp"
#include "tests/pipeline/plugin_chain.hpp"
#include "tests/pipeline/rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using test::Digest;
using test::digest;
using test::DigestEngine;
using test::EmulatedGpu;

struct Strategy {
  const char* name;
  FramePathOptions path;
  test::GpuMemory memory = test::GpuMemory::kOwn;
};
std::ostream& operator<<(std::ostream& to, const Strategy& strategy) { return to << strategy.name; }
const Strategy kStrategies[] = {
    {"PageableSync", {StreamStrategy::kSingle, Transfer::kPageable, true, false}},
    {"PinnedAsync", {StreamStrategy::kSingle, Transfer::kPinned, false, false}},
    {"PerFrameStreams", {StreamStrategy::kPerFrame, Transfer::kPinned, false, false}},
    {"SplitStreams", {StreamStrategy::kSplit, Transfer::kPinned, false, false}},
    {"SplitDirect", {StreamStrategy::kSplit, Transfer::kDirect, false, false}},
    {"Mapped", {StreamStrategy::kSingle, Transfer::kMapped, false, false}},
    {"Graph", {StreamStrategy::kPerFrame, Transfer::kPinned, false, true}},
    {"GraphSplit", {StreamStrategy::kSplit, Transfer::kPinned, false, true}},
    {"GraphDirect", {StreamStrategy::kPerFrame, Transfer::kDirect, false, true}},
    {"GraphMapped", {StreamStrategy::kPerFrame, Transfer::kMapped, false, true}},
    {"IncoherentDirect", {StreamStrategy::kSplit, Transfer::kDirect, false, false}, test::GpuMemory::kIncoherent},
    {"IncoherentMapped", {StreamStrategy::kSingle, Transfer::kMapped, false, false}, test::GpuMemory::kIncoherent},
    {"IncoherentGraphDirect",
     {StreamStrategy::kPerFrame, Transfer::kDirect, false, true},
     test::GpuMemory::kIncoherent},
    {"IncoherentGraphMapped",
     {StreamStrategy::kPerFrame, Transfer::kMapped, false, true},
     test::GpuMemory::kIncoherent},
};

class EveryStrategy : public testing::TestWithParam<Strategy> {};
INSTANTIATE_TEST_SUITE_P(EmulatedGpu, EveryStrategy, testing::ValuesIn(kStrategies),
                         [](const testing::TestParamInfo<Strategy>& tested) { return std::string(tested.param.name); });

// A pipeline on an emulated GPU, with a strategy.
struct GpuRig {
  explicit GpuRig(
      test::FakePlugin& plugin, std::function<void()> working = [] {}, const std::vector<PluginSpec>& specs = {})
      : engine(gpu, std::move(working)), plugins(specs, clock) {
    plugin.add_to(plugins);
    test::declare(plugins, engine);
  }
  EndReason run(std::vector<CameraSpec> cameras, PipelineListener* listener = nullptr) {
    pipeline = std::make_unique<Pipeline>(lanes(engine), plugins, clock, std::move(cameras), options, listener, tap);
    pipeline->start();
    const EndReason reason = pipeline->wait_for_end(base::TimePoint::max());
    pipeline->stop(true);
    return reason;
  }
  std::vector<LaneSpec> lanes(infer::Engine& of) { return {{"cuda:0", gpu, of, EveryStrategy::GetParam().path, 3}}; }
  const base::Clock& clock = base::system_clock();
  EmulatedGpu gpu{clock, 0, EveryStrategy::GetParam().memory};
  DigestEngine engine;
  PluginHost plugins;
  PipelineOptions options;
  FrameTap* tap = nullptr;
  std::unique_ptr<Pipeline> pipeline;
};

// 0, 1, 2 and so on.
template <typename T>
std::vector<T> numbers(std::size_t count) {
  std::vector<T> made(count);
  std::iota(made.begin(), made.end(), T{});
  return made;
}

// Frames of two sizes by turns: what was captured for one is of no use to the other.
base::PictureLayout layout_of(std::uint64_t sequence) {
  return sequence % 8 < 4 ? base::tight_layout(base::PixelFormat::kNv12, 64, 48)
                          : base::tight_layout(base::PixelFormat::kBgr, 96, 32);
}

// Publishes frames whose bytes are all their number.
test::FakeSource::Body publishes_numbers(const base::Clock& clock, int frames) {
  return [&clock, frames](capture::FrameRing& ring, const std::atomic<bool>&) {
    for (int i = 0; i < frames; ++i) {
      auto lease = ring.begin();
      if (!lease) continue;
      const base::PictureLayout layout = layout_of(lease->sequence());
      std::memset(lease->data(layout), static_cast<int>(lease->sequence()), layout.size_bytes);
      lease->publish(clock.now(), clock.now());
    }
  };
}

// Stands for a decoder of the GPU: a few surfaces in its memory, each lent with a frame. What comes back is
// overwritten.
class Surfaces {
 public:
  explicit Surfaces(EmulatedGpu& gpu) {
    for (Surface& surface : surfaces_) {
      surface.memory = gpu.allocate_device(kBytes);
      surface.owner = this;
    }
  }
  ~Surfaces() { EXPECT_EQ(lent_, 0); }
  Surfaces(const Surfaces&) = delete;
  Surfaces& operator=(const Surfaces&) = delete;

  // A picture whose bytes are all `value`.
  capture::BorrowedPixels lend(const base::PictureLayout& layout, int value) {
    const base::MutexLock lock(mutex_);
    for (Surface& surface : surfaces_) {
      if (std::exchange(surface.lent, true)) continue;
      ++lent_;
      std::memset(surface.memory.data(), value, layout.size_bytes);
      return {surface.memory.data(), layout.size_bytes, &Surface::back, &surface};
    }
    ADD_FAILURE() << "more surfaces are lent than a ring and the frames in flight can hold";
    return {};
  }

 private:
  static constexpr std::size_t kBytes = 16384;
  struct Surface {
    device::DeviceBuffer memory;
    Surfaces* owner = nullptr;
    bool lent = false;
    static void back(void* self) noexcept {
      auto* const surface = static_cast<Surface*>(self);
      const base::MutexLock lock(surface->owner->mutex_);
      std::memset(surface->memory.data(), 0xEE, kBytes);
      surface->lent = false;
      --surface->owner->lent_;
    }
  };
  base::Mutex mutex_;
  std::array<Surface, 16> surfaces_;  // guarded by mutex_
  int lent_ CAMD_GUARDED_BY(mutex_) = 0;
};

// Frames of a decoder of the GPU; every fifth is decoded on the CPU.
test::FakeSource::Body publishes_surfaces(const base::Clock& clock, Surfaces& surfaces, int frames) {
  return [&clock, &surfaces, frames](capture::FrameRing& ring, const std::atomic<bool>&) {
    for (int i = 0; i < frames; ++i) {
      auto lease = ring.begin();
      if (!lease) continue;
      const base::PictureLayout layout = layout_of(lease->sequence());
      if (lease->sequence() % 5 == 4) {
        std::memset(lease->data(layout), static_cast<int>(lease->sequence()), layout.size_bytes);
      } else {
        lease->borrow_on_device(layout, surfaces.lend(layout, static_cast<int>(lease->sequence())));
      }
      lease->publish(clock.now(), clock.now());
    }
  };
}
bool outputs_are_of(const camd_frame& frame, const camd_tensors& tensors) {
  const base::PictureLayout layout = layout_of(frame.sequence);
  const std::vector<std::byte> picture(layout.size_bytes, static_cast<std::byte>(frame.sequence));
  Digest got;
  std::memcpy(&got.sum, tensors.outputs[0]->data, sizeof(got.sum));
  std::memcpy(&got.last, tensors.outputs[1]->data, sizeof(got.last));
  return got == digest(picture.data(), picture.size());
}

TEST_P(EveryStrategy, DeliversEveryFrameInOrderWithTheOutputsOfItsOwnPicture) {
  constexpr int kFrames = 200;
  base::Mutex mutex;
  std::vector<std::uint64_t> sequences[2];
  int wrong = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    const base::MutexLock lock(mutex);
    sequences[frame.camera_index].push_back(frame.sequence);
    if (!outputs_are_of(frame, tensors)) ++wrong;
    return static_cast<int>(CAMD_OK);
  });
  plugin.outputs = 2;
  GpuRig rig(plugin);
  EXPECT_EQ(rig.run({test::fake_camera("one", publishes_numbers(rig.clock, kFrames), true),
                     test::fake_camera("two", publishes_numbers(rig.clock, kFrames), true)}),
            EndReason::kSourcesEnded);
  EXPECT_EQ(sequences[0], numbers<std::uint64_t>(kFrames));
  EXPECT_EQ(sequences[1], numbers<std::uint64_t>(kFrames));
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(rig.pipeline->ledger().totals().balanced());
}

// Live cameras hand their frames to the device themselves (docs/adr/0020-sources-dispatch.md).
TEST_P(EveryStrategy, AccountsForEveryFrameOfLiveCamerasAndDeliversThoseWithTheirOwnOutputs) {
  constexpr int kFrames = 300;
  base::Mutex mutex;
  int delivered = 0, wrong = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    const base::MutexLock lock(mutex);
    ++delivered;
    if (!outputs_are_of(frame, tensors)) ++wrong;
    return static_cast<int>(CAMD_OK);
  });
  plugin.outputs = 2;
  GpuRig rig(plugin);
  EXPECT_EQ(rig.run({test::fake_camera("one", publishes_numbers(rig.clock, kFrames)),
                     test::fake_camera("two", publishes_numbers(rig.clock, kFrames)),
                     test::fake_camera("three", publishes_numbers(rig.clock, kFrames))}),
            EndReason::kSourcesEnded);
  const Totals totals = rig.pipeline->ledger().totals();
  EXPECT_TRUE(totals.balanced());
  EXPECT_EQ(totals.captured, 3U * kFrames);
  EXPECT_EQ(totals.delivered, static_cast<std::uint64_t>(delivered));
  EXPECT_GE(delivered, 3);
  EXPECT_EQ(wrong, 0);
}

TEST_P(EveryStrategy, LosesNoFrameOfALiveCameraThatMovesToAnotherNetworkAndBack) {
  std::atomic<std::uint64_t> seen{0};
  std::atomic<int> wrong{0};
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    if (!outputs_are_of(frame, tensors)) ++wrong;
    ++seen;
    return static_cast<int>(CAMD_OK);
  });
  plugin.outputs = 2;
  GpuRig rig(plugin);
  rig.options.max_age = std::chrono::hours(1);
  DigestEngine other(rig.gpu, [] {});
  PluginHost others({}, rig.clock);
  plugin.add_to(others);
  test::declare(others, other);
  // The next picture comes when the last one was seen: none is superseded unless a reload makes it wait.
  std::vector<CameraSpec> cameras{
      test::fake_camera("live", [&](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
        for (std::uint64_t published = 0; !stopping;) {
          auto lease = ring.begin();
          if (!lease) return;
          const base::PictureLayout layout = layout_of(lease->sequence());
          std::memset(lease->data(layout), static_cast<int>(lease->sequence()), layout.size_bytes);
          lease->publish(rig.clock.now(), rig.clock.now());
          ++published;
          while (!stopping && seen < published) std::this_thread::yield();
        }
      })};
  rig.pipeline = std::make_unique<Pipeline>(rig.lanes(rig.engine), rig.plugins, rig.clock, std::move(cameras),
                                            rig.options, nullptr);
  rig.pipeline->start();
  for (int i = 0; i < 20; ++i) {
    for (const std::uint64_t before = seen; seen < before + 3;) std::this_thread::yield();
    if (i % 2 == 0) {
      rig.pipeline->reload({rig.lanes(other), others, rig.options, {}, {}, {}});
    } else {
      rig.pipeline->reload({rig.lanes(rig.engine), rig.plugins, rig.options, {}, {}, {}});
    }
  }
  rig.pipeline->stop(true);
  const Totals totals = rig.pipeline->ledger().totals();
  EXPECT_TRUE(totals.balanced());
  EXPECT_EQ(totals.delivered, seen);
  EXPECT_EQ(totals.dropped_sum(), test::dropped(totals, DropReason::kShutdown));
  EXPECT_EQ(wrong, 0);
  rig.pipeline.reset();  // before the other engine
}

TEST_P(EveryStrategy, KeepsThePictureForAPluginThatReadsItWhileLiveCamerasGoOn) {
  constexpr int kFrames = 300;
  base::Mutex mutex;
  int delivered = 0, wrong = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    const base::PictureLayout layout = layout_of(frame.sequence);
    const std::vector<std::uint8_t> expected(layout.size_bytes, static_cast<std::uint8_t>(frame.sequence));
    const bool equal = std::memcmp(frame.picture->planes[0].data, expected.data(), expected.size()) == 0;
    const base::MutexLock lock(mutex);
    ++delivered;
    if (!equal || !outputs_are_of(frame, tensors)) ++wrong;
    return static_cast<int>(CAMD_OK);
  });
  plugin.picture = CAMD_NEED_HOST;
  plugin.outputs = 2;
  GpuRig rig(plugin);
  EXPECT_EQ(rig.run({test::fake_camera("one", publishes_numbers(rig.clock, kFrames)),
                     test::fake_camera("two", publishes_numbers(rig.clock, kFrames))}),
            EndReason::kSourcesEnded);
  EXPECT_GE(delivered, 2);
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(rig.pipeline->ledger().totals().balanced());
}

TEST_P(EveryStrategy, ReadsPicturesThatTheGpuHasDecodedWhereTheyLieAndBringsNoneOfThemOverTheBus) {
  constexpr int kFrames = 200;
  base::Mutex mutex;
  std::vector<std::uint64_t> sequences[2];
  int wrong = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    const base::MutexLock lock(mutex);
    sequences[frame.camera_index].push_back(frame.sequence);
    if (!outputs_are_of(frame, tensors)) ++wrong;
    return static_cast<int>(CAMD_OK);
  });
  plugin.outputs = 2;
  GpuRig rig(plugin);
  Surfaces one(rig.gpu), two(rig.gpu);
  EXPECT_EQ(rig.run({test::fake_camera("one", publishes_surfaces(rig.clock, one, kFrames), true),
                     test::fake_camera("two", publishes_surfaces(rig.clock, two, kFrames), true)}),
            EndReason::kSourcesEnded);
  EXPECT_EQ(sequences[0], numbers<std::uint64_t>(kFrames));
  EXPECT_EQ(sequences[1], numbers<std::uint64_t>(kFrames));
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(rig.pipeline->ledger().totals().balanced());
  rig.pipeline.reset();
}

TEST_P(EveryStrategy, CopiesPicturesForThoseWhoLookOnWhereverTheyLie) {
  constexpr int kFrames = 200;
  FrameTap tap;
  base::Mutex mutex;
  int copied = 0, wrong = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    const base::MutexLock lock(mutex);
    if (!outputs_are_of(frame, tensors)) ++wrong;
    tap.take_pictures([&](const TappedPicture& picture) {
      const std::vector<std::byte> expected(picture.layout.size_bytes, static_cast<std::byte>(picture.sequence));
      ++copied;
      if (!(picture.layout == layout_of(picture.sequence)) ||
          std::memcmp(picture.pixels, expected.data(), expected.size()) != 0) {
        ++wrong;
      }
    });
    tap.order_picture(static_cast<capture::CameraIndex>(frame.camera_index));
    return static_cast<int>(CAMD_OK);
  });
  plugin.outputs = 2;
  GpuRig rig(plugin);
  rig.tap = &tap;
  Surfaces surfaces(rig.gpu);
  EXPECT_EQ(rig.run({test::fake_camera("decoder", publishes_surfaces(rig.clock, surfaces, kFrames), true),
                     test::fake_camera("host", publishes_numbers(rig.clock, kFrames), true)}),
            EndReason::kSourcesEnded);
  EXPECT_GT(copied, kFrames / 10);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(rig.pipeline->ledger().totals().delivered, 2U * kFrames);
  rig.pipeline.reset();
}

TEST_P(EveryStrategy, BringsAPictureThatTheGpuHasDecodedToAPluginThatReadsIt) {
  constexpr int kFrames = 300;
  base::Mutex mutex;
  int delivered = 0, wrong = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    const base::PictureLayout layout = layout_of(frame.sequence);
    const std::vector<std::uint8_t> expected(layout.size_bytes, static_cast<std::uint8_t>(frame.sequence));
    const bool equal = std::memcmp(frame.picture->planes[0].data, expected.data(), expected.size()) == 0;
    const base::MutexLock lock(mutex);
    ++delivered;
    if (!equal || !outputs_are_of(frame, tensors)) ++wrong;
    return static_cast<int>(CAMD_OK);
  });
  plugin.picture = CAMD_NEED_HOST;
  plugin.outputs = 2;
  GpuRig rig(plugin);
  Surfaces one(rig.gpu), two(rig.gpu);
  EXPECT_EQ(rig.run({test::fake_camera("one", publishes_surfaces(rig.clock, one, kFrames)),
                     test::fake_camera("two", publishes_surfaces(rig.clock, two, kFrames))}),
            EndReason::kSourcesEnded);
  EXPECT_GE(delivered, 2);
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(rig.pipeline->ledger().totals().balanced());
  rig.pipeline.reset();
}

// Decoders of the GPU share its context: when one is made while a graph is captured, the capture is broken off. The
// device was taken for lost.
TEST_P(EveryStrategy, CopiesNoPictureAndNoInputForPluginsInProcesses) {
  constexpr int kFrames = 60;
  std::atomic<int> right = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results& results, camd_error&) {
    const auto value = static_cast<std::byte>(frame.sequence);
    right += results.items[0].keypoint_count == static_cast<int>(frame.sequence % 8) &&
             results.items[1].score == digest(&value, 1).last;
    return static_cast<int>(CAMD_OK);
  });
  GpuRig rig(plugin, [] {}, {isolated("picture"), isolated("input")});
  Surfaces one(rig.gpu);
  EXPECT_EQ(rig.run({test::fake_camera("one", publishes_surfaces(rig.clock, one, kFrames), true)}),
            EndReason::kSourcesEnded);
  EXPECT_EQ(right, kFrames);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.plugins.counters()[static_cast<std::size_t>(i)].health.bytes_copied, 0U);
  rig.pipeline.reset();
}

TEST_P(EveryStrategy, DeliversEveryFrameThoughCapturesAreBrokenOff) {
  constexpr int kFrames = 20;
  base::Mutex mutex;
  std::vector<std::uint64_t> sequences;
  int wrong = 0;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors& tensors, camd_results&, camd_error&) {
    const base::MutexLock lock(mutex);
    sequences.push_back(frame.sequence);
    if (!outputs_are_of(frame, tensors)) ++wrong;
    return static_cast<int>(CAMD_OK);
  });
  plugin.outputs = 2;
  GpuRig rig(plugin);
  rig.gpu.break_off_captures(20);
  EXPECT_EQ(rig.run({test::fake_camera("one", publishes_numbers(rig.clock, kFrames), true)}), EndReason::kSourcesEnded);
  EXPECT_EQ(sequences, numbers<std::uint64_t>(kFrames));
  EXPECT_EQ(wrong, 0);
}

// How much else travels back decides behind what the input does.
TEST_P(EveryStrategy, GivesAPluginTheInputOfItsOwnFrameHoweverManyOutputsItReads) {
  for (const int outputs : {0, 1, 2}) {
    SCOPED_TRACE(outputs);
    std::vector<float> inputs;
    test::FakePlugin plugin([&](const camd_frame&, const camd_tensors& tensors, camd_results&, camd_error&) {
      inputs.push_back(*static_cast<const float*>(tensors.input->data));
      return static_cast<int>(CAMD_OK);
    });
    plugin.outputs = outputs;
    plugin.input = CAMD_NEED_HOST;
    GpuRig rig(plugin);
    EXPECT_EQ(rig.run({test::fake_camera("one", test::publishes(rig.clock, 200), true)}), EndReason::kSourcesEnded);
    EXPECT_EQ(inputs, numbers<float>(200));
  }
}

TEST_P(EveryStrategy, GivesAPluginThatWantsShapesNoDataAndMovesNone) {
  int calls = 0;
  test::FakePlugin plugin([&](const camd_frame&, const camd_tensors& tensors, camd_results&, camd_error&) {
    ++calls;
    for (const DLTensor* const tensor : {tensors.input, tensors.outputs[0], tensors.outputs[1]}) {
      EXPECT_NE(tensor, nullptr);
      if (tensor == nullptr) continue;
      EXPECT_EQ(tensor->data, nullptr);
      EXPECT_EQ(tensor->shape[0], 1);
    }
    return static_cast<int>(CAMD_OK);
  });
  plugin.input = plugin.output = CAMD_NEED_SHAPE;
  plugin.outputs = 2;
  GpuRig rig(plugin);
  EXPECT_EQ(rig.run({test::fake_camera("one", test::publishes(rig.clock, 1), true)}), EndReason::kSourcesEnded);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(rig.pipeline->metrics().take(0).d2h_bytes_per_frame, 0.0);
  EXPECT_FALSE(rig.engine.keeps_input()) << "its first layer may read the picture itself";
}

TEST_P(EveryStrategy, LeavesOutputsOnTheDeviceForAPluginThatReadsThemThere) {
  std::vector<float> sums;
  test::FakePlugin plugin([&](const camd_frame&, const camd_tensors& tensors, camd_results&, camd_error&) {
    EXPECT_EQ(tensors.outputs[0], nullptr);
    EXPECT_EQ(tensors.device_outputs[0]->device.device_type, kDLCUDA);
    sums.push_back(*static_cast<const float*>(tensors.device_outputs[0]->data));  // the emulated one's is the host's
    return static_cast<int>(CAMD_OK);
  });
  plugin.output = CAMD_NEED_DEVICE;
  GpuRig rig(plugin);
  EXPECT_EQ(rig.run({test::fake_camera("one", test::publishes(rig.clock, 50), true)}), EndReason::kSourcesEnded);
  EXPECT_EQ(sums, numbers<float>(50));
  EXPECT_EQ(rig.pipeline->metrics().take(0).d2h_bytes_per_frame, 0.0);
}

TEST_P(EveryStrategy, LeavesOutputsOnTheDeviceForAPluginInAProcess) {
  const test::FakeDriver driver;
  PluginSpec spec = isolated("device");
  spec.isolation.gpu = true;
  std::vector<float> sums;
  test::FakePlugin plugin([&](const camd_frame&, const camd_tensors& tensors, camd_results& results, camd_error&) {
    EXPECT_EQ(results.items[0].score, *static_cast<const float*>(tensors.outputs[0]->data)) << "it is copied as well";
    sums.push_back(results.items[0].score);
    return static_cast<int>(CAMD_OK);
  });
  plugin.output = CAMD_NEED_HOST;
  GpuRig rig(plugin, [] {}, {spec});
  EXPECT_EQ(rig.run({test::fake_camera("one", test::publishes(rig.clock, 50), true)}), EndReason::kSourcesEnded);
  EXPECT_EQ(sums, numbers<float>(50));
  EXPECT_EQ(rig.plugins.counters()[0].health.bytes_copied, 0U);
}

TEST(FramePathOnAGpu, KeepsTheGraphsOfTheLayoutsThatCameLastAndNoMoreThan64) {
  const base::Clock& clock = base::system_clock();
  EmulatedGpu gpu(clock);
  DigestEngine engine(gpu);
  test::FakePlugin plugin(test::takes_it);
  PluginHost plugins({}, clock);
  plugin.add_to(plugins);
  test::declare(plugins, engine);
  test::NoObserver observer;
  capture::FrameRing ring(gpu, observer, {});
  FramePath path(gpu, engine, plugins, {StreamStrategy::kPerFrame, Transfer::kDirect, false, true});
  const std::unique_ptr<InFlight> in_flight = path.make_in_flight();
  const auto run = [&](int width) {
    test::run_one_frame(gpu, path, ring, *in_flight, width, width);
    EXPECT_EQ(*static_cast<const float*>(in_flight->tensors.host[0].data), static_cast<float>(width * width));
  };
  run(200);  // the largest first: what comes later fits its memory
  for (int width = 1; width <= 100; ++width) run(width);
  EXPECT_EQ(in_flight->captured.size(), 64U);
  const std::size_t before = gpu.captures();
  for (int width = 100; width > 36; --width) run(width);
  EXPECT_EQ(gpu.captures(), before) << "all of the last 64 are there";
  run(36);
  EXPECT_EQ(gpu.captures(), before + 1);
  run(37);
  EXPECT_EQ(gpu.captures(), before + 1) << "used last but one";
  run(100);
  EXPECT_EQ(gpu.captures(), before + 2) << "used longest ago";
}

// On a clock that only an upload (5 ms), a copy back (3 ms) and the first layer (7 ms) move.
TEST_P(EveryStrategy, TellsWhatCrossedTheBusAndHowLongEachStageTook) {
  const FramePathOptions& path = GetParam().path;
  const bool mapped = path.transfer == Transfer::kMapped, written = mapped || path.transfer == Transfer::kDirect;
  // Copies back that run beside the taking of a time, which would hold them or not, move nothing.
  const bool timed_back = !path.graph && path.streams == StreamStrategy::kSingle;
  base::ManualClock clock;
  EmulatedGpu gpu(clock, 0, GetParam().memory);
  const base::PictureLayout layout = layout_of(0);
  const auto pictures = make_probe_pictures(layout);
  DigestEngine engine(gpu, [&] { clock.advance(std::chrono::milliseconds(7)); });
  // Of a frame's copies the upload is the first.
  const int copies_a_frame = mapped ? 0 : 1 + (written ? 0 : path.graph ? 1 : 2);
  std::atomic<int> copies{0};
  gpu.before_copy([&](const void*) {
    if (copies++ % copies_a_frame == 0)
      clock.advance(std::chrono::milliseconds(5));
    else if (timed_back)
      clock.advance(std::chrono::milliseconds(3));
  });
  test::FakePlugin plugin(test::takes_it);
  plugin.outputs = 2;
  PluginHost plugins({}, clock);
  plugin.add_to(plugins);
  test::declare(plugins, engine);
  PathProbe probe(clock, gpu, engine, plugins, path, layout, pictures);
  constexpr int kFrames = 21;  // odd: where frames are of two kinds, the middle of every stage is of the same
  const ProbeResult probed = probe.measure(kFrames, 0, 0);
  EXPECT_EQ(copies, kFrames * copies_a_frame);
  EXPECT_EQ(probed.h2d_bytes, mapped ? 0U : layout.size_bytes);
  // A graph copies outputs that lie side by side as one, with what lies between.
  EXPECT_EQ(probed.d2h_bytes, written ? 0U : path.graph ? 256 + sizeof(float) : 2 * sizeof(float));
  const auto expect_always = [](const ProbeTimes& times, double us) {
    EXPECT_EQ(times.min, us);
    EXPECT_EQ(times.max, us);
  };
  const double upload = mapped ? 0 : 5000;
  expect_always(probed.d2h, timed_back && !written ? 6000 : 0);
  if (path.graph && !mapped) {
    // The picture is awaited by a signal, which comes before the time of its upload's end: that may hold the first
    // layer.
    EXPECT_GE(probed.h2d.min, upload);
    // So may a time in front of it that is taken beside it, on a branch of the graph.
    if (path.streams == StreamStrategy::kSplit) return;
    EXPECT_EQ(probed.h2d.p50 + probed.preprocess.p50 + probed.infer.p50, upload + 7000);
    return;
  }
  expect_always(probed.h2d, upload);
  // A graph of kernels alone has its times around it: preprocessing is part of the network's.
  expect_always(probed.preprocess, path.graph ? 0 : 7000);
  expect_always(probed.infer, path.graph ? 7000 : 0);
}

TEST_P(EveryStrategy, AccountsForEveryFrameWhenTheDeviceIsLostDuringACopyOrTheNetwork) {
  for (const int lost_at : {9, 10, 11}) {
    SCOPED_TRACE(lost_at);
    EmulatedGpu* gpu = nullptr;
    std::atomic<int> works{0};
    const auto work = [&] {
      if (++works == lost_at) gpu->lose({base::ErrorKind::kDeviceLost, "unplugged"});
    };
    test::FakePlugin plugin(test::takes_it);
    plugin.outputs = 2;
    GpuRig rig(plugin, work);
    gpu = &rig.gpu;
    rig.gpu.before_copy([&](const void*) { work(); });
    const auto publish = [&](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
      while (!stopping) (void)test::publish_frame(ring, rig.clock.now());
    };
    test::Losses losses;
    EXPECT_EQ(rig.run({test::fake_camera("one", publish)}, &losses), EndReason::kDeviceLost);
    EXPECT_THAT(losses.lost, testing::ElementsAre(testing::HasSubstr("unplugged")));
    EXPECT_TRUE(rig.pipeline->ledger().totals().balanced());
    EXPECT_EQ(rig.pipeline->ledger().totals().in_flight, 0);
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
