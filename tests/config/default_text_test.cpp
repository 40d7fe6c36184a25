#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "config/describe.hpp"
#include "config/key_table.hpp"
#include "tests/config/helpers.hpp"
#include "tests/support/manual.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

TEST(DefaultConfig, Loads) { EXPECT_THAT(problems_of(default_config_text()), ElementsAre()); }

TEST(DefaultConfig, ShowsTheDefaults) {
  // Far from this repository, whose models/ holds the card of the default model.
  const Config config = load_text("/nonexistent/c.yaml", default_config_text(), {}, kNoFiles);
  const Config initial;
  EXPECT_EQ(config.pipeline, initial.pipeline);
  EXPECT_EQ(config.metrics, initial.metrics);
  EXPECT_EQ(config.model.input, initial.model.input);
  EXPECT_EQ(std::get<FileSource>(config.cameras.at(0).source), FileSource{"/nonexistent/demo.mp4"});
}

TEST(DefaultConfig, LoadsWithEveryLineThatIsCommentedOut) {
  std::istringstream lines(default_config_text());
  std::string all;
  std::vector<std::string> sources;
  const auto is_key = [](std::string_view text) {
    for (const KeyRow& row : config_keys()) {
      const bool shown_in_comment = !row.required && row.fallback.empty() && !row.example.empty();
      if (shown_in_comment && text == std::string(leaf(row.path)) + ": " + std::string(row.example)) return true;
    }
    return false;
  };
  for (std::string line; std::getline(lines, line);) {
    const auto hash = line.find("# ");
    const std::string commented = hash == std::string::npos ? "" : line.substr(hash + 2);
    if (commented.starts_with("source: ")) {
      sources.push_back(commented);
    } else if (line.find_first_not_of(' ') == hash && is_key(commented) && !commented.starts_with("devices: ") &&
               !commented.starts_with("token_file: ")) {
      line.erase(hash, 2);  // they stand in the place of `device` and `token`
    }
    all += line + "\n";
  }
  EXPECT_THAT(problems_of(all), ElementsAre());
  const Config config = load_yaml(all);
  EXPECT_EQ(config.model.input.width, 640);
  EXPECT_EQ(config.model.input.resize, ResizeMode::kLetterbox);
  ASSERT_EQ(sources.size(), 4U);
  for (const std::string& source : sources)
    EXPECT_THAT(problems_of(with_source(source.substr(8))), ElementsAre()) << source;
}

TEST(KeyTable, DefaultsAndExamplesOfEveryKeyAreExplained) {
  for (const Table table : {config_keys(), model_card_keys()}) {
    for (const KeyRow& row : table) {
      if (row.path.ends_with("[]")) continue;
      EXPECT_FALSE(row.help.empty()) << row.path;
      const bool leads_on = row.type == ValueType::kMap || row.type == ValueType::kFree || row.path == "cameras" ||
                            row.path == "postprocess";
      EXPECT_TRUE(leads_on || !row.fallback.empty() || !row.example.empty()) << row.path;
      EXPECT_FALSE(row.required && !row.fallback.empty()) << row.path;
    }
  }
}

TEST(Manual, HasTheTableOfTheKeyTable) {
  test::expect_manual_has("configuration", "keys", keys_markdown(config_keys()));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
