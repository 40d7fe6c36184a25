// The built-in `tensors`: NumPy's format byte by byte, names, choice of frames and outputs.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness.hpp"
#include "plugins/builtin.hpp"
#include "plugins/tensors/npy.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

class TensorsTest : public InFolder {
 protected:
  TensorsTest() {
    model_.output("head/cls:0", {1, 2, 1}, {0.5F, -1.5F});
    model_.output("box-1_2", {3}, {1, 2, 3});
    input_ = DLTensor{pixels_.data(), {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, input_shape_.data(), nullptr, 0};
    run_.input = &input_;
    run_.frame.sequence = 30;
  }
  void start(const std::string& more = "") {
    ASSERT_EQ(run_.create(R"({"dir":")" + path("t") + "\"" + more + "}"), CAMD_OK) << run_.error();
    ASSERT_EQ(run_.outputs(model_), CAMD_OK) << run_.error();
  }

  std::array<float, 3> pixels_{0.25F, 0.5F, 0.75F};
  std::array<std::int64_t, 4> input_shape_{1, 3, 1, 1};
  DLTensor input_{};
  FakeModel model_{1, 1};
  Instance run_{find_builtin("tensors")};
};

TEST_F(TensorsTest, WritesInputAndOutputsWithCleanNames) {
  start();
  EXPECT_EQ(run_.need.input, CAMD_NEED_HOST);
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  EXPECT_EQ(listing("t"),
            (std::vector<std::string>{"000030.box-1_2.npy", "000030.head_cls_0.npy", "000030.input.npy"}));
}

TEST_F(TensorsTest, WritesTheInputAsTheModelTakesIt) {
  model_.channels_last = true;
  input_shape_ = {1, 3, 1, 2};
  const std::array<float, 6> planes{1, 2, 3, 4, 5, 6};
  input_.data = const_cast<float*>(planes.data());
  start();
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  const std::string file = read_file(path("t/000030.input.npy"));
  EXPECT_NE(file.find("'shape': (1, 1, 2, 3), }"), std::string::npos);
  std::array<float, 6> pixels{};
  std::memcpy(pixels.data(), file.data() + file.size() - sizeof(pixels), sizeof(pixels));
  EXPECT_EQ(pixels, (std::array<float, 6>{1, 3, 5, 2, 4, 6}));
}

// The bytes that numpy.save() writes for np.array([1, 2, 3], 'f4').
TEST_F(TensorsTest, WritesWhatNumpyWrites) {
  start();
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  expected.resize(127, ' ');
  expected += '\n';
  expected += std::string("\0\0\x80\x3F\0\0\0\x40\0\0\x40\x40", 12);
  EXPECT_EQ(read_file(path("t/000030.box-1_2.npy")), expected);
}

TEST_F(TensorsTest, PadsHeadersToWholeBlocks) {
  const std::array<std::int64_t, 4> shape{1, 1234567, 1234567, 1234567};
  for (int ndim = 0; ndim <= 4; ++ndim) EXPECT_EQ(npy_header(shape.data(), ndim).size() % 64, 0U);
  EXPECT_NE(npy_header(shape.data(), 0).find("'shape': (), }"), std::string::npos);
  EXPECT_NE(npy_header(shape.data(), 2).find("'shape': (1, 1234567), }"), std::string::npos);
}

// Sequence numbers begin again at 0 with every start: the files of an earlier run were replaced.
TEST_F(TensorsTest, WritesBesideTheFolderThatHoldsThoseOfAnEarlierRun) {
  std::filesystem::create_directories(path("t"));
  std::ofstream(path("t/000030.input.npy")) << "earlier";
  std::filesystem::create_directories(path("t-2"));  // nothing in it
  start();
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  EXPECT_EQ(read_file(path("t/000030.input.npy")), "earlier");
  EXPECT_EQ(listing("t-2").size(), 3U);
  EXPECT_EQ(run_.host.lines,
            std::vector<std::string>{"2 tensors: files go into " + path("t-2") + ", because earlier ones keep theirs"});
}

TEST_F(TensorsTest, BeginsAnotherFolderWhenToldToOpenAnew) {
  start();
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  std::filesystem::rename(path("t"), path("kept"));
  ASSERT_EQ(run_.reopen(), CAMD_OK);
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  EXPECT_EQ(listing("t").size(), 3U);
  ASSERT_EQ(run_.reopen(), CAMD_OK);
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  EXPECT_EQ(listing(), (std::vector<std::string>{"kept", "t", "t-2"}));
}

// A camera that came or went at a reload made a new instance.
TEST_F(TensorsTest, GivesACameraThatComesLaterAFolderOfItsOwn) {
  start();
  ASSERT_EQ(run_.change_camera(1, "yard"), CAMD_OK) << run_.error();
  run_.frame.camera_index = 1;
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  ASSERT_EQ(run_.change_camera(1, nullptr), CAMD_OK) << run_.error();
  run_.frame.camera_index = 0;
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  EXPECT_EQ(listing("t/yard").size(), 3U);
  EXPECT_EQ(listing("t").size(), 4U);
}

TEST_F(TensorsTest, WritesEverySoManyFrames) {
  start(R"(,"every":20,"input":false)");
  EXPECT_EQ(run_.need.input, CAMD_NEED_NONE);
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  EXPECT_TRUE(listing("t").empty());
  run_.frame.sequence = 1'234'560;
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  EXPECT_EQ(listing("t"), (std::vector<std::string>{"1234560.box-1_2.npy", "1234560.head_cls_0.npy"}));
}

TEST_F(TensorsTest, AsksOnlyForTheChosenOutputs) {
  start(R"(,"outputs":["box-1_2"])");
  EXPECT_EQ(run_.needs[0], CAMD_NEED_NONE);
  EXPECT_EQ(run_.needs[1], CAMD_NEED_HOST);
}

TEST_F(TensorsTest, RefusesAnUndeclaredOutput) {
  ASSERT_EQ(run_.create(R"({"dir":")" + path("t") + R"(","outputs":["box-1_3"]})"), CAMD_OK);
  EXPECT_EQ(run_.outputs(model_), CAMD_ERROR_CONFIG);
  EXPECT_EQ(run_.error(),
            "config.outputs: undeclared output 'box-1_3' (did you mean 'box-1_2'?): the model's outputs are "
            "head/cls:0, box-1_2");
}

TEST_F(TensorsTest, RefusesTwoTensorsInOneFile) {
  model_.output("head_cls_0", {1});
  ASSERT_EQ(run_.create(R"({"dir":")" + path("t") + "\"}"), CAMD_OK);
  EXPECT_EQ(run_.outputs(model_), CAMD_ERROR_CONFIG);
  EXPECT_EQ(run_.error(),
            "tensors 'head/cls:0' and 'head_cls_0' would both write SEQUENCE.head_cls_0.npy: name one of them in "
            "config.outputs, or set input: false");
}

TEST_F(TensorsTest, KeepsCamerasApart) {
  model_.cameras = {"door", "yard"};
  start();
  run_.frame.camera_index = 1;
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  EXPECT_EQ(listing("t/yard").size(), 3U);
  EXPECT_TRUE(listing("t/door").empty());
}

TEST_F(TensorsTest, WidensHalvesAndIntegers) {
  std::array<std::uint16_t, 4> halves{0x3C00, 0xC500, 0x0001, 0x7BFF};  // 1, -5, the least subnormal, 65504
  std::array<std::int64_t, 1> shape{4};
  DLTensor tensor{halves.data(), {kDLCPU, 0}, 1, {kDLFloat, 16, 1}, shape.data(), nullptr, 0};
  std::vector<std::uint8_t> file;
  to_npy(tensor, "half", file);
  std::array<float, 4> numbers{};
  std::memcpy(numbers.data(), file.data() + file.size() - 16, 16);
  EXPECT_EQ(numbers, (std::array<float, 4>{1.0F, -5.0F, 0x1p-24F, 65504.0F}));
  std::array<std::int64_t, 4> wide{7, -8, 9, 10};
  tensor.data = wide.data();
  tensor.dtype = {kDLInt, 64, 1};
  to_npy(tensor, "wide", file);
  std::memcpy(numbers.data(), file.data() + file.size() - 16, 16);
  EXPECT_EQ(numbers, (std::array<float, 4>{7.0F, -8.0F, 9.0F, 10.0F}));
}

TEST_F(TensorsTest, MakesAFolderThatWasRemovedAnew) {
  start();
  std::filesystem::remove_all(path("t"));
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  EXPECT_EQ(listing("t").size(), 3U);
}

TEST_F(TensorsTest, FailsTheFrameWhereNoFolderCanBe) {
  start();
  std::filesystem::remove_all(path("t"));
  std::ofstream(path("t")) << "in the way";
  EXPECT_EQ(run_.process(model_), CAMD_ERROR_FAILED);
  EXPECT_EQ(run_.error(), "cannot write " + path("t/000030.input.npy.part") + ": Not a directory");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
