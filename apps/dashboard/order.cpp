#include "apps/dashboard/order.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace camd::dashboard {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool holds(std::string_view name, std::string_view filter) {
  return std::search(name.begin(), name.end(), filter.begin(), filter.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != name.end();
}

int state_rank(std::string_view state) {
  constexpr std::array<std::string_view, 7> kWorstFirst = {"failed",   "reconnecting", "stalled", "starved",
                                                           "starting", "running",      "ended"};
  const auto found = std::find(kWorstFirst.begin(), kWorstFirst.end(), state);
  return static_cast<int>(found - kWorstFirst.begin());
}

}  // namespace

Condition condition_of(const Camera& camera) {
  Condition condition;
  condition.state = state_rank(camera.state);
  if (camera.dropped_lately >= 0.5) condition.dropping = -2 - static_cast<int>(std::log2(camera.dropped_lately));
  const Latency& total = camera.latency[kTotal];
  if (total.count > 0 && total.p99 > 1) condition.slow = -static_cast<int>(std::log(total.p99) / std::log(1.4));
  return condition;
}

std::vector<std::size_t> cameras_in_order(const Model& model, std::string_view filter) {
  struct Row {
    Condition condition;
    std::size_t index;
  };
  const std::vector<Camera>& cameras = model.cameras();
  const bool by_condition = cameras.size() > kManyCameras;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < cameras.size(); ++i) {
    if (!holds(cameras[i].name, filter)) continue;
    rows.push_back({by_condition ? condition_of(cameras[i]) : Condition{}, i});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.condition < b.condition; });
  std::vector<std::size_t> order;
  order.reserve(rows.size());
  for (const Row& row : rows) order.push_back(row.index);
  return order;
}

}  // namespace camd::dashboard
