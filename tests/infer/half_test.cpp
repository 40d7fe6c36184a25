// Half precision on the CPU. On processors that do not compute with a type its tests skip; 64-bit ARM under emulation
// computes with both.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
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
#include "infer/half.hpp"
#include "infer/model_report.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::noise;
using test::OnnxBuilder;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class Half : public ::testing::TestWithParam<HalfType> {
 protected:
  void SetUp() override {
    if (kernels() == nullptr) GTEST_SKIP() << "this processor does not compute with " << to_string(GetParam());
  }
  [[nodiscard]] static const cpu::Kernels* kernels() { return cpu::half_kernels(GetParam()); }
  // Of f16; bf16 has three digits less.
  [[nodiscard]] static float tolerance(float of_f16) { return GetParam() == HalfType::kF16 ? of_f16 : 8 * of_f16; }
  cpu::ThreadPool threads_{3};
};
INSTANTIATE_TEST_SUITE_P(Types, Half, ::testing::Values(HalfType::kF16, HalfType::kBf16),
                         [](const auto& type) { return std::string(to_string(type.param)); });

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

TEST_P(Half, ConvolutionsOfEveryKindAreCloseToTheReference) {
  test::each_convolution([&](const std::string& what, const Graph& graph, const Shape& shape) {
    // A sigmoid shows what is off in sums of all sizes.
    const float off = tolerance(what.find("Sigmoid") == std::string::npos ? 0.01F : 0.04F);
    test::expect_like_reference(graph, noise(element_count(shape)), cpu::kernels(), threads_, what, off, {kernels()});
  });
}

// In f16 alone 2048 and 1 are 2048.
TEST_P(Half, ManyProductsAreAddedWithoutLosingAny) {
  const std::vector<float> ones(4096, 1.0F);
  EXPECT_THAT(test::run(one_tap(4096, 1.0F), ones, cpu::kernels(), threads_, 1, {kernels()})[0], Each(4096.0F));
}

TEST_P(Half, ConvolutionsThatAreAskedForInF32AreExact) {
  const float third = 1.0F / 3;
  const std::vector<float> ones(8, 1.0F);
  const auto with = [&](std::vector<bool> in_f32) {
    return test::run(one_tap(8, third), ones, cpu::kernels(), threads_, 1, {kernels(), std::move(in_f32)})[0];
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

// A network of two 1x1 convolutions. The first one reads the picture, which is in f32 always, and makes the same of all
// channels. `weights` are those of one output of the second one.
Ran run_engine(const std::vector<float>& weights, std::optional<HalfType> half) {
  std::vector<float> all;
  for (int output = 0; output < 8; ++output) all.insert(all.end(), weights.begin(), weights.end());
  const test::TemporaryFolder folder;
  const std::string path = folder.write("two.onnx", OnnxBuilder()
                                                        .input("x", {1, 3, 16, 16})
                                                        .weight("w0", {8, 3, 1, 1}, std::vector<float>(24, 0.3F))
                                                        .node("Conv", {"x", "w0"}, {"y"})
                                                        .weight("w", {8, 8, 1, 1}, all)
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

const std::vector<float> kThirds(8, 1.0F / 3);

TEST_P(Half, AnEngineThatIsAskedForItComputesInIt) {
  const Ran half = run_engine(kThirds, GetParam()), whole = run_engine(kThirds, std::nullopt);
  EXPECT_NE(half.outputs, whole.outputs);
  EXPECT_LE(distance({half.outputs}, {whole.outputs}, {{1, 8, 16, 16}}), tolerance(0.002F));
  EXPECT_EQ(half.log, "");
}

// What is left of all channels is lost when weights or channels are rounded: neither type has 1.0001.
TEST_P(Half, ANetworkThatItWouldSpoilIsComputedInF32) {
  const std::vector<float> weights = {1, -1.0001F, 1, -1.0001F, 1, -1.0001F, 1, -1.0001F};
  const Ran half = run_engine(weights, GetParam());
  EXPECT_EQ(half.outputs, run_engine(weights, std::nullopt).outputs);
  EXPECT_THAT(half.log, HasSubstr(fmt::format("two.onnx: {} alone would be off by 1 of an output's largest value, so 1 "
                                              "of 2 dense convolutions are computed in f32",
                                              to_string(GetParam()))));
}

// 300,000 is no number of f16, whose largest is 65504.
TEST(HalfPrecision, NumbersBeyondF16AreComputedInF32) {
  if (cpu::half_kernels(HalfType::kF16) == nullptr) GTEST_SKIP() << "this processor does not compute with f16";
  const std::vector<float> weights(8, 300000.0F);
  const Ran half = run_engine(weights, HalfType::kF16);
  EXPECT_EQ(half.outputs, run_engine(weights, std::nullopt).outputs);
  EXPECT_THAT(half.log, HasSubstr("f16 alone would be off by inf of an output's largest value, so 1 of 2 dense "
                                  "convolutions are computed in f32"));
}

TEST(HalfPrecision, WhereTheProcessorHasNoneF32IsComputedAndTheLogSaysSo) {
  for (const HalfType type : {HalfType::kF16, HalfType::kBf16}) {
    if (cpu::half_kernels(type) != nullptr) continue;
    const Ran half = run_engine(kThirds, type), whole = run_engine(kThirds, std::nullopt);
    EXPECT_EQ(half.outputs, whole.outputs);
    EXPECT_THAT(half.log, HasSubstr(fmt::format("two.onnx: computed in f32, as this processor does not compute with {}",
                                                to_string(type))));
    EXPECT_EQ(whole.log, "");
  }
}

TEST(HalfPrecision, AModelsReportSaysWhetherTheProcessorComputesWithIt) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("m.onnx", test::tiny_conv().bytes());
  const auto device = device::make_host_device(base::system_clock());
  const auto detail = [&](std::optional<HalfType> half) {
    EngineOptions options;
    options.host_half = half;
    return report_model(path, options, *device, ReportDepth::kAllEngines).engines.at(0).detail;
  };
  EXPECT_THAT(detail(std::nullopt), MatchesRegex("[0-9]+ steps, .*"));
  for (const HalfType type : {HalfType::kF16, HalfType::kBf16}) {
    const bool computes = cpu::half_kernels(type) != nullptr;
    EXPECT_THAT(detail(type),
                HasSubstr(computes ? fmt::format(" steps in f32 and {}, ", to_string(type))
                                   : fmt::format(" steps in f32 (this processor does not compute with {}), ",
                                                 to_string(type))));
  }
}

TEST(HalfPrecision, Bf16IsTheNearestNumberOfEightDigits) {
  EXPECT_EQ(float_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bf16(-2.5F), 0xC020);
  EXPECT_EQ(float_to_bf16(1.0F + 1.0F / 256), 0x3F80);          // half way: to even
  EXPECT_EQ(float_to_bf16(1.0F + 3.0F / 256), 0x3F82);          // likewise
  EXPECT_EQ(float_to_bf16(1.0F + 1.0F / 256 + 1e-6F), 0x3F81);  // above
  EXPECT_EQ(float_to_bf16(3.4e38F), 0x7F80);                    // beyond the largest
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::infinity()), 0x7F80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7F800001U)), 0x7FC0);  // no number stays none
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
