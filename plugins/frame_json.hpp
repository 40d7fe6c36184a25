// A frame, its detections and its events as one JSON object: what `jsonl` writes and what outlets send
// (docs/plugins.md has the fields in their order).
//
// Threads: [any], functions of their arguments.
// Invariants: nothing is allocated where the buffer has room; what is no UTF-8 becomes U+FFFD.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "plugins/camd_plugin.hpp"

namespace camd::plugins {

using JsonBuffer = fmt::memory_buffer;

// `text` as it is.
void put(JsonBuffer& out, std::string_view text);
// A JSON string (RFC 8259, section 7).
void put_string(JsonBuffer& out, std::string_view text);
// RFC 3339 in UTC with microseconds, as a JSON string.
void put_time(JsonBuffer& out, std::int64_t unix_ns);
// What stands in front of an event in each_frame_event().
void put_event_head(JsonBuffer& out, const camd_frame& frame);
// One event as a JSON object.
void put_event(JsonBuffer& out, const camd_event& event);
// Calls send() after each event, when `out` is that event with its camera, its frame's number and time.
template <class Send>
void each_frame_event(JsonBuffer& out, const camd_frame& frame, const camd::plugin::Events& events, Send&& send) {
  out.clear();
  put_event_head(out, frame);
  const std::size_t head = out.size();
  for (const camd_event& event : events) {
    out.resize(head);
    put_event(out, event);
    put(out, "}");
    send();
  }
}
// The frame as a JSON object, without a line's end. `now_ns`, on the clock of frame.captured_mono_ns, ends the latency.
void put_frame(JsonBuffer& out, const camd_frame& frame, const camd::plugin::Results& results,
               const camd::plugin::Events& events, std::int64_t now_ns);

}  // namespace camd::plugins
