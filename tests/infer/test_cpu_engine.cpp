#include "infer/cpu_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "base/error.hpp"
#include "conformance.hpp"
#include "device/host_device.hpp"
#include "infer/cpu/program.hpp"
#include "infer/reference.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace {

using test::OnnxBuilder;
using ::testing::HasSubstr;

std::vector<float> noise(std::int64_t count, unsigned seed = 5) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = uniform(random);
  return values;
}

std::vector<std::vector<float>> run(const Graph& graph, const std::vector<float>& input, const cpu::Kernels& kernels,
                                    cpu::Team& team, int times = 1) {
  cpu::Run runner(cpu::build_program(graph, kernels, team.size(), "test.onnx"), team);
  std::vector<std::vector<float>> outputs;
  std::vector<float*> pointers;
  for (const ValueId id : graph.outputs) {
    outputs.emplace_back(static_cast<std::size_t>(element_count(graph.shape(id))), std::nanf(""));
  }
  for (auto& output : outputs) pointers.push_back(output.data());
  for (int i = 0; i < times; ++i) runner(input.data(), pointers);
  return outputs;
}

// Against the reference, relative to the output's largest value.
void expect_like_reference(const Graph& graph, const std::vector<float>& input, const cpu::Kernels& kernels,
                           cpu::Team& team, const std::string& what, float tolerance = 2e-5F) {
  const auto want = run_reference(graph, input);
  const auto got = run(graph, input, kernels, team, 2);  // the second run must not see what the first left behind
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

class Kernels : public ::testing::TestWithParam<const cpu::Kernels*> {
 protected:
  cpu::Team team_{3};
};

TEST_P(Kernels, ConvolutionsOfEveryKindEqualTheReference) {
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
        expect_like_reference(graph, noise(element_count(shape)), *GetParam(), team_,
                              std::to_string(&c - cases) + activation + (blocked ? " blocked" : " plain"),
                              1e-4F);  // Winograd's rounding, which a sigmoid of large sums shows
      }
    }
  }
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
                            *GetParam(), team_, std::to_string(channels));
    }
  }
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
      expect_like_reference(graph, noise(20 * 99), *GetParam(), team_, after ? "after" : "before");
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
    const auto outputs = run(graph, input, *GetParam(), team_);
    for (const float y : outputs.at(0)) ASSERT_EQ(y, 1048576.5F) << c.node << " of " << products << " products";
  }
}

TEST_P(Kernels, EveryConformanceCaseHolds) {
  const auto cases = test::conformance_cases();
  if (cases.empty()) GTEST_SKIP() << "python3-onnx is not here";
  EXPECT_GT(cases.size(), 300U);
  for (const auto& c : cases) {
    const Graph graph = lower_model(c.file, c.input);
    const auto outputs = run(graph, c.values, *GetParam(), team_);
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

TEST(Team, RunsEveryItemOnceAndStagesInOrder) {
  cpu::Team team(4);
  const std::vector<int> items(50, 100);
  std::vector<std::atomic<int>> done(items.size());
  for (int round = 0; round < 50; ++round) {
    Counting counting(items.size());
    team.run(counting, items, done);
    EXPECT_TRUE(counting.ordered);
    for (const auto& sum : counting.sums) EXPECT_EQ(sum.load(), 100 * 99 / 2);
  }
}

TEST(Team, CallersAtOnceDoNotMix) {
  cpu::Team team(3);
  const auto caller = [&team] {
    const std::vector<int> items(20, 100);
    std::vector<std::atomic<int>> done(items.size());
    for (int round = 0; round < 50; ++round) {
      Counting counting(items.size());
      team.run(counting, items, done);
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
  const std::unique_ptr<Execution> executions[2] = {engine->make_execution(), engine->make_execution()};
  const device::Stream streams[2] = {device_->make_stream("a"), device_->make_stream("b")};
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, 8, 8);
  const std::vector<std::byte> pictures[2] = {std::vector<std::byte>(64, std::byte{0}),
                                              std::vector<std::byte>(64, std::byte{255})};
  for (int round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(executions[i]->enqueue_preprocess({pictures[i].data(), layout}, streams[i]));
      ASSERT_TRUE(executions[i]->enqueue_network(streams[i]));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(device_->synchronize(executions[i]->output_ready(0)));
      ASSERT_TRUE(executions[i]->result());
      EXPECT_NEAR(static_cast<const float*>(executions[i]->output(0).data)[27], i == 0 ? 0.5F : 3.2F, 1e-5F);
    }
  }
}

void expect_model_like_reference(const std::string& path, int width, int height, float mean, float spread) {
  cpu::Team team(2);
  const OnnxFile file = read_onnx_file(path);
  TensorSpec input;
  input.shape = {1, 3, height, width};
  input.name = describe_onnx(file).inputs.at(0).name;
  std::vector<float> x = noise(element_count(input.shape));
  for (float& v : x) v = mean + spread * v;
  expect_like_reference(lower_model(file, input), x, cpu::kernels(), team, path, 1e-4F);
}

TEST_F(CpuEngineTest, RealModelsEqualTheReference) {
  for (const auto& shared : test::shared_models()) {
    const std::string path = std::string(CAMD_SHARED_DIR) + "/models/" + shared.file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    expect_model_like_reference(path, shared.width, shared.height, 128.0F, 100.0F);
  }
}

TEST_F(CpuEngineTest, ReferenceDetectorEqualsTheReference) {
  const std::string path = std::string(CAMD_SOURCE_DIR) + "/models/marker-640x360.onnx";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  expect_model_like_reference(path, 640, 360, 0.5F, 0.5F);
}

}  // namespace
}  // namespace camd::infer
