#include "infer/cpu/cpu_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <thread>

#include "base/error.hpp"
#include "conformance.hpp"
#include "cpu_runs.hpp"
#include "device/host_device.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/run.hpp"
#include "infer/cpu/steps.hpp"
#include "infer/cpu/thread_pool.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/graph/reference.hpp"
#include "infer/graph/selection.hpp"
#include "onnx_builder.hpp"
#include "tests/support/paths.hpp"
#include "two_executions.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::expect_like_reference;
using test::noise;
using test::OnnxBuilder;
using test::run;
using ::testing::HasSubstr;

// 231 bytes took 6.7 GB.
TEST(CpuEngine, RefusesAModelWhoseFramesWouldFillTheMachine) {
  const auto refusal = [](EngineKind kind, int side) {
    const Shape input{1, 3, 64, 64}, padded{1, 3, side, side};
    const test::TemporaryFolder folder;
    const std::string path = folder.write("pad.onnx", OnnxBuilder()
                                                          .opset(10)
                                                          .input("x", input)
                                                          .node("Pad", {"x"}, {"y"})
                                                          .ints("pads", {0, 0, 0, 0, 0, 0, side - 64, side - 64})
                                                          .node("Relu", {"y"}, {"z"})
                                                          .output("z", padded)
                                                          .output("y", padded)
                                                          .bytes());
    const auto device = device::make_host_device(base::system_clock());
    EngineOptions options;
    options.kind = kind;
    try {
      (void)make_engine(path, options, *device);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kModel);
      return std::string(error.what());
    }
    return std::string();
  };
  for (const EngineKind kind : {EngineKind::kCpu, EngineKind::kAuto}) {
    EXPECT_THAT(
        refusal(kind, 6670),
        ::testing::MatchesRegex(".*pad.onnx: each frame in flight would take [0-9]+ MiB \\(1018 for the input and "
                                "the outputs, [0-9]+ between them\\); at most [0-9]+ MiB can be had, a "
                                "thirty-second of the machine's memory within 512 and 1024 MiB"));
  }
  // Its memory is known less well: what is certain is the largest layer beside the outputs.
  EXPECT_THAT(
      refusal(EngineKind::kOpenCv, 9000),
      ::testing::HasSubstr("pad.onnx: each frame in flight would take 2780 MiB (1853 for the input and the outputs, "
                           "926 between them)"));
  // Three times the square of this is 2^32 and a little: OpenCV's own sum says 0 MiB.
  for (const EngineKind kind : {EngineKind::kOpenCv, EngineKind::kAuto}) {
    EXPECT_THAT(refusal(kind, 37838),
                ::testing::HasSubstr("(32769 for the input and the outputs, 16384 between them)"));
  }
}

class Kernels : public ::testing::TestWithParam<const cpu::Kernels*> {
 protected:
  cpu::ThreadPool threads_{3};
};

TEST_P(Kernels, ConvolutionsOfEveryKindEqualTheReference) {
  test::each_convolution([&](const std::string& what, const Graph& graph, const Shape& shape) {
    // Winograd's rounding, which a sigmoid of large sums shows.
    expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_, what, 1e-4F);
  });
}

// Squeeze and excitation: the crash was a step that knew constant gains only.
TEST_P(Kernels, ChannelsWeighedByWhatThePictureSaysEqualTheReference) {
  for (const std::int64_t channels : {3, 8, 20}) {
    for (const bool gain_first : {false, true}) {
      OnnxBuilder b;
      b.input("x", {1, channels, 7, 9}).weight("w", {channels, channels, 1, 1}, noise(channels * channels));
      b.node("Conv", {"x", "w"}, {"c"}).node("GlobalAveragePool", {"c"}, {"mean"});
      b.node("Conv", {"mean", "w"}, {"gain"}).node("HardSigmoid", {"gain"}, {"s"});
      const std::vector<std::string> sides =
          gain_first ? std::vector<std::string>{"s", "c"} : std::vector<std::string>{"c", "s"};
      b.node("Mul", sides, {"y"}).output("y", {});
      const Shape shape = {1, channels, 7, 9};
      expect_like_reference(lower_model(b.file(), {"x", shape, DataType::kF32}), noise(element_count(shape)),
                            *GetParam(), threads_, std::to_string(channels));
    }
  }
}

// As HGNet's stem: two operators read the padded picture, so that no convolution takes the padding over. The
// reference's step took a third of D-FINE-N's time.
TEST_P(Kernels, RowsAndColumnsOfANumberAroundAPictureTakeNoStepOfTheReference) {
  for (const float value : {0.0F, -2.5F}) {
    const Shape shape = {1, 3, 7, 9};
    OnnxBuilder b;
    b.input("x", shape).weight("w", {20, 3, 1, 1}, noise(60)).weight("v", {12, 20, 2, 2}, noise(960));
    b.integers("pads", {8}, {0, 0, 1, 0, 0, 0, 2, 3}).weight("value", {}, {value});
    b.node("Conv", {"x", "w"}, {"c"}).node("Pad", {"c", "pads", "value"}, {"p"});
    b.node("Conv", {"p", "v"}, {"a"}).output("a", {});
    b.node("MaxPool", {"p"}, {"m"}).ints("kernel_shape", {2, 2}).output("m", {});
    const Graph graph = lower_model(b.file(), {"x", shape, DataType::kF32});
    expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_, std::to_string(value));
    const auto program = cpu::build_program(graph, *GetParam(), 3, "test.onnx");
    for (const auto& step : program->steps)
      EXPECT_EQ(dynamic_cast<const cpu::ReferenceStep*>(step.get()), nullptr) << step->name;
  }
}

TEST_P(Kernels, FunctionsOfTransformersAreWithinTheRoundingOfTheirNumbers) {
  std::vector<float> given = {-1e30F, 1e30F, -INFINITY, INFINITY};
  for (int i = -1600; i <= 1600; ++i) given.push_back(static_cast<float>(i) / 128.0F);
  for (const Function f : {Function::kErf, Function::kGelu, Function::kTanh, Function::kMish}) {
    std::vector<float> made = given;
    GetParam()->activate(made.data(), made.size(), {f, 0, 0});
    for (std::size_t i = 4; i < given.size(); ++i) {
      const auto want = apply({f, 0, 0}, static_cast<double>(given[i]));
      ASSERT_NEAR(made[i], want, 2e-7 * std::max(1.0, std::abs(static_cast<double>(given[i]))))
          << static_cast<int>(f) << " of " << given[i];
    }
    EXPECT_EQ(made[1], f == Function::kErf || f == Function::kTanh ? 1.0F : given[1]);
    std::vector<float> none(17, NAN);
    GetParam()->activate(none.data(), none.size(), {f, 0, 0});
    for (const float y : none) EXPECT_TRUE(std::isnan(y)) << static_cast<int>(f);
  }
}

TEST_P(Kernels, RootsLogarithmsAndWholeNumbersAreThoseOfTheirFunctions) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> given = {0.0F,     -1.0F, INFINITY, -INFINITY, kNone,     1e-45F,
                              1.2e-38F, 3e38F, 1e30F,    -1e30F,    8388609.0F};
  for (int i = -800; i <= 800; ++i) given.push_back(static_cast<float>(i) / 64.0F);
  for (const Function f : {Function::kLog, Function::kSqrt, Function::kFloor, Function::kCeil, Function::kTruncate}) {
    std::vector<float> made = given;
    GetParam()->activate(made.data(), made.size(), {f, 0, 0});
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto want = static_cast<float>(apply({f, 0, 0}, static_cast<double>(given[i])));
      const std::string what = std::to_string(static_cast<int>(f)) + " of " + std::to_string(given[i]);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(made[i])) << what;
      else if (f == Function::kLog && std::isfinite(want))
        EXPECT_NEAR(made[i], want, 1.2e-7 * std::max(1.0F, std::abs(want))) << what;
      else
        EXPECT_EQ(made[i], want) << what;
    }
  }
}

// In place as well, with one number for all on either side.
TEST_P(Kernels, LinesOfEveryLengthAreCombinedNumberByNumber) {
  using Kind = Binary::Kind;
  for (const Kind kind : {Kind::kAdd, Kind::kSub, Kind::kMul, Kind::kDiv, Kind::kMin, Kind::kMax, Kind::kLess}) {
    for (std::size_t count = 1; count <= 40; ++count) {
      for (const int a_step : {0, 1}) {
        for (const int b_step : {0, 1}) {
          std::vector<float> a = noise(41, 2);
          const std::vector<float> b = noise(41, 3);
          std::vector<float> want = a;
          for (std::size_t i = 0; i < count; ++i) {
            const float x = a[a_step == 0 ? 0 : i], y = b[b_step == 0 ? 0 : i];
            want[i] = kind == Kind::kAdd   ? x + y
                      : kind == Kind::kSub ? x - y
                      : kind == Kind::kMul ? x * y
                      : kind == Kind::kDiv ? x / y
                      : kind == Kind::kMin ? std::min(x, y)
                      : kind == Kind::kMax ? std::max(x, y)
                                           : static_cast<float>(x < y);
            want[i] = std::abs(want[i]);
          }
          const float first = a[0];
          GetParam()->binary(kind, a_step == 0 ? &first : a.data(), a_step, b.data(), b_step, a.data(), count,
                             {Function::kAbs, 0, 0});
          EXPECT_EQ(a, want) << static_cast<int>(kind) << " of " << count << " by " << a_step << " and " << b_step;
        }
      }
    }
  }
}

TEST_P(Kernels, NumbersArePickedAsTheReferencePicksThem) {
  const std::vector<float> line = noise(7, 4);
  std::vector<float> indices = {0, 6, 7, -1, -7, -8, 3.7F, -0.5F, 1e9F, -1e9F, std::nanf("")};
  while (indices.size() < 37) indices.push_back(static_cast<float>(indices.size() % 7));
  PickShape shape;
  shape.size = 7;
  shape.count = static_cast<std::int64_t>(indices.size());
  std::vector<float> want(indices.size()), made(indices.size());
  pick(shape, line.data(), indices.data(), want.data(), 0, 1);
  GetParam()->pick(line.data(), 7, indices.data(), made.data(), indices.size());
  EXPECT_EQ(made, want);
}

// A layer of a transformer on several windows of a picture.
TEST_P(Kernels, ABatchThatSharesItsMatrixIsOneProduct) {
  const Shape shape = {7, 3, 5};
  OnnxBuilder b;
  b.input("x", {1, 3, 5, 7}).integers("shape", {3}, shape).node("Reshape", {"x", "shape"}, {"r"});
  b.weight("w", {5, 40}, noise(200)).weight("b", {40}, noise(40, 2)).node("MatMul", {"r", "w"}, {"m"});
  b.node("Add", {"m", "b"}, {"y"}).output("y", {});
  const Graph graph = lower_model(b.file(), {"x", {1, 3, 5, 7}, DataType::kF32});
  expect_like_reference(graph, noise(105), *GetParam(), threads_, GetParam()->name);
  const auto program = cpu::build_program(graph, *GetParam(), 3, "test.onnx");
  const auto* product = dynamic_cast<const cpu::MatMulStep*>(program->steps.back().get());
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->batch, 1);
  EXPECT_EQ(product->m, 21);
}

TEST_P(Kernels, ResidualsBeforeAndAfterTheActivationEqualTheReference) {
  for (const std::int64_t groups : {1, 2, 20}) {
    for (const bool after : {false, true}) {
      OnnxBuilder b;
      b.input("x", {1, 20, 9, 11})
          .weight("w0", {20, 20, 1, 1}, noise(400))
          .weight("w", {20, 20 / groups, 3, 3}, noise(3600 / groups));
      b.node("Conv", {"x", "w0"}, {"r"});
      b.node("Conv", {"r", "w"}, {"c"}).ints("pads", {1, 1, 1, 1}).integer("group", groups);
      if (after)
        b.node("LeakyRelu", {"c"}, {"a"}).node("Add", {"a", "r"}, {"y"});
      else
        b.node("Add", {"r", "c"}, {"a"}).node("Relu", {"a"}, {"y"});
      const Graph graph = lower_model(b.output("y", {}).file(), {"x", {1, 20, 9, 11}, DataType::kF32});
      ASSERT_EQ(graph.ops.size(), 2U);
      expect_like_reference(graph, noise(std::int64_t{20} * 99), *GetParam(), threads_, after ? "after" : "before");
    }
  }
}

// Beside the bias f32 tells eighths apart: each product is less than half of that, all together are four.
TEST_P(Kernels, ALargeBiasTakesNothingFromTheProducts) {
  struct Case {
    const char* node;
    std::int64_t channels, kernel, groups;
  };
  for (const Case& c : {Case{"Conv", 16, 1, 1}, {"Conv", 3, 3, 1}, {"Conv", 16, 3, 16}, {"ConvTranspose", 16, 1, 1}}) {
    const Shape shape = {1, c.channels, 5, 13};
    const std::int64_t products = c.channels / c.groups * c.kernel * c.kernel;
    OnnxBuilder b;
    b.input("x", shape)
        .weight("w", {c.channels, c.channels / c.groups, c.kernel, c.kernel},
                std::vector<float>(static_cast<std::size_t>(c.channels * products), 1.0F));
    b.weight("b", {c.channels}, std::vector<float>(static_cast<std::size_t>(c.channels), 1048576.0F));
    b.node(c.node, {"x", "w", "b"}, {"y"}).integer("group", c.groups).output("y", {});
    const Graph graph = lower_model(b.file(), {"x", shape, DataType::kF32});
    const float product = 0.5F / static_cast<float>(products);
    const std::vector<float> input(static_cast<std::size_t>(element_count(shape)), product);
    const auto outputs = run(graph, input, *GetParam(), threads_);
    for (const float y : outputs.at(0)) ASSERT_EQ(y, 1048576.5F) << c.node << " of " << products << " products";
  }
}

// Groups of one channel, of parts of a block, of whole blocks and of what is neither.
TEST_P(Kernels, NormalisationsRunAsOneStepAndEqualTheReference) {
  struct Case {
    std::int64_t channels, groups;
  };
  for (const Case& c : {Case{5, 5}, {16, 16}, {16, 4}, {32, 2}, {24, 2}, {12, 2}, {6, 1}}) {
    const Shape shape = {1, c.channels, 7, 9};
    OnnxBuilder b;
    b.input("x", shape).weight("w", {c.channels, c.channels, 1, 1}, noise(c.channels * c.channels));
    b.weight("gain", {c.channels, 1, 1}, noise(c.channels, 2))
        .weight("offset", {c.channels, 1, 1}, noise(c.channels, 3));
    b.weight("ones", {c.groups}, noise(c.groups, 4)).weight("zeros", {c.groups}, noise(c.groups, 5));
    b.integers("flat", {3}, {1, c.groups, -1}).integers("picture", {4}, {1, c.channels, 7, 9});
    b.node("Conv", {"x", "w"}, {"c"});
    // As PyTorch exports GroupNorm.
    const bool by_channel = c.groups == c.channels;
    if (!by_channel) b.node("Reshape", {"c", "flat"}, {"f"});
    b.node("InstanceNormalization", {by_channel ? "c" : "f", "ones", "zeros"}, {"n"}).number("epsilon", 1e-3F);
    if (!by_channel) b.node("Reshape", {"n", "picture"}, {"p"});
    b.node("Mul", {by_channel ? "n" : "p", "gain"}, {"g"}).node("Add", {"g", "offset"}, {"o"});
    b.node("Relu", {"o"}, {"y"}).output("y", {});
    const Graph graph = lower_model(b.file(), {"x", shape, DataType::kF32});
    const std::string what = std::to_string(c.channels) + " channels in " + std::to_string(c.groups);
    // The input made blocked, the convolution, the normalisation, the output made plain.
    EXPECT_EQ(cpu::build_program(graph, *GetParam(), 2, "test.onnx")->steps.size(), 4U) << what;
    expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_, what);
  }
}

TEST_P(Kernels, ANormalisationThatAnotherOpReadsIntoStaysWhole) {
  OnnxBuilder b;
  b.input("x", {1, 8, 5, 5}).weight("s", {8}, noise(8)).weight("t", {8}, noise(8, 2));
  b.node("InstanceNormalization", {"x", "s", "t"}, {"n"}).node("Mul", {"n", "n"}, {"y"}).output("y", {});
  const Graph graph = lower_model(b.output("n", {}).file(), {"x", {1, 8, 5, 5}, DataType::kF32});
  expect_like_reference(graph, noise(200), *GetParam(), threads_, "n is an output too");
}

// Inputs, weights and scales are sums of few powers of two, so that every order of adding gives the same float.
TEST_P(Kernels, PairsOfQuantisationEndTheStepsOfTheOpsBeforeThem) {
  OnnxBuilder b;
  const Shape shape = {1, 8, 6, 7};
  const auto coarse = [](std::int64_t count, std::uint32_t seed) {
    std::vector<float> values = noise(count, seed);
    for (float& v : values) v = std::nearbyint(v * 4) / 4;
    return values;
  };
  b.input("x", shape).weight("w", {8, 8, 3, 3}, coarse(std::int64_t{8} * 72, 2)).weight("s", {}, {0.125F});
  b.integers("z", {}, {-5}, onnx::TensorProto::INT8);
  const auto pair = [&b](const std::string& from, const std::string& to) {
    b.node("QuantizeLinear", {from, "s", "z"}, {to + "_q"}).node("DequantizeLinear", {to + "_q", "s", "z"}, {to});
  };
  b.node("Conv", {"x", "w"}, {"c"}).ints("pads", {1, 1, 1, 1}).ints("strides", {2, 2});
  b.node("Relu", {"c"}, {"r"});
  pair("r", "a");
  b.node("Abs", {"a"}, {"abs"});
  pair("abs", "d");
  b.node("Add", {"a", "d"}, {"sum"});
  pair("sum", "y");
  const Graph graph = lower_model(b.output("y", {}).file(), {"x", shape, DataType::kF32});
  // The input made blocked, the convolution, the function, the sum, the output made plain.
  EXPECT_EQ(cpu::build_program(graph, *GetParam(), 2, "test.onnx")->steps.size(), 5U);
  expect_like_reference(graph, coarse(element_count(shape), 7), *GetParam(), threads_, "pairs", 0.0F);
}

TEST_P(Kernels, ProductsOfAllWidthsEqualTheReference) {
  for (const std::int64_t rows : {1, 5, 17}) {
    for (const std::int64_t columns : {1, 7, 8, 23, 33, 70}) {
      OnnxBuilder b;
      b.input("x", {2, rows, 19})
          .weight("w", {2, 19, columns}, noise(38 * columns))
          .weight("v", {columns}, noise(columns));
      b.node("MatMul", {"x", "w"}, {"p"}).node("Add", {"p", "v"}, {"y"}).output("y", {});
      const Graph graph = lower_model(b.file(), {"x", {2, rows, 19}, DataType::kF32});
      expect_like_reference(graph, noise(38 * rows), *GetParam(), threads_,
                            std::to_string(rows) + " x " + std::to_string(columns));
    }
  }
}

TEST_P(Kernels, SoftmaxReductionsAndTranspositionsOfOddSizesEqualTheReference) {
  const Shape shape = {2, 3, 37, 43};
  for (const char* node :
       {"Softmax", "LogSoftmax", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL2"}) {
    for (const std::int64_t axis : {1, 2, 3}) {
      OnnxBuilder b;
      b.input("x", shape).integers("axes", {1}, {axis});
      const std::string type = node;
      const bool softmax = type.find("Softmax") != std::string::npos;
      if (type == "ReduceSum")
        b.node(type, {"x", "axes"}, {"y"});
      else
        b.node(type, {"x"}, {"y"});
      if (softmax) b.integer("axis", axis);
      if (!softmax && type != "ReduceSum") b.ints("axes", {axis});
      const Graph graph = lower_model(b.output("y", {}).file(), {"x", shape, DataType::kF32});
      expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_, type + std::to_string(axis));
    }
  }
  for (const std::vector<std::int64_t>& order :
       std::vector<std::vector<std::int64_t>>{{0, 1, 3, 2}, {0, 2, 3, 1}, {0, 3, 1, 2}, {3, 2, 1, 0}, {2, 0, 3, 1}}) {
    OnnxBuilder b;
    b.input("x", shape).node("Transpose", {"x"}, {"y"}).ints("perm", order).output("y", {});
    const Graph graph = lower_model(b.file(), {"x", shape, DataType::kF32});
    expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_, "a transposition", 0.0F);
  }
}

TEST_P(Kernels, PoolingAtAllEdgesEqualsTheReference) {
  struct Case {
    const char* node;
    std::int64_t kernel, stride, pad, dilation, ceil, count_pads;
  };
  for (const Case& c : {Case{"MaxPool", 3, 2, 1, 1, 0, 0},
                        {"MaxPool", 5, 1, 2, 1, 0, 0},
                        {"MaxPool", 3, 2, 0, 2, 1, 0},
                        {"MaxPool", 3, 3, 1, 3, 0, 0},
                        {"AveragePool", 3, 2, 1, 1, 1, 0},
                        {"AveragePool", 3, 2, 1, 1, 1, 1},
                        {"AveragePool", 17, 2, 8, 1, 0, 1}}) {
    const Shape shape = {1, 11, 18, 21};
    OnnxBuilder b;
    b.input("x", shape).node(c.node, {"x"}, {"y"}).ints("kernel_shape", {c.kernel, c.kernel});
    b.ints("strides", {c.stride, c.stride}).ints("pads", {c.pad, c.pad, c.pad, c.pad}).integer("ceil_mode", c.ceil);
    if (c.dilation > 1) b.ints("dilations", {c.dilation, c.dilation});
    if (c.count_pads > 0) b.integer("count_include_pad", c.count_pads);
    const Graph graph = lower_model(b.output("y", {}).file(), {"x", shape, DataType::kF32});
    expect_like_reference(graph, noise(element_count(shape)), *GetParam(), threads_,
                          std::string(c.node) + std::to_string(c.kernel));
  }
}

TEST_P(Kernels, EveryConformanceCaseHolds) {
  const auto cases = test::conformance_cases();
  if (cases.empty()) GTEST_SKIP() << "python3-onnx is not here";
  EXPECT_GT(cases.size(), 300U);
  for (const auto& c : cases) {
    const Graph graph = lower_model(c.file, c.input);
    const auto outputs = run(graph, c.values, *GetParam(), threads_);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(test::difference(c.expected[i], outputs[i].data(), graph.shape(graph.outputs[i])), "") << c.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Kernels, ::testing::ValuesIn(cpu::kernel_sets()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

// A stage whose items say who ran them.
class Counting final : public cpu::StageRunner {
 public:
  explicit Counting(std::size_t stages) : sums(stages) {}
  void run_item(int stage, int item, int) noexcept override {
    // Every earlier stage must be complete.
    if (stage > 0 && sums[static_cast<std::size_t>(stage) - 1].load() != 100 * 99 / 2) ordered = false;
    sums[static_cast<std::size_t>(stage)].fetch_add(item);
  }
  std::vector<std::atomic<int>> sums;
  std::atomic<bool> ordered{true};
};

TEST(ThreadPool, RunsEveryItemOnceAndStagesInOrder) {
  cpu::ThreadPool threads(4);
  const std::vector<int> items(50, 100);
  std::vector<std::atomic<int>> done(items.size());
  for (int round = 0; round < 50; ++round) {
    Counting counting(items.size());
    threads.run(counting, items, done);
    EXPECT_TRUE(counting.ordered);
    for (const auto& sum : counting.sums) EXPECT_EQ(sum.load(), 100 * 99 / 2);
  }
}

// Who takes item 4, the first of the second thread's part, stays in it until all others are done.
struct HeldUp final : cpu::StageRunner {
  void run_item(int, int item, int) noexcept override {
    if (item != 4) {
      others.fetch_add(1);
      others.notify_all();
      return;
    }
    for (int done = others.load(); done != 11; done = others.load()) others.wait(done);
  }
  std::atomic<int> others{0};
};

TEST(ThreadPool, AThreadThatIsSlowInOneItemLeavesAllOthersToTheRest) {
  cpu::ThreadPool threads(3);
  const std::vector<int> items = {12};
  std::vector<std::atomic<int>> done(items.size());
  HeldUp held_up;
  threads.run(held_up, items, done);
  EXPECT_EQ(held_up.others.load(), 11);
  EXPECT_EQ(done[0].load(), 12);
}

TEST(ThreadPool, HasAThreadForEachCpuThatItsMakerMayUse) {
  int size = 0;
  std::thread([&size] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    size = cpu::ThreadPool(0).size();
  }).join();
  EXPECT_EQ(size, 1);
}

TEST(ThreadPool, CallersAtOnceDoNotMix) {
  cpu::ThreadPool threads(3);
  const auto caller = [&threads] {
    const std::vector<int> items(20, 100);
    std::vector<std::atomic<int>> done(items.size());
    for (int round = 0; round < 50; ++round) {
      Counting counting(items.size());
      threads.run(counting, items, done);
      EXPECT_TRUE(counting.ordered);
      for (const auto& sum : counting.sums) EXPECT_EQ(sum.load(), 100 * 99 / 2);
    }
  };
  std::thread other(caller);
  caller();
  other.join();
}

class CpuEngineTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
};

TEST_F(CpuEngineTest, IsTheHostsChoiceWhereItCanRunTheModel) {
  const auto engine = make_engine(folder_.write("m.onnx", test::tiny_conv().bytes()), {}, *device_);
  EXPECT_EQ(engine->name(), "cpu");
  EXPECT_EQ(engine->outputs()[0].name, "y");
}

TEST_F(CpuEngineTest, LeavesWhatItCannotRunToOpenCv) {
  OnnxBuilder b;
  b.input("x", {1, 3, 8, 8}).node("LRN", {"x"}, {"y"}).integer("size", 3).output("y", {});
  const auto engine = make_engine(folder_.write("m.onnx", b.bytes()), {}, *device_);
  EXPECT_EQ(engine->name(), "opencv");
}

TEST_F(CpuEngineTest, WhatNobodyRunsIsOneErrorWithBothReasons) {
  OnnxBuilder b = test::tiny_conv();
  b.node("FlyToTheMoon", {"y"}, {"z"}, "apollo").output("z", {1});
  try {
    (void)make_engine(folder_.write("m.onnx", b.bytes()), {}, *device_);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("camd's own engines do not have this operator"));
    EXPECT_THAT(error.what(), HasSubstr("engine opencv cannot run"));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST_F(CpuEngineTest, ExecutionsOnStreamsOfTheirOwnDoNotDisturbEachOther) {
  EngineOptions options;
  options.threads = 2;
  const auto engine = make_engine(folder_.write("m.onnx", test::tiny_conv().bytes()), options, *device_);
  test::expect_undisturbed_executions(*device_, *engine, 50);
}

void expect_model_like_reference(const std::string& path, int width, int height, float mean, float spread) {
  cpu::ThreadPool threads(2);
  const OnnxFile file = read_onnx_file(path);
  TensorSpec input;
  input.shape = {1, 3, height, width};
  input.name = describe_model(file).inputs.at(0).name;
  std::vector<float> x = noise(element_count(input.shape));
  for (float& v : x) v = mean + spread * v;
  expect_like_reference(lower_model(file, input), x, cpu::kernels(), threads, path, 1e-4F);
}

TEST_F(CpuEngineTest, RealModelsEqualTheReference) {
  for (const auto& shared : test::shared_models()) {
    const std::string path = camd::test::shared_dir() + "/models/" + shared.file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    expect_model_like_reference(path, shared.width, shared.height, 128.0F, 100.0F);
  }
}

TEST_F(CpuEngineTest, ReferenceDetectorEqualsTheReference) {
  const std::string path = camd::test::source_dir() + "/models/marker-640x360.onnx";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  expect_model_like_reference(path, 640, 360, 0.5F, 0.5F);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
