// Which cameras are shown, and in which order: those whose name holds the filter's text; where there are many, those
// that need somebody's attention first.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "apps/dashboard/model.hpp"

namespace camd::dashboard {

// With more cameras than these the worst come first, and the screen belongs to the table. Fewer stay in their order.
inline constexpr std::size_t kManyCameras = 30;

// How a camera is: the smaller, the worse. Rates and times count in coarse steps, so that rows do not change places all
// the time.
struct Condition {
  int state = 0;     // failed, then away, then starting, then running, then ended
  int dropping = 0;  // minus the power of two of the frames dropped lately
  int slow = 0;      // minus the power of 1.4 of total's p99
  friend auto operator<=>(const Condition&, const Condition&) = default;
};
[[nodiscard]] Condition condition_of(const Camera& camera);

// Places in model.cameras(). `filter` is found in names without regard to the case of ASCII letters.
[[nodiscard]] std::vector<std::size_t> cameras_in_order(const Model& model, std::string_view filter);

}  // namespace camd::dashboard
