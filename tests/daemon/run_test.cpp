// camd run from outside: metrics lines, signals, readers that go away, plug-ins that misbehave.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/daemon/run_fixture.hpp"
#include "tests/support/notify_socket.hpp"

namespace camd::test {
namespace CAMD_TEST_FILE {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(Run, EveryLineIsOneJsonObjectOfSchema1AndEveryTotalBalances) {
  const Finished done = run_camd({"run", config(camera("a", kShort) + camera("b", kShort)), "--metrics", "json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const std::vector<json> all = lines(done.out);
  ASSERT_GE(all.size(), 6U);
  EXPECT_EQ(all.front().at("event"), "start");
  EXPECT_EQ(all.front().at("model").at("outputs").size(), 9U);
  EXPECT_EQ(all.back().at("event"), "stop");
  EXPECT_EQ(all.back().at("exit_code"), 0);
  for (const json& line : all) {
    EXPECT_EQ(line.at("schema"), 1);
    EXPECT_TRUE(line.contains("time"));
    EXPECT_GT(line.at("mono_ns"), 0);
    if (line.at("event") == "camera") {
      EXPECT_TRUE(balanced(line.at("totals"))) << line;
      EXPECT_EQ(line.at("latency_us").size(), 8U);
    }
    if (line.at("event") == "plugin") {
      EXPECT_EQ(line.at("name"), "detections");
      EXPECT_EQ(line.at("index"), 0);
      EXPECT_EQ(line.at("counters"), json({{"left_out", 0}}));
    }
  }
  EXPECT_GE(events(done.out, "plugin").size(), 1U);
  EXPECT_TRUE(balanced(all.back().at("totals")));
  EXPECT_EQ(all.back().at("totals").at("delivered"), 10);
  EXPECT_EQ(all.back().at("totals").at("in_flight"), 0);
}

TEST_F(Run, WarnsAtItsStartWhereAPictureOfNoiseSpeaksAgainstTheLayout) {
  const std::string good = config(camera("a", kShort));
  EXPECT_THAT(run_camd({"run", good}).err, Not(HasSubstr("noise")));
  const std::string wrong =
      config(camera("a", kShort), "  - plugin: detections\n    config: {layout: scrfd}\n", "wrong.yaml");
  const Finished done = run_camd({"run", wrong});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err,
              HasSubstr("wrong.yaml:7:5: postprocess.0: layout 'scrfd' does not read this model: on a picture "
                        "of noise most of its boxes end before they begin; set {layout: anchors}"));
  const Finished checked = run_camd({"check", wrong});
  EXPECT_EQ(checked.code, 3);
  EXPECT_THAT(checked.err, HasSubstr("layout 'scrfd' does not read this model"));
}

TEST_F(Run, StopsAfterTheFramesItWasAskedFor) {
  const Finished done = run_camd({"run", config(camera("a", kEndless)), "--metrics", "json", "--frames", "3"});
  EXPECT_EQ(done.code, 0) << done.err;
  const json stop = events(done.out, "stop").at(0);
  EXPECT_GE(stop.at("totals").at("delivered"), 3);
  EXPECT_EQ(stop.at("reason"), "frame limit reached");
}

TEST_F(Run, StopsAfterTheDurationItWasAskedFor) {
  const Finished done = run_camd({"run", config(camera("a", kEndless)), "--metrics", "json", "--duration", "300ms"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(events(done.out, "stop").at(0).at("reason"), "duration reached");
}

TEST_F(Run, DrainsOnTheFirstSignalAndPrintsTheFinalTotals) {
  for (const int number : {SIGINT, SIGTERM}) {
    CamdProcess process({"run", config(camera("a", kEndless)), "--metrics", "json"});
    ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
      return p.out().find("\"event\":\"process\"") != std::string::npos;
    })) << process.err();
    process.signal(number);
    EXPECT_EQ(process.wait(), 0) << process.err();
    const std::vector<json> stops = events(process.out(), "stop");
    ASSERT_EQ(stops.size(), 1U);
    EXPECT_EQ(stops[0].at("totals").at("in_flight"), 0);
    EXPECT_TRUE(balanced(stops[0].at("totals")));
  }
}

// Else a crash of camd's, or of a library in it, leaves nothing but a number behind.
TEST_F(Run, SaysWhichSignalKilledItAndWhereAndEndsByThatSignal) {
#if defined(CAMD_SANITIZED)
  GTEST_SKIP() << "the sanitizers have handlers of their own";
#endif
  CamdProcess process({"run", config(camera("a", kEndless)), "--metrics", "json"});
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.out().find("\"event\":\"process\"") != std::string::npos;
  })) << process.err();
  process.signal(SIGSEGV);
  EXPECT_EQ(process.wait(), 128 + SIGSEGV);
  EXPECT_THAT(process.err(),
              ContainsRegex("killed by signal 11 \\(SIGSEGV\\) in thread '.+'; where, from the inside out:\n"
                            "(  .+\n)*  .+/camd\\+0x[0-9a-f]+\n"));
}

// Sources stopped one after another, three seconds each: with four that hang there was no last line, exit code 70, and
// files of plug-ins were left as they were.
TEST_F(Run, StopsAHundredHangingCamerasAtOnceAndNamesThem) {
  const std::string fifo = folder_ / "fifo", out = folder_ / "d.jsonl";  // nobody ever writes: opening it hangs
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string cameras = camera("well", kEndless);
  constexpr int kHanging = 100;
  for (int i = 0; i < kHanging; ++i) {
    cameras += camera(fmt::format("hung{}", i), "{type: gstreamer, pipeline: \"filesrc location=" + fifo +
                                                    " ! rawvideoparse width=320 height=240 ! videoconvert\"}");
  }
  CamdProcess process({"run",
                       config(cameras, "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n"),
                       "--metrics", "json"});
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.out().find("\"event\":\"process\"") != std::string::npos && p.sleeping_threads("gst-state") == kHanging;
  })) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
  for (int i = 0; i < kHanging; ++i) {
    EXPECT_THAT(process.err(),
                HasSubstr(fmt::format("camera hung{}: the source hangs while it is closed, it is left behind\n", i)));
  }
  const json stop = events(process.out(), "stop").at(0);
  EXPECT_EQ(stop.at("exit_code"), 0);
  EXPECT_EQ(stop.at("cameras").size(), kHanging + 1U);
  EXPECT_EQ(stop.at("totals").at("in_flight"), 0);
  EXPECT_TRUE(balanced(stop.at("totals")));
  EXPECT_EQ(lines(read_file(out)).size(), stop.at("totals").at("delivered"));
}

// It took ten seconds, with exit code 70, without totals and without a word of the plug-in.
TEST_F(Run, StopsWhileAPluginHangsInProcessOrInDestroyWithTotalsAndTheOthersFinished) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so", out = folder_ / "d.jsonl";
  for (const bool in_process : {true, false}) {
    CamdProcess process(
        {"run",
         config(camera("a", kEndless),
                "  - plugin: jsonl\n    config: {path: " + out + "}\n  - plugin: " + plugin +
                    "\n    isolation: none\n    config: {how: " + (in_process ? "gate" : "gate_destroy") + "}\n"),
         "--metrics", "json"});
    ASSERT_TRUE(process.read_until([&](const CamdProcess& p) {
      return p.out().find(in_process ? "\"superseded\":2" : "\"delivered\":2") != std::string::npos;
    })) << process.err();
    process.signal(SIGTERM);
    EXPECT_EQ(process.wait(), 3) << process.err();
    EXPECT_THAT(process.err(), HasSubstr(std::string("misbehave.so: hangs in ") +
                                         (in_process ? "process()" : "destroy()") + ": it is left behind"));
    EXPECT_EQ(process.err().find("camera a: ") != std::string::npos, in_process) << process.err();
    const json stop = events(process.out(), "stop").at(0);
    EXPECT_EQ(stop.at("exit_code"), 3);
    EXPECT_EQ(stop.at("totals").at("in_flight"), 0);
    EXPECT_EQ(stop.at("totals").at("dropped").at("plugin_error"), in_process ? 1 : 0);
    EXPECT_TRUE(balanced(stop.at("totals")));
    EXPECT_GE(lines(read_file(out)).size(), 1U);
  }
}

TEST_F(Run, LeavesAtOnceOnTheSecondSignalWhileAPluginHangs) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  CamdProcess process(
      {"run",
       config(camera("a", kEndless), "  - plugin: " + plugin + "\n    isolation: none\n    config: {how: gate}\n"),
       "--metrics", "json"});
  // Frames are captured while the first one hangs in the plug-in for ever.
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.out().find("\"superseded\":2") != std::string::npos;
  })) << process.err();
  process.signal_and_see_it_taken(SIGINT);
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 70);
  EXPECT_THAT(process.err(), HasSubstr("leaving at once"));
}

// The first line that stderr did not take held up whoever logged it, and the stop as well.
TEST_F(Run, RunsAndStopsWithAStderrThatNobodyReads) {
  const FullPipe unread;
  CamdProcess process({"--log", "trace", "run", config(camera("a", kEndless)), "--metrics", "json"}, "/tmp", -1,
                      unread.fd());
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(std::chrono::seconds(20)), 0);
  const json stop = events(process.out(), "stop").at(0);
  EXPECT_TRUE(balanced(stop.at("totals")));
  EXPECT_GT(stop.at("totals").at("delivered"), 0);
}

TEST_F(Run, LeavesAtOnceOnTheSecondSignalWithAStderrThatNobodyReads) {
  const FullPipe unread;
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  CamdProcess process(
      {"run",
       config(camera("a", kEndless), "  - plugin: " + plugin + "\n    isolation: none\n    config: {how: gate}\n"),
       "--metrics", "json"},
      "/tmp", -1, unread.fd());
  ASSERT_TRUE(
      process.read_until([](const CamdProcess& p) { return p.out().find("\"superseded\":2") != std::string::npos; }));
  process.signal_and_see_it_taken(SIGTERM);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(std::chrono::seconds(20)), 70);
}

TEST_F(Run, WritesItsLogWithDateAndLevelOrWithThePrioritiesOfTheJournal) {
  const std::string path = config(camera("away", "{type: rtsp, url: \"rtsp://127.0.0.1:9/none\"}"));
  const auto log_of = [&](bool journal) {
    const std::string log = folder_ / "log";
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct stat file {};
    fstat(fd, &file);
    setenv("JOURNAL_STREAM", fmt::format("{}:{}", file.st_dev, file.st_ino + (journal ? 0 : 1)).c_str(), 1);
    CamdProcess process({"run", path, "--metrics", "json"}, "/tmp", -1, fd);
    unsetenv("JOURNAL_STREAM");
    close(fd);
    EXPECT_TRUE(
        process.read_until([](const CamdProcess& p) { return p.out().find("\"reconnecting\"") != std::string::npos; }));
    process.signal(SIGTERM);
    EXPECT_EQ(process.wait(), 0);
    return read_file(log);
  };
  EXPECT_THAT(log_of(false),
              testing::ContainsRegex("(^|\n)20[0-9-]+T[0-9:]+\\.[0-9]{3}Z warning camera away: reconnecting: "));
  EXPECT_THAT(log_of(true), testing::ContainsRegex("(^|\n)<4>camera away: reconnecting: "));
}

// A unit of Type=notify never left "activating", and a reload that was refused looked like any other.
TEST_F(Run, TellsSystemdOfItsStartEachReloadAndItsEnd) {
  const NotifySocket systemd(folder_ / "notify");
  ::setenv("NOTIFY_SOCKET", systemd.name().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  ::setenv("WATCHDOG_USEC", "1000000", 1);               // NOLINT(concurrency-mt-unsafe)
  CamdProcess process({"run", config(camera("a", kEndless)), "--metrics", "off"});
  ::unsetenv("NOTIFY_SOCKET");  // NOLINT(concurrency-mt-unsafe)
  ::unsetenv("WATCHDOG_USEC");  // NOLINT(concurrency-mt-unsafe)
  const auto next_with = [&](const std::string& begin) {
    std::string message;
    for (int i = 0; i < 100; ++i) {
      message = systemd.next();
      if (message == "nothing" || message.rfind(begin, 0) == 0) break;
    }
    return message;
  };
  EXPECT_EQ(systemd.next(), "STATUS=starting: the model is made ready");
  std::string ready = systemd.next();
  EXPECT_THAT(ready, testing::MatchesRegex("READY=1\nSTATUS=[01] of 1 cameras running.*"));
  EXPECT_EQ(next_with("WATCHDOG"), "WATCHDOG=1");
  if (ready != "READY=1\nSTATUS=1 of 1 cameras running") {
    EXPECT_EQ(next_with("STATUS=1"), "STATUS=1 of 1 cameras running");
  }
  process.signal(SIGHUP);
  EXPECT_THAT(next_with("RELOADING"), testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=reloading"));
  EXPECT_EQ(next_with("READY"), "READY=1\nSTATUS=1 of 1 cameras running");
  folder_.write("camd.yaml", "cameras: 7\n");
  process.signal(SIGHUP);
  EXPECT_THAT(next_with("READY"), StartsWith("READY=1\nSTATUS=1 of 1 cameras running; the last reload was refused: " +
                                             folder_.path().string()));
  process.signal(SIGTERM);
  EXPECT_THAT(next_with("STOPPING"), StartsWith("STOPPING=1\n"));
  EXPECT_EQ(process.wait(), 0) << process.err();
}

// Log rotation. Lines went on into the renamed file for ever, and SIGUSR1 did nothing.
TEST_F(Run, OpensARenamedFileAnewOnSigusr1AndLosesNoLine) {
  const std::string out = folder_ / "d.jsonl", kept = folder_ / "d.1.jsonl";
  const std::string tell = "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n";
  CamdProcess process({"run", config(camera("a", kEndless), tell), "--metrics", "json"});
  ASSERT_TRUE(process.read_until([&](const CamdProcess&) { return !read_file(out).empty(); })) << process.err();
  std::filesystem::rename(out, kept);
  process.signal(SIGUSR1);
  ASSERT_TRUE(process.read_until([&](const CamdProcess& p) {
    return p.err().find("files opened anew") != std::string::npos && !read_file(out).empty();
  })) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
  std::vector<std::uint64_t> told;
  for (const std::string& file : {kept, out}) {
    for (const json& line : lines(read_file(file))) told.push_back(line.at("seq"));
  }
  EXPECT_EQ(told.size(), events(process.out(), "stop")[0].at("totals").at("delivered"));
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
}

// A restart emptied what the run before had written.
TEST_F(Run, ARestartGoesOnInTheSameFile) {
  const std::string out = folder_ / "d.jsonl";
  const std::string path =
      config(camera("a", kShort), "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n");
  for (const std::size_t expected : {5U, 10U}) {
    CamdProcess process({"run", path, "--metrics", "json"});
    EXPECT_EQ(process.wait(), 0) << process.err();
    EXPECT_EQ(lines(read_file(out)).size(), expected);
  }
}

// The next files that were opened got the numbers of closed descriptors: metrics and lines of the log went there.
TEST_F(Run, OpensItsStandardDescriptorsWhereTheyAreClosed) {
  const std::string out = folder_ / "d.jsonl", program = camd_path();
  const std::string path =
      config(camera("a", kEndless), "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n");
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
    execl(program.c_str(), program.c_str(), "run", path.c_str(), "--metrics", "json", nullptr);
    _exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (read_file(out).empty() && std::chrono::steady_clock::now() < deadline) {
    pollfd none{-1, 0, 0};
    (void)poll(&none, 1, 5);
  }
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    std::error_code error;
    EXPECT_EQ(std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid, fd), error), "/dev/null") << fd;
  }
  kill(pid, SIGTERM);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// GLib aborted the daemon in the middle of its start.
TEST_F(Run, RefusesCamerasForWhichThereAreTooFewDescriptorsWithTheNumbers) {
  std::string cameras;
  for (int i = 0; i < 180; ++i) cameras += camera(fmt::format("c{}", i), "{type: rtsp, url: \"rtsp://127.0.0.1:9/x\"}");
  const std::string path = config(cameras);
  const auto run_with = [&](const std::string& limit, const std::string& command) {
    const std::string err = folder_ / "err";
    const std::string line =
        "ulimit " + limit + " && exec '" + camd_path() + "' " + command + " '" + path + "' >/dev/null 2>'" + err + "'";
    const int status = std::system(("sh -c \"" + line + "\"").c_str());
    return std::pair(WEXITSTATUS(status), read_file(err));
  };
  for (const std::string command : {"check", "run"}) {
    const auto [code, err] = run_with("-n 1024", command);
    EXPECT_EQ(code, 2);
    EXPECT_THAT(err, HasSubstr("cameras: 180 cameras need up to 2224 file descriptors, this process may have 1024: "
                               "raise the limit (ulimit -n 2224, or LimitNOFILE=2224 in the systemd unit) or use fewer "
                               "cameras\n"));
  }
  // A soft limit is no obstacle.
  EXPECT_EQ(run_with("-S -n 1024", "check").first, 0);
}

TEST_F(Run, GoesOnWithItsCamerasWhenStdoutIsClosed) {
  const std::string out = folder_ / "d.jsonl";
  CamdProcess process(
      {"run",
       config(camera("a", kEndless), "  - plugin: detections\n  - plugin: jsonl\n    config: {path: " + out + "}\n"),
       "--metrics", "json"});
  ASSERT_TRUE(process.read_until(
      [](const CamdProcess& p) { return p.out().find("\"event\":\"process\"") != std::string::npos; }));
  process.close_stdout();
  ASSERT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.err().find("the cameras go on") != std::string::npos;
  })) << process.err();
  const std::string before = read_file(out);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (read_file(out).size() <= before.size() + 200 && std::chrono::steady_clock::now() < deadline) {
    pollfd none{-1, 0, 0};
    (void)poll(&none, 1, 5);
  }
  EXPECT_GT(read_file(out).size(), before.size() + 200);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
}

TEST_F(Run, WarnsOnceWhenTheDiskUnderStdoutIsFull) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  CamdProcess process({"run", config(camera("a", kShort)), "--metrics", "json"}, "/tmp", full);
  close(full);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("No space left on device"));
}

TEST_F(Run, KeepsOtherCamerasWhenOneEndsOrCannotBeReached) {
  const Finished done =
      run_camd({"run",
                config(camera("short", kShort) + camera("away", "{type: rtsp, url: \"rtsp://127.0.0.1:9/none\"}") +
                       camera("long", kEndless)),
                "--metrics", "json", "--duration", "2s"});
  ASSERT_EQ(done.code, 0) << done.err;
  std::map<std::string, json> totals;
  const json stop = events(done.out, "stop").at(0);
  for (const json& one : stop.at("cameras")) totals[one.at("camera")] = one.at("totals");
  EXPECT_EQ(totals.at("short").at("delivered"), 5);
  EXPECT_EQ(totals.at("away").at("captured"), 0);
  EXPECT_GT(totals.at("long").at("delivered"), 3);
}

TEST_F(Run, TellsOfACameraThatIsAwayWithoutMetricsToo) {
  CamdProcess process(
      {"run", config(camera("away", "{type: rtsp, url: \"rtsp://127.0.0.1:9/none\"}")), "--metrics", "off"});
  EXPECT_TRUE(process.read_until([](const CamdProcess& p) {
    return p.err().find("camera away: reconnecting: ") != std::string::npos;
  })) << process.err();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
}

TEST_F(Run, CountsWhatPluginsDoWrongAndGoesOn) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  const auto totals_with = [&](const std::string& how) {
    const Finished done =
        run_camd({"run",
                  config(camera("a", kShort),
                         "  - plugin: " + plugin + "\n    isolation: none\n    config: {how: " + how + "}\n"),
                  "--metrics", "json"});
    EXPECT_EQ(done.code, 0) << how << done.err;
    return events(done.out, "stop").at(0).at("totals");
  };
  EXPECT_EQ(totals_with("throw_process").at("dropped").at("plugin_error"), 5);
  EXPECT_EQ(totals_with("fail_every_other").at("dropped").at("plugin_error"), 2);
  for (const std::string how :
       {"over_capacity", "negative_count", "nan_score", "inf_box", "nan_keypoint", "bad_keypoint_count", "unended_name",
        "unended_text", "raw_throw_process", "null_items", "moved_items", "huge_capacity"}) {
    EXPECT_EQ(totals_with(how).at("dropped").at("plugin_error"), 5) << how;
  }
}

TEST_F(Run, WritesLinesThatCanBeReadWhateverBytesAPluginWrites) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so", out = folder_ / "d.jsonl";
  const Finished done =
      run_camd({"run",
                config(camera("a", kShort), "  - plugin: " + plugin +
                                                "\n    isolation: none\n    config: {how: no_utf8}\n  - plugin: jsonl\n"
                                                "    config: {path: " +
                                                out + "}\n"),
                "--metrics", "json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(lines(done.out).back().at("totals").at("delivered"), 5);
  const std::vector<json> told = lines(read_file(out));
  ASSERT_EQ(told.size(), 5U);
  const std::string replaced = "\xEF\xBF\xBD \xEF\xBF\xBD( \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD\"";
  for (const json& line : told) {
    EXPECT_EQ(line.at("detections").at(0).at("class"), replaced);
    EXPECT_EQ(line.at("detections").at(0).at("text"), replaced);
    EXPECT_EQ(line.at("events").at(0).at("name"), replaced);
  }
}

TEST_F(Run, TellsOfAPluginThatThrowsAtItsEnd) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  const Finished done =
      run_camd({"run",
                config(camera("a", kShort),
                       "  - plugin: " + plugin + "\n    isolation: none\n    config: {how: raw_throw_destroy}\n"),
                "--metrics", "json"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("misbehave.so: threw an exception: thrown past the adaptor\n"));
  EXPECT_EQ(events(done.out, "stop").at(0).at("exit_code"), 3);
}

TEST_F(Run, RefusesPluginsThatFailAtStartWithTheirMessage) {
  const std::string plugin = test::binary_dir() + "/lib/bad/misbehave.so";
  for (const auto& [how, message] : std::map<std::string, std::string>{
           {"throw_create", "thrown in create"},
           {"throw_outputs", "thrown in outputs"},
           {"raw_throw_create",
            "camd.yaml:7:5: postprocess.0: plug-in " + plugin + ": threw an exception: thrown past the adaptor\n"},
           {"undeclared_output", "output"},
           {"too_many_detections",
            "misbehave.so: outputs() asked for room for 16385 detections a frame, 0 to 16384 can be had\n"}}) {
    const Finished done =
        run_camd({"run", config(camera("a", kShort),
                                "  - plugin: " + plugin + "\n    isolation: none\n    config: {how: " + how + "}\n")});
    EXPECT_EQ(done.code, 3) << how;
    EXPECT_THAT(done.err, HasSubstr(message)) << how;
  }
}

TEST_F(Run, ChecksDescribesAndExaminesWithoutRunning) {
  const Finished checked = run_camd({"check", config(camera("a", kShort))});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(checked.err, "");
  EXPECT_THAT(checked.out, StartsWith("ok\nmodel\n"));
  EXPECT_THAT(checked.out, HasSubstr("engine cpu"));
  EXPECT_EQ(run_camd({"version"}).code, 0);
  const Finished defaults = run_camd({"config"});
  EXPECT_EQ(defaults.code, 0);
  EXPECT_THAT(defaults.out, HasSubstr("cameras:"));
  EXPECT_TRUE(json::accept(run_camd({"config", "--schema"}).out));
  const Finished doctor = run_camd({"doctor", config(camera("a", kShort)), "--json"});
  EXPECT_TRUE(json::accept(doctor.out)) << doctor.out;
  EXPECT_THAT(run_camd({"plugin", test::binary_dir() + "/lib/camd_plugin_detections.so"}).out,
              HasSubstr("ABI version 1"));
  EXPECT_THAT(run_camd({"plugin", test::binary_dir() + "/lib/bad/misbehave.so"}).out,
              HasSubstr("\nextensions: camd.counters/1, camd.check/1\n"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::test
