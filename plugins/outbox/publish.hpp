// When an outlet sends what a frame shows: every frame, on a change of what there is, or once an interval.
//
// Threads: read_publish() [setup]; PublishGate [post].
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"

namespace camd::plugins {

struct PublishOptions {
  enum class When : std::uint8_t { kFrame, kChange, kInterval };
  When when = When::kChange;
  std::int64_t interval_ns = 1'000'000'000;  // of kInterval
  bool events = true;                        // whether events are sent
};
// Reads `publish`, `interval` and `events`. Problems are noted in `config`.
[[nodiscard]] PublishOptions read_publish(JsonObject& config);

// Stands for a detection where only what there is counts: its class and its track.
[[nodiscard]] std::uint64_t identity_of(const camd_detection& detection) noexcept;

// Of one camera. [no-alloc] once frames have shown as many.
class PublishGate {
 public:
  // `shown`: identity_of() of the frame's detections, in any order; sorted afterwards. Whether the frame is sent: it
  // counts as sent then.
  [[nodiscard]] bool opens(const PublishOptions& options, std::vector<std::uint64_t>& shown, std::int64_t now_ns);

 private:
  std::vector<std::uint64_t> sent_;
  bool sent_once_ = false;
  std::int64_t next_ns_ = 0;  // kInterval
};

}  // namespace camd::plugins
