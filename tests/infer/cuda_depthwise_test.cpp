// Depthwise convolutions of images so large that a thread makes several pixels, under emulation.
#include <gtest/gtest.h>

#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/reference.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::GraphBuilder;

struct Window {
  int side, stride;
};
class LargeDepthwise : public testing::TestWithParam<Window> {};

TEST_P(LargeDepthwise, EqualsTheReference) {
  const auto [side, stride] = GetParam();
  GraphBuilder g(
      {1, 3, std::int64_t{182} * stride, std::int64_t{183} * stride});  // rows that end inside a run of pixels
  const Graph graph = g.finish({g.conv(g.input(), 3, side, stride, 3)});
  const std::vector<float> input = g.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  for (const DataType type : {DataType::kF16, DataType::kF32}) {
    cuda::PlanOptions options;
    options.type = type;
    const auto got = test::run_emulated(cuda::make_plan(graph, options, "test"), input);
    EXPECT_LE(test::relative_error(got[0], want[0].f32), type == DataType::kF16 ? 1e-2F : 1e-5F);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, LargeDepthwise,
                         testing::Values(Window{3, 1}, Window{3, 2}, Window{5, 1}, Window{5, 2}));

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
