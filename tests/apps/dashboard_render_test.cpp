#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "apps/dashboard/render.hpp"
#include "dashboard_samples.hpp"

namespace camd::dashboard {
namespace CAMD_TEST_FILE {

using testing::camera_line;
using testing::sample_lines;
using testing::start_line;

Model with_cameras(int count) {
  Model model;
  model.feed(start_line());
  for (int i = 0; i < count; ++i) model.feed(camera_line(fmt::format("camera {}", i)));
  model.feed(
      R"({"event":"process","schema":1,"mono_ns":2000000000,"cpu_percent":150.4,"rss_bytes":312000000,"threads":9})");
  model.feed(R"({"event":"state","schema":1,"time":"2026-11-21T12:00:05Z","camera":"camera 0","from":"starting",)"
             R"("state":"running","reason":"first frame"})");
  return model;
}

// Begins with a newline, as the raw strings below do.
std::string shown(const std::vector<Line>& lines) {
  std::string out(1, '\n');
  out += plain_text(lines);
  return out;
}

std::string frame(const Model& model, View view) { return shown(render(model, view)); }

View sized(int columns, int rows) {
  View view;
  view.columns = columns;
  view.rows = rows;
  view.keys = true;
  view.quit_key = true;
  return view;
}

TEST(DashboardRender, OneCameraFillsEightyByTwentyFour) {
  Model model;
  model.feed(start_line());
  for (int i = 1; i <= 12; ++i) model.feed(camera_line("door", i, "running", 30 * i, i / 3, i == 6 ? 2 : 1));
  model.feed(
      R"({"event":"process","schema":1,"mono_ns":13000000000,"cpu_percent":150.4,"rss_bytes":312000000,"threads":9})");
  model.feed(R"({"event":"state","schema":1,"time":"2026-11-21T12:00:05Z","camera":"door","from":"stalled",)"
             R"("state":"running","reason":"frames again after 2.1 s"})");
  EXPECT_EQ(frame(model, sized(80, 24)), R"(
camd 0.1.0 · host · opencv · marker.onnx                             up 00:00:12
transfer pageable · streams split

  camera   state         fps in    out  dropped  p50 ms  p99 ms  p99.9 ms
  door   ● running         30.0   26.0        4    28.0    42.0      44.8

captured 360 = delivered 356 + dropped 4 + in flight 0
dropped     superseded 4                           a frame: h2d 1.38 MB, d2h 0 B

door                                          ms     p50     p99   p99.9     max
total       ████████████████████████░░░░░░░░░░░░    28.0    42.0    44.8    56.0
capture     ▉                                       1.00    1.50    1.60    2.00
queue        █▋                                     2.00    3.00    3.20    4.00
h2d            ██▏                                  3.00    4.50    4.80    6.00
preprocess       ███▋░                              4.00    6.00    6.40    8.00
infer                ███▉░░                         5.00    7.50    8.00    10.0
d2h                      █████░░░                   6.00    9.00    9.60    12.0
postprocess                   ██████░░░             7.00    10.5    11.2    14.0
total p99   ▅▅▅▅▅█▅▅▅▅▅▅                                         highest 84.0 ms

process     cpu 150 % · rss 312 MB · threads 9
12:00:05  door  stalled → running  frames again after 2.1 s

q quit
)");
}

TEST(DashboardRender, ShowsThePluginsNumbersBelowTheProcess) {
  Model model = with_cameras(1);
  model.feed(R"({"event":"plugin","schema":1,"name":"detections","index":0,"counters":{"left_out":0}})");
  model.feed(R"({"event":"plugin","schema":1,"name":"jsonl","index":1,"counters":{}})");
  model.feed(
      R"({"event":"plugin","schema":1,"name":"a long name indeed","index":2,"counters":{"read":12,"wait_ms":0.25}})");
  const std::string picture = frame(model, sized(80, 24));
  EXPECT_NE(picture.find("process     cpu 150 % · rss 312 MB · threads 9\n"
                         "detections  left_out 0\n"
                         "a long nam… read 12 · wait_ms 0.25\n"),
            std::string::npos)
      << picture;
}

// `seen` as the member of a camera line.
std::string with_seen(const std::string& seen) {
  std::string line = camera_line("door");
  line.insert(line.size() - 1, R"(,"seen":)" + seen);
  return line;
}

TEST(DashboardRender, SaysWhatTheCameraShows) {
  Model model;
  model.feed(start_line());
  model.feed(with_seen(R"({"detections":9,"tracks":9,"texts":["ROOM 12","a\u001b[2Jb"],)"
                       R"("zones":{"desk":{"inside":2.0,"entered":5.0}},"lines":{"middle":{"in":1.0,"out":0.0}}})"));
  std::string picture = frame(model, sized(100, 24));
  EXPECT_NE(
      picture.find("\nseen        9 tracks · desk 2 inside, 5 entered · middle 1 in, 0 out · ROOM 12 · a\\x1b[2Jb\n"),
      std::string::npos)
      << picture;
  model.feed(with_seen(R"({"detections":1,"tracks":0})"));
  picture = frame(model, sized(100, 24));
  EXPECT_NE(picture.find("\nseen        1 detection\n"), std::string::npos) << picture;
  model.feed(with_seen(R"({"detections":3,"tracks":1})"));
  picture = frame(model, sized(100, 24));
  EXPECT_NE(picture.find("\nseen        3 detections, 1 track\n"), std::string::npos) << picture;
  model.feed(camera_line("door"));
  EXPECT_EQ(frame(model, sized(100, 24)).find("\nseen"), std::string::npos) << "no frame in the last period";
}

TEST(DashboardRender, ThreeCamerasFillEightyByTwentyFour) {
  Model model;
  for (const std::string& line : sample_lines()) model.feed(line);
  View view = sized(80, 24);
  view.selected = 1;
  EXPECT_EQ(frame(model, view), R"(
camd 0.1.0 · NVIDIA H200 · cuda · marker.onnx     stopped, exit code 0  00:00:41
transfer pinned · streams split

  camera         state         fps in    out  dropped  p50 ms  p99 ms  p99.9 ms
  door         ● running         30.0   31.0        6    2.04    3.46      3.81
▸ Einfahrt Süd ● running         30.0   31.0        7    2.92    4.93      5.42
  倉庫カメラ   ● running         30.0   31.0        0    3.75    6.40      7.03

captured 1020 = delivered 1013 + dropped 7 + in flight 0
dropped     superseded 5 · too_old 2            a frame: h2d 2.76 MB, d2h 230 kB
Einfahrt Süd                                  ms     p50     p99   p99.9     max
total       █████████████████████▎░░░░░░░░░░░░░░    2.92    4.93    5.42    5.92
capture     █████████▍░░                            1.29    1.68    1.84    2.01
queue                ███▌░░░░░░░░░                 0.423    1.69    1.86    2.03
h2d                      ▏                         0.077   0.101   0.111   0.121
preprocess               ▌                         0.056   0.072   0.079   0.086
infer                    ███▋░                     0.438   0.570   0.627   0.684
d2h                          ▏                     0.034   0.043   0.048   0.052
postprocess                  ████▎░                0.598   0.777   0.855   0.933
total p99   ▄▄▄▄▄▄▄▄▄▄▄██▄▄▄▄▄▄▄     ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄             highest 12.0 ms

process     cpu 38 % · rss 312 MB · gpu 1.24 GB · threads 14
12:00:56  Einfahrt Süd  stalled → running  frames again after 6.1 s
↑↓ camera   q quit
)");
}

TEST(DashboardRender, TwentyByFiveKeepsTheSelectedCameraAndItsTotals) {
  EXPECT_EQ(frame(with_cameras(3), sized(20, 5)), R"(
camd 0.1.0 · host ·…
▸ camera… ●     42.0
  camera… ●     42.0
30 = 30 + 0 + 0
dropped     none
)");
}

TEST(DashboardRender, FortyColumnsDropColumnsBeforeRows) {
  EXPECT_EQ(frame(with_cameras(2), sized(40, 20)), R"(
camd 0.1.0 · host · opencv…  up 00:00:01
transfer pageable · streams split

  camera     state           fps  p99 ms
▸ camera 0 ● running        30.0    42.0
  camera 1 ● running        30.0    42.0
30 = 30 + 0 + 0
dropped     none
camera 0              ms     p50     p99
total       ████████░░░░    28.0    42.0
capture     ▎               1.00    1.50
queue       ▉               2.00    3.00
h2d          ▊              3.00    4.50
preprocess    ▉             4.00    6.00
infer          █▎           5.00    7.50
d2h             ██░         6.00    9.00
postprocess       ██░       7.00    10.5
total p99   █            highest 42.0 ms
process     cpu 150 % · rss 312 MB · th…
↑↓ camera   q quit
)");
}

TEST(DashboardRender, ManyCamerasScrollAroundTheSelectedOne) {
  View view = sized(80, 24);
  view.selected = 20;
  EXPECT_EQ(frame(with_cameras(30), view), R"(
camd 0.1.0 · host · opencv · marker.onnx                             up 00:00:01
transfer pageable · streams split

  19-23/30    state         fps in    out  dropped  p50 ms  p99 ms  p99.9 ms
  camera 18 ● running         30.0   30.0        0    28.0    42.0      44.8
  camera 19 ● running         30.0   30.0        0    28.0    42.0      44.8
▸ camera 20 ● running         30.0   30.0        0    28.0    42.0      44.8
  camera 21 ● running         30.0   30.0        0    28.0    42.0      44.8
  camera 22 ● running         30.0   30.0        0    28.0    42.0      44.8
captured 30 = delivered 30 + dropped 0 + in flight 0
dropped     none                                   a frame: h2d 1.38 MB, d2h 0 B
camera 20                                     ms     p50     p99   p99.9     max
total       ████████████████████████░░░░░░░░░░░░    28.0    42.0    44.8    56.0
capture     ▉                                       1.00    1.50    1.60    2.00
queue        █▋                                     2.00    3.00    3.20    4.00
h2d            ██▏                                  3.00    4.50    4.80    6.00
preprocess       ███▋░                              4.00    6.00    6.40    8.00
infer                ███▉░░                         5.00    7.50    8.00    10.0
d2h                      █████░░░                   6.00    9.00    9.60    12.0
postprocess                   ██████░░░             7.00    10.5    11.2    14.0
total p99   █                                                    highest 42.0 ms
process     cpu 150 % · rss 312 MB · threads 9
12:00:05  camera 0  starting → running  first frame
↑↓ camera   q quit
)");
}

TEST(DashboardRender, BeforeTheFirstLineItSaysThatItWaits) {
  EXPECT_EQ(frame({}, sized(40, 3)), R"(
camd                 waiting for metrics


)");
}

TEST(DashboardRender, AsciiMeansAscii) {
  View view = sized(100, 30);
  view.ascii = true;
  const std::string text = frame(with_cameras(4), view);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
      << text;
}

TEST(DashboardRender, NoSizeIsTooSmallAndNoLineTooWide) {
  for (const int cameras : {0, 1, 3, 12, 300}) {
    Model model = with_cameras(cameras);
    model.feed(camera_line("倉庫カメラ倉庫カメラ倉庫カメラ\\u001b[31m"));
    model.add_log("\x1b[33mwarning\x1b[0m something long, long, long, long, long, long, long, long, long, long");
    model.feed("junk");
    for (int columns = 1; columns <= 132; columns += columns < 30 ? 1 : 17) {
      for (int rows = 0; rows <= 40; rows += rows < 26 ? 1 : 7) {
        View view = sized(columns, rows);
        view.selected = 2;
        view.silent_s = rows % 2;
        const auto lines = render(model, view);
        if (rows > 0) {
          ASSERT_EQ(lines.size(), static_cast<std::size_t>(rows)) << columns << "x" << rows;
        }
        for (const Line& line : lines) ASSERT_LE(line.width(), columns) << line.plain();
      }
    }
  }
}

TEST(DashboardRender, TheSelectedCameraIsAlwaysOnTheScreen) {
  const Model model = with_cameras(30);
  for (std::size_t selected = 0; selected < 30; ++selected) {
    for (int rows = 2; rows < 50; ++rows) {
      View view = sized(80, rows);
      view.selected = selected;
      const std::string text = frame(model, view);
      EXPECT_NE(text.find(fmt::format("▸ camera {} ", selected)), std::string::npos) << rows << text;
    }
  }
}

TEST(DashboardRender, ALedgerThatDoesNotBalanceIsSaid) {
  Model model;
  model.feed(R"({"event":"camera","schema":1,"camera":"door","totals":{"captured":9,"delivered":3,"in_flight":1}})");
  EXPECT_NE(frame(model, sized(80, 24)).find("in flight 1  does not balance"), std::string::npos);
}

TEST(DashboardRender, SilenceAndProblemsAreSaidAtAnyWidth) {
  Model model = with_cameras(1);
  View view = sized(80, 24);
  view.silent_s = 7;
  EXPECT_NE(frame(model, view).find("no metrics for 7 s"), std::string::npos);
  view.columns = 24;
  EXPECT_NE(frame(model, view).find("no metrics for 7 s"), std::string::npos);
  model.feed(R"({"event":"camera","schema":3})");
  EXPECT_NE(frame(model, sized(80, 24)).find("1 line of schema 3, this dashboard reads schema 1"), std::string::npos);
}

TEST(DashboardRender, LogLinesStandBelowTheChanges) {
  Model model = with_cameras(1);
  model.add_log("[warning] camera 0: late\n");
  const std::string text = frame(model, sized(80, 26));
  EXPECT_NE(text.find("first frame\n│ [warning] camera 0: late\n"), std::string::npos) << text;
}

TEST(DashboardRender, ABarIsSolidToTheMedianAndLightToTheTail) {
  EXPECT_EQ(bar(0, 0.5, 1, 8, Style::kHost, false).plain(), "████░░░░");
  EXPECT_EQ(bar(0.25, 0.5, 0.75, 8, Style::kHost, false).plain(), "  ██░░");
  EXPECT_EQ(bar(0, 0.3125, 0, 8, Style::kHost, false).plain(), "██▌");
  EXPECT_EQ(bar(0.5, 0.5, 0.5, 8, Style::kHost, false).plain(), "    ▏");  // never invisible
  EXPECT_EQ(bar(0, 9, 9, 8, Style::kHost, false).plain(), "████████");
  EXPECT_EQ(bar(0, 0.5, 1, 8, Style::kHost, true).plain(), "####....");
  for (int i = 0; i <= 100; ++i)
    EXPECT_EQ(bar(i / 200.0, i / 100.0, i / 50.0, 13, Style::kHost, i % 2 == 0).width(), 13);
}

TEST(DashboardRender, ASparklineShowsTheNewestValuesAndLeavesGaps) {
  EXPECT_EQ(sparkline({0, 50, -1, 100}, 100, 10, false), "▁▅ █");
  EXPECT_EQ(sparkline({0, 50, -1, 100}, 100, 2, false), " █");
  EXPECT_EQ(sparkline({0, 50, 100}, 100, 10, true), "_=#");
  EXPECT_EQ(sparkline({}, 0, 10, false), "");
}

TEST(DashboardRender, TheSummaryGivesTheTotalsOfEveryCameraAndTheExitCode) {
  Model model;
  for (const std::string& line : sample_lines()) model.feed(line);
  EXPECT_EQ(shown(render_summary(model, 80)), R"(
camd 0.1.0 ran for 00:00:41, exit code 0: every source has ended
door          captured 1200 = delivered 1194 + dropped 6 + in flight 0
              dropped: superseded 6
              total in the worst period: p99 8.71 ms; slowest frame 10.4 ms
Einfahrt Süd  captured 1020 = delivered 1013 + dropped 7 + in flight 0
              dropped: superseded 5, too_old 2
              total in the worst period: p99 12.0 ms; slowest frame 14.4 ms
倉庫カメラ    captured 1200 = delivered 1200 + dropped 0 + in flight 0
              total in the worst period: p99 15.5 ms; slowest frame 18.6 ms
)");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::dashboard
