// The built-in `annotate`: films and pictures on disk, read back with GStreamer.
#include <gmock/gmock.h>
#include <gst/app/gstappsink.h>
#include <gst/gst.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "harness.hpp"
#include "plugins/annotate/canvas.hpp"
#include "plugins/annotate/gst_writer.hpp"
#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"
#include "tests/support/paths.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::HasSubstr;

struct Shown {
  std::int64_t pts_ns;
  int width, height;
  std::vector<std::uint8_t> luma;  // rows without padding
};

// Decodes a film or picture.
std::vector<Shown> decode(const std::string& path) {
  init_gstreamer();
  std::vector<Shown> shown;
  const GstPtr<GstElement> pipeline(gst_parse_launch(
      "filesrc name=file ! decodebin ! videoconvert ! video/x-raw,format=GRAY8 ! appsink name=sink sync=false",
      nullptr));
  gst_object_ref_sink(pipeline.get());
  const GstPtr<GstElement> file(gst_bin_get_by_name(GST_BIN(pipeline.get()), "file"));
  const GstPtr<GstElement> sink(gst_bin_get_by_name(GST_BIN(pipeline.get()), "sink"));
  g_object_set(file.get(), "location", path.c_str(), nullptr);
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  while (GstSample* sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink.get()), 20 * GST_SECOND)) {
    Shown one{};
    const GstStructure* caps = gst_caps_get_structure(gst_sample_get_caps(sample), 0);
    gst_structure_get_int(caps, "width", &one.width);
    gst_structure_get_int(caps, "height", &one.height);
    GstBuffer* buffer = gst_sample_get_buffer(sample);
    one.pts_ns = static_cast<std::int64_t>(GST_BUFFER_PTS(buffer));
    GstMapInfo map{};
    gst_buffer_map(buffer, &map, GST_MAP_READ);
    const std::ptrdiff_t stride = one.width + (4 - one.width % 4) % 4;
    for (int y = 0; y < one.height; ++y) {
      one.luma.insert(one.luma.end(), map.data + y * stride, map.data + y * stride + one.width);
    }
    gst_buffer_unmap(buffer, &map);
    shown.push_back(std::move(one));
    gst_sample_unref(sample);
  }
  gst_element_set_state(pipeline.get(), GST_STATE_NULL);
  return shown;
}

class AnnotateTest : public InFolder {
 protected:
  static constexpr int kWidth = 320, kHeight = 240;
  static constexpr std::int64_t kPeriodNs = 33'333'333;

  AnnotateTest()
      : luma_(static_cast<std::size_t>(kWidth * kHeight), 100),
        chroma_(static_cast<std::size_t>(kWidth * kHeight / 4), 128) {
    picture_.format = CAMD_PIXEL_I420;
    picture_.plane_count = 3;
    picture_.planes[0] = {luma_.data(), kWidth, kWidth, kHeight};
    picture_.planes[1] = {chroma_.data(), kWidth / 2, kWidth / 2, kHeight / 2};
    picture_.planes[2] = {chroma_.data(), kWidth / 2, kWidth / 2, kHeight / 2};
    set_frame(run_, 0);
  }
  void set_frame(Instance& run, std::uint64_t sequence) {
    run.frame.width = kWidth;
    run.frame.height = kHeight;
    run.frame.picture = &picture_;
    run.frame.sequence = sequence;
    run.frame.captured_mono_ns = 5'000'000'000 + static_cast<std::int64_t>(sequence) * kPeriodNs;
  }
  [[nodiscard]] std::string config(const std::string& name, const std::string& more = "") const {
    return R"({"path":")" + path(name) + "\"" + more + "}";
  }
  void start(const std::string& name, const std::string& more = "") {
    ASSERT_EQ(run_.create(config(name, more)), CAMD_OK) << run_.error();
    ASSERT_EQ(run_.outputs(model_), CAMD_OK) << run_.error();
    EXPECT_EQ(run_.need.picture, CAMD_NEED_HOST);
  }
  void feed(std::uint64_t frames) {
    for (std::uint64_t i = 0; i < frames; ++i) {
      set_frame(run_, i);
      ASSERT_EQ(run_.process(model_, {detection()}), CAMD_OK) << run_.error();
    }
  }
  static camd_detection detection() {
    camd_detection d{};
    d.score = 0.9F;
    d.box[0] = 100;
    d.box[1] = 100;
    d.box[2] = 80;
    d.box[3] = 60;
    d.keypoint_count = 4;
    const float corners[4][2] = {{105, 105}, {175, 105}, {175, 155}, {105, 155}};
    for (int i = 0; i < 4; ++i) std::copy(corners[i], corners[i] + 2, d.keypoints[i]);
    camd::plugin::copy_text(d.class_name, "qr");
    return d;
  }
  static int luma(const Shown& shown, int x, int y) {
    return shown
        .luma[static_cast<std::size_t>(y) * static_cast<std::size_t>(shown.width) + static_cast<std::size_t>(x)];
  }

  std::vector<std::uint8_t> luma_, chroma_;
  camd_picture picture_{};
  FakeModel model_{4, 4};
  Instance run_{find_builtin("annotate")};
};

TEST_F(AnnotateTest, DrawsTheAreasAndLinesOfZonesAndReadsNothingElseOfThem) {
  start("film.mp4", R"(,"crf":5,"boxes":false,"labels":false,"latency":false,"keypoints":false,"zones":{"dwell":3,)"
                    R"("zones":[{"name":"z","polygon":[[0.25,0.5],[0.75,0.5],[0.75,0.9],[0.25,0.9]]}],)"
                    R"("lines":[{"name":"l","from":[0.1,0.2],"to":[0.9,0.2]}]})");
  feed(6);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  const auto shown = decode(path("film.mp4"));
  ASSERT_FALSE(shown.empty());
  EXPECT_GT(luma(shown[0], 240, 170), 150) << "the area's right side";
  EXPECT_GT(luma(shown[0], 240, 48), 150) << "the line";
  EXPECT_LT(luma(shown[0], 160, 160), 120) << "inside";
}

TEST_F(AnnotateTest, RefusesZonesThatAreNone) {
  EXPECT_EQ(run_.create(config("film.mp4", R"(,"zones":{"zones":[{"name":"z","polygon":[[0,0],[1,1]]}]})")),
            CAMD_ERROR_CONFIG);
  EXPECT_EQ(run_.error(), "config.zones.zones.0: polygon: must be a list of 3 to 64 places, [x, y] each");
}

TEST_F(AnnotateTest, WritesAFilmWithTheFramesOwnTimes) {
  start("a/film.mp4");
  feed(20);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing("a"), std::vector<std::string>{"film.mp4"});
  const auto shown = decode(path("a/film.mp4"));
  ASSERT_GE(shown.size(), 4U);  // the pool's four find room however slow the encoder is
  EXPECT_EQ(shown[0].width, kWidth);
  EXPECT_EQ(shown[0].height, kHeight);
  for (std::size_t i = 1; i < shown.size(); ++i) {
    const std::int64_t step = shown[i].pts_ns - shown[i - 1].pts_ns;
    const std::int64_t frames = (step + kPeriodNs / 2) / kPeriodNs;
    EXPECT_GE(frames, 1);
    EXPECT_NEAR(static_cast<double>(step), static_cast<double>(frames * kPeriodNs), 1e6);
  }
}

TEST_F(AnnotateTest, DrawsBoxCornersAndLabels) {
  start("film.mp4", R"(,"crf":5)");
  feed(3);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  const auto shown = decode(path("film.mp4"));
  ASSERT_FALSE(shown.empty());
  const int background = luma(shown[0], 300, 200);
  EXPECT_GT(luma(shown[0], 140, 160), background + 20);  // lower side of the box
  EXPECT_GT(luma(shown[0], 140, 155), background + 60);  // corners joined in white
  EXPECT_NEAR(luma(shown[0], 140, 130), background, 6);  // nothing inside
  EXPECT_LT(luma(shown[0], 1, 1), background - 30);      // latency label's dark ground
}

TEST_F(AnnotateTest, DrawsOnlyWhatIsAskedFor) {
  start("film.mp4", R"(,"crf":5,"boxes":false,"labels":false,"latency":false,"keypoints":false)");
  feed(3);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  const auto shown = decode(path("film.mp4"));
  ASSERT_FALSE(shown.empty());
  for (const std::uint8_t value : shown[0].luma) EXPECT_NEAR(value, shown[0].luma[0], 3);
}

TEST_F(AnnotateTest, ScalesTheFilm) {
  start("film.mp4", R"(,"scale":0.5)");
  feed(3);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  const auto shown = decode(path("film.mp4"));
  ASSERT_FALSE(shown.empty());
  EXPECT_EQ(shown[0].width, kWidth / 2);
  EXPECT_EQ(shown[0].height, kHeight / 2);
}

TEST_F(AnnotateTest, LimitsTheFilmsRate) {
  start("film.mp4", R"(,"fps":10)");
  feed(12);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  const auto shown = decode(path("film.mp4"));
  ASSERT_EQ(shown.size(), 4U);  // frames 0, 3, 6, 9
  EXPECT_GE(shown[1].pts_ns - shown[0].pts_ns, 99'000'000);
}

TEST_F(AnnotateTest, KeepsTimesRisingWhenStampsDoNot) {
  start("film.mp4");
  for (const std::int64_t stamp : {1'000'000'000, 1'000'000'000, 900'000'000, 1'100'000'000}) {
    run_.frame.captured_mono_ns = stamp;
    ASSERT_EQ(run_.process(model_), CAMD_OK);
  }
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  const auto shown = decode(path("film.mp4"));
  ASSERT_EQ(shown.size(), 4U);
  for (std::size_t i = 1; i < shown.size(); ++i) EXPECT_GT(shown[i].pts_ns, shown[i - 1].pts_ns);
}

TEST_F(AnnotateTest, FitsAPictureOfAnotherSizeIntoTheFilm) {
  start("film.mp4");
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  picture_.planes[0] = {luma_.data(), kWidth, kWidth / 2, kHeight / 2};
  picture_.planes[1] = picture_.planes[2] = {chroma_.data(), kWidth / 2, kWidth / 4, kHeight / 4};
  run_.frame.width = kWidth / 2;
  run_.frame.height = kHeight / 2;
  run_.frame.captured_mono_ns += kPeriodNs;
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  const auto shown = decode(path("film.mp4"));
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[1].width, kWidth);
}

TEST_F(AnnotateTest, LeavesNothingBehindWithoutAPicture) {
  start("film.mp4");
  EXPECT_EQ(listing(), std::vector<std::string>{"film.partial.mp4"});
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_TRUE(listing().empty());
}

// A restart replaced the film of the run before.
TEST_F(AnnotateTest, GivesTheFilmANameThatNoEarlierOneHas) {
  std::ofstream(path("film.mp4")) << "earlier";
  std::ofstream(path("film-2.partial.mp4")) << "of a run that was killed";
  start("film.mp4");
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing(), (std::vector<std::string>{"film-2.partial.mp4", "film-3.mp4", "film.mp4"}));
  EXPECT_EQ(read_file(path("film.mp4")), "earlier");
  EXPECT_EQ(decode(path("film-3.mp4")).size(), 1U);
  EXPECT_EQ(run_.host.lines, std::vector<std::string>{"2 annotate: camera 'door': " + path("film-3.mp4") +
                                                      " is being written, because earlier files keep their names"});
}

TEST_F(AnnotateTest, ReplacesNoFileThatHasTakenItsNameMeanwhile) {
  start("film.mp4");
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  std::ofstream(path("film.mp4")) << "somebody else's";
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing(), (std::vector<std::string>{"film-2.mp4", "film.mp4"}));
  EXPECT_EQ(read_file(path("film.mp4")), "somebody else's");
}

TEST_F(AnnotateTest, BeginsAnotherFilmWhenToldToOpenAnew) {
  start("film.mp4");
  ASSERT_EQ(run_.reopen(), CAMD_OK) << run_.error();  // nothing in it yet: it stays
  EXPECT_EQ(listing(), std::vector<std::string>{"film.partial.mp4"});
  feed(3);
  ASSERT_EQ(run_.reopen(), CAMD_OK) << run_.error();
  feed(2);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing(), (std::vector<std::string>{"film-2.mp4", "film.mp4"}));
  EXPECT_EQ(decode(path("film.mp4")).size(), 3U);
  const auto shown = decode(path("film-2.mp4"));
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_LT(shown[0].pts_ns, kPeriodNs);  // its time begins anew
}

TEST_F(AnnotateTest, GoesOnInANewFilmWithinASecondWhenTheOldOneIsRenamed) {
  start("film.mp4");
  feed(2);
  std::filesystem::rename(path("film.partial.mp4"), path("kept.mp4"));
  run_.host.now_ns = 999'999'999;
  set_frame(run_, 2);
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  run_.host.now_ns = 1'000'000'000;
  set_frame(run_, 3);
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  EXPECT_THAT(run_.host.lines,
              ::testing::ElementsAre("1 annotate: " + path("film.partial.mp4") +
                                     " was renamed or removed: the film goes on in " + path("film.partial.mp4")));
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing(), (std::vector<std::string>{"film.mp4", "kept.mp4"}));
  EXPECT_EQ(decode(path("kept.mp4")).size(), 3U);
  EXPECT_EQ(decode(path("film.mp4")).size(), 1U);
}

// A film that is over gets its name while the next one is written, not at the end of the run.
TEST_F(AnnotateTest, FinishesTheFilmBeforeWithoutHoldingUpFrames) {
  start("film.mp4");
  feed(3);
  ASSERT_EQ(run_.reopen(), CAMD_OK) << run_.error();
  for (int i = 0; i < 5000 && listing() != std::vector<std::string>{"film-2.partial.mp4", "film.mp4"}; ++i) {
    run_.host.now_ns += 1'000'000'000;
    ASSERT_EQ(run_.process(model_), CAMD_OK);
    ::usleep(1000);
  }
  EXPECT_EQ(listing(), (std::vector<std::string>{"film-2.partial.mp4", "film.mp4"}));
}

// A camera that came or went at a reload ended the films of all.
TEST_F(AnnotateTest, FilmsACameraThatComesLaterAndEndsTheFilmOfOneThatGoes) {
  start("film.mp4");
  feed(1);
  ASSERT_EQ(run_.change_camera(1, "yard"), CAMD_OK) << run_.error();
  run_.frame.camera_index = 1;
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  ASSERT_EQ(run_.change_camera(1, nullptr), CAMD_OK) << run_.error();
  EXPECT_EQ(listing(), (std::vector<std::string>{"film-yard.mp4", "film.partial.mp4"}));
  run_.frame.camera_index = 0;
  run_.frame.captured_mono_ns += kPeriodNs;
  ASSERT_EQ(run_.process(model_), CAMD_OK) << run_.error();
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(decode(path("film.mp4")).size(), 2U);
  EXPECT_EQ(decode(path("film-yard.mp4")).size(), 1U);
}

// The pictures of all fragments of a film but the last one, which may be cut off: box `trun` counts them (ISO/IEC
// 14496-12). A busy machine's encoder leaves pictures out, so a fragment of a second may hold any number.
std::size_t pictures_of_whole_fragments(const std::string& film) {
  std::size_t before = 0, last = 0;
  for (std::size_t at = film.find("trun"); at != std::string::npos; at = film.find("trun", at + 1)) {
    before += last;
    last = 0;
    for (std::size_t i = 0; i < 4; ++i) last = last << 8U | static_cast<unsigned char>(film.at(at + 8 + i));
  }
  return before;
}

// SIGKILL gives no chance to finish anything: the fragments written so far must play all the same.
TEST_F(AnnotateTest, LeavesAFilmThatPlaysWhenKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl((test::binary_dir() + "/bin/film_until_killed").c_str(), "film_until_killed", path("film.mp4").c_str(),
            static_cast<char*>(nullptr));
    ::_exit(1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_EQ(listing(), std::vector<std::string>{"film.partial.mp4"});
  const std::size_t whole = pictures_of_whole_fragments(read_file(path("film.partial.mp4")));
  EXPECT_GE(whole, 2U);
  EXPECT_GE(decode(path("film.partial.mp4")).size(), whole);
}

TEST_F(AnnotateTest, WritesAFilmOfItsOwnBesideTheInstanceThatAReloadReplaces) {
  start("film.mp4");
  feed(1);
  Instance next(find_builtin("annotate"));
  next.host.host.reloads = 1;
  ASSERT_EQ(next.create(config("film.mp4")), CAMD_OK);
  ASSERT_EQ(next.outputs(model_), CAMD_OK) << next.error();
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  set_frame(next, 0);
  ASSERT_EQ(next.process(model_), CAMD_OK) << next.error();
  ASSERT_EQ(next.destroy(), CAMD_OK) << next.error();
  EXPECT_EQ(listing(), (std::vector<std::string>{"film-2.mp4", "film.mp4"}));
}

// Sequence numbers begin again at 0 with every start.
TEST_F(AnnotateTest, GivesNumberedPicturesNamesThatNoEarlierOnesHaveAndReplacesTheLatestOne) {
  for (const auto& [name, written] :
       {std::pair{"{sequence}.png", std::vector<std::string>{"000000-2.png", "000000.png"}},
        {"latest.png", std::vector<std::string>{"latest.png"}}}) {
    for (int start = 0; start < 2; ++start) {
      Instance run(find_builtin("annotate"));
      ASSERT_EQ(run.create(config(name)), CAMD_OK);
      ASSERT_EQ(run.outputs(model_), CAMD_OK) << run.error();
      set_frame(run, 0);
      ASSERT_EQ(run.process(model_), CAMD_OK) << run.error();
      ASSERT_EQ(run.destroy(), CAMD_OK) << run.error();
    }
    EXPECT_EQ(listing(), written);
    for (const std::string& file : written) std::filesystem::remove(path(file));
  }
}

TEST_F(AnnotateTest, NamesFilmsByCameraWhereThereAreSeveral) {
  model_.cameras = {"door", "yard"};
  start("film.mp4");
  run_.frame.camera_index = 1;
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing(), std::vector<std::string>{"film-yard.mp4"});
}

TEST_F(AnnotateTest, WritesPicturesNamedByTheirSequence) {
  start("p/{camera}-{sequence}.png", R"(,"every":2)");
  for (const std::uint64_t sequence : {7U, 8U, 9U}) {
    set_frame(run_, sequence);
    ASSERT_EQ(run_.process(model_, {detection()}), CAMD_OK);
  }
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing("p"), (std::vector<std::string>{"door-000007.png", "door-000009.png"}));
  const auto shown = decode(path("p/door-000007.png"));
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(shown[0].width, kWidth);
}

TEST_F(AnnotateTest, KeepsTheLatestPictureWhereThePathHasNoSequence) {
  start("latest.jpg");
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  set_frame(run_, 1);
  ASSERT_EQ(run_.process(model_), CAMD_OK);
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  EXPECT_EQ(listing(), std::vector<std::string>{"latest.jpg"});
}

TEST_F(AnnotateTest, ReportsOnceThatNoFolderCanBeAndLetsFramesPass) {
  start("p/{sequence}.png");
  std::filesystem::remove_all(path("p"));
  std::ofstream(path("p")) << "in the way";
  for (std::uint64_t i = 0; i < 1000 && run_.host.lines.empty(); ++i) {
    set_frame(run_, i);
    ASSERT_EQ(run_.process(model_), CAMD_OK);
    ::usleep(1000);
  }
  ASSERT_EQ(run_.host.lines.size(), 1U);
  EXPECT_THAT(run_.host.lines[0],
              HasSubstr("0 annotate: no more pictures of camera 'door': cannot write " + path("p/")));
  EXPECT_EQ(run_.process(model_), CAMD_OK);
  EXPECT_EQ(run_.host.lines.size(), 1U);
  EXPECT_EQ(run_.destroy(), CAMD_ERROR_FAILED);
}

TEST_F(AnnotateTest, NeverWaitsForTheEncoderAndSaysHowManyPicturesItLeftOut) {
  start("film.mp4", R"(,"fps":1000)");
  for (std::uint64_t i = 0; i < 400; ++i) {
    set_frame(run_, i);
    ASSERT_EQ(run_.process(model_), CAMD_OK);
  }
  ASSERT_EQ(run_.destroy(), CAMD_OK) << run_.error();
  ASSERT_EQ(run_.host.lines.size(), 1U);
  EXPECT_THAT(run_.host.lines[0],
              HasSubstr(" of 400 pictures of camera 'door' were left out because the encoder was busy"));
}

TEST_F(AnnotateTest, NamesEveryWrongKey) {
  EXPECT_EQ(run_.create(R"({"path":"x.avi","scale":2,"lables":true})"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(run_.error(),
            "config.path: is needed and ends in .mp4, .png or .jpg, e.g. out/annotated.mp4 or "
            "out/frames/{camera}-{sequence}.png; config.scale: must be a number in 0.05..1, not 2; "
            "config.lables: unknown key (did you mean 'labels'?)");
}

TEST_F(AnnotateTest, SaysWhyAFilmCannotBeWritten) {
  std::ofstream(path("file")) << "in the way";
  ASSERT_EQ(run_.create(config("file/film.mp4")), CAMD_OK);
  EXPECT_EQ(run_.outputs(model_), CAMD_ERROR_CONFIG);
  EXPECT_EQ(run_.error(), "cannot create the folder " + path("file") + ": Not a directory");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
