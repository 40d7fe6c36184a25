// The GStreamer elements that films lean on, for `camd doctor`.
//
// Threads: [any], [blocks] while GStreamer reads its registry.
#pragma once

#include <vector>

#include "plugins/builtin.hpp"

namespace camd::plugins {

// Throws std::invalid_argument when GStreamer cannot start.
[[nodiscard]] std::vector<ElementFinding> annotate_elements();

}  // namespace camd::plugins
