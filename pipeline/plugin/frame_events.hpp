// FrameEvents: the events that plug-ins add to one frame and read from one another. It is camd's side of
// "camd.events/1" (plugins/camd_plugin.h).
//
// Threads: constructor [setup]; the rest [post], by whoever has the frame.
// Invariants: at most CAMD_MAX_EVENTS, each of them checked: texts end with NUL, numbers are finite. Allocated once.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::pipeline {

class FrameEvents {
 public:
  FrameEvents() : events_(CAMD_MAX_EVENTS) {}

  // Forgets all events, for the next frame.
  void clear() noexcept { count_ = 0; }
  [[nodiscard]] std::int32_t count() const noexcept { return count_; }
  // nullptr outside 0..count()-1. Valid until clear().
  [[nodiscard]] const camd_event* get(std::int32_t index) const noexcept {
    return index >= 0 && index < count_ ? &events_[static_cast<std::size_t>(index)] : nullptr;
  }
  // Behind camd_events.add: copies `event`. Returns CAMD_OK, CAMD_ERROR_INVALID (for null as well) or CAMD_ERROR_FULL.
  // [no-alloc]
  std::int32_t add(const camd_event* event) noexcept;

 private:
  std::vector<camd_event> events_;  // CAMD_MAX_EVENTS
  std::int32_t count_ = 0;
};

}  // namespace camd::pipeline
