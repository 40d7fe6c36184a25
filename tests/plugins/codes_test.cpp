// The built-in `codes`: what is read, when it is tried again, what is remembered, and where a marker stands.
#include <ZXing/BarcodeFormat.h>
#include <ZXing/BitMatrix.h>
#include <ZXing/MultiFormatWriter.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <opencv2/aruco.hpp>
#include <opencv2/core.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"
#include "plugins/codes/reader.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

cv::Mat marker_image(int dictionary, int number, int side) {
  cv::Mat image;
  cv::aruco::drawMarker(cv::aruco::getPredefinedDictionary(dictionary), number, side, image);
  return image;
}

cv::Mat qr_image(const std::wstring& text, int pixels) {
  const ZXing::BitMatrix bits = ZXing::MultiFormatWriter(ZXing::BarcodeFormat::QRCode).setMargin(0).encode(text, 0, 0);
  cv::Mat image(bits.height() * pixels, bits.width() * pixels, CV_8UC1);
  for (int y = 0; y < image.rows; ++y) {
    for (int x = 0; x < image.cols; ++x) image.at<std::uint8_t>(y, x) = bits.get(x / pixels, y / pixels) ? 10 : 240;
  }
  return image;
}

// A grey picture of 640x480 with codes on it.
class Wall {
 public:
  Wall() : image_(480, 640, CV_8UC1, cv::Scalar(200)) {
    picture_.struct_size = sizeof(picture_);
    picture_.format = CAMD_PIXEL_GRAY8;
    picture_.plane_count = 1;
    picture_.planes[0] = {image_.data, 640, 640, 480};
  }
  // Where its corners are.
  codes::Corners put(const cv::Mat& code, int x, int y) {
    code.copyTo(image_(cv::Rect(x, y, code.cols, code.rows)));
    const auto left = static_cast<float>(x) - 0.5F, top = static_cast<float>(y) - 0.5F;
    const auto right = left + static_cast<float>(code.cols), bottom = top + static_cast<float>(code.rows);
    return {cv::Point2f(left, top), {right, top}, {right, bottom}, {left, bottom}};
  }
  void clear() { image_.setTo(200); }
  [[nodiscard]] const camd_picture& picture() const { return picture_; }

 private:
  cv::Mat image_;
  camd_picture picture_{};
};

camd_detection detection(const char* class_name, const codes::Corners& corners, std::uint64_t track_id) {
  camd_detection d{};
  d.track_id = track_id;
  d.keypoint_count = 4;
  for (std::size_t i = 0; i < 4; ++i) {
    d.keypoints[i][0] = corners[i].x;
    d.keypoints[i][1] = corners[i].y;
  }
  camd::plugin::copy_text(d.class_name, class_name);
  return d;
}

class CodesTest : public ::testing::Test {
 protected:
  void start(const std::string& config = "{}") {
    ASSERT_EQ(run_.create(config), CAMD_OK) << run_.error();
    ASSERT_EQ(run_.outputs(model_), CAMD_OK) << run_.error();
    EXPECT_EQ(run_.need.picture, CAMD_NEED_HOST);
    run_.frame.picture = &wall_.picture();
  }
  // The texts of a frame's detections.
  std::vector<std::string> frame(const std::vector<camd_detection>& detections) {
    run_.host.events.clear();
    EXPECT_EQ(run_.process(model_, detections), CAMD_OK) << run_.error();
    std::vector<std::string> texts;
    for (const camd_detection& d : run_.found()) texts.emplace_back(d.text);
    return texts;
  }

  Wall wall_;
  FakeModel model_{4, 4};
  Instance run_{find_builtin("codes")};
};

TEST(CodeReader, ReadsMarkersOfEveryFamilyAndHowTheyAreTurned) {
  const std::map<std::string, int> families = {
      {"apriltag_16h5", cv::aruco::DICT_APRILTAG_16h5},   {"apriltag_25h9", cv::aruco::DICT_APRILTAG_25h9},
      {"apriltag_36h10", cv::aruco::DICT_APRILTAG_36h10}, {"apriltag_36h11", cv::aruco::DICT_APRILTAG_36h11},
      {"aruco_4x4_50", cv::aruco::DICT_4X4_50},           {"aruco_5x5_100", cv::aruco::DICT_5X5_100},
      {"aruco_6x6_250", cv::aruco::DICT_6X6_250},         {"aruco_7x7_1000", cv::aruco::DICT_7X7_1000},
      {"aruco_original", cv::aruco::DICT_ARUCO_ORIGINAL}};
  for (const auto& [name, dictionary] : families) {
    codes::Reader reader({name});
    for (int turn = 0; turn < 4; ++turn) {
      Wall wall;
      codes::Corners corners = wall.put(marker_image(dictionary, 27, 90), 100, 100);
      // What the detector calls the first corner is the marker's own one that stands `turn` before it.
      std::rotate(corners.begin(), corners.begin() + (4 - turn) % 4, corners.end());
      const auto read = reader.marker(wall.picture(), corners);
      ASSERT_TRUE(read) << name << ' ' << turn;
      EXPECT_EQ(read->text, name + ":27");
      EXPECT_EQ(read->turn, turn) << name;
    }
  }
}

TEST(CodeReader, FindsTheRimOfAMarkerWhoseCornersAreATenthOff) {
  codes::Reader reader({"aruco_4x4_50"});
  Wall wall;
  codes::Corners corners = wall.put(marker_image(cv::aruco::DICT_4X4_50, 7, 120), 200, 200);
  for (cv::Point2f& corner : corners) corner += cv::Point2f(12, -12);
  const auto read = reader.marker(wall.picture(), corners);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->text, "aruco_4x4_50:7");
}

TEST(CodeReader, ReadsNoMarkerWhereThereIsNone) {
  codes::Reader reader(codes::family_names());
  Wall wall;
  EXPECT_FALSE(reader.marker(wall.picture(), {cv::Point2f(100, 100), {200, 100}, {200, 200}, {100, 200}}));
  const codes::Corners qr = wall.put(qr_image(L"https://example.org", 6), 100, 100);
  EXPECT_FALSE(reader.marker(wall.picture(), qr));
}

TEST(CodeReader, ReadsAQrCodeInTheOtherWaysAsWell) {
  codes::Reader reader({});
  Wall wall;
  const codes::Corners corners = wall.put(qr_image(L"crate 7", 4), 100, 100);
  EXPECT_EQ(reader.qr(wall.picture(), corners, codes::Looks::kUsual), "crate 7");
  EXPECT_EQ(reader.qr(wall.picture(), corners, codes::Looks::kOther), "crate 7");
}

TEST(CodeReader, ReadsAQrCodeWhoseCornersAreAQuarterInsideIt) {
  codes::Reader reader({});
  Wall wall;
  codes::Corners corners = wall.put(qr_image(L"crate 7", 6), 100, 100);
  const cv::Point2f middle = 0.5F * (corners[0] + corners[2]);
  for (cv::Point2f& corner : corners) corner = middle + 0.68F * (corner - middle);
  EXPECT_EQ(reader.qr(wall.picture(), corners, codes::Looks::kUsual), std::nullopt);
  EXPECT_EQ(reader.qr(wall.picture(), corners), "crate 7");
}

TEST(CodeReader, TakesNoTextOfASmallerCodeBesideTheOneAskedFor) {
  codes::Reader reader({});
  Wall wall;
  wall.put(qr_image(L"crate 7", 2), 310, 150);
  const codes::Corners blank = {cv::Point2f(100, 100), {300, 100}, {300, 300}, {100, 300}};
  EXPECT_EQ(reader.qr(wall.picture(), blank), std::nullopt);
}

TEST_F(CodesTest, ReadTheTextOfAQrCodeAndTheNumberOfAMarker) {
  start();
  const auto qr = wall_.put(qr_image(L"https://example.org/7", 5), 50, 50);
  const auto tag = wall_.put(marker_image(cv::aruco::DICT_APRILTAG_36h11, 42, 100), 400, 100);
  EXPECT_THAT(frame({detection("qr", qr, 0), detection("marker", tag, 0), detection("face", tag, 0)}),
              ElementsAre("https://example.org/7", "apriltag_36h11:42", ""));
}

TEST_F(CodesTest, AreTriedAgainUntilReadAndThenRemembered) {
  start();
  const auto qr = wall_.put(qr_image(L"4711", 5), 50, 50);
  wall_.clear();
  EXPECT_THAT(frame({detection("qr", qr, 9)}), ElementsAre(""));
  static_cast<void>(wall_.put(qr_image(L"4711", 5), 50, 50));
  EXPECT_THAT(frame({detection("qr", qr, 9)}), ElementsAre("4711"));
  ASSERT_EQ(run_.host.events.size(), 1U);
  EXPECT_STREQ(run_.host.events[0].name, "code_read");
  EXPECT_EQ(run_.host.events[0].track_id, 9U);
  EXPECT_EQ(run_.host.events[0].numbers[0].value, 2.0);
  wall_.clear();
  EXPECT_THAT(frame({detection("qr", qr, 9)}), ElementsAre("4711"));
  EXPECT_THAT(run_.host.number_lines(), ElementsAre("read 1", "tried 2"));
  EXPECT_THAT(frame({detection("qr", qr, 10)}), ElementsAre("")) << "another track";
}

TEST_F(CodesTest, BelieveAMarkerOfATrackWhenTwoFramesAgree) {
  start();
  const auto tag = wall_.put(marker_image(cv::aruco::DICT_4X4_50, 3, 80), 100, 100);
  EXPECT_THAT(frame({detection("marker", tag, 5)}), ElementsAre(""));
  EXPECT_THAT(frame({detection("marker", tag, 5)}), ElementsAre("aruco_4x4_50:3"));
}

TEST_F(CodesTest, TakeTurnsWhereAFrameHasMoreThanItMayTry) {
  start(R"({"tries":1})");
  const auto one = wall_.put(qr_image(L"1", 5), 50, 50), two = wall_.put(qr_image(L"2", 5), 250, 50);
  const codes::Corners none = {cv::Point2f(400, 300), {500, 300}, {500, 400}, {400, 400}};
  const std::vector<camd_detection> all = {detection("qr", none, 1), detection("qr", one, 2), detection("qr", two, 3)};
  EXPECT_THAT(frame(all), ElementsAre("", "", ""));
  EXPECT_THAT(frame(all), ElementsAre("", "1", ""));
  EXPECT_THAT(frame(all), ElementsAre("", "1", "2"));
}

// Frames at 30 a second. After the fourth attempt it rests for 50 ms, then twice as long each time, a second at most.
TEST_F(CodesTest, TryLessAndLessOftenWhatCannotBeRead) {
  start(R"({"tries":20})");
  const codes::Corners none = {cv::Point2f(400, 300), {500, 300}, {500, 400}, {400, 400}};
  std::vector<int> tried_in;
  const auto tried = [&] { return run_.host.numbers.at(1).value; };
  ASSERT_EQ(run_.host.numbers.at(1).name, "tried");
  for (int i = 0; i < 100; ++i) {
    run_.frame.captured_mono_ns = 1'000'000'000 + 33'000'000LL * i;
    const double before = tried();
    frame({detection("qr", none, 1)});
    if (tried() > before) tried_in.push_back(i);
  }
  EXPECT_THAT(tried_in, ElementsAre(0, 1, 2, 3, 5, 9, 16, 29, 54, 85));
  // One that has come nearer is tried at once, as is one after the clock has gone back.
  const codes::Corners nearer = {cv::Point2f(400, 300), {511, 300}, {511, 411}, {400, 411}};
  double before = tried();
  frame({detection("qr", nearer, 1)});
  EXPECT_EQ(tried(), before + 1);
  before = tried();
  frame({detection("qr", nearer, 1)});
  EXPECT_EQ(tried(), before);
  run_.frame.captured_mono_ns = 5;
  frame({detection("qr", nearer, 1)});
  EXPECT_EQ(tried(), before + 1);
}

TEST_F(CodesTest, TellWhereAMarkerStands) {
  start(R"({"intrinsics":[500,500,319.5,239.5],"marker_size":0.1})");
  // 100 pixels wide at a focal length of 500: half a metre away. 100 pixels to the right of the middle: a tenth of a
  // metre.
  const auto tag = wall_.put(marker_image(cv::aruco::DICT_4X4_50, 3, 100), 370, 190);
  frame({detection("marker", tag, 5)});
  EXPECT_THAT(frame({detection("marker", tag, 5)}), ElementsAre("aruco_4x4_50:3"));
  const auto pose = std::find_if(run_.host.events.begin(), run_.host.events.end(),
                                 [](const camd_event& e) { return std::string(e.name) == "pose"; });
  ASSERT_NE(pose, run_.host.events.end());
  EXPECT_STREQ(pose->zone, "aruco_4x4_50:3");
  ASSERT_EQ(pose->number_count, 7);
  EXPECT_NEAR(pose->numbers[0].value, 0.1, 1e-3);
  EXPECT_NEAR(pose->numbers[1].value, 0.0, 1e-3);
  EXPECT_NEAR(pose->numbers[2].value, 0.5, 1e-3);
  for (int i = 3; i < 6; ++i) EXPECT_NEAR(pose->numbers[i].value, 0.0, 1e-2) << i;
  EXPECT_NEAR(pose->numbers[6].value, 0.0, 1e-2);
}

TEST_F(CodesTest, ReadNothingOutsideThePictureAndNothingWithoutCorners) {
  start();
  const codes::Corners outside = {cv::Point2f(-1e6F, -1e6F), {-9e5F, -1e6F}, {-9e5F, -9e5F}, {-1e6F, -9e5F}};
  const codes::Corners crossed = {cv::Point2f(0, 0), {100, 100}, {100, 0}, {0, 100}};
  camd_detection none = detection("qr", crossed, 3);
  none.keypoint_count = 0;
  EXPECT_THAT(frame({detection("qr", outside, 1), detection("marker", crossed, 2), none}), ElementsAre("", "", ""));
}

TEST_F(CodesTest, NameAllThatIsWrongWithTheirConfiguration) {
  EXPECT_EQ(run_.create(R"({"tries":0,"intrinsics":[1,2],"marker_size":1,"tried":1})"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(
      run_.error(),
      "config.tries: must be a whole number in 1..100, not 0; config.intrinsics: must be [fx, fy, cx, cy] in pixels; "
      "config.tried: unknown key (did you mean 'tries'?)");
  Instance other(find_builtin("codes"));
  EXPECT_EQ(other.create(R"({"families":["aruco_3x3"]})"), CAMD_ERROR_CONFIG);
  EXPECT_THAT(other.error(), ::testing::StartsWith("config.families: 'aruco_3x3' is none of apriltag_16h5, "));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
