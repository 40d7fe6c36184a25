// The manual's table of operators is what the code has.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "infer/graph/lower_model.hpp"
#include "tests/support/paths.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

std::string operators_markdown() {
  std::string text = "| operator | limits |\n|---|---|\n";
  for (const OperatorSupport& op : supported_operators()) {
    text += "| " + std::string(op.type) + " | " + std::string(op.limits) + " |\n";
  }
  return text;
}

// CAMD_UPDATE_DOCS=1 writes the table instead of comparing it.
TEST(Manual, HasTheOperatorsThatTheCodeHas) {
  const std::string file = camd::test::source_dir() + "/docs/models.md";
  std::stringstream content;
  content << std::ifstream(file).rdbuf();
  std::string text = content.str();
  const std::string begin = "<!-- operators: begin -->\n";
  const std::size_t start = text.find(begin);
  const std::size_t end = text.find("<!-- operators: end -->");
  ASSERT_TRUE(start != std::string::npos && end != std::string::npos) << file << " has no place for the table";
  const std::size_t first = start + begin.size();
  if (std::getenv("CAMD_UPDATE_DOCS") != nullptr) {  // NOLINT(concurrency-mt-unsafe): one thread
    text.replace(first, end - first, operators_markdown());
    std::ofstream(file) << text;
    return;
  }
  EXPECT_EQ(text.substr(first, end - first), operators_markdown())
      << "CAMD_UPDATE_DOCS=1 test_infer --gtest_filter=Manual.* writes docs/models.md anew";
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
