// Plug-ins in worker processes: what comes back, and what a fault costs.
#include <dirent.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/plugin_process/shared_memory.hpp"
#include "pipeline/run/plugin_host.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string library(const std::string& name) { return test::binary_dir() + "/lib/bad/" + name + ".so"; }

PluginSpec isolated(const std::string& how, std::uint64_t at = ~0ULL) {
  PluginSpec spec;
  spec.plugin = library("faults");
  spec.config_json = fmt::format(R"({{"how":"{}","at":{}}})", how, at);
  spec.isolation.isolation = Isolation::kProcess;
  spec.isolation.deadline = std::chrono::seconds(20);
  return spec;
}

// A chain with one frame in flight, whose one output lies in shared memory.
class Chain {
 public:
  explicit Chain(std::vector<PluginSpec> specs, PluginHostOptions options = {})
      : host(specs, base::system_clock(), std::move(options)) {
    shape_ = {1, 4};
    camd_tensor_spec output{"out", 2, shape_.data(), {kDLFloat, 32, 1}};
    camd_model model{};
    model.struct_size = sizeof(model);
    model.path = "fake.onnx";
    model.card_json = "{}";
    model.input = output;
    model.output_count = 1;
    model.outputs = &output;
    host.declare(model);
    memory_ = host.shared_memory(sizeof(float) * 4);
    values = memory_ == nullptr ? own_.data() : reinterpret_cast<float*>(memory_.get());
    values[0] = 0.25F;
    DLTensor tensor{};
    tensor.data = values;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 2;
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shape_.data();
    tensors_.host = {tensor};
    tensors_.device = {tensor};
    items.resize(static_cast<std::size_t>(host.needs().detections));
    frame_ = host.prepare(tensors_);
  }
  ~Chain() { frame_ = nullptr; }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // What went wrong with the next frame; empty when all is well.
  std::string process(const camd_picture* picture = nullptr, std::int32_t width = 0, std::int32_t height = 0) {
    camd_frame frame{};
    frame.struct_size = sizeof(frame);
    frame.camera = "door";
    frame.sequence = sequence++;
    frame.picture = picture;
    frame.width = width;
    frame.height = height;
    results = {sizeof(results), static_cast<std::int32_t>(items.size()), 0, items.data()};
    return std::string(frame_->process(frame, results).message());
  }
  // Frames that are lost until one comes through again.
  int lost_until_back() {
    int lost = 0;
    while (!process().empty()) {
      ++lost;
      std::this_thread::yield();
    }
    return lost;
  }
  PluginHealth health() { return host.counters().front().health; }

  PluginHost host;
  float* values = nullptr;
  camd_results results{};
  std::vector<camd_detection> items;
  std::uint64_t sequence = 0;

 private:
  std::vector<std::int64_t> shape_;
  std::array<float, 4> own_{};
  std::shared_ptr<std::byte> memory_;
  FrameTensors tensors_;
  std::unique_ptr<FramePostprocessing> frame_;
};

PluginHostOptions never_given_up() {
  PluginHostOptions options;
  options.restart.second = options.restart.longest = base::Duration(0);
  options.restart.most_deaths = 1 << 20;
  return options;
}

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

TEST(RemotePlugin, SharesAProcessAmongPluginsOfOneWorker) {
  PluginSpec one = isolated("nothing"), two = isolated("nothing"), three = isolated("nothing");
  one.isolation.worker = two.isolation.worker = "both";
  Chain chain({one, two, three});
  ASSERT_EQ(chain.process(), "");
  ASSERT_EQ(chain.results.count, 3);
  EXPECT_EQ(chain.items[0].class_id, chain.items[1].class_id);
  EXPECT_NE(chain.items[0].class_id, chain.items[2].class_id);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAMD_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CAMD_TEST_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

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

TEST(RemotePlugin, EndsAProcessWhoseDestroyHangs) {
  Chain chain({isolated("hang_destroy")});
  const std::vector<std::string> problems = chain.host.finish();
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr("did not return from destroy() within 1000 ms, and its process was ended"));
  EXPECT_FALSE(chain.host.hangs());
}

int descriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
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

constexpr const char* kPython = "/usr/bin/python3";

PluginSpec python(const std::string& how, std::uint64_t at = ~0ULL) {
  PluginSpec spec = isolated(how, at);
  spec.plugin = test::source_dir() + "/tests/plugins/python/faults.py";
  spec.config_json = fmt::format(R"({{"how":"{}","at":{}}})", how, at == ~0ULL ? -1 : static_cast<int>(at));
  spec.isolation.python = kPython;
  return spec;
}

class PythonPlugin : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "an interpreter without the sanitizer cannot load a library with it";
    static const int has_numpy = std::system((std::string(kPython) + " -c 'import numpy' 2>/dev/null").c_str());
    if (has_numpy != 0) GTEST_SKIP() << kPython << " has no NumPy (python3-numpy)";
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

TEST_F(PythonPlugin, TurnsExceptionsIntoFailuresOfTheirFrame) {
  for (const auto& [how, message] : std::vector<std::pair<std::string, std::string>>{
           {"throw", "ValueError: no good"},
           {"write", "ValueError: assignment destination is read-only"},
           {"open", "(it is confined: allow: [\"files: "},
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

}  // namespace
}  // namespace camd::pipeline
