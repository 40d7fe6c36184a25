// After warm-up a frame costs no allocation, on any thread, from its source to the last postprocessor's return. A
// binary of its own: it replaces malloc().
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <thread>

#include "capture/frame_source.hpp"
#include "config/model_card.hpp"
#include "infer/engine.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/session.hpp"
#include "plugins/builtin.hpp"
#include "tests/pipeline/counting_device.hpp"
#include "tests/pipeline/heap_watch.hpp"
#include "tests/pipeline/plugin_chain.hpp"
#include "tests/pipeline/support.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

// Watches the heap from its frame number `first` to its frame number `last`.
class Watcher {
 public:
  Watcher(test::CountingDevice& device, int first, int last)
      : plugin_(
            [this, &device, first, last](const camd_frame&, const camd_tensors&, camd_results& results, camd_error&) {
              detections_ += results.count;
              ++frames_;
              if (frames_ == first) {
                device.count(true);
                test::start_heap_watch();
              }
              if (frames_ == last) {
                report_ = test::stop_heap_watch();
                device.count(false);
              }
              return static_cast<int>(CAMD_OK);
            }) {}
  void add_to(PluginHost& plugins) { plugin_.add_to(plugins); }
  [[nodiscard]] const std::optional<test::HeapReport>& report() const noexcept { return report_; }
  [[nodiscard]] int detections() const noexcept { return detections_; }

 private:
  int frames_ = 0;
  int detections_ = 0;
  std::optional<test::HeapReport> report_;
  test::FakePlugin plugin_;
};

CameraSpec camera_spec(const config::Camera& camera) {
  return {camera.name, capture::is_lossless(camera),
          [camera](capture::CameraIndex index, capture::FrameRing& ring, capture::SourceListener& listener) {
            return capture::make_source(camera, index, ring, listener, base::system_clock());
          }};
}

config::Camera test_camera(const std::string& name, double fps, bool realtime, std::int64_t frames) {
  config::Camera camera;
  camera.name = name;
  config::TestSource source;
  source.width = 320;
  source.height = 180;
  source.fps = fps;
  source.frames = frames;
  source.realtime = realtime;
  camera.source = source;
  return camera;
}

// The compiler may leave out an allocation that nobody looks at.
void* kept(void* memory) {
  asm volatile("" : "+r"(memory) : : "memory");
  return memory;
}

TEST(HeapWatch, CountsEveryWayToAllocate) {
  test::start_heap_watch();
  std::free(kept(std::realloc(kept(std::malloc(8)), 80)));
  std::free(kept(std::calloc(2, 8)));
  std::free(kept(std::aligned_alloc(64, 64)));
  ::operator delete(kept(::operator new(8)));
  ::operator delete(kept(::operator new(8, std::align_val_t(64))), std::align_val_t(64));
  EXPECT_EQ(test::stop_heap_watch().allocations, 6U);
}

TEST(SteadyState, AllocatesNothingFromTheSourceThroughNetworkDetectionsCountersAndEventsToTheLastPlugin) {
  const base::Clock& clock = base::system_clock();
  const auto host = device::make_host_device(clock);
  test::CountingDevice device(*host);
  const auto engine = infer::make_engine(test::source_dir() + "/models/marker-640x360.onnx", {}, device);
  ASSERT_EQ(engine->name(), "cpu");
  PluginHost plugins({{"detections", R"({"score":0.05})", ""}}, clock);
  camd_counter* frames = nullptr;
  test::FakePlugin noting([&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    test::extension<camd_counters>(noting.host, CAMD_EXTENSION_COUNTERS).add(frames, 1);
    camd_event event{};
    event.struct_size = sizeof(event);
    event.name[0] = 'x';
    return static_cast<int>(test::extension<camd_events>(noting.host, CAMD_EXTENSION_EVENTS).add(noting.host, &event));
  });
  noting.when_set_up = [&] {
    const auto& counters = test::extension<camd_counters>(noting.host, CAMD_EXTENSION_COUNTERS);
    ASSERT_EQ(counters.make(noting.host, CAMD_COUNTER, "frames", &frames, nullptr), CAMD_OK);
  };
  noting.add_to(plugins);
  plugins.add(*plugins::find_builtin("jsonl"), R"({"path":"/dev/null"})");
  Watcher watcher(device, 20, 80);
  watcher.add_to(plugins);
  const config::ModelCard card = config::load_model_card(test::source_dir() + "/models/marker.yaml", card_keys());
  declare_model(plugins, *engine, engine->model().path, card.rest_json, {"test"});
  FramePathOptions path;
  path.transfer = Transfer::kMapped;
  Pipeline pipeline({{"host", device, *engine, path}}, plugins, clock,
                    {camera_spec(test_camera("test", 30, false, 90))}, {}, nullptr);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(pipeline.ledger().totals().delivered, 90U);
  ASSERT_TRUE(watcher.report().has_value());
  EXPECT_EQ(watcher.report()->allocations, 0U) << watcher.report()->where;
  EXPECT_EQ(plugins.counters().at(1).counters.at(0).count, 90U);
  EXPECT_GT(watcher.detections(), 0);
  EXPECT_GT(device.operations(), 0);
  EXPECT_EQ(device.made(), 0);
}

TEST(SteadyState, AllocatesNothingWhileTwoCamerasSupersedeTheirFrames) {
  const base::Clock& clock = base::system_clock();
  const auto host = device::make_host_device(clock);
  test::CountingDevice device(*host);
  test::FakeEngine engine(device, [](const infer::PictureView&) -> base::Status {
    test::spin(200'000);  // slower than the sources
    return {};
  });
  PluginHost plugins({}, clock);
  Watcher watcher(device, 100, 2000);
  watcher.add_to(plugins);
  test::declare(plugins, engine);
  FramePathOptions path;
  path.transfer = Transfer::kMapped;
  const auto publishes = [&clock](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
    while (!stopping) {
      // More at once than a camera may have on the way.
      for (int i = 0; i < 5; ++i) (void)test::publish_frame(ring, clock.now());
      while (!stopping && ring.has_ready()) std::this_thread::yield();
    }
  };
  Pipeline pipeline({{"host", device, engine, path}}, plugins, clock,
                    {test::fake_camera("one", publishes), test::fake_camera("two", publishes)}, {}, nullptr);
  pipeline.set_frame_limit(2100);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kFrameLimit);
  pipeline.stop(true);
  EXPECT_GT(pipeline.ledger().totals().dropped_sum(), 0U);
  ASSERT_TRUE(watcher.report().has_value());
  EXPECT_EQ(watcher.report()->allocations, 0U) << watcher.report()->where;
  EXPECT_EQ(device.made(), 0);
}

TEST(SteadyState, AllocatesNothingWhileAGateHoldsFramesBackAndLetsOthersThrough) {
  const base::Clock& clock = base::system_clock();
  const auto host = device::make_host_device(clock);
  test::CountingDevice device(*host);
  test::FakeEngine engine(device, [](const infer::PictureView&) -> base::Status { return {}; });
  PluginHost plugins({}, clock);
  Watcher watcher(device, 20, 80);
  watcher.add_to(plugins);
  test::declare(plugins, engine);
  FramePathOptions path;
  path.transfer = Transfer::kMapped;
  // Three pictures of each kind; the times are made up, half a second and more apart.
  CameraSpec spec = test::fake_camera("door", [&clock](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
    const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kNv12, 640, 360);
    base::TimePoint captured = clock.now() - std::chrono::hours(1);
    for (int i = 0; !stopping; ++i) {
      while (!stopping && ring.has_ready()) std::this_thread::yield();
      std::optional<capture::FillLease> lease = ring.begin();
      if (!lease) return;
      std::memset(lease->data(layout), i / 3 % 2 == 0 ? 50 : 60, layout.size_bytes);
      lease->publish(captured += std::chrono::milliseconds(600), clock.now());
    }
  });
  spec.gate = config::MotionGate();
  spec.gate->longest = std::chrono::hours(1);
  PipelineOptions options;
  options.max_age = std::chrono::hours(2);
  Pipeline pipeline({{"host", device, engine, path}}, plugins, clock, {spec}, options, nullptr);
  pipeline.set_frame_limit(90);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kFrameLimit);
  pipeline.stop(true);
  EXPECT_GE(pipeline.ledger().totals().dropped[static_cast<std::size_t>(DropReason::kGated)], 100U);
  ASSERT_TRUE(watcher.report().has_value());
  EXPECT_EQ(watcher.report()->allocations, 0U) << watcher.report()->where;
  EXPECT_EQ(device.made(), 0);
}

TEST(SteadyState, AllocatesNothingForCallsOfAPluginInAProcessNeitherHereNorThere) {
  const std::string counter = library("count_heap");
  ASSERT_EQ(setenv("LD_PRELOAD", counter.c_str(), 1), 0);  // NOLINT(concurrency-mt-unsafe): no other thread yet
  Chain chain({isolated("heap")});
  ASSERT_EQ(unsetenv("LD_PRELOAD"), 0);  // NOLINT(concurrency-mt-unsafe)
  for (int i = 0; i < 20; ++i) ASSERT_EQ(chain.process(), "");
  const int there = chain.items[0].class_id;
  ASSERT_GT(there, 0) << "the counter is not in the process";
  // Long enough for camd to have looked at what the process uses.
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  test::start_heap_watch();
  int calls = 0;
  while (calls < 200 || std::chrono::steady_clock::now() < end) {
    if (!chain.process().empty()) break;
    ++calls;
  }
  const test::HeapReport here = test::stop_heap_watch();
  EXPECT_GE(calls, 200);
  EXPECT_EQ(here.allocations, 0U) << here.where;
  EXPECT_EQ(chain.items[0].class_id, there);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
