// Plug-ins that do not return: a stop and a reload have a bound, name them, and account for every frame.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "tests/pipeline/rig.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using test::dropped;
using test::FakePlugin;
using test::Gate;
using test::Rig;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// So little that nothing but a hanging plug-in is waited for.
constexpr base::Duration kNoPatience = std::chrono::milliseconds(1);

class HangingPlugin : public test::OnStreams {
 protected:
  HangingPlugin() { plugin_.add_to(rig_.plugins); }
  ~HangingPlugin() override {
    leave_.open();
    rig_.made.reset();
  }

  Gate entered_, leave_;
  FakePlugin plugin_{[this](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    if (frame.camera_index == 0) {
      entered_.open();
      leave_.wait();
    }
    return static_cast<int>(CAMD_OK);
  }};
  Rig rig_;
};
INSTANTIATE_TEST_SUITE_P(Streams, HangingPlugin, testing::Values(false, true), test::name_of_streams);

// A stop waited for it until the process was given up, without totals.
TEST_P(HangingPlugin, IsLeftBehindAtTheEndWithItsFrameAsPluginErrorAndTheOthersAsShutdown) {
  Gate published;
  Pipeline& pipeline = rig_.make({test::fake_camera("door", [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    (void)test::publish_frame(ring, rig_.clock.now());
    entered_.wait();
    (void)test::publish_frame(ring, rig_.clock.now());
    while (ring.has_ready()) std::this_thread::yield();
    (void)test::publish_frame(ring, rig_.clock.now());
    published.open();
  })});
  pipeline.start();
  published.wait();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(pipeline.stop(true, kNoPatience));
  (void)base::flush_log(std::chrono::seconds(10));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("camera door: plug-in fake: hangs in process() and is left behind"));
  EXPECT_EQ(pipeline.state(), PipelineState::kStopped);
  const Totals totals = pipeline.ledger().totals();
  EXPECT_TRUE(totals.balanced());
  EXPECT_EQ(totals.captured, 3U);
  EXPECT_EQ(totals.delivered, 0U);
  EXPECT_EQ(totals.in_flight, 0);
  EXPECT_EQ(dropped(totals, DropReason::kPluginError), 1U);
  EXPECT_EQ(dropped(totals, DropReason::kShutdown), 2U);
  // What comes of it later is not told any more.
  leave_.open();
  rig_.made->stop(true);
  EXPECT_EQ(pipeline.ledger().totals().delivered, 0U);
}

TEST_P(HangingPlugin, IsNamedWithItsCameraAndThoseThatReturnAreNot) {
  Gate more;
  Pipeline& pipeline = rig_.make({test::fake_camera("door", [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    (void)test::publish_frame(ring, rig_.clock.now());
    more.wait();
  })});
  pipeline.start();
  entered_.wait();
  EXPECT_THAT(pipeline.hanging(kNoPatience),
              ElementsAre("plug-in fake: has not returned from process() with a frame of camera door"));
  leave_.open();
  EXPECT_THAT(pipeline.hanging(std::chrono::hours(1)), IsEmpty());
  more.open();
  EXPECT_TRUE(pipeline.stop(true, std::chrono::hours(1)));
  EXPECT_EQ(pipeline.ledger().totals().delivered, 1U);
}

// ---- The end of a plug-in

// Plug-ins whose end is told, in its order, and one that waits for a gate in its destroy().
struct Ends {
  static std::vector<std::string>& told() {
    static std::vector<std::string> all;
    return all;
  }
  static Gate& gate() {  // what is left behind comes out of it after the test
    static Gate the_gate;
    return the_gate;
  }
  static camd_plugin table(const char* name, std::int32_t (*destroy)(void*, camd_error*)) {
    camd_plugin made = FakePlugin(test::takes_it).table;
    made.name = name;
    made.destroy = destroy;
    return made;
  }
  static std::int32_t first(void*, camd_error*) {
    told().emplace_back("first");
    return CAMD_OK;
  }
  static std::int32_t hangs(void*, camd_error*) {
    gate().wait();
    return CAMD_OK;
  }
  static std::int32_t last(void*, camd_error*) {
    told().emplace_back("last");
    return CAMD_OK;
  }
};

TEST(PluginHostEnd, FinishesTheOthersAndNamesTheOneWhoseDestroyHangs) {
  Ends::told().clear();
  FakePlugin instance(test::takes_it);
  const std::string config = std::to_string(reinterpret_cast<std::uintptr_t>(&instance));
  const camd_plugin first = Ends::table("first", &Ends::first), hangs = Ends::table("stuck", &Ends::hangs),
                    last = Ends::table("last", &Ends::last);
  {
    PluginHost host({}, base::system_clock());
    host.add(first, config);
    host.add(hangs, config);
    host.add(last, config);
    // Long enough for the threads of the other two, however busy the machine is.
    EXPECT_THAT(host.finish(std::chrono::seconds(1)),
                ElementsAre("plug-in stuck: hangs in destroy(): it is left behind, not finished"));
    EXPECT_TRUE(host.hangs());
    EXPECT_THAT(Ends::told(), ElementsAre("last", "first"));
    EXPECT_THAT(host.finish(), IsEmpty());
  }
  Ends::gate().open();
}

// ---- The beginning of a plug-in

class PluginHostSetUp : public ::testing::Test {
 protected:
  static std::string misbehave() { return test::binary_dir() + "/lib/bad/misbehave.so"; }
  PluginHostSetUp() {
    void* const library = dlopen(misbehave().c_str(), RTLD_NOW);
    set_gate_ = reinterpret_cast<void (*)(int)>(dlsym(library, "misbehave_set_gate"));
    wait_entered_ = reinterpret_cast<void (*)(std::int64_t)>(dlsym(library, "misbehave_wait_entered"));
    set_gate_(0);
    enough_ = std::thread([this] {
      wait_entered_(1);
      asked_ = true;
    });
  }
  ~PluginHostSetUp() override {
    enough_.join();
    set_gate_(1);
    while (plugin_threads_left_behind()) std::this_thread::yield();
  }
  static std::vector<PluginSpec> spec(const std::string& how) {
    return {{misbehave(), "{\"how\":\"" + how + "\"}", "c.yaml:4:5: postprocess.0"}};
  }
  // For ever, but for somebody who wants to stop once the plug-in is at its gate.
  PluginHostOptions options() {
    return {0, {std::chrono::hours(1), [this] { return asked_.load(); }, std::chrono::milliseconds(20)}};
  }

  void (*set_gate_)(int) = nullptr;
  void (*wait_entered_)(std::int64_t) = nullptr;
  std::atomic<bool> asked_ = false;
  std::thread enough_;
};

// The start, or the reload, waited for it for ever.
TEST_F(PluginHostSetUp, NamesOneThatHangsInCreateAndLeavesItBehind) {
  const std::string named = "c.yaml:4:5: postprocess.0: plug-in " + misbehave() +
                            ": hangs in create(), or while its library is loaded: it is left behind";
  for (const PluginHostOptions& patience : {options(), PluginHostOptions{0, {std::chrono::milliseconds(20), {}}}}) {
    try {
      const PluginHost host(spec("gate_create"), base::system_clock(), patience);
      FAIL();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kPlugin);
      EXPECT_EQ(std::string(error.what()), named);
    }
    EXPECT_TRUE(plugin_threads_left_behind());
  }
}

TEST_F(PluginHostSetUp, NamesOneThatHangsInOutputsAndLeavesItBehind) {
  const auto device = device::make_host_device(base::system_clock());
  test::FakeEngine engine(*device, [](const infer::PictureView&) { return base::Status(); });
  PluginHost host(spec("gate_outputs"), base::system_clock(), options());
  try {
    test::declare(host, engine);
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "c.yaml:4:5: postprocess.0: plug-in " + misbehave() + ": hangs in outputs(): it is left behind");
  }
  EXPECT_TRUE(host.hangs());
  EXPECT_TRUE(plugin_threads_left_behind());
  EXPECT_THAT(host.finish(), IsEmpty());  // it is told, and nobody waits for it again
}

TEST(PluginHostEnd, WaitsForOneThatReturns) {
  Ends::told().clear();
  FakePlugin instance(test::takes_it);
  const std::string config = std::to_string(reinterpret_cast<std::uintptr_t>(&instance));
  const camd_plugin first = Ends::table("first", &Ends::first), last = Ends::table("last", &Ends::last);
  PluginHost host({}, base::system_clock());
  host.add(first, config);
  host.add(last, config);
  EXPECT_THAT(host.finish(std::chrono::hours(1)), IsEmpty());
  EXPECT_FALSE(host.hangs());
  EXPECT_THAT(Ends::told(), ElementsAre("last", "first"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
