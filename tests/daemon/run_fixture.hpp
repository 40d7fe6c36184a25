// Run: the fixture of tests that start `camd run` from outside.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/run_camd.hpp"
#include "tests/support/paths.hpp"

namespace camd::test {

using nlohmann::json;

class Run : public testing::Test {
 protected:
  static std::string camera(const std::string& name, const std::string& source) {
    return "  - {name: " + name + ", source: " + source + "}\n";
  }
  static constexpr const char* kEndless = "{type: test, width: 320, height: 180, fps: 30}";
  static constexpr const char* kShort = "{type: test, width: 320, height: 180, frames: 5, realtime: false}";

  std::string config(const std::string& cameras, const std::string& postprocess = "  - plugin: detections\n",
                     const std::string& name = "camd.yaml") {
    return folder_.write(name, "device: host\nmodel: {path: " + source_path("models/marker-640x360.onnx") +
                                   "}\nmetrics: {period: 100ms}\ncameras:\n" + cameras + "postprocess:\n" +
                                   postprocess);
  }
  static std::vector<json> lines(const std::string& out) {
    std::vector<json> parsed;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) parsed.push_back(json::parse(line));
    return parsed;
  }
  static std::vector<json> events(const std::string& out, const std::string& event) {
    std::vector<json> chosen;
    for (json& line : lines(out)) {
      if (line.at("event") == event) chosen.push_back(std::move(line));
    }
    return chosen;
  }
  static bool balanced(const json& totals) {
    std::int64_t sum = totals.at("delivered").get<std::int64_t>() + totals.at("in_flight").get<std::int64_t>();
    for (const auto& [reason, count] : totals.at("dropped").items()) sum += count.get<std::int64_t>();
    return totals.at("captured").get<std::int64_t>() == sum && totals.at("in_flight") >= 0;
  }
  TemporaryFolder folder_;
};

}  // namespace camd::test
