#include "plugins/outbox/publish.hpp"

#include <algorithm>
#include <chrono>

namespace camd::plugins {

using std::chrono::milliseconds;

PublishOptions read_publish(JsonObject& config) {
  PublishOptions options;
  const auto publish = config.one_of("publish", {"frame", "change", "interval"});
  if (publish == "frame") options.when = PublishOptions::When::kFrame;
  if (publish == "interval") options.when = PublishOptions::When::kInterval;
  if (const auto interval = config.duration("interval", milliseconds(10), std::chrono::hours(1))) {
    options.interval_ns = std::chrono::nanoseconds(*interval).count();
    if (publish != "interval") config.fail("interval", "is for publish: interval");
  }
  options.events = config.boolean("events").value_or(true);
  return options;
}

std::uint64_t identity_of(const camd_detection& detection) noexcept {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(detection.class_id)) << 40U) ^ detection.track_id;
}

bool PublishGate::opens(const PublishOptions& options, std::vector<std::uint64_t>& shown, std::int64_t now_ns) {
  switch (options.when) {
    case PublishOptions::When::kFrame: return true;
    case PublishOptions::When::kInterval:
      if (now_ns < next_ns_) return false;
      // Counts on from what was due, unless frames were away for longer.
      next_ns_ = std::max(next_ns_ + options.interval_ns, now_ns);
      return true;
    case PublishOptions::When::kChange: break;
  }
  std::sort(shown.begin(), shown.end());
  if (sent_once_ && shown == sent_) return false;
  sent_once_ = true;
  sent_ = shown;
  return true;
}

}  // namespace camd::plugins
