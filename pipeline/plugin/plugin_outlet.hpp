// PluginOutlet: what became of one plug-in's messages, as it tells by "camd.outlet/1" (plugins/camd_plugin.h).
//
// Threads: [any], under a lock that is held to copy.
// Invariants: rows are checked before they replace those of the call before: each adds up, and no camera has two. What
//   was told last stays, also when the plug-in is gone.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

// The messages of one camera. taken = acknowledged + waiting + spooled + sum of dropped.
struct OutletRow {
  std::string camera;
  std::uint64_t taken = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t waiting = 0;
  std::uint64_t spooled = 0;
  std::vector<std::pair<std::string, std::uint64_t>> dropped;  // by reason

  // Who counted it is gone: what was waiting is dropped for that reason, and what is spooled will be found on disk and
  // counted as taken by who comes next.
  void end(const char* reason);
};
// Adds the rows of another count to those of the same cameras, and the others behind. At most CAMD_MAX_OUTLET_ROWS
// come out, and rows whose sum would not fit are left out: each adds up as before.
void add_rows(std::vector<OutletRow>& to, const std::vector<OutletRow>& more);

class PluginOutlet {
 public:
  // camd_outlet.report. Pointers may be null, numbers anything.
  std::int32_t report(const camd_outlet_row* rows, std::int32_t count, camd_error* error) noexcept;
  [[nodiscard]] std::vector<OutletRow> rows() const;

 private:
  mutable base::Mutex mutex_;
  std::vector<OutletRow> rows_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::pipeline
