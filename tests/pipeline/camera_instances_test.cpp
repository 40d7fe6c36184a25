// Entries with an instance for each camera.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "tests/pipeline/plugin_chain.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using testing::HasSubstr;

PluginSpec for_each_camera(const std::string& how, const std::string& camera = "") {
  PluginSpec spec = isolated(how, 1);
  if (!camera.empty()) spec.config_json = fmt::format(R"({{"how":"{}","at":1,"camera":"{}"}})", how, camera);
  spec.for_each_camera = true;
  return spec;
}

TEST(CameraInstances, GiveEachCameraAProcessOfItsOwn) {
  Chain chain({for_each_camera("nothing")}, {}, {"door", "yard"});
  ASSERT_EQ(chain.process_of(0), "");
  const int door = chain.items[0].class_id;
  ASSERT_EQ(chain.process_of(1), "");
  EXPECT_NE(chain.items[0].class_id, door);
  EXPECT_NE(chain.items[0].class_id, getpid());
  ASSERT_EQ(chain.process_of(0), "");
  EXPECT_EQ(chain.items[0].class_id, door);
  EXPECT_EQ(chain.items[0].score, 0.25F);
  ASSERT_EQ(chain.host.counters().size(), 1U);
  EXPECT_EQ(chain.host.counters()[0].name, "faults");
  EXPECT_EQ(chain.host.counters()[0].counters.at(0).count, 3U);
  EXPECT_TRUE(chain.host.finish().empty());
}

TEST(CameraInstances, ShareTheProcessThatTheirWorkerNames) {
  PluginSpec spec = for_each_camera("nothing");
  spec.isolation.worker = "one";
  Chain chain({spec}, {}, {"door", "yard"});
  ASSERT_EQ(chain.process_of(0), "");
  const int door = chain.items[0].class_id;
  ASSERT_EQ(chain.process_of(1), "");
  EXPECT_EQ(chain.items[0].class_id, door);
}

TEST(CameraInstances, LoseFramesOfTheirOwnCameraAlone) {
  Chain chain({for_each_camera("crash", "door")}, never_given_up(), {"door", "yard"});
  ASSERT_EQ(chain.process_of(0), "");
  chain.sequence = 1;
  EXPECT_THAT(chain.process_of(0), HasSubstr("was killed by signal 11"));
  chain.sequence = 1;
  EXPECT_EQ(chain.process_of(1), "");
  const auto lost = static_cast<std::uint64_t>(chain.lost_until_back());
  EXPECT_EQ(chain.health().restarts, 1U);
  EXPECT_EQ(chain.health().frames_lost, lost + 1);
  EXPECT_EQ(chain.health().state, "running");
  const std::vector<CameraHealth> cameras = chain.host.counters()[0].cameras;
  ASSERT_EQ(cameras.size(), 2U);
  EXPECT_EQ(cameras[0].camera, "door");
  EXPECT_EQ(cameras[0].health.restarts, 1U);
  EXPECT_EQ(cameras[0].health.frames_lost, lost + 1);
  EXPECT_THAT(cameras[0].health.last_error, HasSubstr("was killed by signal 11"));
  EXPECT_EQ(cameras[1].camera, "yard");
  EXPECT_EQ(cameras[1].health.frames_lost, 0U);
  EXPECT_EQ(cameras[1].health.last_error, "");
}

TEST(CameraInstances, RunInThisProcessTooEachWithItsOwnCounters) {
  PluginSpec spec = for_each_camera("nothing");
  spec.isolation.isolation = Isolation::kNone;
  Chain chain({spec}, {}, {"door", "", "yard"});
  ASSERT_EQ(chain.process_of(0), "");
  ASSERT_EQ(chain.process_of(2), "");
  EXPECT_EQ(chain.items[0].class_id, getpid());
  EXPECT_EQ(chain.host.counters()[0].counters.at(0).count, 2U);
  EXPECT_THAT(chain.process_of(1), HasSubstr("has no instance for this camera"));
}

// Another host with the same entry, as a reload makes it.
struct Reload {
  Reload(const PluginSpec& spec, const PluginHost& running, std::vector<const char*> names)
      : cameras(std::move(names)), host({spec}, base::system_clock(), {}, running, true) {
    declare_model(host, cameras);
  }
  std::vector<const char*> cameras;
  PluginHost host;
};

TEST(CameraInstances, StayWhileCamerasComeAndGo) {
  const PluginSpec spec = for_each_camera("nothing");
  Chain chain({spec}, {}, {"door", "yard", "gate"});
  ASSERT_EQ(chain.process_of(0), "");
  const int door = chain.items[0].class_id;
  ASSERT_EQ(chain.process_of(1), "");
  const int yard = chain.items[0].class_id;
  {
    Reload next(spec, chain.host, {"door", "", "gate"});
    next.host.enter();
    EXPECT_TRUE(next.host.leave().empty());
    EXPECT_THAT(chain.process_of(1), HasSubstr("has no instance for this camera"));
    EXPECT_NE(kill(yard, 0), 0);  // its process has ended
  }
  {
    Reload next(spec, chain.host, {"door", "roof", "gate"});
    next.host.enter();
    EXPECT_TRUE(next.host.leave().empty());
    ASSERT_EQ(chain.process_of(1), "");
    EXPECT_NE(chain.items[0].class_id, yard);
  }
  ASSERT_EQ(chain.process_of(0), "");
  EXPECT_EQ(chain.items[0].class_id, door);
}

TEST(CameraInstances, StandBehindCamdAsFarAsTheirNiceSays) {
  [[maybe_unused]] const int nice = ::nice(3);  // camd, too, may stand behind others
  const int own = getpriority(PRIO_PROCESS, 0);
  PluginSpec spec = for_each_camera("nothing");
  spec.isolation.nice = 7;
  Chain chain({spec});
  ASSERT_EQ(chain.process(), "");
  const auto process = static_cast<id_t>(chain.items[0].class_id);
  EXPECT_EQ(getpriority(PRIO_PROCESS, process), std::min(own + 7, 19));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
