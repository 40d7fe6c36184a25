// The interpreter of plug-ins in Python: $CAMD_TEST_PYTHON, or Debian's.
#pragma once

#include <cstdlib>
#include <string>

namespace camd::test {

inline std::string python() {
  const char* const named = std::getenv("CAMD_TEST_PYTHON");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return named == nullptr ? "/usr/bin/python3" : named;
}

// Whether it has a module: it is imported, once for each call.
inline bool python_has(const std::string& module) {
  return std::system((python() + " -c 'import " + module + "' 2>/dev/null").c_str()) == 0;
}

}  // namespace camd::test
