// Text that is not YAML, or that is meant to hurt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "config/describe.hpp"
#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

TEST(HostileConfig, IsRefusedWithItsPlaceWhenTheSyntaxIsWrong) {
  EXPECT_THAT(problems_of("a: [1\nb: 2\n"),
              ElementsAre("c.yaml:2:2: YAML syntax: end of sequence flow not found (a bracket is not closed)"));
  EXPECT_THAT(
      problems_of("a: b: c\n"),
      ElementsAre("c.yaml:1:5: YAML syntax: illegal map value (the indentation does not fit, or text that holds "
                  "a colon and a space needs quotes)"));
  EXPECT_THAT(problems_of("a: @x\n"),
              ElementsAre("c.yaml:1:4: YAML syntax: unknown token (text that begins with @, ` or % needs quotes)"));
  EXPECT_THAT(problems_of("a: \"x\\q\"\n"), ElementsAre("c.yaml:1:8: YAML syntax: unknown escape character: q"));
}

// yaml-cpp 0.7 takes everything to the end of the text for the scalar.
TEST(HostileConfig, IsRefusedWhenAQuoteIsNotClosed) {
  EXPECT_THAT(problems_of("a: \"1\nb: 2\n"), ElementsAre("c.yaml:1:4: YAML syntax: the closing \" is missing"));
  EXPECT_THAT(problems_of("a: 'it''s\n"), ElementsAre("c.yaml:1:4: YAML syntax: the closing ' is missing"));
  EXPECT_THAT(problems_with("postprocess: [{plugin: a, config: {a: 'it''s', b: \"\\\"\", c: ''}}]\n"), ElementsAre());
}

TEST(HostileConfig, IsRefusedWhenEmptyOrOnlyComments) {
  for (const char* text : {"", "\n\n", "# nothing\n", "---\n"}) {
    EXPECT_THAT(
        problems_of(text),
        ElementsAre("c.yaml: is empty; at least model and cameras are needed (`camd config` prints an example)"));
  }
}

TEST(HostileConfig, IsRefusedWhenItHoldsTwoDocuments) {
  EXPECT_THAT(problems_of("a: 1\n---\nb: 2\n"),
              ElementsAre("c.yaml:2:1: a second document begins here; one file holds one configuration"));
}

TEST(HostileConfig, IsRefusedForTabsControlCharactersAndBrokenUtf8) {
  EXPECT_THAT(problems_of("model:\n\tpath: x\n \tengine: auto\n"),
              ElementsAre("c.yaml:2:1: a tab indents this line; YAML is indented by spaces",
                          "c.yaml:3:2: a tab indents this line; YAML is indented by spaces"));
  EXPECT_THAT(problems_of(std::string_view("a: \0", 4)),
              ElementsAre("c.yaml:1:4: control character 0x00 is not allowed in YAML"));
  EXPECT_THAT(problems_of("ä: \x7F"), ElementsAre("c.yaml:1:5: control character 0x7F is not allowed in YAML"));
  for (const char* bytes : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82"}) {
    const auto lines = problems_of(std::string("a: 1\nb: ") + bytes);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].starts_with("c.yaml:2:4: byte 0x")) << lines[0];
  }
}

TEST(HostileConfig, StartsWithAByteOrderMarkAndHasWindowsLineEndings) {
  EXPECT_THAT(problems_of("\xEF\xBB\xBFmodel: {path: m}\r\ncameras:\r\n  - name: a\r\n    source: {type: test}\r\n"),
              ElementsAre());
}

TEST(HostileConfig, IsRefusedForAnchorsAliasesAndTags) {
  EXPECT_THAT(problems_of("a: &x [1]\nb: *x\n"),
              ElementsAre("c.yaml:1:4: anchors (&x) are not used here; text that begins with & needs quotes"));
  EXPECT_THAT(problems_of("a: *x\n"),
              ElementsAre("c.yaml:1:4: aliases (*name) are not used here; text that begins with * needs quotes"));
  EXPECT_THAT(problems_of("a: !!int 3\n"),
              ElementsAre("c.yaml:1:4: tags (tag:yaml.org,2002:int) are not used here; text that begins with ! needs "
                          "quotes"));
  std::string bomb = "a0: &a0 [x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + ", " + before + "]\n";
  }
  EXPECT_THAT(problems_of(bomb),
              ElementsAre("c.yaml:1:5: anchors (&a0) are not used here; text that begins with & needs quotes"));
}

TEST(HostileConfig, IsRefusedWhenKeysAreNotText) {
  EXPECT_THAT(problems_of("? [1]\n: 2\n"), ElementsAre("c.yaml:1:3: a key must be text, not a list or a map; an empty "
                                                       "one or null needs quotes"));
}

TEST(HostileConfig, IsRefusedWhenLargerThanAMegabyteBeforeAnythingIsParsed) {
  const std::string text = "# " + std::string(10'000'000, 'x');
  EXPECT_THAT(problems_of(text), ElementsAre("c.yaml: larger than 1024 KiB, which no configuration is"));
}

TEST(HostileConfig, IsRefusedWhenNestedAHundredThousandLevelsDeep) {
  constexpr std::size_t kLevels = 100'000;
  for (const std::string_view unit : {"[", "{", "{a: ", "[a, ", "- ", "? ", "- ? "}) {
    const auto lines = problems_of(repeated(unit, kLevels));
    ASSERT_EQ(lines.size(), 1U) << unit;
    EXPECT_TRUE(lines[0].ends_with("nested more than 32 levels deep")) << lines[0];
  }
  EXPECT_THAT(problems_of("a: " + repeated("[", kLevels) + repeated("]", kLevels)),
              ElementsAre("c.yaml:1:35: nested more than 32 levels deep"));
  EXPECT_THAT(problems_of(repeated("{a: ", kLevels) + "1" + repeated("}", kLevels)),
              ElementsAre("c.yaml:1:129: nested more than 32 levels deep"));
  std::string block;  // block maps need a growing indentation: 1,000 levels make half a megabyte
  for (std::size_t i = 0; i < 1000; ++i) block += std::string(i, ' ') + "a:\n";
  EXPECT_THAT(problems_of(block), ElementsAre("c.yaml:33:33: nested more than 32 levels deep"));
}

TEST(HostileConfig, IsRefusedWhenItHoldsTooManyValues) {
  EXPECT_THAT(problems_of("a: [" + repeated("1,", 100'000) + "]\n"),
              ElementsAre("c.yaml:1:39999: more than 20000 values"));
}

TEST(HostileConfig, IsJudgedInBoundedTimeWhateverItsKeysAre) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += "kamera" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(problems_of(text).size(), 9002U);  // each key, model and cameras
  EXPECT_EQ(problems_of(std::string(500'000, 'a') + ": 1\n").size(), 1U);
}

// Damaged configurations load or are refused with places; nothing else happens to them.
TEST(HostileConfig, SurvivesEveryDamageDoneByChance) {
  const std::string good = default_config_text();
  constexpr std::string_view kPieces = "[]{}:,-?&*!|>'\"%@`#\n \t0a.\\";
  std::mt19937 random(20261121);  // NOLINT: the same damage in every run
  const auto below = [&random](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = good;
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0: text.erase(at, 1 + below(20)); break;
        case 1: text.insert(at, 1, kPieces[below(kPieces.size())]); break;
        case 2: text[at] = static_cast<char>(below(256)); break;
        default: text.resize(at + 1); break;
      }
    }
    for (const std::string& line : problems_of(text)) {
      EXPECT_TRUE(line.starts_with("c.yaml:")) << line;
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
