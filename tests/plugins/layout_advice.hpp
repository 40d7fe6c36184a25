// What `detections` suggests for a model's outputs, and models whose outputs are random, for its tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "detections_fixture.hpp"
#include "harness.hpp"
#include "plugins/builtin.hpp"

namespace camd::plugins::testing {

inline std::vector<std::string> configs(FakeModel& model, const OutputValues* values,
                                        const std::string& config = "{}") {
  std::vector<std::string> texts;
  for (const LayoutSuggestion& s : suggest_layouts(model.model(), config, values)) texts.push_back(s.config);
  return texts;
}
inline OutputValues values_of(const FakeModel& model) {
  OutputValues values;
  for (const FakeTensor& output : model.outputs) values.push_back(output.values);
  return values;
}
inline std::vector<std::string> by_shape(FakeModel& model) { return configs(model, nullptr); }
inline std::vector<std::string> by_values(FakeModel& model, const std::string& config = "{}") {
  const OutputValues values = values_of(model);
  return configs(model, &values, config);
}
inline std::string doubt(FakeModel& model, const std::string& config) {
  return doubt_layout(model.model(), config, values_of(model));
}

class Random {
 public:
  float from(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }

 private:
  std::mt19937 engine_{1};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same numbers in every run
};

// Outputs of random values from `low` to `high` each.
struct Filled {
  std::string name;
  std::vector<std::int64_t> shape;
  float low, high;
};
inline FakeModel model_of(std::int64_t side, const std::vector<Filled>& outputs) {
  FakeModel model(side, side);
  Random random;
  for (const Filled& filled : outputs) {
    for (float& value : model.output(filled.name, filled.shape).values) value = random.from(filled.low, filled.high);
  }
  return model;
}

}  // namespace camd::plugins::testing
