// Models that were exported for several pictures at once.
#include "infer/graph/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"
#include "infer/model_report.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using test::TemporaryFolder;
using test::tiny_conv;
using ::testing::HasSubstr;

// A convolution, then [batch, 2, 64] as exporters write it, with the batch as a number.
OnnxBuilder flattening(std::int64_t batch) {
  OnnxBuilder b = tiny_conv({batch, 3, 8, 8});
  b.integers("target", {3}, {batch, 2, -1}).node("Reshape", {"y", "target"}, {"flat"}, "flatten");
  return b.output("flat", {});
}

class Batch : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Engine> make(const OnnxBuilder& model) {
    EngineOptions options;
    options.kind = EngineKind::kCpu;
    return make_engine(folder_.write("m.onnx", model.bytes()), options, *device_);
  }
  // What the model gives for a picture that grows lighter.
  [[nodiscard]] std::vector<float> result(const OnnxBuilder& model, std::size_t output) {
    const auto engine = make(model);
    const auto execution = engine->make_execution();
    const device::Stream stream = device_->make_stream("compute");
    const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, 8, 8);
    std::vector<std::byte> picture(layout.size_bytes);
    for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<std::byte>(4 * i);
    EXPECT_TRUE(execution->enqueue_preprocess({picture.data(), layout}, stream));
    EXPECT_TRUE(execution->enqueue_network(stream));
    EXPECT_TRUE(device_->synchronize(stream));
    EXPECT_TRUE(execution->result());
    const auto* values = static_cast<const float*>(execution->output(output).data);
    return {values, values + element_count(engine->outputs()[output].shape)};
  }
  std::string refusal(const OnnxBuilder& model) {
    try {
      (void)make(model);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kModel);
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
};

TEST_F(Batch, OfFourIsRunAsABatchOfOneWithTheSameResult) {
  EXPECT_EQ(to_string(make(tiny_conv({4, 3, 8, 8}))->outputs()[0].shape), "[1,2,8,8]");
  EXPECT_EQ(result(tiny_conv({4, 3, 8, 8}), 0), result(tiny_conv({1, 3, 8, 8}), 0));
}

TEST_F(Batch, ThatStandsInTheTargetOfAReshapeIsReplacedThere) {
  EXPECT_EQ(to_string(make(flattening(4))->outputs()[1].shape), "[1,2,64]");
  EXPECT_EQ(result(flattening(4), 1), result(flattening(1), 1));
  OnnxBuilder raw = flattening(4);
  auto* target = raw.proto().mutable_graph()->mutable_initializer(2);
  ASSERT_EQ(target->name(), "target");
  const std::int64_t numbers[3] = {4, 2, -1};
  target->clear_int64_data();
  target->set_raw_data(numbers, sizeof(numbers));
  EXPECT_EQ(result(raw, 1), result(flattening(1), 1));
}

// [4,128] from [2,...]: each row would be half a picture, and of one picture a quarter.
TEST_F(Batch, WhosePicturesTheGraphMixesIsRefused) {
  OnnxBuilder b = tiny_conv({2, 3, 8, 8});
  b.integers("target", {2}, {4, -1}).node("Reshape", {"y", "target"}, {"mixed"}).output("mixed", {});
  EXPECT_THAT(refusal(b), HasSubstr("m.onnx: input 'x' is [2,3,8,8]: camd runs one picture at a time, and its graph "
                                    "mixes the 2 pictures of a batch at 'mixed'; export the model with a batch of 1"));
  OnnxBuilder turned = tiny_conv({2, 3, 8, 8});
  turned.node("Transpose", {"y"}, {"t"}).ints("perm", {1, 0, 2, 3}).output("t", {});
  EXPECT_THAT(refusal(turned), HasSubstr("mixes the 2 pictures of a batch at 't'"));
}

TEST_F(Batch, OfAGraphThatCannotBeFollowedIsRefused) {
  OnnxBuilder b = tiny_conv({2, 3, 8, 8});
  b.node("LRN", {"y"}, {"z"}, "norm").integer("size", 3).output("z", {});
  EXPECT_THAT(refusal(b), HasSubstr("what its graph does to a batch cannot be seen (LRN (node 'norm'): camd's own "
                                    "engines do not have this operator); export the model with a batch of 1"));
}

TEST_F(Batch, IsDeclaredAsTheFileSaysInReports) {
  const std::string path = folder_.write("m.onnx", flattening(4).bytes());
  const ModelReport report = report_model(path, {}, *device_, ReportDepth::kAllEngines);
  EXPECT_EQ(to_string(report.model.inputs[0].shape), "[4,3,8,8]");
  EXPECT_EQ(to_string(report.input.shape), "[1,3,8,8]");
  EXPECT_EQ(to_string(report.outputs[1].shape), "[1,2,64]");
  for (const EngineReport& engine : report.engines) EXPECT_TRUE(engine.runs) << engine.engine << engine.detail;
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
