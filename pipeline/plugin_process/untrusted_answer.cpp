#include "pipeline/plugin_process/untrusted_answer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace camd::pipeline {
namespace {

// The compiler must not read it a second time.
std::int32_t once(const std::int32_t& field) noexcept { return *const_cast<const volatile std::int32_t*>(&field); }

}  // namespace

CallResult take_answer(const wire::Answers& answers, std::int32_t capacity, std::int32_t events_before,
                       camd_results& results, FrameEvents& events, camd_error& error, bool& moved) noexcept {
  if (once(answers.code) != CAMD_OK) {
    std::memcpy(error.message, answers.message, sizeof(error.message));
    error.message[sizeof(error.message) - 1] = '\0';
    return CallResult::kFailed;
  }
  moved = once(answers.moved) != 0;
  results.count = once(answers.count);
  if (moved || results.count < 0 || results.count > capacity) return CallResult::kDone;
  // A frame may have room for none.
  if (results.count > 0) {
    std::memcpy(results.items, answers.items, static_cast<std::size_t>(results.count) * sizeof(camd_detection));
  }
  const std::int32_t event_count = once(answers.event_count);
  if (event_count < events_before || event_count > CAMD_MAX_EVENTS) {
    std::snprintf(error.message, sizeof(error.message), "left a count of events outside %d..%d", events_before,
                  CAMD_MAX_EVENTS);
    return CallResult::kFailed;
  }
  for (std::int32_t i = events_before; i < event_count; ++i) {
    camd_event event;
    std::memcpy(&event, &answers.events[i], sizeof(event));
    if (events.add(&event) == CAMD_OK) continue;
    std::snprintf(error.message, sizeof(error.message), "left an event that breaks a rule of camd_plugin.h");
    return CallResult::kFailed;
  }
  return CallResult::kDone;
}

}  // namespace camd::pipeline
