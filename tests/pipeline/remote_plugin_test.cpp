// Plug-ins in worker processes: what comes back, and what a fault costs.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/plugin_process/shared_memory.hpp"
#include "tests/pipeline/plugin_chain.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/python.hpp"
#include "tests/support/sanitized.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using test::kSanitized;
using testing::HasSubstr;
using testing::StartsWith;

TEST(RemotePlugin, ReadsTensorsInAnotherProcessWithoutACopy) {
  Chain chain({isolated("nothing")});
  ASSERT_EQ(chain.process(), "");
  ASSERT_EQ(chain.results.count, 1);
  EXPECT_EQ(chain.items[0].score, 0.25F);
  EXPECT_NE(chain.items[0].class_id, getpid());
  chain.values[0] = 0.5F;
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.items[0].score, 0.5F);
  EXPECT_EQ(chain.health().bytes_copied, 0U);
  EXPECT_EQ(chain.health().state, "running");
  ASSERT_EQ(chain.host.counters().front().counters.size(), 1U);
  EXPECT_EQ(chain.host.counters().front().counters[0].count, 2U);
  EXPECT_TRUE(chain.host.finish().empty());
}

TEST(RemotePlugin, CopiesAPictureThatLiesElsewhereAndCountsIt) {
  Chain chain({isolated("picture")});
  std::array<std::uint8_t, 64> pixels{};
  pixels[5] = 6;
  camd_picture picture{};
  picture.struct_size = sizeof(picture);
  picture.format = CAMD_PIXEL_GRAY8;
  picture.plane_count = 1;
  picture.planes[0] = {pixels.data(), 8, 8, 8};
  ASSERT_EQ(chain.process(&picture), "");
  EXPECT_EQ(chain.items[0].keypoint_count, 6);
  EXPECT_EQ(chain.health().bytes_copied, 64U);
}

TEST(RemotePlugin, ReadsAPictureInSharedMemoryWithoutACopyAndLetsItGo) {
  const auto files_mapped = [] {
    std::ifstream maps("/proc/self/maps");
    int files = 0;
    for (std::string line; std::getline(maps, line);) files += line.find("camd-frames") != std::string::npos ? 1 : 0;
    return files;
  };
  Chain chain({isolated("picture")});
  const int before = files_mapped();
  camd_picture picture{};
  picture.struct_size = sizeof(picture);
  picture.format = CAMD_PIXEL_NV12;
  picture.plane_count = 2;
  int pid = 0;
  for (int i = 1; i < 6; ++i) {  // each is in a file of its own
    const std::shared_ptr<std::byte> pixels = allocate_shared_alone(96);
    auto* const bytes = reinterpret_cast<std::uint8_t*>(pixels.get());
    bytes[5] = static_cast<std::uint8_t>(i);
    picture.planes[0] = {bytes, 8, 8, 8};
    picture.planes[1] = {bytes + 64, 8, 4, 4};
    for (int again = 0; again < 2; ++again) {
      ASSERT_EQ(chain.process(&picture), "");
      EXPECT_EQ(chain.items[0].keypoint_count, i);
    }
    EXPECT_EQ(files_mapped(), before + 1);
    pid = chain.items[0].class_id;
    if (i < 5) continue;
    // The next process sees it, too.
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    (void)chain.lost_until_back();
    ASSERT_EQ(chain.process(&picture), "");
    EXPECT_EQ(chain.items[0].keypoint_count, i);
    EXPECT_NE(chain.items[0].class_id, pid);
  }
  EXPECT_EQ(chain.health().bytes_copied, 0U);
}

TEST(RemotePlugin, SharesAProcessAmongPluginsOfOneWorker) {
  PluginSpec one = isolated("nothing"), two = isolated("nothing"), three = isolated("nothing");
  one.isolation.worker = two.isolation.worker = "both";
  Chain chain({one, two, three});
  ASSERT_EQ(chain.process(), "");
  ASSERT_EQ(chain.results.count, 3);
  EXPECT_EQ(chain.items[0].class_id, chain.items[1].class_id);
  EXPECT_NE(chain.items[0].class_id, chain.items[2].class_id);
}

TEST(RemotePlugin, AnswersTwentyCallersInTwentyProcessesAtOnce) {
  constexpr int kWorkers = 20, kCalls = 50;
  std::vector<std::unique_ptr<Chain>> chains;
  for (int i = 0; i < kWorkers; ++i) {
    chains.push_back(std::make_unique<Chain>(std::vector{isolated("nothing")}));
    chains.back()->values[0] = static_cast<float>(i);
  }
  std::barrier together(kWorkers);
  std::vector<std::thread> threads;
  for (int i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&together, &chain = *chains[static_cast<std::size_t>(i)], i] {
      for (int call = 0; call < kCalls; ++call) {
        together.arrive_and_wait();
        EXPECT_EQ(chain.process(), "");
        EXPECT_EQ(chain.items[0].score, static_cast<float>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int> processes;
  for (const auto& chain : chains) {
    processes.insert(chain->items[0].class_id);
    EXPECT_EQ(chain->health().bytes_copied, 0U);
    EXPECT_EQ(chain->host.counters().front().counters.at(0).count, static_cast<std::uint64_t>(kCalls));
  }
  EXPECT_EQ(processes.size(), static_cast<std::size_t>(kWorkers));
}

struct Fault {
  const char* how;
  const char* message;  // of the frame that is inside
  bool restarts;
};

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, CostsTheFrameThatIsInsideAndThoseUntilTheProcessIsBack) {
  const Fault& fault = GetParam();
  PluginSpec spec = isolated(fault.how, 3);
  if (std::string(fault.how) == "hang") spec.isolation.deadline = std::chrono::milliseconds(100);
  if (std::string(fault.how) == "memory") {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is beyond any bound";
    spec.isolation.memory_bytes = std::uint64_t{64} << 20;
  }
  Chain chain({spec}, never_given_up());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(chain.process(), "");
  const int before = chain.items[0].class_id;
  EXPECT_THAT(chain.process(), HasSubstr(fault.message));
  const int lost = chain.lost_until_back();
  EXPECT_EQ(chain.items[0].class_id != before, fault.restarts);
  const PluginHealth health = chain.health();
  EXPECT_EQ(health.restarts, fault.restarts ? 1U : 0U);
  EXPECT_EQ(health.frames_lost, fault.restarts ? static_cast<std::uint64_t>(lost) + 1 : 0U);
  EXPECT_EQ(health.deadline_missed, std::string(fault.how) == "hang" ? 1U : 0U);
  EXPECT_THAT(health.last_error, HasSubstr(fault.restarts ? fault.message : ""));
  EXPECT_TRUE(chain.host.finish().empty());
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, Faults,
                         testing::Values(Fault{"crash", "was killed by signal 11", true},
                                         Fault{"abort", "was killed by signal 6", true},
                                         Fault{"exit", "exited with code 0", true},
                                         Fault{"kill", "was killed by signal 9", true},
                                         Fault{"hang", "did not return within its deadline of 100 ms", true},
                                         Fault{"memory", "memory: allows 64 MiB", true},
                                         Fault{"writes_input", "was killed by signal 11", true},
                                         Fault{"fork", "Resource temporarily unavailable", false},
                                         Fault{"threads", "threads, 512 are allowed", true},
                                         Fault{"flood", "left a count of detections outside 0..capacity", false}),
                         [](const auto& fault) { return std::string(fault.param.how); });

// Some of what it writes passes for an answer, and is checked as one; the rest fails its frame. Its own process may end
// by it (a sanitizer there sees to that).
TEST(RemotePlugin, GainsNothingByWritingIntoItsAnswersAllTheTime) {
  Chain chain({isolated("scribble", 0)}, never_given_up());
  int good = 0, failed = 0;
  // It begins some time after the first call.
  while (good == 0 || failed == 0 || good + failed < 2000) {
    const std::string problem = chain.process();
    (problem.empty() ? good : failed) += 1;
    if (!problem.empty()) continue;
    ASSERT_GE(chain.results.count, 0);
    ASSERT_LE(chain.results.count, chain.results.capacity);
    ASSERT_EQ(chain.results.items, chain.items.data());
    const std::vector<camd_detection> kept(chain.items.begin(), chain.items.begin() + chain.results.count);
    for (const camd_detection& one : kept) {
      ASSERT_TRUE(std::isfinite(one.score) && std::isfinite(one.box[0]) && std::isfinite(one.box[3]));
      ASSERT_NE(std::memchr(one.class_name, 0, sizeof(one.class_name)), nullptr);
      ASSERT_NE(std::memchr(one.text, 0, sizeof(one.text)), nullptr);
      ASSERT_LE(one.keypoint_count, CAMD_MAX_KEYPOINTS);
    }
    std::this_thread::yield();
    // What was taken is a copy that it cannot reach.
    ASSERT_TRUE(kept.empty() || std::memcmp(kept.data(), chain.items.data(), kept.size() * sizeof(kept[0])) == 0);
  }
}

TEST(RemotePlugin, HasNothingOpenButWhatItSharesWithCamdAndGetsNoNewRights) {
  const int inherited = open("/", O_RDONLY | O_DIRECTORY);  // NOLINT(android-cloexec-open): a careless host's
  ASSERT_GE(inherited, 0);
  Chain chain({isolated("rights", 0)});
  const std::string told = chain.process();
  close(inherited);
  ASSERT_THAT(told, HasSubstr("no_new_privs 1 seccomp 2 "));
  std::istringstream words(told.substr(told.find("seccomp 2 ") + 10));
  std::set<std::string> open_things;
  for (std::string word; words >> word;) open_things.insert(word);
  open_things.erase("stderr");
  EXPECT_THAT(open_things, testing::IsSubsetOf(std::set<std::string>{"/dev/null", "socket", "/memfd:camd-order",
                                                                     "/memfd:camd-orders", "/memfd:camd-answers",
                                                                     "/memfd:camd-frames"}));
}

TEST(RemotePlugin, PassesFramesThroughMarkedWhereThatIsAskedFor) {
  PluginSpec first = isolated("crash", 1);
  first.isolation.on_failure = OnFailure::kPassThrough;
  Chain chain({first, isolated("nothing")}, never_given_up());
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.results.count, 2);
  ASSERT_EQ(chain.process(), "");  // the frame in which the first one dies
  EXPECT_EQ(chain.results.count, 1);
  EXPECT_EQ(chain.health().frames_lost, 1U);
}

TEST(RemotePlugin, IsGivenUpAfterTooManyDeathsAndSaysSoAtTheEnd) {
  PluginHostOptions options;
  options.restart.most_deaths = 0;
  std::atomic<int> given_up = 0;
  options.on_give_up = [&given_up] { ++given_up; };
  PluginSpec spec = isolated("crash", 0);
  spec.isolation.on_failure = OnFailure::kStop;
  Chain chain({spec}, std::move(options));
  EXPECT_THAT(chain.process(), HasSubstr("was killed by signal 11"));
  while (given_up == 0) std::this_thread::yield();
  EXPECT_THAT(chain.process(), HasSubstr("has no process at the moment"));
  const std::vector<std::string> problems = chain.host.finish();
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("was given up: its process was killed by signal 11"));
  EXPECT_EQ(given_up, 1);
}

std::string refusal(const PluginSpec& spec, PluginHostOptions options = {}) {
  try {
    const Chain chain({spec}, std::move(options));
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

TEST(RemotePlugin, NamesThePluginThatCannotBeSetUp) {
  EXPECT_EQ(refusal(isolated("refuse")), "plug-in " + library("faults") + ": config: no");
  EXPECT_THAT(refusal(isolated("crash_create")),
              testing::AllOf(StartsWith("plug-in " + library("faults") + ": its process was killed by signal 11"),
                             HasSubstr("in create()")));
  PluginHostOptions hasty;
  hasty.patience.longest = std::chrono::seconds(1);
  EXPECT_THAT(refusal(isolated("hang_outputs"), std::move(hasty)),
              HasSubstr("() within 1000 ms, and its process was ended"));
  PluginSpec none = isolated("nothing");
  none.plugin = library("no_symbol");
  EXPECT_THAT(refusal(none), StartsWith("plug-in " + library("no_symbol") + ": exports no symbol camd_plugin_v1"));
}

TEST(RemotePlugin, NamesTheBuiltinThatWasMeant) {
  PluginSpec spec;
  spec.plugin = "trak";
  EXPECT_THAT(refusal(spec), StartsWith("plug-in trak: is no built-in, did you mean track? (built-ins are "));
  spec.isolation.isolation = Isolation::kProcess;
  EXPECT_THAT(refusal(spec), StartsWith("plug-in trak: is no built-in, did you mean track? (built-ins are "));
  spec.plugin = "something";
  EXPECT_THAT(refusal(spec), StartsWith("plug-in something: is no built-in (built-ins are "));
}

TEST(RemotePlugin, SaysWhichGrantMendsWhatIsDenied) {
  PluginSpec spec = isolated("opens", 0);
  const std::string folder = testing::TempDir() + "remote_plugin_files/";
  std::filesystem::create_directories(folder);
  spec.config_json = fmt::format(R"({{"how":"opens","at":0,"path":"{}out.txt"}})", folder);
  {
    Chain chain({spec});
    EXPECT_THAT(chain.process(), HasSubstr("cannot write (it is confined and may not write " + folder +
                                           "out.txt: allow: [\"files: " + folder + "\"])"));
  }
  spec.isolation.files = {folder};
  {
    Chain chain({spec});
    EXPECT_EQ(chain.process(), "");
  }
  PluginSpec network = isolated("connects", 0);
  {
    Chain chain({network});
    EXPECT_THAT(chain.process(), HasSubstr("no socket (it is confined and may not use the network: allow: [network])"));
  }
  network.isolation.network = true;
  Chain chain({network});
  EXPECT_EQ(chain.process(), "");
}

TEST(RemotePlugin, TellsWhatBecameOfItsMessagesAndDropsThoseThatWaitedAtItsDeath) {
  Chain chain({isolated("outlet", 3)}, never_given_up());
  const auto row = [&chain] { return chain.host.counters().front().outlet.at(0); };
  ASSERT_EQ(chain.process(), "");
  ASSERT_EQ(chain.process(), "");
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(row().camera, "door");
  EXPECT_EQ(row().taken, 3U);
  EXPECT_EQ(row().acknowledged, 1U);
  EXPECT_EQ(row().waiting, 2U);
  EXPECT_NE(chain.process(), "");
  (void)chain.lost_until_back();
  EXPECT_EQ(row().taken, 4U);
  EXPECT_EQ(row().acknowledged, 2U);
  EXPECT_EQ(row().waiting, 0U);
  EXPECT_EQ(row().dropped, (std::vector<std::pair<std::string, std::uint64_t>>{{"process_ended", 2}}));
}

TEST(RemotePlugin, EndsAProcessWhoseDestroyHangs) {
  Chain chain({isolated("hang_destroy")});
  const std::vector<std::string> problems = chain.host.finish();
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("did not return from destroy() within 1000 ms, and its process was ended"));
  EXPECT_FALSE(chain.host.hangs());
}

TEST(RemotePlugin, GivesDestroyItsTimeWhenCamdIsAskedToStop) {
  std::atomic<bool> asked{false};
  PluginHostOptions options;
  options.patience.stop_asked = [&asked] { return asked.load(); };
  Chain chain({isolated("nothing")}, options);
  ASSERT_EQ(chain.process(), "");
  asked = true;
  EXPECT_THAT(chain.host.finish(), testing::IsEmpty());
}

int descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST(RemotePlugin, GivesAnObjectANumberThatNoneHadBeforeARestart) {
  PluginSpec track;
  track.plugin = test::binary_dir() + "/lib/camd_plugin_track.so";
  track.config_json = R"({"confirm":1})";
  track.isolation.isolation = Isolation::kProcess;
  track.isolation.worker = "both";
  PluginSpec crash = isolated("exit", 1);
  crash.isolation.worker = "both";
  PluginHostOptions options = never_given_up();
  options.latest->store(4);  // as after four reloads; the other one gets 5
  Chain chain({crash, track}, std::move(options));
  chain.values[0] = 0.9F;  // the score
  ASSERT_EQ(chain.process(), "");
  const std::uint64_t before = chain.items[0].track_id;
  EXPECT_EQ(before, 1U);
  EXPECT_THAT(chain.process(), HasSubstr("exited with code 0"));
  (void)chain.lost_until_back();
  EXPECT_EQ(chain.items[0].track_id, (std::uint64_t{6} << 32U) + 1);
}

TEST(RemotePlugin, LeavesNoDescriptorBehindAfterManyDeaths) {
  Chain chain({isolated("exit", 0)}, never_given_up());
  (void)chain.process();
  (void)chain.lost_until_back();
  const int before = descriptors();
  for (int i = 0; i < 20; ++i) {
    chain.sequence = 0;
    EXPECT_THAT(chain.process(), HasSubstr("exited with code 0"));
    (void)chain.lost_until_back();
  }
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(chain.health().restarts, 21U);
}

// ---- Python

PluginSpec python(const std::string& how, std::uint64_t at = ~0ULL) {
  PluginSpec spec = isolated(how, at);
  spec.plugin = test::source_dir() + "/tests/plugins/python/faults.py";
  spec.config_json = fmt::format(R"({{"how":"{}","at":{}}})", how, at == ~0ULL ? -1 : static_cast<int>(at));
  spec.isolation.python = test::python();
  return spec;
}

class PythonPlugin : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "an interpreter without the sanitizer cannot load a library with it";
    static const bool has_numpy = test::python_has("numpy");
    if (!has_numpy) GTEST_SKIP() << test::python() << " has no NumPy (python3-numpy)";
  }
};

TEST_F(PythonPlugin, SeesTensorsAndPicturesAndAddsDetectionsAndEvents) {
  Chain chain({python("picture")});
  std::array<std::uint8_t, 48> pixels{};
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  camd_picture picture{};
  picture.struct_size = sizeof(picture);
  picture.format = CAMD_PIXEL_BGR;
  picture.plane_count = 1;
  picture.planes[0] = {pixels.data(), 24, 8, 2};
  ASSERT_EQ(chain.process(&picture, 8, 2), "");
  ASSERT_EQ(chain.results.count, 1);
  EXPECT_EQ(chain.items[0].score, 0.25F);
  EXPECT_STREQ(chain.items[0].class_name, "thing");
  EXPECT_STREQ(chain.items[0].text, "BGR (2, 8, 3) [3 4 5]");
  EXPECT_EQ(chain.items[0].keypoint_count, 1);
  EXPECT_EQ(chain.items[0].keypoints[0][1], 6.0F);
  EXPECT_NE(chain.items[0].class_id, getpid());
  EXPECT_TRUE(chain.host.finish().empty());
}

TEST_F(PythonPlugin, SeesTheListAsAnArrayAndAsObjectsAndChangesIt) {
  PluginSpec second = python("");
  second.plugin = test::source_dir() + "/tests/plugins/python/interface.py";
  second.config_json = R"({"keep":0.5})";
  Chain chain({python("nothing"), second});
  std::array<std::uint8_t, 48> pixels{};
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  camd_picture picture{};
  picture.struct_size = sizeof(picture);
  picture.format = CAMD_PIXEL_BGR;
  picture.plane_count = 1;
  picture.planes[0] = {pixels.data(), 24, 8, 2};
  EXPECT_EQ(chain.results.capacity, 0);
  ASSERT_EQ(chain.process(&picture, 8, 2), "");
  EXPECT_EQ(chain.results.capacity, 600);
  ASSERT_EQ(chain.results.count, 2);
  EXPECT_EQ(chain.items[0].track_id, 7U);
  EXPECT_EQ(chain.items[0].score, 0.75F);
  EXPECT_STREQ(chain.items[0].class_name, "thing");
  EXPECT_EQ(chain.items[1].class_id, 2);
  EXPECT_STREQ(chain.items[1].class_name, "added");
  EXPECT_EQ(chain.items[1].box[3], 8.0F);
  ASSERT_EQ(chain.process(&picture, 8, 2), "");
  EXPECT_EQ(chain.results.count, 0);
  EXPECT_THAT(chain.host.finish(), testing::ElementsAre(HasSubstr("RuntimeError: finished after 2 frames")));
}

TEST_F(PythonPlugin, HandsTensorsToOthersByDlpackWithoutACopyAndKeepsNoneOfThem) {
  Chain chain({python("dlpack")});
  ASSERT_EQ(chain.process(), "");
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.items[0].score, 0.25F);
  EXPECT_EQ(chain.items[0].class_id, 0);
  EXPECT_EQ(chain.health().bytes_copied, 0U);
}

TEST_F(PythonPlugin, HandsTensorsToPyTorchWithoutACopyAndKeepsNoneOfThem) {
  if (!test::python_has("torch")) {
    GTEST_SKIP() << test::python() << " has no PyTorch (python3-torch); CAMD_TEST_PYTHON names another interpreter";
  }
  PluginSpec spec = python("torch");
  spec.isolation.deadline = std::chrono::seconds(60);  // importing it takes seconds
  Chain chain({spec});
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.items[0].score, 0.25F);
  chain.values[0] = 0.5F;
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.items[0].score, 0.5F);
  EXPECT_EQ(chain.items[0].class_id, 0);
  EXPECT_EQ(chain.health().bytes_copied, 0U);
}

TEST_F(PythonPlugin, RunsInEachPythonThatIsInstalled) {
  int found = 0;
  for (int minor = 9; minor < 20; ++minor) {
    PluginSpec spec = python("nothing");
    spec.isolation.python = fmt::format("python3.{}", minor);
    if (std::system((spec.isolation.python + " -c 'import numpy' 2>/dev/null").c_str()) != 0) continue;
    Chain chain({spec});
    EXPECT_EQ(chain.process(), "") << spec.isolation.python;
    EXPECT_EQ(chain.items[0].score, 0.25F) << spec.isolation.python;
    ++found;
  }
  if (found < 2) GTEST_SKIP() << "there is no second Python with NumPy, such as python3.12";
}

TEST_F(PythonPlugin, TurnsExceptionsIntoFailuresOfTheirFrame) {
  for (const auto& [how, message] : std::vector<std::pair<std::string, std::string>>{
           {"throw", "ValueError: no good"},
           {"write", "ValueError: assignment destination is read-only"},
           {"open", "(it is confined: allow: [\"files: "},
           {"temporary", "(it is confined: allow: [\"files: /tmp/\"])"},
           {"exit", "SystemExit: 0"},
           {"fork", "BlockingIOError: [Errno 11] Resource temporarily unavailable"}}) {
    Chain chain({python(how, 1)});
    ASSERT_EQ(chain.process(), "");
    EXPECT_THAT(chain.process(), HasSubstr(message));
    ASSERT_EQ(chain.process(), "");
    EXPECT_EQ(chain.health().restarts, 0U);
  }
}

TEST_F(PythonPlugin, ComesBackAfterItsProcessHasEnded) {
  for (const auto& [how, message] :
       std::vector<std::pair<std::string, std::string>>{{"crash", "was killed by signal 11"},
                                                        {"os_exit", "exited with code 0"},
                                                        {"hang", "did not return within its deadline of 500 ms"}}) {
    PluginSpec spec = python(how, 1);
    if (how == "hang") spec.isolation.deadline = std::chrono::milliseconds(500);
    Chain chain({spec}, never_given_up());
    ASSERT_EQ(chain.process(), "");
    EXPECT_THAT(chain.process(), HasSubstr(message));
    (void)chain.lost_until_back();
    EXPECT_EQ(chain.health().restarts, 1U);
  }
}

TEST_F(PythonPlugin, IsRefusedWithItsOwnWords) {
  EXPECT_THAT(refusal(python("refuse")), testing::EndsWith("faults.py: ValueError: config: no"));
  EXPECT_THAT(refusal(python("wrong_output")),
              testing::EndsWith("outputs(): the model has no output 'nowhere', it has out"));
  PluginSpec none = python("nothing");
  none.isolation.python = "/nowhere/python";
  EXPECT_THAT(refusal(none), HasSubstr("faults.py: its process "));
}

TEST(SharedMemory, GivesPiecesBackAndKnowsWhereTheyLie) {
  std::shared_ptr<std::byte> one = allocate_shared(100);
  const std::shared_ptr<std::byte> two = allocate_shared(5000);
  const auto place = shared_place(one.get() + 99);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->offset % 4096, 99U);
  EXPECT_EQ(shared_place(one.get())->region->id, shared_place(two.get())->region->id);
  const std::byte* const address = one.get();
  one = nullptr;
  EXPECT_FALSE(shared_place(address).has_value());
  EXPECT_EQ(allocate_shared(4096).get(), address);
  int elsewhere = 0;
  EXPECT_FALSE(shared_place(&elsewhere).has_value());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
