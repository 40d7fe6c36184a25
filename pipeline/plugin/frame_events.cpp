#include "pipeline/plugin/frame_events.hpp"

#include <cmath>
#include <cstring>

#include "pipeline/plugin/bounded_text.hpp"

namespace camd::pipeline {
namespace {

bool good(const camd_event& event) noexcept {
  if (!ends(event.name) || !ends(event.zone) || event.name[0] == '\0' || event.reserved != 0) return false;
  if (event.number_count < 0 || event.number_count > CAMD_EVENT_NUMBERS) return false;
  for (std::int32_t i = 0; i < event.number_count; ++i) {
    const camd_number& number = event.numbers[i];
    if (!ends(number.name) || number.name[0] == '\0' || !std::isfinite(number.value)) return false;
    for (std::int32_t j = 0; j < i; ++j) {
      if (std::strcmp(number.name, event.numbers[j].name) == 0) return false;
    }
  }
  return true;
}

}  // namespace

std::int32_t FrameEvents::add(const camd_event* event) noexcept {
  if (event == nullptr || event->struct_size < sizeof(camd_event)) return CAMD_ERROR_INVALID;
  if (count_ == CAMD_MAX_EVENTS) return CAMD_ERROR_FULL;
  camd_event& added = events_[static_cast<std::size_t>(count_)];
  // What a younger header has behind these members is left out.
  added = *event;
  added.struct_size = sizeof(added);
  if (!good(added)) return CAMD_ERROR_INVALID;
  ++count_;
  return CAMD_OK;
}

}  // namespace camd::pipeline
