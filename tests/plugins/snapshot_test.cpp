// The built-in `snapshot`: which view it keeps, what the pictures show, and the bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"
#include "plugins/snapshot/album.hpp"
#include "plugins/snapshot/encoder.hpp"
#include "plugins/snapshot/view.hpp"
#include "tests/plugins/harness.hpp"
#include "tests/plugins/test_picture.hpp"

namespace camd::plugins {
namespace CAMD_TEST_FILE {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeModel;
using ::testing::HasSubstr;
using testing::Instance;
using ::testing::IsEmpty;
using testing::TestPicture;

TEST(SnapshotView, HasThePartOfThePictureThatItWasAskedFor) {
  TestPicture gray(CAMD_PIXEL_GRAY8, 20, 20, {0, 0, 0});
  for (std::size_t i = 0; i < gray.memory[0].size(); ++i) {
    const auto stride = static_cast<std::size_t>(gray.picture.planes[0].stride_bytes);
    gray.memory[0][i] = static_cast<std::uint8_t>(i % stride + 10 * (i / stride));
  }
  View view;
  view.copy(gray.picture, {4, 6, 2, 2});
  const camd_picture part = view.picture();
  EXPECT_EQ(part.planes[0].stride_bytes, 2);
  EXPECT_EQ(view.bytes(), 4U);
  EXPECT_THAT(std::vector(part.planes[0].data, part.planes[0].data + 4), ElementsAre(64, 65, 74, 75));
}

TEST(SnapshotView, AroundABoxIsEvenAndInsideThePicture) {
  const float middle[4] = {101, 51, 40, 20};
  EXPECT_EQ(area_around(middle, 0.1F, 640, 480), (ViewArea{96, 46, 50, 30}));
  const float over_the_edge[4] = {600, -20, 100, 60};
  EXPECT_EQ(area_around(over_the_edge, 0, 640, 480), (ViewArea{600, 0, 40, 40}));
  const float tiny[4] = {639, 479, 1, 1};
  EXPECT_EQ(area_around(tiny, 0, 640, 480), (ViewArea{624, 464, 16, 16}));
  const float outside[4] = {-500, 900, 10, 10};
  EXPECT_EQ(area_around(outside, 0, 640, 480), (ViewArea{0, 464, 16, 16}));
  const float all[4] = {0, 0, 15, 7};
  EXPECT_EQ(area_around(all, 1, 15, 7), (ViewArea{0, 0, 15, 7}));
}

TEST(SnapshotView, HasTheChromaThatBelongsToIt) {
  struct Format {
    camd_pixel_format format;
    std::array<int, 3> first_byte, first_row;  // of each plane, for an area at 6, 4
  };
  for (const Format& one :
       {Format{CAMD_PIXEL_NV12, {6, 6, 0}, {4, 2, 0}}, Format{CAMD_PIXEL_I420, {6, 3, 3}, {4, 2, 2}},
        Format{CAMD_PIXEL_YUY2, {12, 0, 0}, {4, 0, 0}}, Format{CAMD_PIXEL_RGB, {18, 0, 0}, {4, 0, 0}}}) {
    TestPicture all(one.format, 33, 17, {0, 0, 0});
    for (auto& plane : all.memory) {
      for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = static_cast<std::uint8_t>(i * 7);
    }
    View view;
    view.copy(all.picture, {6, 4, 27, 13});
    const camd_picture part = view.picture();
    ASSERT_EQ(part.plane_count, all.picture.plane_count);
    for (int i = 0; i < part.plane_count; ++i) {
      const camd_plane &from = all.picture.planes[i], &to = part.planes[i];
      const auto plane = static_cast<std::size_t>(i);
      ASSERT_EQ(to.height + one.first_row[plane], from.height);
      for (int row = 0; row < to.height; ++row) {
        const std::uint8_t* const expected =
            from.data + std::ptrdiff_t{row + one.first_row[plane]} * from.stride_bytes + one.first_byte[plane];
        const std::uint8_t* const found = to.data + std::ptrdiff_t{row} * to.stride_bytes;
        EXPECT_TRUE(std::equal(found, found + to.stride_bytes, expected))
            << one.format << " plane " << i << " row " << row;
      }
    }
  }
}

class SnapshotTest : public testing::InFolder {
 protected:
  void write(const std::string& name, std::size_t bytes) {
    std::ofstream(path(name), std::ios::binary) << std::string(bytes, 'x');
  }
  // One frame of the camera with these detections, at so many milliseconds.
  void show(std::int64_t ms, std::vector<camd_detection> found) {
    plugin.frame.picture = &picture.picture;
    plugin.frame.width = 64;
    plugin.frame.height = 48;
    plugin.frame.captured_mono_ns = ms * 1'000'000;
    plugin.frame.captured_unix_ns = 1'700'000'000'000'000'000 + ms * 1'000'000;  // 2023-11-14T22:13:20Z
    ASSERT_EQ(plugin.process(model, std::move(found)), CAMD_OK) << plugin.error();
  }
  static camd_detection seen(std::uint64_t track, float score, float side, const char* name = "person") {
    camd_detection d{};
    d.track_id = track;
    d.score = score;
    d.box[0] = d.box[1] = 10;
    d.box[2] = d.box[3] = side;
    camd::plugin::copy_text(d.class_name, name);
    return d;
  }
  void begin(const std::string& further = "") {
    ASSERT_EQ(plugin.create(R"({"dir":")" + path("out") + "\"" + further + "}"), CAMD_OK) << plugin.error();
    ASSERT_EQ(plugin.outputs(model), CAMD_OK) << plugin.error();
  }
  double number(const std::string& name) const {
    for (const auto& one : plugin.host.numbers) {
      if (one.name == name) return one.value;
    }
    return -1;
  }
  FakeModel model{4, 4};
  TestPicture picture{CAMD_PIXEL_NV12, 64, 48, {81, 90, 240}};
  Instance plugin{find_builtin("snapshot")};
};

TEST_F(SnapshotTest, KeepsTheBestViewOfAnObjectOnce) {
  begin();
  show(0, {seen(7, 0.5F, 20)});
  show(100, {seen(7, 0.9F, 24)});
  show(200, {seen(7, 0.9F, 25)});  // no tenth better
  show(300, {seen(7, 0.4F, 20)});
  show(1000, {seen(7, 0.5F, 20)});  // a second is over
  show(1100, {seen(7, 1.0F, 30)});
  ASSERT_EQ(plugin.destroy(), CAMD_OK);
  EXPECT_THAT(listing("out"), ElementsAre("20231114T221320.100Z-door-person-7.jpg"));
  EXPECT_EQ(number("taken"), 1);
  EXPECT_EQ(number("saved"), 1);
}

TEST_F(SnapshotTest, DoesNotWaitForAnObjectThatHasGone) {
  begin(R"(,"settle":"1min")");
  show(0, {seen(7, 0.5F, 20), seen(8, 0.5F, 20)});
  show(400, {seen(8, 0.5F, 20)});
  show(600, {seen(8, 0.5F, 20), seen(7, 1.0F, 30)});  // 7 is back: that counts as seen
  show(1100, {seen(8, 0.5F, 20)});
  show(1200, {seen(9, 0.5F, 20)});
  ASSERT_EQ(plugin.destroy(), CAMD_OK);  // what is open then is kept as well
  EXPECT_THAT(listing("out"),
              ElementsAre("20231114T221320.000Z-door-person-8.jpg", "20231114T221320.600Z-door-person-7.jpg",
                          "20231114T221321.200Z-door-person-9.jpg"));
}

TEST_F(SnapshotTest, LeavesOutWhatHasNoTrackAndOtherClasses) {
  begin(R"(,"classes":["person"])");
  show(0, {seen(0, 0.9F, 20), seen(3, 0.9F, 20, "dog")});
  ASSERT_EQ(plugin.destroy(), CAMD_OK);
  EXPECT_EQ(number("taken"), 0);
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(SnapshotTest, KeepsTheWholePictureOfAnEvent) {
  begin(R"(,"objects":false)");
  camd_event event = camd::plugin::Event("zone_entered").zone("porch").track(7).get();
  plugin.host.events.push_back(event);
  show(50, {seen(7, 0.9F, 20)});
  ASSERT_EQ(plugin.destroy(), CAMD_OK);
  ASSERT_THAT(listing("out"), ElementsAre("20231114T221320.050Z-door-zone_entered-7.jpg"));
  const std::string jpeg = testing::read_file(path("out/20231114T221320.050Z-door-zone_entered-7.jpg"));
  const testing::JpegPixels shown = testing::decoded(jpeg);
  EXPECT_EQ(shown.width, 64);
  EXPECT_EQ(shown.height, 48);
}

TEST_F(SnapshotTest, OfACameraThatGoesIsKept) {
  begin();
  show(0, {seen(7, 0.5F, 20)});
  ASSERT_EQ(plugin.change_camera(0, nullptr), CAMD_OK);
  ASSERT_EQ(plugin.destroy(), CAMD_OK);
  EXPECT_THAT(listing("out"), ElementsAre("20231114T221320.000Z-door-person-7.jpg"));
}

TEST_F(SnapshotTest, CountsWhatCannotBeWrittenAndSaysItOnce) {
  begin();
  write("out", 1);  // a file where the folder should be
  show(0, {seen(7, 0.5F, 20), seen(8, 0.5F, 20)});
  ASSERT_EQ(plugin.destroy(), CAMD_OK);
  EXPECT_EQ(number("taken"), 2);
  EXPECT_EQ(number("failed"), 2);
  EXPECT_EQ(number("waiting"), 0);
  ASSERT_EQ(plugin.host.lines.size(), 1U);
  EXPECT_THAT(plugin.host.lines[0], HasSubstr("a picture cannot be kept: "));
}

TEST_F(SnapshotTest, RefusesAConfigurationThatKeepsNothing) {
  EXPECT_EQ(plugin.create("{}"), CAMD_ERROR_CONFIG);
  EXPECT_THAT(plugin.error(), HasSubstr("config.dir: is needed, or 'mqtt'"));
  EXPECT_EQ(plugin.create(R"({"dir":"x","objects":false,"events":false})"), CAMD_ERROR_CONFIG);
  EXPECT_THAT(plugin.error(), HasSubstr("config.events: is off, and so is 'objects'"));
  EXPECT_EQ(plugin.create(R"({"mqtt":{"url":"http://a"},"keep":"1GiB"})"), CAMD_ERROR_CONFIG);
  EXPECT_THAT(plugin.error(),
              AllOf(HasSubstr("url: must be mqtt://HOST:PORT"), HasSubstr("config.keep: bounds a folder")));
}

TEST_F(SnapshotTest, FolderLosesItsOldestPicturesAndNothingElse) {
  write("20200101T000000.000Z-door-person-1.jpg", 400);
  write("20200102T000000.000Z-door-person-2.jpg", 400);
  write("holiday.jpg", 5000);
  Album album(folder_.string(), 1000);
  album.add(album_name(1'700'000'000'000'000'000, "door", "person", 3), std::string(300, 'x'));
  EXPECT_EQ(album.bytes(), 700U);
  EXPECT_THAT(listing(), ElementsAre("20200102T000000.000Z-door-person-2.jpg", "20231114T221320.000Z-door-person-3.jpg",
                                     "holiday.jpg"));
  album.add(album_name(1'700'000'000'000'000'000, "door", "person", 3), std::string(300, 'y'));
  EXPECT_THAT(listing(),
              ElementsAre("20200102T000000.000Z-door-person-2.jpg", "20231114T221320.000Z-door-person-3-2.jpg",
                          "20231114T221320.000Z-door-person-3.jpg", "holiday.jpg"));
  std::filesystem::remove(path("20200102T000000.000Z-door-person-2.jpg"));  // somebody tidies up
  album.add(album_name(1'700'000'001'000'000'000, "../yard", "", 0), std::string(100, 'z'));
  EXPECT_THAT(listing(),
              ElementsAre("20231114T221320.000Z-door-person-3-2.jpg", "20231114T221320.000Z-door-person-3.jpg",
                          "20231114T221321.000Z-_.._yard.jpg", "holiday.jpg"));
  EXPECT_THROW(album.add("20231114T221322.000Z-a.jpg", std::string(1001, 'x')), std::runtime_error);
  EXPECT_EQ(album.bytes(), 700U);
}

TEST(SnapshotEncoder, DropsWhatItHasNoRoomFor) {
  std::size_t kept = 0;
  SnapshotEncoder encoder(
      80, [&kept](const SnapshotJob&, const std::string&) { ++kept; }, [](const std::string&) {});
  const TestPicture small(CAMD_PIXEL_GRAY8, 16, 16, {9, 0, 0});
  for (std::size_t i = 0; i < SnapshotEncoder::kMostJobs + 2; ++i) {  // not started yet
    SnapshotJob job;
    job.view.copy(small.picture, {0, 0, 16, 16});
    encoder.give(std::move(job));
  }
  SnapshotTotals now = encoder.totals();
  EXPECT_EQ(now.taken, SnapshotEncoder::kMostJobs + 2);
  EXPECT_EQ(now.waiting, SnapshotEncoder::kMostJobs);
  EXPECT_EQ(now.dropped, 2U);
  encoder.start();
  encoder.stop();
  now = encoder.totals();
  EXPECT_EQ(now.done, SnapshotEncoder::kMostJobs);
  EXPECT_EQ(now.waiting, 0U);
  EXPECT_EQ(kept, SnapshotEncoder::kMostJobs);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
