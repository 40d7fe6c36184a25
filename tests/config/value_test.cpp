#include "config/value.hpp"

#include <gtest/gtest.h>

namespace camd::config {
namespace CAMD_TEST_FILE {

using namespace std::chrono_literals;

TEST(Value, ReadsDurationsWithTheirUnits) {
  EXPECT_EQ(parse_duration("200ms"), 200ms);
  EXPECT_EQ(parse_duration("1.5 s"), 1500ms);
  EXPECT_EQ(parse_duration("7ns"), 7ns);
  EXPECT_EQ(parse_duration("33us"), 33us);
  EXPECT_EQ(parse_duration("2min"), 2min);
  EXPECT_EQ(parse_duration("1h"), 1h);
  EXPECT_EQ(parse_duration("0.1s"), 100ms);
  EXPECT_EQ(parse_duration("9223372036854775807ns"), base::Duration::max());
}

TEST(Value, RefusesDurationsThatAreNone) {
  for (const char* text : {"",
                           "200",
                           "ms",
                           "-1s",
                           "1 m",
                           "1m",
                           "1S",
                           "1.2.3s",
                           "1e3ms",
                           "1  s",
                           " 1s",
                           "1s ",
                           ".s",
                           "0x10s",
                           "5s ",
                           " 5s",
                           "inf s",
                           "infs",
                           "nan s",
                           "+5s",
                           "9223372036854775808ns",
                           "2562048h",
                           "1000000000000000000000.0h"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(Value, WritesDurationsSoThatTheyReadBack) {
  EXPECT_EQ(duration_text(0ns), "0ms");
  EXPECT_EQ(duration_text(1500us), "1500us");
  EXPECT_EQ(duration_text(200ms), "200ms");
  EXPECT_EQ(duration_text(90s), "90s");
  EXPECT_EQ(duration_text(3600s), "1h");
  EXPECT_EQ(parse_duration(duration_text(123456789ns)), 123456789ns);
}

TEST(Value, ReadsNumbersWholeOrNotAtAll) {
  EXPECT_EQ(parse_integer("+7"), 7);
  EXPECT_EQ(parse_integer("-7"), -7);
  for (const char* text : {"", "+", "+-7", "7 ", "7.0", "0x7", "9223372036854775808"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number("1e-3"), 0.001);
  EXPECT_EQ(parse_number(".5"), 0.5);
  for (const char* text : {"", ".", "e", "1e", "1,5", "inf", "nan", ".inf", "1e999", "0x1p3"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
  }
  EXPECT_TRUE(is_not_finite("-.Inf"));
  EXPECT_TRUE(is_not_finite("1e999"));
  EXPECT_FALSE(is_not_finite("1"));
}

TEST(Value, ShortensTextBetweenCharactersAndKeepsItOnOneLine) {
  EXPECT_EQ(shortened("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(shortened(std::string(64, 'x')), std::string(64, 'x'));
  EXPECT_EQ(shortened(std::string(65, 'x')), std::string(64, 'x') + "...");
  EXPECT_EQ(shortened(std::string(63, 'x') + "äää"), std::string(63, 'x') + "ä...");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
