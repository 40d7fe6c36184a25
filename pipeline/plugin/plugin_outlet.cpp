#include "pipeline/plugin/plugin_outlet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

namespace camd::pipeline {
namespace {

constexpr std::size_t kMostNameBytes = 256;

std::int32_t refuse(camd_error* error, std::int32_t code, std::string_view message) noexcept {
  if (error != nullptr) {
    const std::size_t bytes = std::min(message.size(), sizeof(error->message) - 1);
    std::memcpy(error->message, message.data(), bytes);
    error->message[bytes] = '\0';
  }
  return code;
}

// Sums that would not fit are no sums.
bool add(std::uint64_t& sum, std::uint64_t count) noexcept { return !__builtin_add_overflow(sum, count, &sum); }

// Throws std::invalid_argument.
OutletRow checked(const camd_outlet_row& row) {
  if (row.camera == nullptr || strnlen(row.camera, kMostNameBytes) == kMostNameBytes) {
    throw std::invalid_argument("a row's camera has no name, or one that does not end");
  }
  if (row.dropped_count < 0 || row.dropped_count > CAMD_MAX_OUTLET_DROPS || row.reserved != 0 ||
      (row.dropped_count > 0 && row.dropped == nullptr)) {
    throw std::invalid_argument(
        fmt::format("camera '{}': a wrong count of reasons, or a reserved word that is not 0", row.camera));
  }
  OutletRow copy{row.camera, row.taken, row.acknowledged, row.waiting, row.spooled, {}};
  std::uint64_t sum = 0;
  bool fits = add(sum, row.acknowledged) && add(sum, row.waiting) && add(sum, row.spooled);
  for (std::int32_t i = 0; i < row.dropped_count; ++i) {
    const camd_outlet_drop& drop = row.dropped[i];
    const std::size_t length = drop.reason != nullptr ? strnlen(drop.reason, CAMD_COUNTER_NAME_BYTES) : 0;
    if (length == 0 || length == CAMD_COUNTER_NAME_BYTES) {
      throw std::invalid_argument(
          fmt::format("camera '{}': a reason has no name, or one that is too long", row.camera));
    }
    fits = fits && add(sum, drop.count);
    copy.dropped.emplace_back(std::string(drop.reason, length), drop.count);
  }
  if (!fits || sum != row.taken) {
    throw std::invalid_argument(fmt::format(
        "camera '{}': {} taken are not {} acknowledged, waiting, spooled and dropped", row.camera, row.taken, sum));
  }
  return copy;
}

void add_dropped(OutletRow& row, const std::string& reason, std::uint64_t count) {
  const auto same = [&reason](const auto& drop) { return drop.first == reason; };
  const auto at = std::find_if(row.dropped.begin(), row.dropped.end(), same);
  if (at != row.dropped.end()) {
    at->second += count;
  } else {
    row.dropped.emplace_back(reason, count);
  }
}

}  // namespace

void OutletRow::end(const char* reason) {
  if (waiting > 0) add_dropped(*this, reason, std::exchange(waiting, 0));
  taken -= std::exchange(spooled, 0);
}

void add_rows(std::vector<OutletRow>& to, const std::vector<OutletRow>& more) {
  for (const OutletRow& row : more) {
    const auto same = [&row](const OutletRow& one) { return one.camera == row.camera; };
    const auto at = std::find_if(to.begin(), to.end(), same);
    if (at == to.end()) {
      if (to.size() < CAMD_MAX_OUTLET_ROWS) to.push_back(row);
      continue;
    }
    // Everything else is a part of what was taken.
    std::uint64_t taken = at->taken;
    if (!add(taken, row.taken)) continue;
    at->taken = taken;
    at->acknowledged += row.acknowledged;
    at->waiting += row.waiting;
    at->spooled += row.spooled;
    for (const auto& [reason, count] : row.dropped) add_dropped(*at, reason, count);
  }
}

std::int32_t PluginOutlet::report(const camd_outlet_row* rows, std::int32_t count, camd_error* error) noexcept {
  if (count < 0 || (count > 0 && rows == nullptr)) return refuse(error, CAMD_ERROR_INVALID, "there are no such rows");
  if (count > CAMD_MAX_OUTLET_ROWS) {
    return refuse(error, CAMD_ERROR_FULL, "more rows than CAMD_MAX_OUTLET_ROWS");
  }
  try {
    std::vector<OutletRow> copies;
    std::set<std::string_view> names;
    copies.reserve(static_cast<std::size_t>(count));  // names point into them
    for (std::int32_t i = 0; i < count; ++i) {
      copies.push_back(checked(rows[i]));
      if (!names.insert(copies.back().camera).second) {
        return refuse(error, CAMD_ERROR_INVALID, fmt::format("camera '{}' has two rows", copies.back().camera));
      }
    }
    const base::MutexLock lock(mutex_);
    rows_ = std::move(copies);
  } catch (const std::exception& problem) {
    return refuse(error, CAMD_ERROR_INVALID, problem.what());
  }
  return CAMD_OK;
}

std::vector<OutletRow> PluginOutlet::rows() const {
  const base::MutexLock lock(mutex_);
  return rows_;
}

}  // namespace camd::pipeline
