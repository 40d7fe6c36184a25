// Models that take pictures in another form than camd feeds them.
#include "infer/onnx/picture_forms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"
#include "infer/model.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using test::TemporaryFolder;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;

class Grey : public ::testing::TestWithParam<EngineKind> {
 protected:
  // What the model gives for a picture of one colour: 30 of red, 20 of green, 10 of blue.
  std::vector<float> result(const OnnxBuilder& model, ColorOrder color) {
    EngineOptions options;
    options.kind = GetParam();
    options.input.color = color;
    options.input.scale = {1.0F, 1.0F, 1.0F};
    const auto engine = make_engine(folder_.write("m.onnx", model.bytes()), options, *device_);
    EXPECT_EQ(engine->input().shape, (Shape{1, 3, 8, 8}));
    const auto execution = engine->make_execution();
    const device::Stream stream = device_->make_stream("compute");
    const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kBgr, 8, 8);
    std::vector<std::byte> picture(layout.size_bytes);
    for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<std::byte>(10 * (i % 3 + 1));
    EXPECT_TRUE(execution->enqueue_preprocess({picture.data(), layout}, stream));
    EXPECT_TRUE(execution->enqueue_network(stream));
    EXPECT_TRUE(device_->synchronize(stream));
    EXPECT_TRUE(execution->result());
    const auto* values = static_cast<const float*>(execution->output(0).data);
    return {values, values + element_count(engine->outputs()[0].shape)};
  }

  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
  TemporaryFolder folder_;
};

constexpr float kExpected = 0.299F * 30 + 0.587F * 20 + 0.114F * 10;

TEST_P(Grey, PicturesAreMadeOfBothOrdersOfColours) {
  OnnxBuilder model;
  model.input("x", {1, 1, 8, 8}).node("Relu", {"x"}, {"y"}, "relu").output("y", {1, 1, 8, 8});
  for (const ColorOrder color : {ColorOrder::kBgr, ColorOrder::kRgb}) {
    const std::vector<float> values = result(model, color);
    EXPECT_EQ(values.size(), 64U);
    EXPECT_THAT(values, Each(FloatNear(kExpected, 1e-4F)));
  }
}

INSTANTIATE_TEST_SUITE_P(HostEngines, Grey, ::testing::Values(EngineKind::kCpu, EngineKind::kOpenCv),
                         [](const auto& of) { return of.param == EngineKind::kCpu ? "cpu" : "opencv"; });

class GreyOnCpu : public Grey {};

TEST_P(GreyOnCpu, PicturesMayHaveTheirChannelLast) {
  OnnxBuilder model;
  model.input("x", {-1, 8, 8, 1}).node("Relu", {"x"}, {"y"}, "relu").output("y", {-1, 8, 8, 1});
  const std::vector<float> values = result(model, ColorOrder::kRgb);
  EXPECT_EQ(values.size(), 64U);
  EXPECT_THAT(values, Each(FloatNear(kExpected, 1e-4F)));
}

INSTANTIATE_TEST_SUITE_P(CpuEngine, GreyOnCpu, ::testing::Values(EngineKind::kCpu));

class WithoutBatch : public GreyOnCpu {};

TEST_P(WithoutBatch, PicturesComeAsTheModelTakesThem) {
  for (const Shape& shape : {Shape{3, 8, 8}, Shape{8, 8, 3}, Shape{1, 8, 8}, Shape{8, 8, 1}}) {
    OnnxBuilder model;
    model.input("x", shape).node("ReduceMax", {"x"}, {"y"}, "largest").output("y", {1, 1, 1});
    const float largest = shape.front() == 1 || shape.back() == 1 ? kExpected : 30.0F;
    EXPECT_THAT(result(model, ColorOrder::kRgb), ElementsAre(FloatNear(largest, 1e-4F))) << to_string(shape);
  }
}

INSTANTIATE_TEST_SUITE_P(CpuEngine, WithoutBatch, ::testing::Values(EngineKind::kCpu));

TEST(TakePicturesWithoutBatch, TakesTheBatchAwayAsTheOperatorSetWritesIt) {
  for (const int opset : {12, 13}) {
    OnnxBuilder model;
    model.input("x", {3, 8, 8}).node("Relu", {"x"}, {"y"}, "relu").output("y", {3, 8, 8});
    OnnxFile file = model.file();
    file.proto.mutable_opset_import(0)->set_version(opset);
    take_pictures_without_batch(file);
    EXPECT_EQ(describe_model(file).inputs.at(0).shape, (Shape{1, 3, 8, 8}));
    ASSERT_EQ(file.proto.graph().node_size(), 2);
    EXPECT_EQ(file.proto.graph().node(0).op_type(), "Squeeze");
    EXPECT_EQ(file.proto.graph().node(0).input_size(), opset < 13 ? 1 : 2);
    EXPECT_EQ(file.proto.graph().node(0).attribute_size(), opset < 13 ? 1 : 0);
  }
}

TEST(TakePicturesWithoutBatch, LeavesWhatIsNoPictureAlone) {
  for (const Shape& shape : {Shape{2, 8, 8}, Shape{3, 8}, Shape{1, 3, 8, 8}}) {
    OnnxBuilder model;
    model.input("x", shape).node("Relu", {"x"}, {"y"}, "relu").output("y", shape);
    OnnxFile file = model.file();
    take_pictures_without_batch(file);
    EXPECT_EQ(file.proto.SerializeAsString(), model.file().proto.SerializeAsString());
  }
}

TEST(TakeGreyPictures, GivesNamesThatNothingElseHas) {
  OnnxBuilder model;
  model.input("x", {1, 1, 8, 8})
      .node("Relu", {"x"}, {"x/grey"}, "relu")
      .node("Relu", {"x/grey"}, {"y"}, "relu2")
      .output("y", {1, 1, 8, 8});
  OnnxFile file = model.file();
  take_grey_pictures(file, ColorOrder::kBgr);
  const auto& graph = file.proto.graph();
  ASSERT_EQ(graph.node_size(), 3);
  EXPECT_EQ(graph.node(0).output(0), "x/grey/grey");
  EXPECT_EQ(graph.node(1).input(0), "x/grey/grey");
  EXPECT_EQ(graph.node(2).input(0), "x/grey");
}

TEST(TakeGreyPictures, LeavesColouredOnesAlone) {
  for (const Shape& shape : {Shape{1, 3, 8, 8}, Shape{1, 8, 8, 3}, Shape{1, 2, 8, 8}}) {
    OnnxBuilder model;
    model.input("x", shape).node("Relu", {"x"}, {"y"}, "relu").output("y", shape);
    OnnxFile file = model.file();
    take_grey_pictures(file, ColorOrder::kBgr);
    EXPECT_EQ(file.proto.SerializeAsString(), model.file().proto.SerializeAsString());
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
