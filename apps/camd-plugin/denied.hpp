// Remembers what the system refused a confined plug-in, so that its message can say which `allow:` mends it.
//
// The program's own open(), fopen() and so on stand before the C library's for every library that it loads. They call
// those, and look at the outcome.
//
// Threads: [any]; each thread remembers for itself.
#pragma once

#include <string>

namespace camd::worker {

// From now on refusals are remembered.
void watch_denied() noexcept;
void forget_denied() noexcept;
// " (not allowed to write /x/out.txt: allow: [\"files: /x/\"])", or empty.
[[nodiscard]] std::string denied_advice();

}  // namespace camd::worker
