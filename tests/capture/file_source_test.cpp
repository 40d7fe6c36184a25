#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clips.hpp"
#include "source_fixture.hpp"
#include "tests/support/paths.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using testing::ClipOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_clip;
using testing::write_file;

class FileSourceTest : public testing::SourceTest {
 protected:
  static config::FileSource file(const std::filesystem::path& path, bool loop, bool realtime) {
    config::FileSource source;
    source.path = path;
    source.loop = loop;
    source.realtime = realtime;
    return source;
  }
  TemporaryFolder folder_;
};

TEST_F(FileSourceTest, GivesEveryFrameInOrderAndEnds) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 40}));
  make(file(path, false, false));
  source_->start();
  for (std::int64_t k = 0; k < 40; ++k) {
    const auto lease = next();
    ASSERT_TRUE(lease);
    EXPECT_EQ(stamp_of(lease->frame()), k);
    EXPECT_EQ(lease->frame().sequence, static_cast<std::uint64_t>(k));
    EXPECT_EQ(lease->frame().captured, lease->frame().arrived);
  }
  ASSERT_TRUE(states_.wait_for(SourceState::kEnded));
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kEnded));
  EXPECT_EQ(observer_.captured(), 40);
  EXPECT_EQ(observer_.dropped(), 0);
}

TEST_F(FileSourceTest, RealtimeStampsFramesWithTheTimeTheyWereDue) {
  const auto path = folder_ / "clip.mp4";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 20, .encoder = "x264enc bframes=2 ! mp4mux"}));
  make(file(path, false, true));
  source_->start();
  std::vector<std::pair<std::int64_t, base::TimePoint>> frames;
  while (const auto lease = next_or_end()) {
    frames.emplace_back(stamp_of(lease->frame()), lease->frame().captured);
    EXPECT_LE(lease->frame().captured, lease->frame().arrived);
  }
  ASSERT_GE(frames.size(), 2U);
  for (std::size_t i = 1; i < frames.size(); ++i) {
    const auto steps = frames[i].first - frames[i - 1].first;
    EXPECT_GE(steps, 1);
    const auto expected = base::Duration(steps * 1'000'000'000 / 30);
    EXPECT_NEAR(static_cast<double>((frames[i].second - frames[i - 1].second - expected).count()), 0, 2e6);
  }
  EXPECT_EQ(observer_.captured(), 20);
  EXPECT_TRUE(states_.wait_for(SourceState::kEnded));
}

struct LoopCase {
  const char* name;
  const char* encoder;
};

class LoopTest : public FileSourceTest, public ::testing::WithParamInterface<LoopCase> {};

TEST_P(LoopTest, JoinsTheEndToTheStartWithoutLosingAFrame) {
  const auto path = folder_ / GetParam().name;
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 10, .encoder = GetParam().encoder}));
  make(file(path, true, false));
  source_->start();
  for (std::int64_t k = 0; k < 35; ++k) {
    const auto lease = next();
    ASSERT_TRUE(lease) << k << " " << states_.last_reason();
    EXPECT_EQ(stamp_of(lease->frame()), k % 10) << k;
  }
  source_->stop();
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kRunning));
}

INSTANTIATE_TEST_SUITE_P(Containers, LoopTest,
                         ::testing::Values(LoopCase{"clip.mkv",
                                                    "x264enc bframes=2 key-int-max=5 ! h264parse ! matroskamux"},
                                           LoopCase{"clip.mp4", "x264enc bframes=2 key-int-max=5 ! h264parse ! mp4mux"},
                                           LoopCase{"clip.avi", "jpegenc ! avimux"},
                                           LoopCase{"clip.ts", "x264enc key-int-max=5 ! h264parse ! mpegtsmux"}),
                         [](const auto& one) { return std::string(one.param.name).substr(5); });

TEST_F(FileSourceTest, LoopKeepsPaceAndStampsAcrossTheJoint) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 6}));
  make(file(path, true, true));
  source_->start();
  std::vector<base::TimePoint> stamps;
  std::uint64_t last = 0;
  while (last < 30) {
    const auto lease = next();
    ASSERT_TRUE(lease);
    const std::uint64_t sequence = lease->frame().sequence;
    if (!stamps.empty()) {
      const auto expected = base::Duration((static_cast<std::int64_t>(sequence - last)) * 1'000'000'000 / 30);
      // The container counts in milliseconds.
      EXPECT_NEAR(static_cast<double>((lease->frame().captured - stamps.back() - expected).count()), 0, 3e6)
          << sequence;
    }
    stamps.push_back(lease->frame().captured);
    last = sequence;
  }
  source_->stop();
}

TEST_F(FileSourceTest, StopsInTheMiddleOfALosslessFile) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 40}));
  make(file(path, false, false));
  source_->start();
  ASSERT_TRUE(testing::eventually([this] { return observer_.captured() == 5; }));  // four slots, and one waits
  source_->stop();
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 1);
  EXPECT_EQ(observer_.ready(), 4);
}

TEST_F(FileSourceTest, NamesAMissingFile) {
  make(file(folder_ / "none.mkv", false, true));
  EXPECT_THAT(failure(), HasSubstr("none.mkv: no such file"));
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kFailed));
}

TEST_F(FileSourceTest, SaysWhereInTheConfigurationAMissingFileIsNamed) {
  config::Camera camera;
  camera.name = "door";
  camera.source = file("/nowhere/none.mkv", false, true);
  camera.place = {"c.yaml", 7, 3};
  camera.key = "cameras.0.source";
  make(camera.source);
  source_ = make_source(camera, 0, *ring_, states_, base::system_clock());
  EXPECT_EQ(failure(), "c.yaml:7:3: cameras.0.source.path: /nowhere/none.mkv: no such file");
}

TEST_F(FileSourceTest, FailsWhereTheGpuShallDecodeAndTheDeviceIsTheHost) {
  config::Camera camera;
  camera.name = "door";
  camera.source = file(folder_ / "none.mkv", false, true);
  camera.decode = config::DecodeMode::kGpu;
  make(camera.source);
  source_ = make_source(camera, 0, *ring_, states_, base::system_clock());
  EXPECT_THAT(failure(), HasSubstr("none.mkv: no such file"));
  std::ofstream(folder_ / "none.mkv") << "something";
  source_ = make_source(camera, 0, *ring_, states_, base::system_clock());
  EXPECT_THAT(failure(), HasSubstr("`decode: gpu` needs a GPU, but `device` is the host"));
}

TEST_F(FileSourceTest, NamesAnEmptyFileAndAFolder) {
  write_file(folder_ / "empty.mkv", "");
  make(file(folder_ / "empty.mkv", false, true));
  EXPECT_THAT(failure(), HasSubstr("empty.mkv: the file is empty"));
  make(file(std::filesystem::temp_directory_path(), false, true));
  EXPECT_THAT(failure(), HasSubstr("is a directory, not a video file"));
}

TEST_F(FileSourceTest, NamesFilesThatHoldNoVideo) {
  write_file(folder_ / "notes.mkv", "these are just words, and no video at all\n");
  make(file(folder_ / "notes.mkv", false, true));
  EXPECT_THAT(failure(), HasSubstr("notes.mkv: "));
  std::string noise(4096, '\0');
  unsigned random = 5;
  for (char& c : noise) c = static_cast<char>((random = random * 1664525U + 1013904223U) >> 24U);
  write_file(folder_ / "noise.mkv", noise);
  make(file(folder_ / "noise.mkv", false, true));
  const std::string reason = failure();
  EXPECT_THAT(reason, HasSubstr("noise.mkv: "));
  EXPECT_EQ(reason.find('\n'), std::string::npos);
}

TEST_F(FileSourceTest, NamesAFileWithSoundAlone) {
  const auto path = folder_ / "sound.wav";
  init_gstreamer();
  GError* error = nullptr;
  const std::string text = "audiotestsrc num-buffers=20 ! wavenc ! filesink location=" + path.string();
  const GstOwned<GstElement> pipeline(gst_parse_launch(text.c_str(), &error));
  ASSERT_EQ(error, nullptr);
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  GstBus* const bus = gst_element_get_bus(pipeline.get());
  const GstOwned<GstMessage> end(gst_bus_timed_pop_filtered(bus, 20 * GST_SECOND, GST_MESSAGE_EOS));
  gst_object_unref(bus);
  gst_element_set_state(pipeline.get(), GST_STATE_NULL);
  make(file(path, false, true));
  EXPECT_THAT(failure(), HasSubstr("sound.wav: "));
}

TEST_F(FileSourceTest, NamesAFileCutInItsHeader) {
  const auto path = folder_ / "clip.mp4";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 10, .encoder = "x264enc ! mp4mux"}));
  write_file(folder_ / "cut.mp4", read_file(path).substr(0, 300));
  make(file(folder_ / "cut.mp4", false, true));
  EXPECT_THAT(failure(), HasSubstr("cut.mp4: "));
}

// A JPEG picture's size is four bytes of its header.
TEST_F(FileSourceTest, RefusesPicturesOfASizeThatOnlyAStreamCanName) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 3, .encoder = "jpegenc ! matroskamux"}));
  struct Case {
    std::string height_and_width;
    std::string told;
  };
  for (const Case& one : {Case{std::string("\x00\x10\x40\x01", 4), "16385x16"},     // a side
                          Case{std::string("\x40\x00\x40\x00", 4), "16384x16384"},  // the area: 4.5 GB of memory once
                          Case{std::string("\x1F\x41\x1F\x40", 4), "8000x8001"}}) {
    std::string clip = read_file(path);
    const std::string header("\xFF\xC0\x00\x11\x08", 5);  // then the height and the width
    int pictures = 0;
    for (std::size_t at = clip.find(header); at != std::string::npos; at = clip.find(header, at + 1), ++pictures) {
      clip.replace(at + header.size(), 4, one.height_and_width);
    }
    ASSERT_EQ(pictures, 3);
    write_file(folder_ / "huge.mkv", clip);
    make(file(folder_ / "huge.mkv", false, true));
    EXPECT_THAT(failure(),
                HasSubstr("pictures of " + one.told +
                          " pixels are refused: 1 to 16384 pixels a side and 64 megapixels (max_megapixels) are "
                          "allowed"));
  }
}

TEST_F(FileSourceTest, GivesWhatIsThereOfATruncatedFile) {
  const auto path = folder_ / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 40}));
  const std::string whole = read_file(path);
  write_file(folder_ / "cut.mkv", whole.substr(0, whole.size() / 2));
  make(file(folder_ / "cut.mkv", false, false));
  source_->start();
  std::int64_t taken = 0;
  while (const auto lease = next_or_end()) {
    if (taken < 5) {
      EXPECT_EQ(stamp_of(lease->frame()), taken);
    }
    ++taken;
  }
  EXPECT_GE(taken, 5);
  EXPECT_LT(taken, 40);
  const SourceState last = states_.states().back();
  EXPECT_TRUE(last == SourceState::kEnded || last == SourceState::kFailed);
}

TEST_F(FileSourceTest, ConvertsOnlyFormatsThatNobodyTakes) {
  struct Case {
    const char* encoder;
    base::PixelFormat expected;
  };
  for (const Case& one :
       {Case{"x264enc ! h264parse ! matroskamux", base::PixelFormat::kI420},
        Case{"videoconvert ! video/x-raw,format=Y42B ! jpegenc ! matroskamux", base::PixelFormat::kI420},
        Case{"videoconvert ! video/x-raw,format=I420_10LE ! x264enc ! h264parse ! matroskamux",
             base::PixelFormat::kI420}}) {
    const auto path = folder_ / "clip.mkv";
    CAMD_CLIP_OR_SKIP(path, (ClipOptions{.frames = 3, .encoder = one.encoder}));
    make(file(path, false, false));
    source_->start();
    const auto lease = next();
    ASSERT_TRUE(lease) << one.encoder << ": " << states_.last_reason();
    EXPECT_EQ(stamp_of(lease->frame()), 0) << one.encoder;
    EXPECT_EQ(lease->frame().layout.format, one.expected) << one.encoder;
  }
}

TEST_F(FileSourceTest, ReadsTheRealClips) {
  const std::filesystem::path clip = std::filesystem::path(test::shared_dir()) / "video" / "asl_book.mkv";
  if (!std::filesystem::exists(clip)) GTEST_SKIP() << clip << " is not here";
  make(file(clip, false, false));
  source_->start();
  for (std::uint64_t k = 0; k < 60; ++k) {
    const auto lease = next();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->frame().sequence, k);
    EXPECT_EQ(lease->frame().layout.width, 640);
    EXPECT_EQ(lease->frame().layout.height, 480);
    EXPECT_EQ(lease->frame().layout.format, base::PixelFormat::kI420);
  }
  EXPECT_EQ(observer_.dropped(), 0);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
