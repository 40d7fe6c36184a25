#include <algorithm>

#include "plugins/outbox/outbox.hpp"

namespace camd::plugins {

OutboxOptions read_outbox(JsonObject& config) {
  using std::chrono::milliseconds;
  OutboxOptions options;
  JsonObject keys = config.object("outbox");
  options.capacity = static_cast<std::size_t>(keys.integer("capacity", 1, 1'000'000).value_or(1000));
  if (const auto memory = keys.bytes("memory", std::int64_t{64} << 10U, std::int64_t{4} << 30U)) {
    options.memory_bytes = static_cast<std::uint64_t>(*memory);
  }
  if (keys.one_of("full", {"newest", "oldest"}) == "oldest") options.full = OutboxOptions::Full::kOldest;
  options.spool = keys.text("spool").value_or("");
  if (const auto most = keys.bytes("spool_max", std::int64_t{1} << 20U, std::int64_t{1} << 50U)) {
    options.spool_max_bytes = static_cast<std::uint64_t>(*most);
    if (options.spool.empty()) keys.fail("spool_max", "bounds a spool, and there is none: name its folder in 'spool'");
  }
  if (const auto most = keys.duration("retry_max", milliseconds(100), std::chrono::hours(1))) {
    options.retry_max = *most;
    options.retry_min = std::min(options.retry_min, options.retry_max);
  }
  config.absorb(keys);
  return options;
}

}  // namespace camd::plugins
