// What `camd bench` tells of the outputs that it has compared.
#include "pipeline/diagnose/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using ::testing::HasSubstr;

BenchResult bench(int width) {
  BenchOptions options;
  options.model = test::source_dir() + "/models/marker-640x360.onnx";
  options.device = "host";
  options.width = width;
  options.height = 36;
  options.strategies = {"pageable-sync", "mapped"};
  options.frames = 1;
  options.warmup = 0;
  return run_bench(options);
}

TEST(Bench, TheSameOutputsHaveTheSameDigestAndThoseOfOtherPicturesAnother) {
  const BenchResult first = bench(64);
  EXPECT_EQ(first.outputs_sha256.size(), 64U);
  EXPECT_EQ(first.outputs_sha256, bench(64).outputs_sha256);
  EXPECT_NE(first.outputs_sha256, bench(80).outputs_sha256);
  EXPECT_THAT(bench_table(first), HasSubstr("outputs, SHA-256: " + first.outputs_sha256 + "\n"));
  EXPECT_THAT(bench_json(first), HasSubstr("\"outputs_sha256\": \"" + first.outputs_sha256 + "\""));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
