// Quantised networks on the CPU engine: in bytes where the kernels have dot products, in f32 elsewhere. With scales
// that are powers of two f32 rounds nothing, so both have to make the same numbers as the reference, to the last.
#include "infer/cpu/bytes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "cpu_runs.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/byte_plan.hpp"
#include "infer/cpu/fusion.hpp"
#include "infer/graph/lower_model.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using Type = onnx::TensorProto;

// A model whose operators stand between pairs of QuantizeLinear and DequantizeLinear.
class Quantised {
 public:
  explicit Quantised(const Shape& shape) : shape_(shape) { onnx_.input("x", shape); }

  OnnxBuilder& onnx() { return onnx_; }

  // A pair around `from`, with the zero point in a type that has it; its result's name.
  std::string pair(const std::string& from, float scale, int zero, bool has_sign = false) {
    const std::string id = std::to_string(count_++);
    onnx_.weight("s" + id, {}, {scale}).integers("z" + id, {}, {zero}, has_sign ? Type::INT8 : Type::UINT8);
    onnx_.node("QuantizeLinear", {from, "s" + id, "z" + id}, {"q" + id});
    onnx_.node("DequantizeLinear", {"q" + id, "s" + id, "z" + id}, {"d" + id});
    return "d" + id;
  }

  struct Conv {
    std::int64_t channels, outputs, kernel;
    int stride = 1, pad = 0, dilation = 1;
    std::int64_t groups = 1;
  };
  // A convolution with weights of a byte, each output with a scale of its own. Weights are -128 to 127.
  std::string conv(const std::string& from, const Conv& c, const std::vector<float>& scales, unsigned seed) {
    const std::string id = std::to_string(count_++);
    const Shape shape = {c.outputs, c.channels / c.groups, c.kernel, c.kernel};
    std::mt19937 random(seed);
    std::vector<std::int64_t> weights(static_cast<std::size_t>(element_count(shape)));
    for (auto& w : weights) w = static_cast<std::int64_t>(random() % 256) - 128;
    std::vector<float> scale, bias;
    for (std::int64_t m = 0; m < c.outputs; ++m) {
      scale.push_back(scales[static_cast<std::size_t>(m) % scales.size()]);
      bias.push_back(scale.back() * static_cast<float>(static_cast<int>(random() % 2001) - 1000));
    }
    const std::vector<std::int64_t> zeros(static_cast<std::size_t>(c.outputs), 0);
    onnx_.integers("w" + id, shape, weights, Type::INT8).weight("ws" + id, {c.outputs}, scale);
    onnx_.integers("wz" + id, {c.outputs}, zeros, Type::INT8).weight("b" + id, {c.outputs}, bias);
    onnx_.node("DequantizeLinear", {"w" + id, "ws" + id, "wz" + id}, {"wd" + id}).integer("axis", 0);
    onnx_.node("Conv", {from, "wd" + id, "b" + id}, {"c" + id}).integer("group", c.groups);
    onnx_.ints("pads", {c.pad, c.pad, c.pad, c.pad}).ints("strides", {c.stride, c.stride});
    onnx_.ints("dilations", {c.dilation, c.dilation});
    return "c" + id;
  }
  // Another op; its result's name.
  std::string op(const std::string& type, const std::vector<std::string>& inputs) {
    std::string name = "o" + std::to_string(count_++);
    onnx_.node(type, inputs, {name});
    return name;
  }

  Graph graph(const std::string& output) {
    onnx_.output(output, {});
    return lower_model(onnx_.file(), {"x", shape_, DataType::kF32});
  }

 private:
  Shape shape_;
  OnnxBuilder onnx_;
  int count_ = 0;
};

// Numbers from -most to most, in and between steps of 1/64.
std::vector<float> picture(const Shape& shape, float most, unsigned seed = 3) {
  std::vector<float> values = test::noise(element_count(shape), seed);
  for (float& v : values) v = std::nearbyint(v * most * 128) / 128;
  return values;
}

// How many ops make bytes: convolutions with their tables, the picture's numbers for them, and the others.
int made_as_bytes(Graph graph) {
  cpu::Fusions fusions = cpu::fuse(graph);
  const cpu::BytePlan plan = cpu::plan_bytes(graph, fusions);
  int made = 0;
  for (const Op& op : graph.ops) made += plan.made[static_cast<std::size_t>(op.output)] ? 1 : 0;
  return made;
}

// Another order of the same roundings takes sums that lie in the middle between two steps to the other one.
TEST(BytePlan, RoundsTheScaleOfASumAsOnnxRuntimeDoesAndBeginsSumsWithTheBias) {
  const float xs = 0.9882353F, ys = 0.9299013F;
  const std::vector<float> ws = {1.6059932e-5F, 0.003325937F, 0.0045994115F, 0.0117F, 0.07F};
  OnnxBuilder b;
  b.input("x", {1, 2, 4, 4}).weight("xs", {}, {xs}).integers("xz", {}, {3}, Type::UINT8);
  b.integers("w", {5, 2, 1, 1}, {127, -5, 127, -113, 5, 127, -128, 99, 127, 1}, Type::INT8).weight("ws", {5}, ws);
  b.integers("wz", {5}, {0, 0, 0, 0, 0}, Type::INT8).weight("ys", {}, {ys}).integers("yz", {}, {7}, Type::UINT8);
  b.integers("bias", {5}, {17605, -10039, 997, 0, 1}, Type::INT32).node("QuantizeLinear", {"x", "xs", "xz"}, {"q"});
  b.node("QLinearConv", {"q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "bias"}, {"r"});
  b.node("DequantizeLinear", {"r", "ys", "yz"}, {"y"}).output("y", {});
  Graph graph = lower_model(b.file(), {"x", {1, 2, 4, 4}, DataType::kF32});
  cpu::Fusions fusions = cpu::fuse(graph);
  const cpu::BytePlan plan = cpu::plan_bytes(graph, fusions);
  ASSERT_EQ(plan.convs.size(), 1U);
  const cpu::ByteConv& conv = plan.convs.begin()->second;
  EXPECT_EQ(conv.start, (std::vector<std::int32_t>{17605, -10039, 997, 0, 1}));
  EXPECT_EQ(conv.bias, std::vector<float>(5, 0.0F));
  for (std::size_t m = 0; m < 5; ++m) EXPECT_EQ(conv.scale[m], xs * ws[m] / ys) << m;
}

class Bytes : public ::testing::TestWithParam<const cpu::Kernels*> {
 protected:
  void expect_equal(const Graph& graph, const std::vector<float>& input, const std::string& what) {
    test::expect_like_reference(graph, input, *GetParam(), threads_, what, 0.0F);
  }
  cpu::ThreadPool threads_{3};
};

constexpr float kIn = 1.0F / 16;

TEST_P(Bytes, ConvolutionsOfEveryKindEqualTheReference) {
  struct Case {
    Quantised::Conv conv;
    std::int64_t height, width;
  };
  const Case cases[] = {
      {{3, 16, 3, 2, 1}, 17, 23},
      {{3, 8, 3, 1, 1}, 9, 9},
      {{1, 5, 5, 1, 2}, 7, 8},
      {{8, 16, 1}, 12, 13},
      {{4, 24, 1}, 5, 6},
      {{20, 7, 3, 1, 1}, 11, 5},
      {{16, 40, 3, 2, 1}, 9, 17},
      {{5, 3, 3, 1, 2, 2}, 8, 9},
      {{24, 24, 3, 1, 1, 1, 24}, 15, 14},
      {{10, 10, 3, 2, 1, 1, 10}, 9, 16},
      {{16, 16, 5, 3, 2}, 13, 13},
      {{8, 8, 7, 1, 3, 1, 8}, 12, 12},
      {{64, 48, 3, 1, 1}, 6, 10},
      {{12, 20, 1}, 1, 1},
      {{7, 9, 7, 1, 3}, 5, 4},
      {{40, 56, 1, 2}, 9, 31},
      {{16, 8, 1}, 3, 25},
      {{9, 33, 3, 4, 1}, 20, 21},
      {{16, 72, 1}, 2, 7},
      {{16, 16, 3, 1, 0}, 4, 8},
  };
  for (const Case& c : cases) {
    for (const bool has_sign : {false, true}) {
      const Shape shape = {1, c.conv.channels, c.height, c.width};
      Quantised model(shape);
      const std::string in = model.pair("x", kIn, has_sign ? -7 : 140, has_sign);
      // Sums of some thousand products reach both ends of this range.
      const std::string out = model.conv(in, c.conv, {1.0F / 64, 1.0F / 32, 1.0F / 256}, 5);
      const Graph graph = model.graph(model.pair(out, 0.5F, has_sign ? 11 : 100, has_sign));
      EXPECT_EQ(made_as_bytes(graph), 2);
      expect_equal(graph, picture(shape, 10), std::to_string(&c - cases) + (has_sign ? " s8" : " u8"));
    }
  }
}

TEST_P(Bytes, WeightsOfOneScaleThatDoNotUseTheirRangeEqualTheReference) {
  const Shape shape = {1, 8, 5, 6};
  Quantised model(shape);
  // Outputs whose largest weight is 5, 0 and 127 steps.
  std::vector<std::int64_t> weights(24, 0);
  weights[1] = 5, weights[6] = -3, weights[16] = 127, weights[17] = -1;
  model.onnx().integers("w", {3, 8, 1, 1}, weights, Type::INT8).weight("ws", {}, {0.125F});
  model.onnx().integers("wz", {}, {0}, Type::INT8).weight("b", {3}, {1.5F, -2.25F, 1e6F});
  model.onnx().node("DequantizeLinear", {"w", "ws", "wz"}, {"wd"});
  model.onnx().node("Conv", {model.pair("x", kIn, 128), "wd", "b"}, {"c"});
  const Graph graph = model.graph(model.pair("c", 0.25F, 120));
  EXPECT_EQ(made_as_bytes(graph), 2);
  expect_equal(graph, picture(shape, 9), "weights");
}

TEST_P(Bytes, WhatDoesNotFitBytesStaysInF32) {
  const Shape shape = {1, 8, 5, 6};
  const auto made = [&](const std::string& name, auto change) {
    Quantised model(shape);
    std::string in = model.pair("x", kIn, 128);
    std::string out = change(model, in);
    const Graph graph = model.graph(out);
    EXPECT_EQ(made_as_bytes(graph), 0) << name;
    test::expect_like_reference(graph, picture(shape, 9), *GetParam(), threads_, name);
  };
  const auto weight = [](Quantised& model, float odd) {
    std::vector<float> weights = test::noise(64, 8);
    for (float& w : weights) w = std::nearbyint(w * 100) / 64;
    weights[0] += odd;
    model.onnx().weight("w", {8, 8, 1, 1}, weights).weight("b", {8}, std::vector<float>(8, 0.5F));
  };
  made("weights between steps", [&](Quantised& model, const std::string& in) {
    weight(model, 0.3F / 64);
    return model.pair(model.op("Conv", {in, "w", "b"}), 0.25F, 120);
  });
  made("a depthwise convolution with gaps", [&](Quantised& model, const std::string& in) {
    return model.pair(model.conv(in, {8, 8, 3, 1, 2, 2, 8}, {1.0F / 64}, 3), 0.5F, 120);
  });
  made("an input that nobody rounds", [&](Quantised& model, const std::string&) {
    weight(model, 0);
    return model.pair(model.op("Conv", {"x", "w", "b"}), 0.25F, 120);
  });
  made("an output that nobody rounds", [&](Quantised& model, const std::string& in) {
    weight(model, 0);
    return model.op("Conv", {in, "w", "b"});
  });
}

TEST_P(Bytes, FunctionsBecomeATableOfTheConvolution) {
  const Shape shape = {1, 16, 7, 9};
  for (const std::string function : {"Sigmoid", "SiLU", "Relu", "HardSwish", "Tanh", "Abs"}) {
    Quantised model(shape);
    const std::string sums =
        model.pair(model.conv(model.pair("x", kIn, 128), {16, 24, 1}, {1.0F / 256}, 6), 0.25F, 121);
    std::string result;
    if (function == "SiLU") {
      result = model.op("Mul", {sums, model.pair(model.op("Sigmoid", {sums}), 1.0F / 256, 0)});
    } else {
      result = model.op(function, {sums});
    }
    model.onnx().opset(14);
    const Graph graph = model.graph(model.pair(result, 0.125F, 30));
    EXPECT_EQ(made_as_bytes(graph), 2) << function;
    expect_equal(graph, picture(shape, 8), function);
  }
}

TEST_P(Bytes, WhatIsNoNumberBecomesTheLowest) {
  const Shape shape = {1, 8, 3, 4};
  Quantised model(shape);
  // 1 * x for the first channel.
  std::vector<float> weights(8, 0.0F);
  weights[0] = 1;
  model.onnx().weight("w", {1, 8, 1, 1}, weights).weight("b", {1}, {0.0F});
  const std::string sums = model.pair(model.op("Conv", {model.pair("x", 1.0F, 128), "w", "b"}), 1.0F, 128);
  const Graph graph = model.graph(model.pair(model.op("Sqrt", {sums}), 0.25F, 8));
  std::vector<float> input(96, 0.0F);
  input[0] = -4, input[1] = 9, input[2] = 0, input[3] = -100;
  const std::vector<float> got = test::run(graph, input, *GetParam(), threads_)[0];
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 4), (std::vector<float>{-2, 3, 0, -2}));
}

TEST_P(Bytes, ATableBesideAnotherReaderOfTheConvolutionEqualsTheReference) {
  const Shape shape = {1, 8, 6, 5};
  Quantised model(shape);
  const std::string sums = model.pair(model.conv(model.pair("x", kIn, 128), {8, 13, 1}, {1.0F / 256}, 6), 0.25F, 121);
  const std::string table = model.pair(model.op("Sigmoid", {sums}), 1.0F / 256, 0);
  model.onnx().output(sums, {});
  const Graph graph = model.graph(table);
  EXPECT_EQ(made_as_bytes(graph), 3);
  expect_equal(graph, picture(shape, 8), "two readers");
}

TEST_P(Bytes, SumsDifferencesAndProductsEqualTheReference) {
  const Shape shape = {1, 8, 5, 9};
  for (const std::string kind : {"Add", "Sub", "Mul"}) {
    for (const bool has_sign : {false, true}) {
      Quantised model(shape);
      const std::string in = model.pair("x", kIn, 128);
      const std::string a =
          model.pair(model.conv(in, {8, 19, 1}, {1.0F / 128}, 6), 0.5F, has_sign ? 20 : 121, has_sign);
      const std::string b = model.pair(model.conv(in, {8, 19, 1}, {1.0F / 256}, 9), 0.25F, 200);
      const Graph graph = model.graph(model.pair(model.op(kind, {a, b}), kind == "Mul" ? 8.0F : 0.5F, 100));
      EXPECT_EQ(made_as_bytes(graph), 4);
      expect_equal(graph, picture(shape, 8), kind);
    }
  }
}

TEST_P(Bytes, WhatMovesOrChoosesBytesEqualsTheReference) {
  const Shape shape = {1, 8, 8, 6};
  Quantised model(shape);
  const std::string in = model.pair("x", kIn, 128);
  const std::string a = model.pair(model.conv(in, {8, 16, 3, 1, 1}, {1.0F / 256}, 6), 0.25F, 121);
  const std::string b = model.pair(model.conv(in, {8, 5, 1}, {1.0F / 256}, 9), 0.5F, 13);
  OnnxBuilder& onnx = model.onnx();
  onnx.node("MaxPool", {a}, {"pool"}).ints("kernel_shape", {5, 5}).ints("pads", {2, 2, 2, 2});
  const std::string pooled = model.pair("pool", 0.25F, 121);
  // Inputs with two scales and no whole blocks.
  onnx.node("Concat", {b, a, pooled}, {"joined"}).integer("axis", 1);
  const std::string joined = model.pair("joined", 0.5F, 50);
  onnx.integers("begin", {1}, {3}).integers("end", {1}, {29}).integers("axis", {1}, {1});
  const std::string slice = model.pair(model.op("Slice", {joined, "begin", "end", "axis"}), 0.5F, 50);
  onnx.weight("scales", {4}, {1, 1, 2, 2});
  onnx.node("Resize", {slice, "", "scales"}, {"large"}).text("mode", "nearest");
  onnx.text("coordinate_transformation_mode", "asymmetric").text("nearest_mode", "floor");
  const std::string large = model.pair("large", 0.5F, 50);
  const std::string last = model.conv(large, {26, 9, 3, 2, 1}, {1.0F / 512}, 2);
  const Graph graph = model.graph(model.pair(last, 0.5F, 100));
  // The picture's numbers, two convolutions, pool, concat, slice, resize, the last convolution.
  EXPECT_EQ(made_as_bytes(graph), 8);
  expect_equal(graph, picture(shape, 8), "movement");
}

TEST_P(Bytes, BytesThatOpsOfF32ReadAndMakeEqualTheReference) {
  const Shape shape = {1, 8, 6, 6};
  Quantised model(shape);
  const std::string a =
      model.pair(model.conv(model.pair("x", kIn, 128), {8, 12, 3, 1, 1}, {1.0F / 256}, 6), 0.25F, 121);
  model.onnx().node("AveragePool", {a}, {"mean"}).ints("kernel_shape", {2, 2}).ints("strides", {2, 2});
  const std::string mean = model.pair("mean", 0.25F, 100);
  const std::string b = model.pair(model.conv(mean, {12, 7, 3, 1, 1}, {1.0F / 256}, 4), 0.25F, 90);
  model.onnx().integers("flat", {2}, {1, -1});
  const Graph graph = model.graph(model.op("Reshape", {b, "flat"}));
  EXPECT_EQ(made_as_bytes(graph), 4);
  expect_equal(graph, picture(shape, 8), "f32 between");
}

// Chains of random operators with random zero points and scales that are powers of two.
TEST_P(Bytes, RandomNetworksEqualTheReference) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const std::int64_t height = 4 + below(9), width = 3 + below(12);
    struct Value {
      std::string name;
      std::int64_t channels;
    };
    Quantised model({1, 3, height, width});
    std::vector<Value> values = {{model.pair("x", kIn, 100 + below(56)), 3}};
    const auto pair = [&](const std::string& from) { return model.pair(from, 0.25F, below(256) - 128, true); };
    for (int i = 0; i < 7; ++i) {
      const Value in = values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
      const std::int64_t outputs = 1 + below(40);
      const float scale = 1.0F / static_cast<float>(64 << below(4));
      Value sums{"", outputs};
      if (const int kind = below(4); kind == 0) {
        sums = {model.conv(in.name, {in.channels, in.channels, 3, 1, 1, 1, in.channels}, {scale, scale / 2}, seed),
                in.channels};
      } else if (kind == 1) {
        sums.name = model.conv(in.name, {in.channels, outputs, 3, 1, 1}, {scale, scale / 4}, seed);
      } else {
        sums.name = model.conv(in.name, {in.channels, outputs, 1}, {scale}, seed);
      }
      sums.name = pair(sums.name);
      if (below(2) == 0) {
        const std::string gate = model.pair(model.op("Sigmoid", {sums.name}), 1.0F / 256, 0);
        sums.name = pair(model.op("Mul", {sums.name, gate}));
      }
      for (const Value& other : values) {
        if (other.channels == sums.channels && below(2) == 0)
          sums.name = pair(model.op("Add", {sums.name, other.name}));
      }
      if (below(3) == 0) {
        const Value other = values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
        const std::string joined = "joined" + std::to_string(i);
        model.onnx().node("Concat", {sums.name, other.name}, {joined}).integer("axis", 1);
        sums = {pair(joined), sums.channels + other.channels};
      }
      values.push_back(sums);
    }
    const Graph graph = model.graph(values.back().name);
    expect_equal(graph, picture({1, 3, height, width}, 7, seed), "seed " + std::to_string(seed));
  }
}

// With other scales f32 rounds its sums, and where a number lies in the middle of two steps it may take the other one.
TEST_P(Bytes, WithAnyScaleNumbersAreAtMostAStepFromTheReference) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(0.001F, 0.02F);
    const Shape shape = {1, 24, 9, 11};
    const float step = 30 * uniform(random);
    Quantised model(shape);
    const std::string in = model.pair("x", 0.0123F, 131);
    const std::string out =
        model.conv(in, {24, 17, 3, 1, 1}, {uniform(random), uniform(random), uniform(random)}, seed);
    const Graph graph = model.graph(model.pair(out, step, 127));
    const std::vector<float> input = picture(shape, 2, seed);
    const std::vector<float> want = run_reference(graph, input)[0].f32;
    const std::vector<float> got = test::run(graph, input, *GetParam(), threads_)[0];
    int others = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      others += want[i] == got[i] ? 0 : 1;
      EXPECT_LE(std::abs(want[i] - got[i]), step * 1.001F) << "seed " << seed << " element " << i;
    }
    EXPECT_LE(others, 4) << "of " << want.size() << ", seed " << seed;
  }
}

TEST_P(Bytes, NumbersBecomeTheNearestByteHalvesToEvenAndNoneBeyondTheRange) {
  const cpu::ByteKernels* const kernels = GetParam()->bytes;
  if (kernels == nullptr) GTEST_SKIP() << "these kernels have no dot products of bytes";
  const int lowest = kernels->flip == 0 ? 0 : -128;
  // Levels 0 to 200, of which 50 is zero.
  const cpu::ByteScale scale{0.5F, lowest + 50, lowest + 200};
  const std::vector<float> numbers = {0.0F,  0.25F, 0.75F, -0.25F, -0.75F, 0.26F, -25.0F, -25.3F,
                                      75.0F, 75.2F, 75.9F, 1e9F,   -1e9F,  1e30F, -1e30F, -24.8F};
  const std::vector<int> levels = {50, 50, 52, 50, 48, 51, 0, 0, 200, 200, 200, 200, 0, 200, 0, 0};
  std::vector<std::uint8_t> bytes(numbers.size());
  kernels->from_floats(numbers.data(), bytes.data(), numbers.size(), scale);
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(bytes[i] ^ kernels->flip, levels[i]) << numbers[i];
  std::vector<float> back(numbers.size());
  kernels->to_floats(bytes.data(), back.data(), back.size(), scale);
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(back[i], 0.5F * static_cast<float>(levels[i] - 50));
}

TEST_P(Bytes, EveryByteIsLookedUpInItsPlaceOfTheTable) {
  const cpu::ByteKernels* const kernels = GetParam()->bytes;
  if (kernels == nullptr) GTEST_SKIP() << "these kernels have no dot products of bytes";
  cpu::ByteTable table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i * 167 + 13);
  for (std::size_t count = 1; count <= 256 + 8; ++count) {
    std::vector<std::uint8_t> in(count), out(count + 1, 77);
    for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<std::uint8_t>(i);
    kernels->look_up(in.data(), out.data(), count, table.data());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], table[in[i]]) << i << " of " << count;
    ASSERT_EQ(out[count], 77);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Bytes, ::testing::ValuesIn(cpu::kernel_sets()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
