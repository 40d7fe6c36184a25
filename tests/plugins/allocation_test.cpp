// After the first frame `detections` and `jsonl` allocate nothing. A binary of its own: it replaces operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "harness.hpp"
#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"
#include "plugins/outbox/outbox.hpp"
#include "swallow.hpp"

namespace {
std::atomic<std::uint64_t> allocations{0};
thread_local std::uint64_t own_allocations = 0;  // of the thread that asks
}  // namespace

// Not inlined: GCC would see malloc() in one place and delete in another and call it a mismatch.
__attribute__((noinline)) void* operator new(std::size_t size) {
  ++allocations;
  ++own_allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

// Allocations of ten frames after the first two.
std::uint64_t steady_allocations(Instance& run) {
  std::uint64_t before = 0;
  for (int frame = 0; frame < 12; ++frame) {
    if (frame == 2) before = allocations;
    run.results.count = 3;
    EXPECT_EQ(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem), CAMD_OK);
  }
  return allocations - before;
}

TEST(Allocations, AreNoneInDetectionsWithEveryCellAbove) {
  struct Case {
    const char* config;
    std::vector<std::vector<std::int64_t>> outputs;
  };
  const std::vector<Case> cases = {
      {R"({"layout":"anchors","classes":["a"],"strides":[8],"anchors":[[16,32]]})",
       {{1, 2, 40, 40}, {1, 8, 40, 40}, {1, 20, 40, 40}}},
      {R"({"layout":"anchors","classes":["a"],"strides":[8],"anchors":[[16,32]],"nms":0.2,"blend":0.3})",
       {{1, 2, 40, 40}, {1, 8, 40, 40}, {1, 20, 40, 40}}},
      {R"({"layout":"scrfd","classes":["a"],"strides":[8]})", {{3200, 1}, {3200, 4}, {3200, 10}}},
      {R"({"layout":"ssd","classes":["a"],"scores":"logits"})", {{1, 9000, 2}, {1, 9000, 4}}},
      {R"({"layout":"yolox","strides":[8]})", {{1, 1600, 85}}},
      {R"({"layout":"nanodet","classes":["a"],"strides":[8]})", {{1, 1600, 33}}},
      {R"({"layout":"fastestdet","strides":[8]})", {{1, 85, 40, 40}}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.config);
    FakeModel model(320, 320);
    for (const auto& shape : one.outputs) {
      FakeTensor& output = model.output("output" + std::to_string(model.outputs.size()), shape);
      for (std::size_t i = 0; i < output.values.size(); ++i)
        output.values[i] = 0.6F + 0.3F * static_cast<float>(i % 1009) / 1009.0F;
    }
    Instance run(find_builtin("detections"));
    ASSERT_EQ(run.create(one.config), CAMD_OK) << run.error();
    ASSERT_EQ(run.outputs(model), CAMD_OK) << run.error();
    run.results.capacity = 200;
    ASSERT_EQ(run.process(model), CAMD_OK) << run.error();
    EXPECT_EQ(steady_allocations(run), 0U);
  }
}

TEST(Allocations, AreNoneInTrackAndZonesWhileObjectsComeAndGo) {
  FakeModel model(4, 4);
  for (const char* config : {"track", "zones"}) {
    const bool tracks = std::string(config) == "track";
    Instance run(find_builtin(config));
    ASSERT_EQ(run.create(tracks ? "{}"
                                : R"({"settle":0,"zones":[{"name":"a","polygon":[[0,0],[0.5,0],[0.5,1],[0,1]]}],)"
                                  R"("lines":[{"name":"b","from":[0.5,0],"to":[0.5,1]}]})"),
              CAMD_OK)
        << run.error();
    ASSERT_EQ(run.outputs(model), CAMD_OK);
    run.items.assign(16, camd_detection{});
    run.results.items = run.items.data();
    run.host.events.reserve(CAMD_MAX_EVENTS);
    std::uint64_t before = 0;
    for (int frame = 0; frame < 300; ++frame) {
      if (frame == 2) before = allocations;
      run.frame.captured_mono_ns = 33'000'000LL * (frame + 1);
      run.host.events.clear();
      run.results.count = frame % 17;
      for (int i = 0; i < run.results.count; ++i) {
        camd_detection& d = run.items[static_cast<std::size_t>(i)];
        d.score = 0.95F;
        d.box[0] = static_cast<float>((40 * i + 3 * frame) % 600);
        d.box[1] = static_cast<float>(25 * i);
        d.box[2] = d.box[3] = 30;
        d.track_id = tracks ? 0 : static_cast<std::uint64_t>(1 + i + frame / 100 * 16);
      }
      ASSERT_EQ(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem), CAMD_OK);
    }
    EXPECT_EQ(allocations - before, 0U) << config;
  }
}

TEST(Allocations, AreNoneInCodesThatHaveBeenRead) {
  constexpr int kSide = 480, kCell = 20, kPlace = 60;
  // Number 0 of DICT_4X4_50 within its dark rim, on a light wall.
  constexpr std::array<const char*, 6> kCells = {"000000", "010110", "001010", "000110", "000100", "000000"};
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kSide) * kSide, 230);
  for (int y = 0; y < 6 * kCell; ++y) {
    for (int x = 0; x < 6 * kCell; ++x) {
      const char bit = kCells[static_cast<std::size_t>(y / kCell)][x / kCell];
      pixels[static_cast<std::size_t>(kPlace + y) * kSide + static_cast<std::size_t>(kPlace + x)] =
          bit == '1' ? 230 : 20;
    }
  }
  camd_picture picture{};
  picture.struct_size = sizeof(picture);
  picture.format = CAMD_PIXEL_GRAY8;
  picture.plane_count = 1;
  picture.planes[0] = {pixels.data(), kSide, kSide, kSide};
  FakeModel model(4, 4);
  Instance run(find_builtin("codes"));
  ASSERT_EQ(run.create("{}"), CAMD_OK) << run.error();
  ASSERT_EQ(run.outputs(model), CAMD_OK) << run.error();
  run.frame.picture = &picture;
  run.host.events.reserve(CAMD_MAX_EVENTS);
  std::vector<camd_detection> seen(20);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    camd_detection& d = seen[i];
    camd::plugin::copy_text(d.class_name, "marker");
    d.track_id = 1 + i;
    d.keypoint_count = 4;
    const float low = kPlace - 0.5F, high = low + 6 * kCell;
    for (int k = 0; k < 4; ++k) {
      d.keypoints[k][0] = k == 1 || k == 2 ? high : low;
      d.keypoints[k][1] = k >= 2 ? high : low;
    }
  }
  run.items = seen;
  run.results.items = run.items.data();
  std::uint64_t before = 0;
  for (int frame = 0; frame < 120; ++frame) {
    if (frame == 20) before = allocations;  // four attempts a frame, two for each
    run.frame.captured_mono_ns = 33'000'000LL * (frame + 1);
    run.host.events.clear();
    std::copy(seen.begin(), seen.end(), run.items.begin());
    run.results.count = static_cast<std::int32_t>(seen.size());
    ASSERT_EQ(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem), CAMD_OK);
  }
  EXPECT_EQ(allocations - before, 0U);
  for (const camd_detection& d : run.items) EXPECT_STREQ(d.text, "aruco_4x4_50:0");
}

TEST(Allocations, AreNoneInJsonl) {
  FakeModel model(4, 4);
  Instance run(find_builtin("jsonl"));
  ASSERT_EQ(run.create(R"({"path":"/dev/null"})"), CAMD_OK) << run.error();
  ASSERT_EQ(run.outputs(model), CAMD_OK);
  camd_detection d{};
  d.keypoint_count = CAMD_MAX_KEYPOINTS;
  camd::plugin::copy_text(d.class_name, "marker");
  ASSERT_EQ(run.process(model, {d, d, d}), CAMD_OK);
  EXPECT_EQ(steady_allocations(run), 0U);
}

TEST(Allocations, AreNoneInJsonlWhenAFrameHasMoreDetectionsThanAnyBefore) {
  FakeModel model(4, 4);
  Instance run(find_builtin("jsonl"));
  ASSERT_EQ(run.create(R"({"path":"/dev/null"})"), CAMD_OK) << run.error();
  ASSERT_EQ(run.outputs(model), CAMD_OK);
  camd_detection d{};
  d.keypoint_count = 5;
  d.track_id = 1;
  camd::plugin::copy_text(d.class_name, "marker");
  camd::plugin::copy_text(d.text, "https://example.com");
  run.results.capacity = 4096;
  ASSERT_EQ(run.process(model, {d}), CAMD_OK);
  run.items.assign(4096, d);
  run.results.items = run.items.data();
  run.results.count = 1;
  ASSERT_EQ(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem), CAMD_OK);
  const std::uint64_t before = allocations;
  run.results.count = 4096;
  ASSERT_EQ(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem), CAMD_OK);
  EXPECT_EQ(allocations - before, 0U);
}

// The call alone: what the outbox's own thread does is no frame's time.
TEST(Allocations, AreNoneInACallIntoTheOutbox) {
  OutboxOptions options;
  options.capacity = 64;
  Outbox box(options, std::make_unique<Swallow>(), "swallow", [](camd_log_level, const std::string&) {});
  for (const char* camera : {"door", "yard"}) box.add_camera(camera);
  box.start();
  const std::string payload(2000, 'x');
  std::uint64_t before = 0;
  for (int i = 0; i < 2000; ++i) {
    if (i == 1000) before = own_allocations;  // each place has had a message of this size
    box.put(i % 2 == 0 ? "door" : "yard", "camd/door/detections", payload, false);
  }
  EXPECT_EQ(own_allocations - before, 0U);
}

TEST(Allocations, AreNoneInMqttWhileItsBrokerIsAway) {
  FakeModel model(4, 4);
  Instance run(find_builtin("mqtt"));
  ASSERT_EQ(run.create(R"({"url":"mqtt://127.0.0.1:1","publish":"frame","outbox":{"capacity":4}})"), CAMD_OK)
      << run.error();
  ASSERT_EQ(run.outputs(model), CAMD_OK) << run.error();
  camd_detection d{};
  camd::plugin::copy_text(d.class_name, "person");
  ASSERT_EQ(run.process(model, {d, d, d}), CAMD_OK) << run.error();
  std::uint64_t before = 0;
  for (int frame = 0; frame < 40; ++frame) {
    if (frame == 20) before = own_allocations;
    ASSERT_EQ(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem), CAMD_OK);
  }
  EXPECT_EQ(own_allocations - before, 0U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
