// Why a camera's source could not be opened, in words that its user can act upon.
//
// Threads: [control].
#pragma once

#include <functional>
#include <string>

#include "config/config.hpp"

namespace camd::capture {

// [blocks] for a second at most. It asks `gives_up` every 20 ms, and returns when that is true. `said` is what
// GStreamer said; the pipeline is closed. Returns `said` where nothing more can be found out:
//  - a V4L2 device that does not do what it was asked for: what it offers
//  - an RTSP camera that cannot be connected to: whether its host is known, whether it answers
[[nodiscard]] std::string explain_failure(const config::Source& source, const std::string& said,
                                          const std::function<bool()>& gives_up);

}  // namespace camd::capture
