// libFuzzer's target for configurations. Any end but a Config or base::Error is a bug. A configuration that is accepted
// says the same again when its effective text is read.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "config/loader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace camd::config;
  const LoadOptions options{.check_files = false};
  std::string effective;
  try {
    effective = effective_text(load_text("/fuzz/camd.yaml", {reinterpret_cast<const char*>(data), size}, {}, options));
  } catch (const camd::base::Error&) {
    return 0;
  }
  const std::string again = effective_text(load_text("/fuzz/camd.yaml", effective, {}, options));
  if (again != effective) {
    std::fprintf(stderr, "read:\n%s\nread again:\n%s\n", effective.c_str(), again.c_str());
    std::abort();
  }
  return 0;
}
