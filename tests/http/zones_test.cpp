// The zones of a configuration, for those who draw them.
#include "apps/http/zones.hpp"

#include <gtest/gtest.h>

namespace camd::http {
namespace CAMD_TEST_FILE {

std::string zones_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<config::Postprocessor> made;
  for (const auto& [plugin, config] : entries) {
    config::Postprocessor& one = made.emplace_back();
    one.plugin = plugin;
    one.config_json = config;
  }
  return zones_json(made);
}

TEST(Zones, AreThoseOfAllEntriesInSharesOfThePicture) {
  EXPECT_EQ(zones_of({{"zones", R"({"picture":[200,100],"zones":[{"name":"a","polygon":[[20,50],[200,50],[0,100]]}]})"},
                      {"detections", R"({"zones":[{"name":"no","polygon":[[0,0],[1,0],[0,1]]}]})"},
                      {"zones", R"({"lines":[{"name":"b \"","camera":"door","from":[0,0.5],"to":[1,0.25]}]})"}}),
            R"({"zones":[{"name":"a","polygon":[[0.1,0.5],[1.0,0.5],[0.0,1.0]]}],)"
            R"("lines":[{"name":"b \"","camera":"door","from":[0.0,0.5],"to":[1.0,0.25]}]})"
            "\n");
}

TEST(Zones, LeaveOutWhatIsNone) {
  const std::string none = "{\"zones\":[],\"lines\":[]}\n";
  EXPECT_EQ(zones_of({}), none);
  for (const std::string wrong :
       {"", "[]", "{", R"({"zones":7})", R"({"zones":[7]})", R"({"zones":[{"polygon":[[0,0]]}]})",
        R"({"zones":[{"name":"a","polygon":[]}]})", R"({"zones":[{"name":"a","polygon":[[1]]}]})",
        R"({"lines":[{"name":"a","from":["x",1]}]})", R"({"picture":["x",1],"zones":[]})", R"({"picture":[]})"}) {
    EXPECT_EQ(zones_of({{"zones", wrong}}), none) << wrong;
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::http
