// `track`, `codes` and `zones` behind one another, one instance of each for two cameras whose frames come at the same
// time. The thread sanitizer watches what the instances share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "plugins/builtin.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

constexpr int kWidth = 320, kHeight = 240, kFrames = 80, kCell = 8, kSide = 6 * kCell, kTop = 100;

// Three pixels to the right in every frame.
int left_of(std::uint64_t sequence) { return 10 + 3 * static_cast<int>(sequence); }

// A grey picture with marker 0 of ArUco's 4x4_50 (its rows 1011 0101 0011 0010, light is 1) in a dark rim.
class Room {
 public:
  Room() {
    picture_.struct_size = sizeof(picture_);
    picture_.format = CAMD_PIXEL_GRAY8;
    picture_.plane_count = 1;
    picture_.planes[0] = {pixels_.data(), kWidth, kWidth, kHeight};
  }
  const camd_picture& at(int left) {
    constexpr std::array<unsigned, 6> kRows = {0, 0b010110, 0b001010, 0b000110, 0b000100, 0};
    std::fill(pixels_.begin(), pixels_.end(), std::uint8_t{220});
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const bool light =
            (kRows[static_cast<std::size_t>(y / kCell)] >> static_cast<unsigned>(5 - x / kCell) & 1U) != 0;
        pixels_[static_cast<std::size_t>((kTop + y) * kWidth + left + x)] = light ? 230 : 20;
      }
    }
    return picture_;
  }

 private:
  std::vector<std::uint8_t> pixels_ = std::vector<std::uint8_t>(std::size_t{kWidth} * kHeight);
  camd_picture picture_{};
};

// What a detector would find there.
int find_marker(const camd_frame& frame, const camd_tensors& /*tensors*/, camd_results& results,
                camd_error& /*error*/) {
  camd_detection& d = results.items[results.count++];
  d = {};
  d.score = 0.95F;
  std::string("marker").copy(d.class_name, sizeof(d.class_name) - 1);
  const float left = static_cast<float>(left_of(frame.sequence)) - 0.5F, top = kTop - 0.5F;
  d.box[0] = left;
  d.box[1] = top;
  d.box[2] = d.box[3] = kSide;
  d.keypoint_count = 4;
  for (int k = 0; k < 4; ++k) {
    d.keypoints[k][0] = left + (k == 1 || k == 2 ? float{kSide} : 0.0F);
    d.keypoints[k][1] = top + (k >= 2 ? float{kSide} : 0.0F);
  }
  return CAMD_OK;
}

double number(const PluginNumbers& plugin, const std::string& name) {
  const auto found = std::find_if(plugin.counters.begin(), plugin.counters.end(),
                                  [&](const CounterValue& counter) { return name == counter.name; });
  if (found == plugin.counters.end()) return -1;
  return found->kind == CAMD_GAUGE ? found->level : static_cast<double>(found->count);
}

TEST(Facts, OfTwoCamerasAtOnceStayApartAndAreCountedTogether) {
  test::FakePlugin detector(find_marker);
  detector.outputs = 0;
  PluginHost host({}, base::system_clock());
  detector.add_to(host);
  host.add(*plugins::find_builtin("track"), "{}");
  host.add(*plugins::find_builtin("codes"), "{}");
  host.add(*plugins::find_builtin("zones"), R"({"zones":[{"name":"right","polygon":[[0.5,0],[1,0],[1,1],[0.5,1]]}],)"
                                            R"("lines":[{"name":"middle","from":[0.5,1],"to":[0.5,0]}]})");
  std::array<const char*, 2> names = {"door", "yard"};
  camd_model model{};
  model.struct_size = sizeof(model);
  model.path = "fake.onnx";
  model.card_json = "{}";
  model.camera_count = 2;
  model.camera_names = names.data();
  host.declare(model);

  const FrameTensors tensors;
  std::array<std::set<std::uint64_t>, 2> ids;
  std::array<std::set<std::string>, 2> texts;
  std::array<int, 2> failures = {};
  const auto camera = [&](std::size_t index) {
    const std::unique_ptr<FramePostprocessing> postprocessing = host.prepare(tensors);
    std::vector<camd_detection> items(static_cast<std::size_t>(host.needs().detections));
    Room room;
    for (int i = 0; i < kFrames; ++i) {
      camd_frame frame{};
      frame.struct_size = sizeof(frame);
      frame.camera = names[index];
      frame.camera_index = static_cast<std::int32_t>(index);
      frame.sequence = static_cast<std::uint64_t>(i);
      frame.width = kWidth;
      frame.height = kHeight;
      frame.captured_mono_ns = 1'000'000'000 + 33'000'000LL * i;
      frame.picture = &room.at(left_of(frame.sequence));
      camd_results results{sizeof(camd_results), static_cast<std::int32_t>(items.size()), 0, items.data()};
      if (!postprocessing->process(frame, results).ok() || results.count != 1) {
        ++failures[index];
        continue;
      }
      ids[index].insert(items[0].track_id);
      texts[index].insert(items[0].text);
    }
  };
  std::atomic<int> running{2};
  std::vector<std::thread> cameras;
  for (const std::size_t index : {std::size_t{0}, std::size_t{1}}) {
    cameras.emplace_back([&, index] {
      camera(index);
      --running;
    });
  }
  while (running > 0) static_cast<void>(host.counters());  // as the metrics' thread does
  for (std::thread& thread : cameras) thread.join();

  EXPECT_EQ(failures[0] + failures[1], 0);
  // One object a camera, and no number twice.
  EXPECT_EQ(ids[0].size(), 1U);
  EXPECT_EQ(ids[1].size(), 1U);
  EXPECT_EQ(*ids[0].begin() + *ids[1].begin(), 3U);
  for (const auto& seen : texts) EXPECT_THAT(seen, testing::ElementsAre("", "aruco_4x4_50:0"));
  const std::vector<PluginNumbers> numbers = host.counters();
  ASSERT_EQ(numbers.size(), 4U);
  EXPECT_EQ(number(numbers[1], "started"), 2);
  EXPECT_EQ(number(numbers[1], "active"), 2);
  EXPECT_EQ(number(numbers[1], "lost"), 0);
  EXPECT_EQ(number(numbers[2], "read"), 2);
  EXPECT_EQ(number(numbers[2], "tried"), 4) << "two frames of each have to agree";
  EXPECT_EQ(number(numbers[3], "right_entered"), 2);
  EXPECT_EQ(number(numbers[3], "right_inside"), 2);
  EXPECT_EQ(number(numbers[3], "middle_in"), 2);
  EXPECT_EQ(number(numbers[3], "middle_out"), 0);
  EXPECT_THAT(host.finish(), testing::IsEmpty());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
