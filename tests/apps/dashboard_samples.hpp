// Metrics lines for the dashboard's tests: the recorded sample run and lines made to measure.
// Threads: pure functions, [any].
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>
#include "tests/support/paths.hpp"

namespace camd::dashboard::testing {

inline std::string sample_path() { return test::source_dir() + "/tests/apps/data/run.jsonl"; }

inline std::vector<std::string> sample_lines() {
  std::ifstream file(sample_path());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  EXPECT_FALSE(lines.empty()) << sample_path();
  return lines;
}

inline std::string start_line() {
  return R"({"event":"start","schema":1,"time":"2026-11-21T12:00:00.000Z","mono_ns":1000000000,"version":"0.1.0",)"
         R"("device":"host","engine":"opencv","model":{"path":"models/marker.onnx"},"transfer":"pageable","streams":"split"})";
}

// A camera whose stages take 1, 2, 3 ... ms times `scale`.
inline std::string camera_line(const std::string& name, int second = 1, const std::string& state = "running",
                               int captured = 30, int superseded = 0, double scale = 1) {
  std::string latency;
  const char* stages[] = {"capture", "queue", "h2d", "preprocess", "infer", "d2h", "postprocess", "total"};
  for (int i = 0; i < 8; ++i) {
    const double us = (i < 7 ? i + 1 : 28) * 1000.0 * scale;
    latency += fmt::format(R"({}"{}":{{"count":{},"p50":{},"p90":{},"p99":{},"p999":{},"max":{}}})", i > 0 ? "," : "",
                           stages[i], captured, us, us * 1.1, us * 1.5, us * 1.6, us * 2);
  }
  return fmt::format(
      R"({{"event":"camera","schema":1,"time":"2026-11-21T12:00:{:02}.000Z","mono_ns":{},"camera":"{}","state":"{}",)"
      R"("period_s":1,"totals":{{"captured":{},"delivered":{},"in_flight":0,"dropped":{{"superseded":{}}}}},)"
      R"("fps":{{"captured":30,"delivered":{}}},"latency_us":{{{}}},"bytes_per_frame":{{"h2d":1382400,"d2h":0}}}})",
      second, (second + 1) * 1'000'000'000LL, name, state, captured, captured - superseded, superseded, 30 - superseded,
      latency);
}

}  // namespace camd::dashboard::testing
