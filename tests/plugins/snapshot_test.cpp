// The built-in `snapshot`: which view it keeps, what the pictures show, and the bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <turbojpeg.h>

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

namespace camd::plugins {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeModel;
using ::testing::Ge;
using ::testing::HasSubstr;
using testing::Instance;
using ::testing::IsEmpty;
using ::testing::Le;

// A picture with its own memory. Every sample of a plane has the value that it is made with.
struct TestPicture {
  TestPicture(camd_pixel_format format, int width, int height, std::array<std::uint8_t, 3> values) {
    picture.struct_size = sizeof(picture);
    picture.format = format;
    const int half_width = (width + 1) / 2, half_height = (height + 1) / 2;
    const auto plane = [this](int samples, int rows, std::vector<std::uint8_t> repeated) {
      const int stride = samples * static_cast<int>(repeated.size()) + 8;  // rows have an end that nobody shows
      std::vector<std::uint8_t>& bytes =
          memory.emplace_back(static_cast<std::size_t>(stride) * static_cast<std::size_t>(rows), std::uint8_t{255});
      for (int y = 0; y < rows; ++y) {
        for (int x = 0; x < stride - 8; ++x) {
          bytes[static_cast<std::size_t>(y) * static_cast<std::size_t>(stride) + static_cast<std::size_t>(x)] =
              repeated[static_cast<std::size_t>(x) % repeated.size()];
        }
      }
      picture.planes[picture.plane_count++] = {bytes.data(), stride, samples, rows};
    };
    memory.reserve(3);
    switch (format) {
      case CAMD_PIXEL_NV12:
        plane(width, height, {values[0]});
        plane(half_width, half_height, {values[1], values[2]});
        break;
      case CAMD_PIXEL_I420:
        plane(width, height, {values[0]});
        plane(half_width, half_height, {values[1]});
        plane(half_width, half_height, {values[2]});
        break;
      case CAMD_PIXEL_YUY2: plane(half_width, height, {values[0], values[1], values[0], values[2]}); break;
      case CAMD_PIXEL_GRAY8: plane(width, height, {values[0]}); break;
      case CAMD_PIXEL_BGR:
      case CAMD_PIXEL_RGB: plane(width, height, {values[0], values[1], values[2]}); break;
    }
  }
  std::vector<std::vector<std::uint8_t>> memory;
  camd_picture picture{};
};

std::array<int, 3> first_pixel(const TestPicture& of) {
  View view;
  view.copy(of.picture, {2, 2, 5, 3});
  std::vector<std::uint8_t> rgb;
  view.to_rgb(rgb);
  EXPECT_EQ(rgb.size(), 5U * 3U * 3U);
  for (std::size_t i = 3; i < rgb.size(); ++i) EXPECT_EQ(rgb[i], rgb[i % 3]) << i;
  return {rgb[0], rgb[1], rgb[2]};
}

// BT.601-7, table 3: red in limited range is (81, 90, 240). BT.709-6: (63, 102, 240).
TEST(SnapshotView, ShowsTheSameColourWhateverThePicturesFormatIs) {
  const auto near_red = ElementsAre(Ge(253), Le(2), Le(2));
  EXPECT_THAT(first_pixel({CAMD_PIXEL_NV12, 8, 6, {81, 90, 240}}), near_red);
  EXPECT_THAT(first_pixel({CAMD_PIXEL_I420, 8, 6, {81, 90, 240}}), near_red);
  EXPECT_THAT(first_pixel({CAMD_PIXEL_YUY2, 8, 6, {81, 90, 240}}), near_red);
  TestPicture bt709(CAMD_PIXEL_NV12, 8, 6, {63, 102, 240});
  bt709.picture.bt709 = 1;
  EXPECT_THAT(first_pixel(bt709), near_red);
  TestPicture full(CAMD_PIXEL_I420, 8, 6, {76, 85, 255});
  full.picture.full_range = 1;
  EXPECT_THAT(first_pixel(full), near_red);
  EXPECT_THAT(first_pixel({CAMD_PIXEL_BGR, 8, 6, {1, 2, 3}}), ElementsAre(3, 2, 1));
  EXPECT_THAT(first_pixel({CAMD_PIXEL_RGB, 8, 6, {1, 2, 3}}), ElementsAre(1, 2, 3));
  EXPECT_THAT(first_pixel({CAMD_PIXEL_GRAY8, 8, 6, {77, 0, 0}}), ElementsAre(77, 77, 77));
}

TEST(SnapshotView, HasThePartOfThePictureThatItWasAskedFor) {
  TestPicture gray(CAMD_PIXEL_GRAY8, 20, 20, {0, 0, 0});
  for (std::size_t i = 0; i < gray.memory[0].size(); ++i) {
    const auto stride = static_cast<std::size_t>(gray.picture.planes[0].stride_bytes);
    gray.memory[0][i] = static_cast<std::uint8_t>(i % stride + 10 * (i / stride));
  }
  View view;
  view.copy(gray.picture, {4, 6, 2, 2});
  std::vector<std::uint8_t> rgb;
  view.to_rgb(rgb);
  EXPECT_THAT(rgb, ElementsAre(64, 64, 64, 65, 65, 65, 74, 74, 74, 75, 75, 75));
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

TEST(SnapshotView, BecomesAJpegOfItsSizeAndColour) {
  View view;
  view.copy(TestPicture(CAMD_PIXEL_NV12, 33, 17, {81, 90, 240}).picture, {0, 0, 33, 17});
  std::vector<std::uint8_t> scratch;
  const std::string jpeg = encode_jpeg(view, 90, scratch);
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), &tjDestroy);
  int width = 0, height = 0, sampling = 0, space = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(jpeg.data());
  ASSERT_EQ(tjDecompressHeader3(decoder.get(), bytes, jpeg.size(), &width, &height, &sampling, &space), 0);
  EXPECT_EQ(width, 33);
  EXPECT_EQ(height, 17);
  std::vector<unsigned char> gray(std::size_t{33} * 17);
  ASSERT_EQ(tjDecompress2(decoder.get(), bytes, jpeg.size(), gray.data(), 33, 0, 17, TJPF_GRAY, 0), 0);
  EXPECT_THAT(gray, Each(AllOf(Ge(74), Le(78))));  // 0.299 * 255
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
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), &tjDestroy);
  int width = 0, height = 0, sampling = 0, space = 0;
  ASSERT_EQ(tjDecompressHeader3(decoder.get(), reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size(), &width,
                                &height, &sampling, &space),
            0);
  EXPECT_EQ(width, 64);
  EXPECT_EQ(height, 48);
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

}  // namespace
}  // namespace camd::plugins
