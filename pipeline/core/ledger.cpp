// The numbers of each camera, changed and read under its lock.
#include "pipeline/core/ledger.hpp"

#include <algorithm>
#include <numeric>

namespace camd::pipeline {
namespace {

void add(const Totals& one, Totals& sum) {
  sum.captured += one.captured;
  sum.delivered += one.delivered;
  sum.in_flight += one.in_flight;
  for (std::size_t r = 0; r < sum.dropped.size(); ++r) sum.dropped[r] += one.dropped[r];
}

}  // namespace

std::string_view to_string(DropReason reason) noexcept {
  switch (reason) {
    case DropReason::kSuperseded: return "superseded";
    case DropReason::kTooOld: return "too_old";
    case DropReason::kGated: return "gated";
    case DropReason::kSourceError: return "source_error";
    case DropReason::kDeviceError: return "device_error";
    case DropReason::kPluginError: return "plugin_error";
    case DropReason::kShutdown: return "shutdown";
  }
  return "?";
}

std::uint64_t Totals::dropped_sum() const noexcept {
  return std::accumulate(dropped.begin(), dropped.end(), std::uint64_t{0});
}

bool Totals::balanced() const noexcept {
  return in_flight >= 0 && captured == delivered + dropped_sum() + static_cast<std::uint64_t>(in_flight);
}

Ledger::Ledger(std::size_t cameras) : accounts_(cameras) {}

void Ledger::captured(CameraIndex camera) noexcept {
  Account& account = accounts_[camera];
  base::MutexLock lock(account.mutex);
  ++account.totals.captured;
  ++account.totals.in_flight;
}

void Ledger::delivered(CameraIndex camera) noexcept {
  Account& account = accounts_[camera];
  base::MutexLock lock(account.mutex);
  ++account.totals.delivered;
  --account.totals.in_flight;
}

void Ledger::dropped(CameraIndex camera, DropReason reason) noexcept {
  Account& account = accounts_[camera];
  base::MutexLock lock(account.mutex);
  ++account.totals.dropped[static_cast<std::size_t>(reason)];
  --account.totals.in_flight;
}

void Ledger::seal(const std::vector<CameraIndex>& failed) {
  sealed_.clear();
  for (std::size_t i = 0; i < accounts_.size(); ++i) {
    const auto camera = static_cast<CameraIndex>(i);
    Totals last = totals(camera);
    const auto close = [&last](DropReason reason) {
      ++last.dropped[static_cast<std::size_t>(reason)];
      --last.in_flight;
    };
    const bool has_failed = std::find(failed.begin(), failed.end(), camera) != failed.end();
    if (has_failed && last.in_flight > 0) close(DropReason::kPluginError);
    while (last.in_flight > 0) close(DropReason::kShutdown);
    sealed_.push_back(last);
  }
  is_sealed_ = true;
}

Totals Ledger::totals(CameraIndex camera) const {
  if (is_sealed_) return sealed_[camera];
  const Account& account = accounts_[camera];
  base::MutexLock lock(account.mutex);
  return account.totals;
}

Totals Ledger::removed() const {
  const base::MutexLock lock(removed_.mutex);
  return removed_.totals;
}

Totals Ledger::totals() const {
  const base::MutexLock lock(removed_.mutex);
  Totals sum = removed_.totals;
  for (std::size_t i = 0; i < accounts_.size(); ++i) add(totals(static_cast<CameraIndex>(i)), sum);
  return sum;
}

void Ledger::retire(CameraIndex camera) {
  const base::MutexLock removed_lock(removed_.mutex);
  Account& account = accounts_[camera];
  const base::MutexLock lock(account.mutex);
  add(account.totals, removed_.totals);
  account.totals = {};
}

}  // namespace camd::pipeline
