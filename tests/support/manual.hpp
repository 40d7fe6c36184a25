// Parts of the manual that are written from tables in the code.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/paths.hpp"

namespace camd::test {

// Compares the text between "<!-- NAME: begin -->" and "<!-- NAME: end -->" in docs/PAGE.md with what it must be.
// With CAMD_UPDATE_DOCS=1 writes it there instead.
inline void expect_manual_has(const std::string& page, const std::string& name, const std::string& expected) {
  const std::filesystem::path file = std::filesystem::path(source_dir()) / "docs" / (page + ".md");
  std::stringstream content;
  content << std::ifstream(file).rdbuf();
  std::string text = content.str();
  const std::string begin = "<!-- " + name + ": begin -->\n";
  const auto before = text.find(begin);
  const auto end = text.find("<!-- " + name + ": end -->");
  ASSERT_TRUE(before != std::string::npos && end != std::string::npos) << "no section " << name << " in " << file;
  const auto start = before + begin.size();
  if (std::getenv("CAMD_UPDATE_DOCS") != nullptr) {  // NOLINT(concurrency-mt-unsafe): one thread
    std::ofstream(file) << text.replace(start, end - start, expected);
    return;
  }
  EXPECT_EQ(text.substr(start, end - start), expected)
      << "run this test with CAMD_UPDATE_DOCS=1 to write " << file << " anew";
}

}  // namespace camd::test
