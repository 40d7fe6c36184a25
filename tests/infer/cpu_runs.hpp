// Runs graphs on the CPU engine with given kernels, and compares them with the reference evaluator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "infer/cpu/build_program.hpp"
#include "infer/cpu/run.hpp"
#include "infer/cpu/thread_pool.hpp"
#include "infer/graph/reference.hpp"

namespace camd::infer::test {

inline std::vector<float> noise(std::int64_t count, unsigned seed = 5) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = uniform(random);
  return values;
}

inline std::vector<std::vector<float>> run(const Graph& graph, const std::vector<float>& input,
                                           const cpu::Kernels& kernels, cpu::ThreadPool& threads, int times = 1) {
  cpu::Run runner(cpu::build_program(graph, kernels, threads.size(), "test.onnx"), threads);
  std::vector<std::vector<float>> outputs;
  std::vector<float*> pointers;
  pointers.reserve(graph.outputs.size());
  for (const ValueId id : graph.outputs) {
    outputs.emplace_back(static_cast<std::size_t>(element_count(graph.shape(id))), std::nanf(""));
  }
  for (auto& output : outputs) pointers.push_back(output.data());
  for (int i = 0; i < times; ++i) runner(input.data(), pointers);
  return outputs;
}

// Against the reference, relative to the output's largest value.
inline void expect_like_reference(const Graph& graph, const std::vector<float>& input, const cpu::Kernels& kernels,
                                  cpu::ThreadPool& threads, const std::string& what, float tolerance = 2e-5F) {
  const auto want = run_reference(graph, input);
  const auto got = run(graph, input, kernels, threads, 2);  // the second run must not see what the first left behind
  for (std::size_t i = 0; i < want.size(); ++i) {
    float largest = 1e-3F, worst = 0;
    for (std::size_t k = 0; k < want[i].f32.size(); ++k) {
      largest = std::max(largest, std::abs(want[i].f32[k]));
      const float d = std::abs(want[i].f32[k] - got[i][k]);
      worst = std::isnan(d) ? std::numeric_limits<float>::infinity() : std::max(worst, d);
    }
    EXPECT_LE(worst, tolerance * largest) << what << " output " << i << " with " << kernels.name;
  }
}

}  // namespace camd::infer::test
