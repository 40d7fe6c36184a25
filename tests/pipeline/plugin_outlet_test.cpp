// What plug-ins tell of their messages: taken only where it adds up.
#include "pipeline/plugin/plugin_outlet.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/run/metrics_lines.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

class PluginOutletTest : public ::testing::Test {
 protected:
  std::int32_t report(const std::vector<camd_outlet_row>& rows) {
    error_ = {};
    error_.struct_size = sizeof(error_);
    return outlet_.report(rows.data(), static_cast<std::int32_t>(rows.size()), &error_);
  }
  PluginOutlet outlet_;
  camd_error error_{};
  const camd_outlet_drop drops_[2] = {{"full", 2}, {"refused", 1}};
};

TEST_F(PluginOutletTest, KeepsTheRowsThatWereToldLast) {
  EXPECT_EQ(report({{"door", 10, 4, 2, 1, 2, 0, drops_}, {"", 5, 5, 0, 0, 0, 0, nullptr}}), CAMD_OK);
  EXPECT_EQ(report({{"door", 11, 5, 2, 1, 2, 0, drops_}}), CAMD_OK);
  const std::vector<OutletRow> rows = outlet_.rows();
  ASSERT_EQ(rows.size(), 1U);
  const std::string line = outlet_line(2, "mqtt", rows[0], base::TimePoint());
  EXPECT_EQ(line.substr(line.find(R"("name")")),
            R"("name":"mqtt","index":2,"camera":"door","taken":11,"acknowledged":5,"waiting":2,"spooled":1,)"
            R"("dropped":{"full":2,"refused":1}})");
}

TEST_F(PluginOutletTest, RefusesWhatDoesNotAddUpAndKeepsWhatItHad) {
  ASSERT_EQ(report({{"door", 1, 1, 0, 0, 0, 0, nullptr}}), CAMD_OK);
  EXPECT_EQ(report({{"door", 10, 4, 2, 1, 1, 0, drops_}}), CAMD_ERROR_INVALID);
  EXPECT_STREQ(error_.message, "camera 'door': 10 taken are not 9 acknowledged, waiting, spooled and dropped");
  EXPECT_EQ(report({{"door", 0, ~std::uint64_t{0}, 1, 0, 0, 0, nullptr}}), CAMD_ERROR_INVALID);
  EXPECT_EQ(report({{"a", 0, 0, 0, 0, 0, 0, nullptr}, {"a", 0, 0, 0, 0, 0, 0, nullptr}}), CAMD_ERROR_INVALID);
  EXPECT_STREQ(error_.message, "camera 'a' has two rows");
  EXPECT_EQ(report({{nullptr, 0, 0, 0, 0, 0, 0, nullptr}}), CAMD_ERROR_INVALID);
  EXPECT_EQ(report({{"a", 0, 0, 0, 0, -1, 0, nullptr}}), CAMD_ERROR_INVALID);
  EXPECT_EQ(report({{"a", 0, 0, 0, 0, 1, 0, nullptr}}), CAMD_ERROR_INVALID);
  EXPECT_EQ(outlet_.report(nullptr, 3, nullptr), CAMD_ERROR_INVALID);
  EXPECT_EQ(report(std::vector<camd_outlet_row>(CAMD_MAX_OUTLET_ROWS + 1)), CAMD_ERROR_FULL);
  ASSERT_EQ(outlet_.rows().size(), 1U);
  EXPECT_EQ(outlet_.rows()[0].taken, 1U);
}

TEST_F(PluginOutletTest, AddsUpOverSeveralThatCounted) {
  std::vector<OutletRow> rows = {{"door", 10, 4, 2, 1, {{"full", 3}}}};
  rows[0].end("process_ended");
  add_rows(rows, {{"door", 3, 1, 1, 0, {{"full", 1}}}, {"yard", 1, 1, 0, 0, {}}});
  add_rows(rows, {{"door", ~std::uint64_t{0}, ~std::uint64_t{0}, 0, 0, {}}});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].taken, 12U);
  EXPECT_EQ(rows[0].acknowledged, 5U);
  EXPECT_EQ(rows[0].waiting, 1U);
  EXPECT_EQ(rows[0].spooled, 0U);
  EXPECT_EQ(rows[0].dropped, (std::vector<std::pair<std::string, std::uint64_t>>{{"full", 4}, {"process_ended", 2}}));
  EXPECT_EQ(rows[1].camera, "yard");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
