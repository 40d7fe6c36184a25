// Texts in fixed arrays, as plug-ins write them.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <cstring>

namespace camd::pipeline {

// Whether the text has its NUL inside the array.
template <std::size_t N>
[[nodiscard]] bool ends(const char (&text)[N]) noexcept {
  return std::memchr(text, '\0', N) != nullptr;
}

}  // namespace camd::pipeline
