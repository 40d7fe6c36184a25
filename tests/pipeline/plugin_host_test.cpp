#include "pipeline/plugin_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace {

using testing::HasSubstr;

// What a plug-in is refused with that asks for this.
std::string refusal(const std::function<void(test::FakePlugin&)>& ask) {
  const auto device = device::make_host_device(base::system_clock());
  test::FakeEngine engine(*device, [](const infer::PictureView&) { return base::Status(); });
  test::FakePlugin plugin(test::takes_it);
  ask(plugin);
  PluginHost plugins({}, base::system_clock());
  plugin.add_to(plugins);
  try {
    test::declare(plugins, engine);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kPlugin);
    return error.what();
  }
  return "";
}

TEST(PluginHost, RefusesWishesThatNobodyCanFulfil) {
  EXPECT_THAT(refusal([](test::FakePlugin& p) { p.output = 7; }),
              HasSubstr("plug-in fake: outputs() asked for need 7 of output 0"));
  EXPECT_THAT(refusal([](test::FakePlugin& p) { p.output = -1; }), HasSubstr("need -1"));
  EXPECT_THAT(refusal([](test::FakePlugin& p) { p.input = CAMD_NEED_DEVICE; }),
              HasSubstr("plug-in fake: the network's input can be had as NONE, SHAPE or HOST"));
  for (const int need : {int{CAMD_NEED_SHAPE}, int{CAMD_NEED_DEVICE}, 9}) {
    EXPECT_THAT(refusal([&](test::FakePlugin& p) { p.picture = need; }),
                HasSubstr("plug-in fake: the source picture can be had as NONE or HOST"));
  }
}

TEST(PluginHost, TakesEveryWishThatTheInterfaceNames) {
  for (const camd_need need : {CAMD_NEED_NONE, CAMD_NEED_SHAPE, CAMD_NEED_HOST, CAMD_NEED_DEVICE}) {
    EXPECT_EQ(refusal([&](test::FakePlugin& p) { p.output = need; }), "");
    if (need == CAMD_NEED_DEVICE) continue;
    EXPECT_EQ(refusal([&](test::FakePlugin& p) { p.input = need; }), "");
  }
  EXPECT_EQ(refusal([](test::FakePlugin& p) { p.picture = CAMD_NEED_HOST; }), "");
}

}  // namespace
}  // namespace camd::pipeline
