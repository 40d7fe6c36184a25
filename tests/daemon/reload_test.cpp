// camd run from outside: reloads, also with mistakes and beside requests to stop.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "device/make_device.hpp"
#include "tests/daemon/run_fixture.hpp"

namespace camd::test {
namespace CAMD_TEST_FILE {

using testing::HasSubstr;

TEST_F(Run, ReloadsOnSighupAndKeepsTheOldConfigurationWhenTheNewOneIsBad) {
  const std::string path = config(camera("old", kEndless));
  CamdProcess process({"run", path, "--metrics", "json"});
  const auto seen = [](const std::string& text) {
    return [text](const CamdProcess& p) { return (p.out() + p.err()).find(text) != std::string::npos; };
  };
  ASSERT_TRUE(process.read_until(seen("\"event\":\"process\""))) << process.err();
  folder_.write("camd.yaml", "cameras: 7\n");
  process.signal(SIGHUP);
  ASSERT_TRUE(process.read_until(seen("reload refused"))) << process.err();
  config(camera("new", kEndless));
  process.signal(SIGHUP);
  ASSERT_TRUE(process.read_until(seen("\"camera\":\"new\""))) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_EQ(events(process.out(), "start").size(), 1U);
  EXPECT_EQ(events(process.out(), "stop").size(), 1U);
  const std::vector<json> reloads = events(process.out(), "reload");
  ASSERT_EQ(reloads.size(), 2U);
  EXPECT_EQ(reloads[0].at("result"), "refused");
  EXPECT_EQ(reloads[1].at("result"), "accepted");
}

// A configuration whose model, plug-in or device cannot be used ended the daemon with 3.
TEST_F(Run, RunsOnWhenAReloadNamesWhatCannotBeUsed) {
  const std::string out = folder_ / "d.jsonl";
  const std::string tell = "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n";
  const std::string lossless = "{type: test, width: 320, height: 180, realtime: false}";
  const std::string bad = test::binary_dir() + "/lib/bad/misbehave.so";
  const std::string path = config(camera("old", lossless), tell);
  const std::string good = read_file(path);
  folder_.write("corrupt.onnx", "not a model");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string model = source_path("models/marker-640x360.onnx");
  std::vector<std::pair<std::string, std::string>> cases{
      {"nowhere.onnx", with(model, folder_ / "nowhere.onnx")},
      {"corrupt.onnx", with(model, folder_ / "corrupt.onnx")},
      {"thrown in create", good + "  - plugin: " + bad + "\n    isolation: none\n    config: {how: throw_create}\n"},
  };
  if (device::count_gpus().count == 0)
    cases.emplace_back("camd.yaml:1:9: device", with("device: host", "device: cuda"));
  CamdProcess process({"run", path, "--metrics", "json"});
  std::size_t refused = 0;
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  for (const auto& [why, text] : cases) {
    folder_.write("camd.yaml", text);
    process.signal(SIGHUP);
    ++refused;
    ASSERT_TRUE(process.read_until([&, &told = why](const CamdProcess& p) {
      std::size_t lines = 0;
      for (std::size_t at = 0; (at = p.out().find("\"result\":\"refused\"", at)) != std::string::npos; ++at) ++lines;
      return lines == refused && p.err().find(told) != std::string::npos;
    })) << why
        << process.err();
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_EQ(events(process.out(), "start").size(), 1U);
  ASSERT_EQ(events(process.out(), "stop").size(), 1U);
  const json totals = events(process.out(), "stop")[0].at("totals");
  // The frame that the camera was about to make when it was stopped, if there was one.
  const json shutdown = totals.at("dropped").at("shutdown");
  EXPECT_EQ(totals.at("captured").get<int>(), totals.at("delivered").get<int>() + shutdown.get<int>());
  const std::vector<json> told = lines(read_file(out));
  ASSERT_EQ(told.size(), totals.at("delivered").get<std::size_t>());
  for (std::size_t i = 0; i < told.size(); ++i) ASSERT_EQ(told[i].at("seq"), i);
}

TEST_F(Run, AReloadGoesOnInTheSameFile) {
  const std::string out = folder_ / "d.jsonl";
  const std::string tell = "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n";
  CamdProcess process({"run", config(camera("old", kEndless), tell), "--metrics", "json"});
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  config(camera("new", kEndless), tell);
  process.signal(SIGHUP);
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
    const std::size_t at = p.out().find("\"result\":\"accepted\"");
    return at != std::string::npos && p.out().find("\"event\":\"process\"", at) != std::string::npos;
  })) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
  const std::vector<json> stops = events(process.out(), "stop");
  ASSERT_EQ(stops.size(), 1U);
  std::map<std::string, std::uint64_t> told;
  for (const json& line : lines(read_file(out))) ++told[line.at("camera")];
  EXPECT_GT(told["old"], 0U);
  EXPECT_GT(told["new"], 0U);
  EXPECT_EQ(told["old"] + told["new"], stops[0].at("totals").at("delivered"));
}

// What was asked while a reload was being refused was forgotten with the reload, and camd ran on for ever.
TEST_F(Run, StopsWhenAskedToWhileAReloadIsBeingRefused) {
  const std::string path = config(camera("a", kEndless));
  CamdProcess process({"run", path, "--metrics", "json"});
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  process.signal(SIGHUP);
  const int fifo = open(path.c_str(), O_WRONLY | O_CLOEXEC);  // returns when camd reads it
  process.signal_and_see_it_taken(SIGTERM);
  EXPECT_EQ(write(fifo, "cameras: 7\n", 11), 11);
  close(fifo);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("reload refused"));
}

TEST_F(Run, StopsWhenAskedToWhileAReloadGoesThrough) {
  const std::string path = config(camera("a", kEndless));
  const std::string with_b = read_file(config(camera("a", kEndless) + camera("b", kEndless)));
  config(camera("a", kEndless));
  CamdProcess process({"run", path, "--metrics", "json"});
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  process.signal(SIGHUP);
  const int fifo = open(path.c_str(), O_WRONLY | O_CLOEXEC);  // returns when camd reads it
  process.signal_and_see_it_taken(SIGTERM);
  EXPECT_EQ(write(fifo, with_b.data(), with_b.size()), static_cast<ssize_t>(with_b.size()));
  close(fifo);
  EXPECT_EQ(process.wait(), 0) << process.err();
  ASSERT_EQ(events(process.out(), "reload").size(), 1U);
  EXPECT_EQ(events(process.out(), "reload")[0].at("result"), "accepted");
  const std::vector<json> stops = events(process.out(), "stop");
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].at("cameras").size(), 2U);
  EXPECT_TRUE(balanced(stops[0].at("totals")));
  EXPECT_EQ(stops[0].at("totals").at("in_flight"), 0);
}

// Either comes first: a reload that is over, or one that never begins.
TEST_F(Run, StopsOnceWhenAskedToReloadAndToStopAtTheSameTime) {
  CamdProcess process({"run", config(camera("a", kEndless)), "--metrics", "json"});
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  process.signal(SIGTERM);
  process.signal(SIGHUP);
  EXPECT_EQ(process.wait(), 0) << process.err();
  const std::vector<json> stops = events(process.out(), "stop");
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_TRUE(balanced(stops[0].at("totals")));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::test
