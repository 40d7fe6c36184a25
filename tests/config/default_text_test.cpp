#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "config/describe.hpp"
#include "config/key_table.hpp"
#include "tests/config/helpers.hpp"

namespace camd::config {
namespace {

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
    } else if (line.find_first_not_of(' ') == hash && is_key(commented)) {
      line.erase(hash, 2);
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

// The text between "<!-- NAME: begin -->" and "<!-- NAME: end -->".
std::string section(const std::string& text, const std::string& name) {
  const std::string begin = "<!-- " + name + ": begin -->\n";
  const auto start = text.find(begin);
  const auto end = text.find("<!-- " + name + ": end -->");
  if (start == std::string::npos || end == std::string::npos) return "no section " + name;
  return text.substr(start + begin.size(), end - start - begin.size());
}

void replace_section(std::string& text, const std::string& name, const std::string& with) {
  const std::string begin = "<!-- " + name + ": begin -->\n";
  const auto start = text.find(begin) + begin.size();
  text.replace(start, text.find("<!-- " + name + ": end -->") - start, with);
}

// CAMD_UPDATE_DOCS=1 writes the tables instead of comparing them.
TEST(Manual, HasTheTablesOfTheKeyTable) {
  const std::filesystem::path file = std::filesystem::path(CAMD_SOURCE_DIR) / "docs/configuration.md";
  std::stringstream content;
  content << std::ifstream(file).rdbuf();
  std::string text = content.str();
  if (std::getenv("CAMD_UPDATE_DOCS") != nullptr) {  // NOLINT(concurrency-mt-unsafe): one thread
    replace_section(text, "keys", config_keys_markdown());
    replace_section(text, "card keys", model_card_keys_markdown());
    std::ofstream(file) << text;
  }
  const std::string mend = "run test_config with CAMD_UPDATE_DOCS=1 to write docs/configuration.md anew";
  EXPECT_EQ(section(text, "keys"), config_keys_markdown()) << mend;
  EXPECT_EQ(section(text, "card keys"), model_card_keys_markdown()) << mend;
}

}  // namespace
}  // namespace camd::config
