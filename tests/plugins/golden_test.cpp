// Every layout on pseudo-random tensors against golden/golden.json, which an independent NumPy implementation wrote
// (golden/make_golden.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "harness.hpp"
#include "plugins/builtin.hpp"
#include "tests/support/paths.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

// The script's generator: Numerical Recipes' 32-bit linear congruential one, upper 24 bits as [0, 1).
class Generator {
 public:
  explicit Generator(std::uint32_t seed) : state_(seed) {}
  float next(float low, float high) {
    state_ = state_ * 1664525U + 1013904223U;
    return low + static_cast<float>(state_ >> 8U) / static_cast<float>(1U << 24U) * (high - low);
  }

 private:
  std::uint32_t state_;
};

const nlohmann::json& golden() {
  static const nlohmann::json all = [] {
    std::ifstream file(test::source_dir() + "/tests/plugins/golden/golden.json");
    return nlohmann::json::parse(file);
  }();
  return all;
}

class Golden : public ::testing::TestWithParam<int> {};

TEST_P(Golden, AgreesWithNumpy) {
  const nlohmann::json& expected = golden()["cases"].at(static_cast<std::size_t>(GetParam()));
  SCOPED_TRACE(expected["name"].get<std::string>());
  FakeModel model(golden()["height"].get<std::int64_t>(), golden()["width"].get<std::int64_t>());
  Generator generator(expected["seed"].get<std::uint32_t>());
  for (const auto& spec : expected["outputs"]) {
    FakeTensor& output = model.output(spec["name"].get<std::string>(), spec["shape"].get<std::vector<std::int64_t>>());
    for (float& value : output.values) value = generator.next(spec["low"].get<float>(), spec["high"].get<float>());
  }
  Instance run(find_builtin("detections"));
  ASSERT_EQ(run.create(expected["config"].dump()), CAMD_OK) << run.error();
  ASSERT_EQ(run.outputs(model), CAMD_OK) << run.error();
  run.frame.width = golden()["width"].get<int>();
  run.frame.height = golden()["height"].get<int>();
  ASSERT_EQ(run.process(model), CAMD_OK) << run.error();
  const auto found = run.found();
  ASSERT_EQ(found.size(), expected["detections"].size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& d = expected["detections"][i];
    EXPECT_EQ(found[i].class_id, d["class_id"].get<int>()) << i;
    EXPECT_NEAR(found[i].score, d["score"].get<float>(), 2e-6F) << i;
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(found[i].box[k], d["box"][k].get<float>(), 2e-3F) << i;
    const nlohmann::json points = d.value("keypoints", nlohmann::json::array());
    ASSERT_EQ(found[i].keypoint_count, static_cast<int>(points.size()));
    for (std::size_t k = 0; k < points.size(); ++k) {
      EXPECT_NEAR(found[i].keypoints[k][0], points[k][0].get<float>(), 2e-3F) << i;
      EXPECT_NEAR(found[i].keypoints[k][1], points[k][1].get<float>(), 2e-3F) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllLayouts, Golden, ::testing::Range(0, 20));

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
