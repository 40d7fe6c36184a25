// Logging: spdlog to stderr, because stdout carries metrics only.
//
// Threads: [any]. Use the macros of spdlog through log(): base::log().info("camera {}: ...", name).
// Per-frame code logs only on a change of state, never for each frame.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace camd::base {

// The process's logger, to stderr, created on first use. Cold, so that compilers keep the making of messages apart from
// what every frame runs.
[[nodiscard, gnu::cold]] spdlog::logger& log();

// error | warn | info | debug | trace. Throws Error(kUsage) for another word.
void set_log_level(std::string_view level);

}  // namespace camd::base
