// Logging: spdlog to stderr, because stdout carries metrics only.
//
// Threads: [any]. Use the macros of spdlog through log(): base::log().info("camera {}: ...", name).
// Per-frame code logs only on a change of state, never for each frame.
// Invariants: nobody waits for the reader of stderr but flush_log() (base/log_writer.hpp). Lines of a terminal begin
// with the time, others with date and time; those of systemd's journal with their priority.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

#include "base/clock.hpp"

namespace camd::base {

// The process's logger, to stderr, created on first use. Cold, so that compilers keep the making of messages apart from
// what every frame runs.
[[nodiscard, gnu::cold]] spdlog::logger& log();

// error | warn | info | debug | trace. Throws Error(kUsage) for another word.
void set_log_level(std::string_view level);

// A command's own answer, an error that ends it: to stderr after what was logged before, as it is, without time and
// level. Only the journal gets its priority.
void tell_error(std::string_view text);

// [blocks] until what was logged is written, or for `patience`: before the process ends in a way that runs no
// destructors. When it ends by itself a second is waited. False: not all was written.
bool flush_log(Duration patience) noexcept;

}  // namespace camd::base
