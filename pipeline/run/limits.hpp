// What cameras cost a process, and whether its limits allow it: descriptors and threads.
//
// GLib aborts the process when it cannot open a descriptor or start a thread, so what cannot fit is refused before.
// Threads: functions of their arguments and of the process's limits, [any].
#pragma once

#include <cstdint>
#include <string>

#include "config/config.hpp"

namespace camd::pipeline {

struct Cost {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
};

// Most that one camera of the kind takes, attempts to reconnect included (docs/configuration.md has the measurement).
[[nodiscard]] Cost cost_of(const config::Source& source) noexcept;
// Of a whole configuration, with what camd takes without cameras.
[[nodiscard]] Cost cost_of(const config::Config& config) noexcept;

struct Limits {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;  // that this process may have
};
[[nodiscard]] Limits process_limits();

// Lifts the soft limit of descriptors to the hard one.
void raise_descriptor_limit() noexcept;

// What is wrong, with the numbers; empty when it fits.
[[nodiscard]] std::string limit_problem(const config::Config& config, const Limits& limits);
// Throws Error(kConfig) with that, for this process after raise_descriptor_limit().
void check_limits(const config::Config& config);

}  // namespace camd::pipeline
