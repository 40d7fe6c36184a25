// The ledger of an outlet: what became of every message that it was handed, camera by camera.
//
// Threads: plain values.
// Invariants: taken == acknowledged + waiting + spooled + sum of dropped, at every moment at which others see it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace camd::plugins {

// Why a message was not delivered.
enum class OutboxDrop : std::uint8_t {
  kFull,     // there was no room for it in memory or in the spool
  kTooBig,   // it is larger than a quarter of the outbox's memory
  kRefused,  // the other side did not want it
  kDamaged,  // what the spool held of it cannot be read any more
  kShutdown  // camd ended before it was acknowledged, and there is no spool
};
inline constexpr std::size_t kOutboxDrops = 5;
[[nodiscard]] constexpr std::string_view to_string(OutboxDrop why) noexcept {
  constexpr std::array<std::string_view, kOutboxDrops> kNames{"full", "too_big", "refused", "damaged", "shutdown"};
  return kNames[static_cast<std::size_t>(why)];
}

struct OutboxTotals {
  std::uint64_t taken = 0;         // handed over, or found in the spool at the start
  std::uint64_t acknowledged = 0;  // the other side has it
  std::uint64_t waiting = 0;       // in memory, sent or not
  std::uint64_t spooled = 0;       // on disk, sent or not
  std::array<std::uint64_t, kOutboxDrops> dropped{};

  [[nodiscard]] std::uint64_t& dropped_for(OutboxDrop why) noexcept { return dropped[static_cast<std::size_t>(why)]; }
  [[nodiscard]] bool balanced() const noexcept {
    std::uint64_t sum = acknowledged + waiting + spooled;
    for (const std::uint64_t count : dropped) sum += count;
    return sum == taken;
  }
};

// The totals of one camera. "" stands for cameras that have gone.
struct OutboxRow {
  std::string camera;
  OutboxTotals totals;
};

}  // namespace camd::plugins
