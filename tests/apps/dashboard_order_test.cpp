// Hundreds of cameras: which are shown, in which order, and what of a screen they get.
#include "apps/dashboard/order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/dashboard/render.hpp"
#include "dashboard_samples.hpp"

namespace camd::dashboard {
namespace CAMD_TEST_FILE {

using testing::camera_line;
using testing::start_line;

// 300 cameras that run, but for one that has failed, one that is away, one that drops and one that is slow.
Model crowd() {
  Model model;
  model.feed(start_line());
  for (int second = 1; second <= 2; ++second) {
    for (int i = 0; i < 300; ++i) {
      const std::string state = i == 250 ? "failed" : i == 120 ? "reconnecting" : "running";
      model.feed(camera_line(fmt::format("cam-{:03}", i), second, state, 30 * second, i == 200 ? 10 * second : 0,
                             i == 77 ? 4 : 1));
    }
    model.feed(
        R"({"event":"process","schema":1,"mono_ns":2000000000,"cpu_percent":450.4,"rss_bytes":3120000000,"threads":90,)"
        R"("gpu_memory_bytes":9000000000,"devices":[)"
        R"({"device":"cuda:0","name":"NVIDIA H200","state":"running","cameras":300,"fps":8990,"busy_percent":71,)"
        R"("load_percent":69.4,"memory_bytes":9000000000},)"
        R"({"device":"cuda:1","name":"NVIDIA H200","state":"lost","cameras":0,"fps":0,"busy_percent":0,)"
        R"("load_percent":0,"memory_bytes":0}]})");
  }
  return model;
}

std::vector<std::string> names(const Model& model, const std::string& filter, std::size_t most = 5) {
  std::vector<std::string> found;
  for (const std::size_t i : cameras_in_order(model, filter)) {
    if (found.size() < most) found.push_back(model.cameras()[i].name);
  }
  return found;
}

TEST(DashboardOrder, TheWorstOfManyCamerasComeFirst) {
  EXPECT_EQ(names(crowd(), ""), (std::vector<std::string>{"cam-250", "cam-120", "cam-200", "cam-077", "cam-000"}));
}

TEST(DashboardOrder, AFewCamerasStayInTheirOrder) {
  Model model;
  for (const char* state : {"running", "failed", "running"}) {
    model.feed(camera_line(fmt::format("{}-{}", state, model.cameras().size()), 1, state));
  }
  EXPECT_EQ(names(model, ""), (std::vector<std::string>{"running-0", "failed-1", "running-2"}));
}

TEST(DashboardOrder, AFilterIsFoundInNamesInCapitalsToo) {
  const Model model = crowd();
  EXPECT_EQ(names(model, "M-07"), (std::vector<std::string>{"cam-077", "cam-070", "cam-071", "cam-072", "cam-073"}));
  EXPECT_EQ(cameras_in_order(model, "cam-29").size(), 10U);
  EXPECT_TRUE(cameras_in_order(model, "door").empty());
}

TEST(DashboardOrder, ALittleMoreTimeDoesNotChangeTheOrder) {
  Model model = crowd();
  const std::vector<std::size_t> before = cameras_in_order(model, "");
  for (int i = 0; i < 300; i += 7) {
    if (i != 77) model.feed(camera_line(fmt::format("cam-{:03}", i), 3, "running", 90, 0, 1.05));
  }
  EXPECT_EQ(cameras_in_order(model, ""), before);
}

TEST(DashboardOrder, ThreeHundredCamerasOnEightyByTwentyFourShowWhatMatters) {
  View view;
  view.keys = view.quit_key = true;
  const std::vector<Line> lines = render(crowd(), view);
  ASSERT_EQ(lines.size(), 24U);
  EXPECT_EQ(lines[0].plain(), "camd 0.1.0 · host · opencv · marker.onnx                             up 00:00:01");
  EXPECT_EQ(lines[2].plain(), "300 cameras · 1 failed · 1 reconnecting · 298 running");
  EXPECT_EQ(lines[3].plain(), "9000 in/s · 8980 out/s · dropped 10.0/s, 20 in all · worst p99 168 ms (cam-077)");
  const std::string text = plain_text(lines);
  for (const char* part : {"cuda:0      300 cameras · 8990 frames/s · busy 71 % · load 69 %", "cuda:1      lost",
                           "cam-250", "cam-120", "cam-200", "cam-077", "/300 ", "/ filter"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(DashboardOrder, TheSummaryOfManyAddsThemUpAndNamesTheWorst) {
  const std::vector<Line> lines = render_summary(crowd(), 80);
  ASSERT_GT(lines.size(), 3U);
  EXPECT_EQ(lines[1].plain(), "300 cameras: captured 18000 = delivered 17980 + dropped 20 + in flight 0");
  EXPECT_EQ(lines[2].plain(), "the 10 that dropped most:");
  EXPECT_EQ(lines[3].plain(), "cam-200  captured 60 = delivered 40 + dropped 20 + in flight 0");
  EXPECT_LT(lines.size(), 40U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::dashboard
