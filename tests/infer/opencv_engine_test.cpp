#include "infer/opencv/opencv_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "device/host_device.hpp"
#include "onnx_builder.hpp"
#include "tests/support/paths.hpp"
#include "two_executions.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using test::TemporaryFolder;
using test::tiny_conv;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OpenCvEngineTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Engine> make(const OnnxBuilder& builder, int width = 0, int height = 0) {
    EngineOptions options;
    options.kind = EngineKind::kOpenCv;
    options.input.width = width;
    options.input.height = height;
    return make_engine(folder_.write("m.onnx", builder.bytes()), options, *device_);
  }
  std::string refusal(const OnnxBuilder& builder, int width = 0, int height = 0) {
    try {
      (void)make(builder, width, height);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kModel);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
};

TEST_F(OpenCvEngineTest, RunsAPictureThroughPreprocessingAndNetwork) {
  const auto engine = make(tiny_conv());
  EXPECT_EQ(engine->name(), "opencv");
  ASSERT_EQ(engine->outputs().size(), 1U);
  EXPECT_EQ(engine->outputs()[0].name, "y");
  EXPECT_EQ(to_string(engine->outputs()[0].shape), "[1,2,8,8]");
  const auto execution = engine->make_execution();
  const device::Stream stream = device_->make_stream("compute");
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, 8, 8);
  const std::vector<std::byte> picture(layout.size_bytes, std::byte{255});
  ASSERT_TRUE(execution->enqueue_preprocess({picture.data(), layout}, stream));
  ASSERT_TRUE(execution->enqueue_network(stream));
  ASSERT_TRUE(device_->synchronize(execution->output_ready(0)));
  ASSERT_TRUE(execution->result());
  const auto* input = static_cast<const float*>(execution->input().data);
  EXPECT_FLOAT_EQ(input[0], 1.0F);
  // In the middle all 27 taps see 1.0: 27 * 0.1 + bias.
  const auto* output = static_cast<const float*>(execution->output(0).data);
  EXPECT_NEAR(output[3 * 8 + 3], 3.2F, 1e-5F);
  EXPECT_NEAR(output[64 + 3 * 8 + 3], 2.2F, 1e-5F);
  EXPECT_NEAR(output[0], 12 * 0.1F + 0.5F, 1e-5F);
}

TEST_F(OpenCvEngineTest, TwoExecutionsOnTwoStreamsDoNotDisturbEachOther) {
  const auto engine = make(tiny_conv());
  test::expect_undisturbed_executions(*device_, *engine, 20);
}

TEST_F(OpenCvEngineTest, OutputsKeepTheModelsOrderAndNames) {
  OnnxBuilder b = tiny_conv();
  b.node("Sigmoid", {"c"}, {"a_first"}).output("a_first", {7, 7, 7});  // declared shapes are not trusted
  const auto engine = make(b);
  ASSERT_EQ(engine->outputs().size(), 2U);
  EXPECT_EQ(engine->outputs()[0].name, "y");
  EXPECT_EQ(engine->outputs()[1].name, "a_first");
  EXPECT_EQ(to_string(engine->outputs()[1].shape), "[1,2,8,8]");
}

TEST_F(OpenCvEngineTest, OpenSizeComesFromTheConfiguration) {
  const auto engine = make(tiny_conv({1, 3, -1, -1}), 20, 12);
  EXPECT_EQ(to_string(engine->input().shape), "[1,3,12,20]");
  EXPECT_EQ(to_string(engine->outputs()[0].shape), "[1,2,12,20]");
  EXPECT_EQ(engine->input_options().width, 20);
}

TEST_F(OpenCvEngineTest, UnknownOperatorIsNamedWithItsNode) {
  OnnxBuilder b = tiny_conv();
  b.node("FlyToTheMoon", {"y"}, {"z"}, "apollo").output("z", {1});
  EXPECT_THAT(refusal(b), AllOf(HasSubstr("m.onnx: "), HasSubstr("FlyToTheMoon (node 'apollo')")));
}

TEST_F(OpenCvEngineTest, UnknownOperatorWithoutANameIsNamedByItsOutput) {
  OnnxBuilder b = tiny_conv();
  b.node("FlyToTheMoon", {"y"}, {"z"}).output("z", {1});
  EXPECT_THAT(refusal(b), HasSubstr("FlyToTheMoon (node that makes 'z')"));
}

TEST_F(OpenCvEngineTest, InputsThatDoNotFitAreRefusedWithTheCause) {
  EXPECT_THAT(refusal(tiny_conv(), 640, 8),
              HasSubstr("model.input.width is 640, but the model's input 'x' is [1,3,8,8]"));
  EXPECT_THAT(refusal(tiny_conv({1, 3, -1, -1}), 640, 0), HasSubstr("set model.input.height"));
  EXPECT_THAT(refusal(tiny_conv({1, 4, 8, 8})), HasSubstr("camd feeds three channels or a grey one"));
  EXPECT_THAT(refusal(tiny_conv({2, 8, 8})), HasSubstr("[1,3,height,width]"));
  EXPECT_THAT(refusal(tiny_conv().input("mask", {1})), HasSubstr("2 inputs ('x', 'mask')"));
  EXPECT_THAT(refusal(tiny_conv({1, 3, -1, -1}), 1 << 20, 8), HasSubstr("more than 16384"));
  OnnxBuilder half;
  half.input("x", {1, 3, 8, 8}, onnx::TensorProto::FLOAT16).node("Relu", {"x"}, {"y"}).output("y", {});
  EXPECT_THAT(refusal(half), HasSubstr("engine opencv cannot feed its input 'x' of f16 [1,3,8,8], only f32"));
}

TEST_F(OpenCvEngineTest, NetworkThatCannotRunAtThisSizeIsRefused) {
  OnnxBuilder b = tiny_conv();
  b.integers("shape", {2}, {1, 999}).node("Reshape", {"y", "shape"}, {"z"}, "flat").output("z", {1, 999});
  EXPECT_THAT(refusal(b), AllOf(HasSubstr("engine opencv cannot run"), Not(HasSubstr("accepted"))));
}

TEST_F(OpenCvEngineTest, RefusalsSayNothingOfOpenCvsOwnSources) {
  OnnxBuilder fly = tiny_conv();
  fly.node("FlyToTheMoon", {"y"}, {"z"}, "apollo").output("z", {1});
  OnnxBuilder shape = tiny_conv();
  shape.integers("shape", {2}, {1, 999}).node("Reshape", {"y", "shape"}, {"z"}, "flat").output("z", {1, 999});
  for (const OnnxBuilder& model : {fly, shape}) {
    for (const char* internal : {"error: (", "Assertion failed", "in function", ".cpp", "OpenCV("}) {
      EXPECT_THAT(refusal(model), Not(HasSubstr(internal)));
    }
  }
}

TEST(PlainOpenCvReason, KeepsTheConditionThatFailedAndNothingElse) {
  EXPECT_EQ(plain_opencv_reason("Node [Reshape@ai.onnx]:(onnx_node!flat) parse error: OpenCV(4.6.0) "
                                "./modules/dnn/src/layers/reshape_layer.cpp:127: error: (-215:Assertion failed) "
                                "total(srcShape) == maskTotal in function 'computeShapeByReshapeMask'\n"),
            "OpenCV needs total(srcShape) == maskTotal");
  EXPECT_EQ(
      plain_opencv_reason("OpenCV(4.6.0) /usr/src/opencv/modules/dnn/src/dnn.cpp:1: error: (-2:Unspecified error) "
                          "in function 'f'\n> Can't create layer \"apollo\" of type \"FlyToTheMoon\""),
      "OpenCV says: Can't create layer \"apollo\" of type \"FlyToTheMoon\"");
  EXPECT_EQ(plain_opencv_reason("OpenCV(4.6.0) a.cpp:1: error: (-213:The function/feature is not implemented)  in "
                                "function 'handleNode'"),
            "OpenCV says: The function/feature is not implemented");
  EXPECT_EQ(plain_opencv_reason("error: (-215:Assertion failed) a > 0 in function 'f' > (expected: 'a > 0'), where"),
            "OpenCV needs a > 0 > (expected: 'a > 0'), where");
  EXPECT_EQ(plain_opencv_reason(""), "OpenCV says no more");
}

TEST_F(OpenCvEngineTest, CudaEngineIsRefusedOnTheHost) {
  EngineOptions options;
  options.kind = EngineKind::kCuda;
  const std::string path = folder_.write("m.onnx", tiny_conv().bytes());
  try {
    (void)make_engine(path, options, *device_);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("needs a CUDA device"));
  }
}

TEST_F(OpenCvEngineTest, RealModelsGiveFiniteOutputs) {
  for (const auto& shared : test::shared_models()) {
    const std::string path = camd::test::shared_dir() + "/models/" + shared.file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    EngineOptions options;
    options.kind = EngineKind::kOpenCv;
    options.input.width = shared.width;
    options.input.height = shared.height;
    const auto engine = make_engine(path, options, *device_);
    EXPECT_EQ(engine->outputs().size(), shared.outputs);
    const auto execution = engine->make_execution();
    const device::Stream stream = device_->make_stream("compute");
    const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kBgr, 160, 120);
    std::vector<std::byte> picture(layout.size_bytes);
    for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<std::byte>(i * i / 97);
    ASSERT_TRUE(execution->enqueue_preprocess({picture.data(), layout}, stream));
    ASSERT_TRUE(execution->enqueue_network(stream));
    ASSERT_TRUE(device_->synchronize(stream));
    ASSERT_TRUE(execution->result());
    for (std::size_t i = 0; i < engine->outputs().size(); ++i) {
      const auto* values = static_cast<const float*>(execution->output(i).data);
      const auto count = static_cast<std::size_t>(element_count(engine->outputs()[i].shape));
      EXPECT_TRUE(std::all_of(values, values + count, [](float v) { return std::isfinite(v); })) << path << " " << i;
    }
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
