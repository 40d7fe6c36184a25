// Max pools of one value as one step of a plan, and its kernel under emulation.
#include <gtest/gtest.h>

#include <algorithm>

#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/reference.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using cuda::Plan;
using cuda::PlanOptions;
using test::GraphBuilder;
using test::relative_error;

PlanOptions options_of(DataType type) {
  PlanOptions options;
  options.type = type;
  options.shared_bytes = std::size_t{227} * 1024;
  return options;
}

template <typename T>
int count(const Plan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                        [](const cuda::Step& s) { return std::holds_alternative<T>(s.arguments); }));
}

ValueId pool(GraphBuilder& g, ValueId x, int size, int stride = 1) {
  Pool p;
  p.kind = Pool::Kind::kMax;
  p.kernel = {size, size};
  p.stride = {stride, stride};
  p.pads = {size / 2, size / 2, size / 2, size / 2};
  Shape to = g.shape(x);
  for (const std::size_t d : {std::size_t{2}, std::size_t{3}}) to[d] = (to[d] - 1) / stride + 1;
  return g.op(p, {x}, to);
}

void expect_one_step(GraphBuilder& g, const Graph& graph, int outputs) {
  const std::vector<float> input = g.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  for (const DataType type : {DataType::kF16, DataType::kF32}) {
    const Plan plan = cuda::make_plan(graph, options_of(type), "test");
    EXPECT_EQ(count<cuda::PoolArguments>(plan), 0);
    ASSERT_EQ(count<cuda::MaxPoolsArguments>(plan), 1);
    for (const cuda::Step& step : plan.steps) {
      if (const auto* pools = std::get_if<cuda::MaxPoolsArguments>(&step.arguments)) {
        EXPECT_EQ(pools->count, outputs);
      }
    }
    const auto got = test::run_emulated(plan, input);
    const float tolerance = type == DataType::kF16 ? 1e-2F : 1e-4F;
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LE(relative_error(got[i], want[i].f32), tolerance);
  }
}

TEST(CudaMaxPools, PoolsOfPoolsTakeOneStep) {
  GraphBuilder g({1, 3, 26, 38});
  const ValueId x = g.conv(g.input(), 20, 3, 2);  // channels that are no multiple of 8
  const ValueId a = pool(g, x, 5), b = pool(g, a, 5), c = pool(g, b, 5);
  expect_one_step(g, g.finish({g.conv(g.concat({x, a, b, c}), 8, 1)}), 3);
}

TEST(CudaMaxPools, PoolsOfOneValueTakeOneStepInWhateverOrderTheyAreWritten) {
  GraphBuilder g({1, 3, 30, 18});
  const ValueId x = g.conv(g.input(), 16, 3, 2);
  const ValueId large = pool(g, x, 13), small = pool(g, x, 5), middle = pool(g, x, 9);
  expect_one_step(g, g.finish({g.conv(g.concat({large, x, small, middle}), 8, 1)}), 3);
}

TEST(CudaMaxPools, APoolThatMakesItsImageSmallerStaysAPool) {
  GraphBuilder g({1, 3, 24, 24});
  const Graph graph = g.finish({g.conv(pool(g, g.conv(g.input(), 16, 3, 2), 3, 2), 8, 1)});
  const Plan plan = cuda::make_plan(graph, options_of(DataType::kF16), "test");
  EXPECT_EQ(count<cuda::PoolArguments>(plan), 1);
  EXPECT_EQ(count<cuda::MaxPoolsArguments>(plan), 0);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
