// What engine `cpu` computes as one step or one convolution although the graph has several ops for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cpu_runs.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/steps.hpp"
#include "infer/cpu/thread_pool.hpp"
#include "infer/graph/lower_model.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_like_reference;
using test::noise;
using test::OnnxBuilder;

template <typename S>
int steps_of(const Graph& graph, const cpu::Kernels& kernels) {
  int count = 0;
  const auto program = cpu::build_program(graph, kernels, 3, "test.onnx");
  for (const auto& step : program->steps) {
    if (dynamic_cast<const S*>(step.get()) != nullptr) ++count;
  }
  return count;
}

class CpuFusions : public ::testing::TestWithParam<const cpu::Kernels*> {
 protected:
  cpu::ThreadPool threads_{3};
};

// Softmax of a product with keys, multiplied with values; `scale` and `bias`: what may stand before the softmax.
Graph attention_of(const Shape& queries, std::int64_t keys, std::int64_t columns, const char* scale, bool bias,
                   bool turned = false) {
  const std::int64_t inner = queries.back();
  OnnxBuilder b;
  b.input("q", queries).weight("s", {}, {0.75F}).weight("m", {keys}, noise(keys, 6));
  Shape k = queries, v = queries;
  k[k.size() - 2] = inner;
  k.back() = keys;
  v[v.size() - 2] = turned ? columns : keys;
  v.back() = turned ? keys : columns;
  b.weight("k", k, noise(element_count(k), 2)).weight("v", v, noise(element_count(v), 3));
  // Keys that the picture decides: those that are known take the scale in.
  b.weight("f", {}, {1.5F}).node("ReduceMean", {"q"}, {"mean"}).integer("keepdims", 0);
  b.node("Add", {"mean", "f"}, {"o"}).node("Mul", {"k", "o"}, {"keys"}).node("MatMul", {"q", "keys"}, {"scores"});
  const std::string given = *scale == '\0' ? "scores" : "scaled";
  if (*scale != '\0') b.node(scale, {"scores", "s"}, {"scaled"});
  if (bias) b.node("Add", {given, "m"}, {"masked"});
  b.node("Softmax", {bias ? "masked" : given}, {"p"}).integer("axis", static_cast<std::int64_t>(queries.size()) - 1);
  if (turned) {
    std::vector<std::int64_t> exchanged(queries.size());
    std::iota(exchanged.begin(), exchanged.end(), 0);
    std::swap(exchanged[queries.size() - 2], exchanged.back());
    b.node("Transpose", {"p"}, {"t"}).ints("perm", exchanged).node("MatMul", {"v", "t"}, {"y"});
  } else {
    b.node("MatMul", {"p", "v"}, {"y"});
  }
  b.output("y", {});
  return lower_model(b.file(), {"q", queries, DataType::kF32});
}

TEST_P(CpuFusions, AttentionIsOneStepAndEqualsTheReference) {
  for (const Shape& queries : {Shape{1, 2, 5, 8}, {2, 3, 33, 16}, {1, 1, 200, 3}, {4, 9, 7}}) {
    for (const std::int64_t keys : {1, 7, 21, 400}) {
      for (const char* scale : {"", "Mul", "Div"}) {
        const Graph graph = attention_of(queries, keys, 13, scale, false);
        const std::string what = to_string(queries) + " and " + std::to_string(keys) + scale;
        EXPECT_EQ(steps_of<cpu::AttentionStep>(graph, *GetParam()), 1) << what;
        EXPECT_EQ(steps_of<cpu::SoftmaxStep>(graph, *GetParam()) + steps_of<cpu::MatMulStep>(graph, *GetParam()), 0)
            << what;
        expect_like_reference(graph, noise(element_count(queries)), *GetParam(), threads_, what);
      }
    }
  }
}

// As YOLO11, YOLO12 and YOLO26 write it: the values times the transposed shares. Those of one key are only reshaped.
TEST_P(CpuFusions, AttentionWithValuesInRowsIsOneStepAndEqualsTheReference) {
  for (const Shape& queries : {Shape{1, 2, 5, 8}, {2, 3, 33, 16}, {1, 1, 200, 3}, {4, 9, 7}}) {
    for (const std::int64_t keys : {2, 7, 21, 400}) {
      for (const std::int64_t columns : {3, 32}) {
        const Graph graph = attention_of(queries, keys, columns, "Mul", false, true);
        const std::string what = to_string(queries) + ", " + std::to_string(keys) + " and " + std::to_string(columns);
        EXPECT_EQ(steps_of<cpu::AttentionStep>(graph, *GetParam()), 1) << what;
        EXPECT_EQ(steps_of<cpu::SoftmaxStep>(graph, *GetParam()) + steps_of<cpu::MatMulStep>(graph, *GetParam()), 0)
            << what;
        expect_like_reference(graph, noise(element_count(queries)), *GetParam(), threads_, what);
      }
    }
  }
}

TEST_P(CpuFusions, AttentionWhoseValuesInRowsTakeMoreThanAMebibyteIsNotOneStep) {
  const Shape queries = {1, 1, 2, 4};
  const std::int64_t keys = 16384;
  EXPECT_EQ(steps_of<cpu::AttentionStep>(attention_of(queries, keys, 16, "", false, true), *GetParam()), 1);
  EXPECT_EQ(steps_of<cpu::AttentionStep>(attention_of(queries, keys, 17, "", false, true), *GetParam()), 0);
}

TEST_P(CpuFusions, ScoresThatSomethingElseIsAddedToStayATensor) {
  const Graph graph = attention_of({1, 2, 5, 8}, 9, 4, "Mul", true);
  EXPECT_EQ(steps_of<cpu::AttentionStep>(graph, *GetParam()), 0);
  expect_like_reference(graph, noise(80), *GetParam(), threads_, "a mask");
}

// As a distance between all pairs of boxes is written: columns and rows that repeat, numbers, functions and a value
// that several read.
TEST_P(CpuFusions, ElementwiseOpsOfOneShapeAreOneStepAndEqualTheReference) {
  for (const std::int64_t side : {64, 97, 1300}) {
    OnnxBuilder b;
    b.input("x", {1, side}).integers("turned", {2}, {side, 1}).node("Reshape", {"x", "turned"}, {"t"});
    b.weight("two", {}, {2.0F}).weight("w", {side, side}, noise(side * side, 8));
    b.node("Sub", {"x", "t"}, {"d"}).node("Pow", {"d", "two"}, {"square"}).node("Abs", {"d"}, {"far"});
    b.node("Add", {"far", "two"}, {"away"}).node("Div", {"square", "away"}, {"q"}).node("Sqrt", {"q"}, {"r"});
    b.node("Mul", {"r", "w"}, {"m"}).node("Max", {"m", "d"}, {"most"}).node("Neg", {"most"}, {"y"});
    b.output("y", {}).output("far", {});
    const Graph graph = lower_model(b.file(), {"x", {1, side}, DataType::kF32});
    const auto program = cpu::build_program(graph, *GetParam(), 3, "test.onnx");
    // The input turned around, and the chain.
    EXPECT_EQ(program->steps.size(), 2U) << side;
    EXPECT_EQ(steps_of<cpu::ChainStep>(graph, *GetParam()), 1) << side;
    expect_like_reference(graph, noise(side), *GetParam(), threads_, std::to_string(side), 1e-6F);
  }
}

// What reads a value of a chain from outside has to come behind it, and what it makes cannot be read inside.
TEST_P(CpuFusions, AChainEndsWhereAnotherOpReadsIt) {
  const Shape shape = {3, 5, 64};
  OnnxBuilder b;
  b.input("x", shape).weight("c", {64}, noise(64, 2));
  b.node("Abs", {"x"}, {"a"}).node("Add", {"a", "c"}, {"s"});
  b.node("Softmax", {"s"}, {"p"}).integer("axis", 2);
  b.node("Mul", {"s", "p"}, {"m"}).node("Exp", {"a"}, {"e"}).node("Sub", {"m", "e"}, {"y"}).output("y", {});
  const Graph graph = lower_model(b.file(), {"x", shape, DataType::kF32});
  EXPECT_EQ(steps_of<cpu::ChainStep>(graph, *GetParam()), 2);
  EXPECT_EQ(cpu::build_program(graph, *GetParam(), 3, "test.onnx")->steps.size(), 3U);
  expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_, "around a softmax");
}

TEST_P(CpuFusions, ShortLinesStayStepsOfTheirOwn) {
  OnnxBuilder b;
  b.input("x", {90, 6}).weight("c", {90, 1}, noise(90, 2)).weight("d", {6}, noise(6, 3));
  b.node("Add", {"x", "c"}, {"a"}).node("Mul", {"a", "d"}, {"y"}).output("y", {});
  const Graph graph = lower_model(b.file(), {"x", {90, 6}, DataType::kF32});
  EXPECT_EQ(steps_of<cpu::ChainStep>(graph, *GetParam()), 0);
  expect_like_reference(graph, noise(540), *GetParam(), threads_, "lines of six");
}

// A chain takes so many ops and no more.
TEST_P(CpuFusions, LongChainsAreCut) {
  OnnxBuilder b;
  b.input("x", {2000}).weight("c", {2000}, noise(2000, 2));
  std::string before = "x";
  for (int i = 0; i < 80; ++i) {
    const std::string next = "v" + std::to_string(i);
    b.node(i % 2 == 0 ? "Add" : "Mul", {before, i % 3 == 0 ? "x" : "c"}, {next});
    before = next;
  }
  const Graph graph = lower_model(b.output(before, {}).file(), {"x", {2000}, DataType::kF32});
  EXPECT_EQ(steps_of<cpu::ChainStep>(graph, *GetParam()), 3);
  expect_like_reference(graph, noise(2000), *GetParam(), threads_, "eighty ops");
}

// More weights than the first cache holds: sums wait in the output for the rest of the channels.
TEST_P(CpuFusions, ConvolutionsOfManyChannelsEqualTheReference) {
  struct Case {
    std::int64_t channels, outputs, height, width, kernel, stride, pad;
  };
  for (const Case& c : {Case{648, 20, 3, 13, 1, 1, 0},
                        {523, 44, 9, 11, 1, 2, 0},
                        {200, 40, 7, 19, 3, 2, 1},
                        {96, 13, 6, 6, 5, 1, 2},
                        {1030, 8, 1, 1, 1, 1, 0}}) {
    for (const char* activation : {"Relu", "Sigmoid"}) {
      const Shape shape = {1, c.channels, c.height, c.width};
      OnnxBuilder b;
      b.input("x", shape)
          .weight("w", {c.outputs, c.channels, c.kernel, c.kernel},
                  noise(c.outputs * c.channels * c.kernel * c.kernel));
      b.weight("b", {c.outputs}, noise(c.outputs, 9));
      b.node("Conv", {"x", "w", "b"}, {"c"})
          .ints("pads", {c.pad, c.pad, c.pad, c.pad})
          .ints("strides", {c.stride, c.stride});
      b.node("Abs", {"c"}, {"r"}).node("Add", {"c", "r"}, {"a"}).node(activation, {"a"}, {"y"}).output("y", {});
      const Graph graph = lower_model(b.file(), {"x", shape, DataType::kF32});
      expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_, to_string(shape) + activation);
    }
  }
}

// The last numbers of a row are taken with a register that ends with them.
TEST_P(CpuFusions, RowsOfEveryLengthBecomeSharesOfOne) {
  for (std::size_t size = 1; size <= 40; ++size) {
    for (const bool log : {false, true}) {
      std::vector<float> row = noise(static_cast<std::int64_t>(size), 7);
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x));
      std::vector<double> want;
      want.reserve(row.size());
      for (const float x : row)
        want.push_back(log ? static_cast<double>(x) - std::log(sum) : std::exp(static_cast<double>(x)) / sum);
      row.push_back(5.0F);  // behind the row
      GetParam()->softmax(row.data(), row.data(), size, 1, 0, 1, log);
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(row[i], want[i], 5e-7) << size << " numbers, " << i;
      ASSERT_EQ(row[size], 5.0F) << size;
    }
  }
}

TEST_P(CpuFusions, ExponentialsOfEveryLengthComeWithTheirSum) {
  for (std::size_t size = 1; size <= 40; ++size) {
    std::vector<float> row = noise(static_cast<std::int64_t>(size), 7);
    const float largest = *std::max_element(row.begin(), row.end());
    std::vector<double> want;
    double sum = 0;
    for (const float x : row) {
      want.push_back(std::exp(static_cast<double>(x) - static_cast<double>(largest)));
      sum += want.back();
    }
    row.push_back(5.0F);  // behind the row
    EXPECT_NEAR(GetParam()->exponentials(row.data(), row.data(), size), sum, 1e-6 * sum) << size;
    for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(row[i], want[i], 2e-7) << size << " numbers, " << i;
    ASSERT_EQ(row[size], 5.0F) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuFusions, ::testing::ValuesIn(cpu::kernel_sets()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
