#include "plugins/outbox/report.hpp"

#include <array>
#include <string>
#include <vector>

namespace camd::plugins {

void report_totals(const camd::plugin::Host& host, const Outbox& outbox) {
  const camd_outlet* camd = host.outlet();
  if (camd == nullptr) return;
  const std::vector<OutboxRow> rows = outbox.totals();
  std::vector<std::array<camd_outlet_drop, kOutboxDrops>> drops(rows.size());
  std::vector<camd_outlet_row> told;
  told.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OutboxTotals& totals = rows[i].totals;
    for (std::size_t k = 0; k < kOutboxDrops; ++k) {
      drops[i].at(k) = {to_string(static_cast<OutboxDrop>(k)).data(), totals.dropped.at(k)};
    }
    told.push_back({rows[i].camera.c_str(), totals.taken, totals.acknowledged, totals.waiting, totals.spooled,
                    static_cast<std::int32_t>(kOutboxDrops), 0, drops[i].data()});
  }
  camd_error error{};
  error.struct_size = sizeof(error);
  if (camd->report(host.get(), told.data(), static_cast<std::int32_t>(told.size()), &error) != CAMD_OK) {
    host.log(CAMD_LOG_ERROR, std::string("bug: camd refuses an outlet's totals: ") + error.message);
  }
}

}  // namespace camd::plugins
