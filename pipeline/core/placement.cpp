#include "pipeline/core/placement.hpp"

#include <algorithm>

namespace camd::pipeline {
namespace {

// The mean of those that are known, so that nobody counts as nothing; 1 where nobody is.
template <class Items, class Value>
double mean_known(const Items& items, Value value) {
  double sum = 0;
  double count = 0;
  for (const auto& item : items) {
    if (value(item) <= 0) continue;
    sum += value(item);
    ++count;
  }
  return count > 0 ? sum / count : 1;
}

double known_or(double value, double otherwise) { return value > 0 ? value : otherwise; }

double mean_rate(const std::vector<CameraLoad>& cameras) {
  return mean_known(cameras, [](const CameraLoad& camera) { return camera.rate; });
}

double mean_cost(const std::vector<LaneLoad>& lanes) {
  return mean_known(lanes, [](const LaneLoad& lane) { return lane.seconds_per_frame; });
}

}  // namespace

std::vector<double> loads_of(const std::vector<LaneLoad>& lanes, const std::vector<CameraLoad>& cameras) {
  const double cost = mean_cost(lanes);
  const double rate = mean_rate(cameras);
  std::vector<double> loads(lanes.size(), 0);
  for (const CameraLoad& camera : cameras) {
    loads[camera.lane] += known_or(camera.rate, rate) * known_or(lanes[camera.lane].seconds_per_frame, cost);
  }
  return loads;
}

std::size_t place(const std::vector<LaneLoad>& lanes, const std::vector<CameraLoad>& cameras, double rate) {
  const std::vector<double> loads = loads_of(lanes, cameras);
  const double cost = mean_cost(lanes);
  const double asked = known_or(rate, mean_rate(cameras));
  std::size_t best = lanes.size();
  double least = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i].usable) continue;
    const double load = loads[i] + asked * known_or(lanes[i].seconds_per_frame, cost);
    if (best == lanes.size() || load < least) {
      best = i;
      least = load;
    }
  }
  return best;
}

std::optional<Move> next_move(const std::vector<LaneLoad>& lanes, const std::vector<CameraLoad>& cameras) {
  const std::vector<double> loads = loads_of(lanes, cameras);
  const double cost = mean_cost(lanes);
  const double rate = mean_rate(cameras);
  std::size_t heavy = lanes.size();
  std::size_t light = lanes.size();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (!lanes[i].usable) continue;
    if (heavy == lanes.size() || loads[i] > loads[heavy]) heavy = i;
    if (light == lanes.size() || loads[i] < loads[light]) light = i;
  }
  if (heavy == lanes.size() || loads[heavy] < kQuietLoad) return std::nullopt;
  if (loads[heavy] - loads[light] < kUneven * loads[heavy]) return std::nullopt;
  std::optional<Move> best;
  double least = loads[heavy];  // what the heavier of the two has left after the best move so far
  for (std::size_t c = 0; c < cameras.size(); ++c) {
    if (cameras[c].lane != heavy || !cameras[c].movable) continue;
    const double asked = known_or(cameras[c].rate, rate);
    for (std::size_t to = 0; to < lanes.size(); ++to) {
      if (to == heavy || !lanes[to].usable) continue;
      const double without = loads[heavy] - asked * known_or(lanes[heavy].seconds_per_frame, cost);
      const double with = loads[to] + asked * known_or(lanes[to].seconds_per_frame, cost);
      if (std::max(without, with) >= least) continue;
      least = std::max(without, with);
      best = Move{c, to};
    }
  }
  return best;
}

}  // namespace camd::pipeline
