// Runs graphs on the CPU engine with given kernels, and compares them with the reference evaluator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "infer/cpu/build_program.hpp"
#include "infer/cpu/run.hpp"
#include "infer/cpu/thread_pool.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/graph/reference.hpp"
#include "onnx_builder.hpp"

namespace camd::infer::test {

inline std::vector<float> noise(std::int64_t count, unsigned seed = 5) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = uniform(random);
  return values;
}

inline std::vector<std::vector<float>> run(const Graph& graph, const std::vector<float>& input,
                                           const cpu::Kernels& kernels, cpu::ThreadPool& threads, int times = 1,
                                           const cpu::HalfPrecision& half = {}) {
  cpu::Run runner(cpu::build_program(graph, kernels, threads.size(), "test.onnx", half), threads);
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
                                  cpu::ThreadPool& threads, const std::string& what, float tolerance = 2e-5F,
                                  const cpu::HalfPrecision& half = {}) {
  const auto want = run_reference(graph, input);
  const auto got =
      run(graph, input, kernels, threads, 2, half);  // the second run must not see what the first left behind
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

// Small networks with a convolution of each kind.
inline void each_convolution(
    const std::function<void(const std::string& what, const Graph& graph, const Shape& input)>& use) {
  struct Case {
    std::int64_t channels, outputs, height, width, kernel;
    int stride, pad, dilation, groups;
  };
  const Case cases[] = {
      {3, 8, 17, 23, 3, 2, 1, 1, 1},    {3, 12, 9, 9, 3, 1, 1, 1, 1},     {1, 5, 7, 8, 5, 1, 2, 1, 1},
      {8, 16, 12, 13, 1, 1, 0, 1, 1},   {20, 7, 11, 5, 3, 1, 1, 1, 1},    {16, 40, 9, 17, 3, 2, 1, 1, 1},
      {5, 3, 8, 9, 3, 1, 2, 2, 1},      {24, 24, 15, 14, 3, 1, 1, 1, 24}, {10, 10, 9, 16, 3, 2, 1, 1, 10},
      {16, 16, 13, 13, 5, 1, 2, 1, 16}, {16, 16, 14, 15, 5, 2, 2, 1, 16}, {8, 8, 12, 12, 3, 1, 2, 2, 8},
      {16, 32, 9, 9, 3, 1, 1, 1, 2},    {6, 9, 8, 8, 3, 1, 1, 1, 3},      {4, 8, 8, 8, 3, 1, 1, 1, 4},
      {64, 64, 6, 10, 3, 1, 1, 1, 1},   {12, 20, 1, 1, 1, 1, 0, 1, 1},    {7, 9, 5, 4, 7, 1, 3, 1, 1},
      {20, 36, 13, 18, 3, 1, 1, 1, 1},  {16, 16, 8, 9, 3, 1, 0, 1, 1},    {32, 24, 9, 31, 3, 1, 2, 1, 1},
  };
  for (const Case& c : cases) {
    for (const char* activation : {"", "Relu", "Sigmoid"}) {
      const Shape shape = {1, c.channels, c.height, c.width};
      // A first 1x1 convolution makes the tested one read blocked storage too.
      for (const bool blocked : {false, true}) {
        OnnxBuilder model;
        model.input("x", shape);
        const std::int64_t weights = c.outputs * c.channels / c.groups * c.kernel * c.kernel;
        model.weight("w", {c.outputs, c.channels / c.groups, c.kernel, c.kernel}, noise(weights));
        model.weight("b", {c.outputs}, noise(c.outputs, 9));
        model.weight("w0", {c.channels, c.channels, 1, 1}, noise(c.channels * c.channels, 4));
        if (blocked) model.node("Conv", {"x", "w0"}, {"in"});
        model.node("Conv", {blocked ? "in" : "x", "w", "b"}, {"c"}).integer("group", c.groups);
        model.ints("pads", {c.pad, c.pad, c.pad, c.pad}).ints("strides", {c.stride, c.stride});
        model.ints("dilations", {c.dilation, c.dilation});
        if (*activation != '\0')
          model.node(activation, {"c"}, {"y"}).output("y", {});
        else
          model.output("c", {});
        const Graph graph = lower_model(model.file(), {"x", shape, DataType::kF32});
        use(std::to_string(&c - cases) + activation + (blocked ? " blocked" : " plain"), graph, shape);
      }
    }
  }
}

}  // namespace camd::infer::test
