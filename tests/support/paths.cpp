#include "tests/support/paths.hpp"

#include <cstdlib>

namespace camd::test {
namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

}  // namespace

std::string source_dir() { return from_environment("CAMD_TEST_SOURCE_DIR", CAMD_SOURCE_DIR); }

std::string binary_dir() { return from_environment("CAMD_TEST_BINARY_DIR", CAMD_BINARY_DIR); }

std::string shared_dir() { return from_environment("CAMD_TEST_SHARED_DIR", CAMD_SOURCE_DIR "/../shared"); }

}  // namespace camd::test
