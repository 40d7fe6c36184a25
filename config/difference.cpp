#include "config/difference.hpp"

#include <algorithm>
#include <string_view>

namespace camd::config {
namespace {

const Camera* camera_named(const Config& config, std::string_view name) {
  const auto found = std::find_if(config.cameras.begin(), config.cameras.end(),
                                  [name](const Camera& camera) { return camera.name == name; });
  return found == config.cameras.end() ? nullptr : &*found;
}

// The model without what plug-ins alone read.
Model without_card(Model model) {
  model.card.reset();
  model.card_json.clear();
  return model;
}

void compare_cameras(const Config& running, const Config& next, Difference& difference) {
  for (std::size_t i = 0; i < next.cameras.size(); ++i) {
    const Camera* before = camera_named(running, next.cameras[i].name);
    if (before == nullptr) {
      difference.cameras_added.push_back(i);
    } else if (!(*before == next.cameras[i])) {
      difference.cameras_altered.push_back(i);
    }
  }
  for (std::size_t i = 0; i < running.cameras.size(); ++i) {
    if (camera_named(next, running.cameras[i].name) == nullptr) difference.cameras_removed.push_back(i);
  }
}

void compare_plugins(const Config& running, const Config& next, Difference& difference) {
  std::vector<bool> taken(running.postprocess.size(), false);
  difference.plugins = running.postprocess.size() != next.postprocess.size();
  for (std::size_t i = 0; i < next.postprocess.size(); ++i) {
    std::optional<std::size_t>& kept = difference.plugins_kept.emplace_back();
    for (std::size_t k = 0; k < taken.size() && !kept; ++k) {
      if (!taken[k] && running.postprocess[k] == next.postprocess[i]) kept = k;
    }
    if (kept) taken[*kept] = true;
    if (kept != i) difference.plugins = true;
  }
}

}  // namespace

bool Difference::nothing() const noexcept {
  return !device && !engine && !card && !buffers && !path && !period && !http && !plugins && cameras_added.empty() &&
         cameras_altered.empty() && cameras_removed.empty();
}

std::vector<std::string> Difference::names(const Config& running, const Config& next) const {
  std::vector<std::string> names;
  if (device) names.emplace_back("device");
  if (engine || card) names.emplace_back("model");
  if (buffers || path) names.emplace_back("pipeline");
  if (plugins) names.emplace_back("postprocess");
  if (period) names.emplace_back("metrics");
  if (http) names.emplace_back("http");
  for (const std::size_t i : cameras_added) names.push_back("camera " + next.cameras[i].name + " added");
  for (const std::size_t i : cameras_altered) names.push_back("camera " + next.cameras[i].name + " altered");
  for (const std::size_t i : cameras_removed) names.push_back("camera " + running.cameras[i].name + " removed");
  return names;
}

Difference difference(const Config& running, const Config& next) {
  Difference difference;
  difference.device =
      !(running.device == next.device) || running.all_devices != next.all_devices || running.devices != next.devices;
  difference.engine = !(without_card(running.model) == without_card(next.model));
  difference.card = running.model.card_json != next.model.card_json;
  difference.buffers = running.pipeline.transfer != next.pipeline.transfer;
  difference.path = running.pipeline.streams != next.pipeline.streams ||
                    running.pipeline.slots != next.pipeline.slots || running.pipeline.max_age != next.pipeline.max_age;
  difference.period = running.metrics.period != next.metrics.period;
  difference.http = !(running.http == next.http);
  compare_cameras(running, next, difference);
  compare_plugins(running, next, difference);
  return difference;
}

}  // namespace camd::config
