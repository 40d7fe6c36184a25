// Half precision on the CPU. On processors without it (all of x86-64) most tests skip; 64-bit ARM under emulation has
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "cpu_runs.hpp"
#include "device/host_device.hpp"
#include "infer/cpu/kernels.hpp"
#include "infer/engine.hpp"
#include "infer/graph/trial.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace {

using test::noise;
using test::OnnxBuilder;
using ::testing::Each;
using ::testing::HasSubstr;

class Half : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu::half_kernels() == nullptr) GTEST_SKIP() << "this processor has no half-precision arithmetic";
  }
  cpu::ThreadPool threads_{3};
};

// f(x) with x of one pixel and a convolution of one tap.
Graph one_tap(std::int64_t channels, float weight) {
  const Shape shape = {1, channels, 1, 1};
  return lower_model(
      OnnxBuilder()
          .input("x", shape)
          .weight("w", {8, channels, 1, 1}, std::vector<float>(static_cast<std::size_t>(8 * channels), weight))
          .node("Conv", {"x", "w"}, {"y"})
          .output("y", {})
          .file(),
      {"x", shape, DataType::kF32});
}

TEST_F(Half, ConvolutionsOfEveryKindAreCloseToTheReference) {
  test::each_convolution([&](const std::string& what, const Graph& graph, const Shape& shape) {
    // A sigmoid shows what is off in sums of all sizes.
    const float tolerance = what.find("Sigmoid") == std::string::npos ? 0.01F : 0.04F;
    test::expect_like_reference(graph, noise(element_count(shape)), cpu::kernels(), threads_, what, tolerance,
                                {cpu::half_kernels()});
  });
}

// In f16 alone 2048 and 1 are 2048.
TEST_F(Half, ManyProductsAreAddedWithoutLosingAny) {
  const std::vector<float> ones(4096, 1.0F);
  EXPECT_THAT(test::run(one_tap(4096, 1.0F), ones, cpu::kernels(), threads_, 1, {cpu::half_kernels()})[0],
              Each(4096.0F));
}

TEST_F(Half, ConvolutionsThatAreAskedForInF32AreExact) {
  const float third = 1.0F / 3;
  const std::vector<float> ones(8, 1.0F);
  const auto with = [&](std::vector<bool> in_f32) {
    return test::run(one_tap(8, third), ones, cpu::kernels(), threads_, 1, {cpu::half_kernels(), std::move(in_f32)})[0];
  };
  EXPECT_EQ(with({true}), test::run(one_tap(8, third), ones, cpu::kernels(), threads_)[0]);
  EXPECT_NE(with({false}), with({true}));
}

std::vector<float> outputs_of(Engine& engine, device::Device& device) {
  const auto execution = engine.make_execution();
  const std::vector<float> input = noise(element_count(engine.input().shape));
  std::memcpy(execution->input().data, input.data(), engine.input().size_bytes());
  const auto stream = device.make_stream("compute");
  EXPECT_TRUE(execution->enqueue_network(stream));
  EXPECT_TRUE(device.synchronize(stream.ref()));
  const auto* const made = static_cast<const float*>(execution->output(0).data);
  return {made, made + element_count(engine.outputs()[0].shape)};
}

struct Ran {
  std::vector<float> outputs;
  std::string log;
};

// A network of two 1x1 convolutions. The first one reads the picture, which is in f32 always; all weights of the second
// one are `weight`.
Ran run_engine(float weight, bool half) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("two.onnx", OnnxBuilder()
                                                        .input("x", {1, 3, 16, 16})
                                                        .weight("w0", {8, 3, 1, 1}, noise(24))
                                                        .node("Conv", {"x", "w0"}, {"y"})
                                                        .weight("w", {8, 8, 1, 1}, std::vector<float>(64, weight))
                                                        .node("Conv", {"y", "w"}, {"z"})
                                                        .output("z", {1, 8, 16, 16})
                                                        .bytes());
  std::ostringstream logged;
  base::log().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(logged));
  const auto device = device::make_host_device(base::system_clock());
  EngineOptions options;
  options.kind = EngineKind::kCpu;
  options.host_half = half;
  const auto engine = make_engine(path, options, *device);
  base::log().sinks().pop_back();
  return {outputs_of(*engine, *device), logged.str()};
}

TEST_F(Half, AnEngineThatIsAskedForF16ComputesInIt) {
  const Ran half = run_engine(1.0F / 3, true), whole = run_engine(1.0F / 3, false);
  EXPECT_NE(half.outputs, whole.outputs);
  EXPECT_LE(distance({half.outputs}, {whole.outputs}, {{1, 8, 16, 16}}), 0.002F);
  EXPECT_EQ(half.log, "");
}

// 300,000 is no number of f16, whose largest is 65504.
TEST_F(Half, ANetworkThatF16WouldSpoilIsComputedInF32) {
  const Ran half = run_engine(300000.0F, true);
  EXPECT_EQ(half.outputs, run_engine(300000.0F, false).outputs);
  EXPECT_THAT(half.log, HasSubstr("two.onnx: f16 would be off by inf of an output's largest value, so all is computed "
                                  "in f32"));
}

TEST(HalfPrecision, WhereTheProcessorHasNoneF32IsComputedAndTheLogSaysSo) {
  if (cpu::half_kernels() != nullptr) GTEST_SKIP() << "this processor has half-precision arithmetic";
  const Ran half = run_engine(1.0F / 3, true), whole = run_engine(1.0F / 3, false);
  EXPECT_EQ(half.outputs, whole.outputs);
  EXPECT_THAT(half.log, HasSubstr("two.onnx: computed in f32, as this processor has no half-precision arithmetic"));
  EXPECT_EQ(whole.log, "");
}

}  // namespace
}  // namespace camd::infer
