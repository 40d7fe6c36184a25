// What a camera shows, as one row of the dashboard: detections and tracks, zones and lines with their counts, texts.
//
// Threads: pure functions, [any].
#pragma once

#include "apps/dashboard/model.hpp"
#include "apps/dashboard/text.hpp"

namespace camd::dashboard {

// Numbers first, then what was counted, then texts: a narrow screen cuts off the texts. `dot` stands between the parts.
[[nodiscard]] Line seen_line(const Seen& seen, const char* dot);

}  // namespace camd::dashboard
