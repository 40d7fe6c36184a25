#include "config/shard.hpp"

#include <charconv>
#include <cstdint>
#include <string>

#include "base/sha256.hpp"

namespace camd::config {

std::optional<Shard> parse_shard(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view digits, int& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && digits.front() != '-';
  };
  Shard shard;
  if (!number(text.substr(0, slash), shard.index) || !number(text.substr(slash + 1), shard.count)) return std::nullopt;
  if (shard.count < 1 || shard.count > kMostShards || shard.index >= shard.count) return std::nullopt;
  return shard;
}

int shard_of(std::string_view camera, int count) {
  std::uint64_t key = 0;
  const std::string digest = base::sha256(camera).substr(0, 16);
  std::from_chars(digest.data(), digest.data() + digest.size(), key, 16);
  std::int64_t shard = -1, next = 0;
  while (next < count) {
    shard = next;
    key = key * 2862933555777941757ULL + 1;
    const double jump = static_cast<double>(std::int64_t{1} << 31U) / static_cast<double>((key >> 33U) + 1);
    next = static_cast<std::int64_t>(static_cast<double>(shard + 1) * jump);
  }
  return static_cast<int>(shard);
}

void keep_shard(Reading& reading, const Shard& shard) {
  std::vector<Camera>& cameras = reading.config.cameras;
  reading.config.shard = shard;
  reading.config.cameras_in_file = cameras.size();
  std::erase_if(cameras, [&](const Camera& camera) { return shard_of(camera.name, shard.count) != shard.index; });
}

}  // namespace camd::config
