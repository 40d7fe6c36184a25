// The built-in `detections` with outputs written by hand, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "harness.hpp"
#include "plugins/builtin.hpp"

namespace camd::plugins::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// Element (channel, row, column) of a [1,C,h,w] output.
inline float& at(FakeTensor& t, std::int64_t channel, std::int64_t row, std::int64_t column) {
  return t.values[static_cast<std::size_t>((channel * t.shape[2] + row) * t.shape[3] + column)];
}
// Element (row, channel) of a [1,N,C] output.
inline float& at(FakeTensor& t, std::int64_t row, std::int64_t channel) {
  return t.values[static_cast<std::size_t>(row * t.shape[2] + channel)];
}

class Detections : public ::testing::Test {
 protected:
  // Starts the plug-in; what goes wrong is in `error`.
  bool start(FakeModel& model, const std::string& config) {
    const bool good = run_.create(config) == CAMD_OK && run_.outputs(model) == CAMD_OK;
    error_ = run_.error();
    return good;
  }
  std::vector<camd_detection> detect(FakeModel& model) {
    EXPECT_EQ(run_.process(model), CAMD_OK) << run_.error();
    return run_.found();
  }
  static void expect_box(const camd_detection& d, float x, float y, float w, float h) {
    EXPECT_NEAR(d.box[0], x, 1e-3F);
    EXPECT_NEAR(d.box[1], y, 1e-3F);
    EXPECT_NEAR(d.box[2], w, 1e-3F);
    EXPECT_NEAR(d.box[3], h, 1e-3F);
  }

  Instance run_{find_builtin("detections")};
  std::string error_;
};

// 64x64 input, strides 8, 16, 32, two classes, two anchors, five keypoints: the reference detector in small.
inline FakeModel marker(const std::string& card = R"({"name":"marker","layout":"anchors","classes":["qr","marker"],
    "score":0.5,"nms":0.4,"strides":[8,16,32],"anchors":[[16,32],[64,128],[256,512]],"anchor_offset":0.5,
    "variances":[0.1,0.2],"keypoints":5,"input":{"color":"bgr"}})") {
  FakeModel model(64, 64);
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::int64_t n = 64 / stride;
    model.output("cls_" + std::to_string(stride), {1, 4, n, n});
    model.output("box_" + std::to_string(stride), {1, 8, n, n});
    model.output("kps_" + std::to_string(stride), {1, 20, n, n});
  }
  model.card = card;
  return model;
}

inline FakeModel yunet() {
  FakeModel model(64, 64);
  for (const auto& [name, k] : {std::pair<const char*, std::int64_t>{"cls", 1}, {"obj", 1}, {"bbox", 4}, {"kps", 10}}) {
    for (const std::int64_t stride : {8, 16, 32}) {
      model.output(std::string(name) + "_" + std::to_string(stride), {1, 64 / stride * 64 / stride, k});
    }
  }
  return model;
}

inline FakeModel yolox() {
  FakeModel model(64, 64);  // 64 + 16 + 4 cells
  model.output("output", {1, 84, 7});
  return model;
}

}  // namespace camd::plugins::testing
