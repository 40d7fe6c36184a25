// What camd itself reads of a request: the headers `Authorization` and `Host`. The rest is the library's.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "apps/http/access.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)camd::http::names_this_machine(text);
  // A text that was not made from the token does not bring it.
  constexpr std::string_view kToken = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  if (camd::http::brings_token(text, kToken) && text.find(kToken) == std::string_view::npos && !text.starts_with("B") &&
      !text.starts_with("b")) {
    __builtin_trap();
  }
  return 0;
}
