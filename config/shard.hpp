// A part of a configuration's cameras: several camds with the same file, each with its part of them.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <optional>
#include <string_view>

#include "config/loader.hpp"

namespace camd::config {

inline constexpr int kMostShards = 4096;

// "0/3" is the first of three. Nothing for anything else.
[[nodiscard]] std::optional<Shard> parse_shard(std::string_view text);

// The shard that a camera of this name belongs to. It depends on name and `count` alone, on any machine. Where `count`
// grows by one, a camera stays or goes to the new shard: jump consistent hash (Lamping and Veach, 2014,
// arXiv:1406.2294) of the first eight bytes of the name's SHA-256.
[[nodiscard]] int shard_of(std::string_view camera, int count);

// Leaves out the cameras of other shards, and notes which shard it is. A hash may leave a shard without a camera: it
// waits for those that a reload brings.
void keep_shard(Reading& reading, const Shard& shard);

}  // namespace camd::config
