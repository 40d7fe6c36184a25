// Models without a card, for tests of what is proposed for them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/loader.hpp"
#include "pipeline/run/card_keys.hpp"
#include "tests/infer/onnx_builder.hpp"

namespace camd::pipeline::testing {

using infer::test::OnnxBuilder;

// Rows of YOLOv8: [1, 4 + 3, 84] for a picture of 64x64, boxes in pixels and probabilities. `most`: of each value.
inline OnnxBuilder yolov8(const std::vector<float>& most = {64, 64, 20, 20, 1, 1, 1}) {
  const auto values = static_cast<std::int64_t>(most.size());
  OnnxBuilder b;
  b.input("x", {1, 3, 64, 64});
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::string s = std::to_string(stride);
    std::vector<float> weights(static_cast<std::size_t>(values * 3 * stride * stride));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = (static_cast<float>(i * 7 % 11) - 5.0F) / static_cast<float>(stride * stride);
    }
    b.weight("w" + s, {values, 3, stride, stride}, weights);
    b.node("Conv", {"x", "w" + s}, {"c" + s}).ints("strides", {stride, stride});
    const std::int64_t cells = 64 / stride * (64 / stride);
    b.integers("shape" + s, {3}, {1, values, cells}).node("Reshape", {"c" + s, "shape" + s}, {"r" + s});
  }
  b.node("Concat", {"r8", "r16", "r32"}, {"all"}).integer("axis", 2).node("Sigmoid", {"all"}, {"parts"});
  b.weight("sizes", {1, values, 1}, most);
  return b.node("Mul", {"parts", "sizes"}, {"output0"}).output("output0", {});
}

// What an exporter writes beside the graph, as keys and values.
inline OnnxBuilder with_metadata(OnnxBuilder b, const std::vector<std::pair<std::string, std::string>>& entries) {
  for (const auto& [key, value] : entries) {
    auto* entry = b.proto().add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  return b;
}
inline OnnxBuilder with_names(OnnxBuilder b, const char* names = "{0: 'cat', 1: \"dog's\", 2: 'cow'}") {
  return with_metadata(std::move(b), {{"names", names}, {"task", "detect"}});
}

class ProposedCard : public ::testing::Test {
 protected:
  config::Config config(const OnnxBuilder& model, const std::string& keys, const std::string& detections) {
    (void)folder_.write("m.onnx", model.bytes());
    return config::load_text((folder_.path() / "c.yaml").string(),
                             "device: host\nmodel: {path: m.onnx" + keys +
                                 "}\ncameras: [{name: a, source: {type: test}}]\npostprocess: [{plugin: detections" +
                                 detections + "}]\n",
                             {}, {.card_keys = card_keys()});
  }
  infer::test::TemporaryFolder folder_;
};

}  // namespace camd::pipeline::testing
