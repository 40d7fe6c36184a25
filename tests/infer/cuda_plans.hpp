// What tests of the planner ask: which kernels a graph takes, and whether they compute what the reference does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/reference.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer::test {

inline constexpr float kF32Tolerance = 1e-4F;
inline constexpr float kF16Tolerance = 2e-2F;

inline cuda::PlanOptions options_of(DataType type, std::size_t shared_bytes = std::size_t{227} * 1024) {
  cuda::PlanOptions options;
  options.type = type;
  options.shared_bytes = shared_bytes;
  return options;
}

inline void expect_like_reference(const Graph& graph, const std::vector<float>& input,
                                  const cuda::PlanOptions& options) {
  const std::vector<Constant> want = run_reference(graph, input);
  const cuda::Plan plan = cuda::make_plan(graph, options, "test");
  const auto got = run_emulated(plan, input);
  const bool f16 = options.type == DataType::kF16 || options.output_type == DataType::kF16;
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_LE(relative_error(got[i], want[i].f32), f16 ? kF16Tolerance : kF32Tolerance) << "output " << i;
  }
}

// For a GPU with as much shared memory as an H100's.
inline cuda::Plan plan_of(const Graph& graph, DataType type = DataType::kF16) {
  return cuda::make_plan(graph, options_of(type), "test");
}

template <typename T>
int steps_of(const cuda::Plan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(),
                                        [](const cuda::Step& s) { return std::holds_alternative<T>(s.arguments); }));
}

// In both types, under emulation.
inline void expect_reference(const Graph& graph, const std::vector<float>& input) {
  const std::vector<Constant> want = run_reference(graph, input);
  for (const auto& [type, tolerance] : {std::pair{DataType::kF32, 1e-4F}, std::pair{DataType::kF16, 2e-2F}}) {
    const auto got = run_emulated(plan_of(graph, type), input);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(relative_error(got[i], want[i].f32), tolerance) << "output " << i;
    }
  }
}

}  // namespace camd::infer::test
