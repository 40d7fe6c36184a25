// PluginCounters: one plug-in's own counters and gauges, what camd offers as "camd.counters/1" (plugins/camd_plugin.h).
//
// Threads: make(), close() [setup]; add(), set(), read() [any], without a lock.
// Invariants: names are checked, so they can stand in any output; there are at most CAMD_MAX_COUNTERS; a number never
// moves, so a plug-in may keep its address. Nothing is allocated but in read().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.h"

// The interface's handle of one number.
struct camd_counter {
  camd_counter_kind kind = CAMD_COUNTER;
  std::array<char, CAMD_COUNTER_NAME_BYTES> name{};
  std::atomic<std::uint64_t> count{0};  // of a counter
  std::atomic<double> level{0};         // of a gauge, always finite
};

namespace camd::pipeline {

// One number as it was when it was read.
struct CounterValue {
  std::string_view name;  // valid as long as the PluginCounters
  camd_counter_kind kind = CAMD_COUNTER;
  std::uint64_t count = 0;  // of a counter
  double level = 0;         // of a gauge
};

// Where the numbers lie. A worker process has them in memory that it shares with camd.
struct CounterTable {
  std::array<camd_counter, CAMD_MAX_COUNTERS> counters;
  std::atomic<std::uint32_t> count{0};  // of them that are made; raised when one is complete
};

// Whether a counter may have this name: a lower case letter, then lower case letters, digits and '_'.
[[nodiscard]] bool good_counter_name(std::string_view name) noexcept;

class PluginCounters {
 public:
  // `table` outlives this.
  explicit PluginCounters(CounterTable& table) : table_(table) {}
  PluginCounters(const PluginCounters&) = delete;
  PluginCounters& operator=(const PluginCounters&) = delete;

  // camd_counters.make. `kind` may be any number, `name` and `error` null.
  std::int32_t make(int kind, const char* name, camd_counter** counter, camd_error* error) noexcept;
  // Set-up is over: make() refuses from now on.
  void close() noexcept { open_ = false; }

  // camd_counters.add and camd_counters.set. [no-alloc]
  static void add(camd_counter* counter, std::uint64_t amount) noexcept;
  static void set(camd_counter* gauge, double value) noexcept;

  // All numbers in the order in which they were made.
  [[nodiscard]] std::vector<CounterValue> read() const;

 private:
  CounterTable& table_;
  std::atomic<bool> open_{true};
};

}  // namespace camd::pipeline
