// Recordings: what is written is read again, and what is wrong with a file is said.
#include "plugins/record/recording.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

namespace camd::plugins {
namespace CAMD_TEST_FILE {

using ::testing::HasSubstr;

class Recording : public ::testing::Test {
 protected:
  Recording() {
    model_.path = "m.onnx";
    model_.card_json = "{}";
    model_.cameras = {"door", "yard"};
    model_.has_pictures = true;
    model_.input = {"in", {kDLFloat, 32, 1}, {1, 3, 2, 2}};
    model_.outputs = {{"out", {kDLFloat, 16, 1}, {1, 3}}};
    frame_.camera = 1;
    frame_.width = 4;
    frame_.height = 2;
    frame_.sequence = 7;
    frame_.captured_mono_ns = 11;
    frame_.now_mono_ns = 12;
    frame_.format = CAMD_PIXEL_NV12;
    frame_.planes = {{4, 4, 2, std::vector<std::uint8_t>(8, 3)}, {4, 2, 1, std::vector<std::uint8_t>(4, 5)}};
    frame_.tensors = {{1, 2, 3, 4, 5, 6}, {}};
    frame_.capacity = 512;
    frame_.detections.resize(2);
    frame_.detections[1].score = 0.5F;
    frame_.events.resize(1);
    std::strcpy(frame_.events[0].name, "seen");
  }
  ~Recording() override { std::filesystem::remove(path_); }
  void write() const {
    RecordingWriter writer(path_, model_);
    writer.add(frame_);
    writer.add(frame_);
  }
  // How the reader refuses the file; empty: it does not.
  [[nodiscard]] std::string refusal() const {
    try {
      RecordingReader reader(path_);
      while (reader.next()) {
      }
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
    return "";
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  const std::string path_ =
      ::testing::TempDir() + "camd_recording_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  RecordedModel model_;
  RecordedFrame frame_;
};

TEST_F(Recording, HoldsFramesAsTheyWere) {
  write();
  RecordingReader reader(path_);
  EXPECT_EQ(reader.model().cameras, model_.cameras);
  EXPECT_EQ(reader.model().outputs.at(0).shape, model_.outputs[0].shape);
  EXPECT_TRUE(reader.model().has_pictures);
  const std::optional<RecordedFrame> frame = reader.next();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->sequence, 7U);
  EXPECT_EQ(frame->now_mono_ns, 12);
  EXPECT_EQ(frame->planes.at(1).bytes, frame_.planes[1].bytes);
  EXPECT_EQ(frame->tensors, frame_.tensors);
  EXPECT_EQ(frame->capacity, 512);
  EXPECT_EQ(frame->detections.at(1).score, 0.5F);
  EXPECT_STREQ(frame->events.at(0).name, "seen");
  EXPECT_TRUE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST_F(Recording, EndsWhereAKilledRunCutItOff) {
  write();
  const std::string whole = bytes();
  put(whole.substr(0, whole.size() - 1));
  RecordingReader reader(path_);
  EXPECT_TRUE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST_F(Recording, IsRefusedWhereItIsOfAnotherKindOrVersion) {
  put("something else");
  EXPECT_THAT(refusal(), HasSubstr("is no recording of camd"));
  write();
  std::string changed = bytes();
  changed[8] = 9;
  put(changed);
  EXPECT_THAT(refusal(), HasSubstr("is a recording of version 9, this camd reads 1"));
}

TEST_F(Recording, IsRefusedWhereSizesDoNotFit) {
  frame_.tensors[0].push_back(0);
  write();
  EXPECT_THAT(refusal(), HasSubstr("a frame: tensor 'out' has 7 bytes"));
  frame_.tensors[0].pop_back();
  frame_.planes[0].bytes.pop_back();
  write();
  EXPECT_THAT(refusal(), HasSubstr("a picture whose planes are not as large as it"));
  frame_.planes[0].bytes.push_back(0);
  frame_.camera = 2;
  write();
  EXPECT_THAT(refusal(), HasSubstr("a frame of no camera"));
  frame_.camera = 0;
  frame_.capacity = 1;
  write();
  EXPECT_THAT(refusal(), HasSubstr("more detections than there is room for"));
  model_.outputs[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  write();
  EXPECT_THAT(refusal(), HasSubstr("its model: tensor 'out' is none that there can be"));
}

TEST_F(Recording, IsReadToAnEndWhateverByteIsWrong) {
  write();
  const std::string whole = bytes();
  for (std::size_t at = 12; at < 600; at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0xFF);
    put(changed);
    (void)refusal();
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
