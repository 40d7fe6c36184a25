// What both kinds of instances have in common.
#include "pipeline/plugin/plugin_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "pipeline/plugin/bounded_text.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

std::string PluginSpec::prefix() const {
  return fmt::format("{}{}plug-in {}{}{}", where, where.empty() ? "" : ": ", plugin,
                     camera.empty() ? "" : " for camera ", camera);
}

PluginNeeds checked_needs(const std::vector<int>& outputs, int input, int picture, std::int32_t detections,
                          const std::string& prefix) {
  PluginNeeds needs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int wish = outputs[i];
    if (wish < CAMD_NEED_NONE || wish > CAMD_NEED_DEVICE) {
      throw Error(ErrorKind::kPlugin,
                  fmt::format("{}: outputs() asked for need {} of output {}, which does not exist", prefix, wish, i));
    }
    needs.outputs.push_back(static_cast<camd_need>(wish));
  }
  if (input < CAMD_NEED_NONE || input > CAMD_NEED_HOST) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: the network's input can be had as NONE, SHAPE or HOST", prefix));
  }
  if (picture != CAMD_NEED_NONE && picture != CAMD_NEED_HOST) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: the source picture can be had as NONE or HOST", prefix));
  }
  if (detections < 0 || detections > CAMD_MAX_DETECTIONS) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("{}: outputs() asked for room for {} detections a frame, 0 to {} can be had", prefix,
                            detections, CAMD_MAX_DETECTIONS));
  }
  needs.input = static_cast<camd_need>(input);
  needs.picture = picture == CAMD_NEED_HOST;
  needs.detections = detections;
  return needs;
}

std::vector<std::string> camera_names_of(const camd_model& model) {
  return {model.camera_names, model.camera_names + model.camera_count};
}

const char* problem_of(const camd_results& results) noexcept {
  if (results.count < 0 || results.count > results.capacity) return "left a count of detections outside 0..capacity";
  for (std::int32_t i = 0; i < results.count; ++i) {
    const camd_detection& d = results.items[i];
    if (!ends(d.class_name)) return "left a detection whose class_name does not end";
    if (!ends(d.text)) return "left a detection whose text does not end";
    if (d.keypoint_count < 0 || d.keypoint_count > CAMD_MAX_KEYPOINTS) {
      return "left a detection whose keypoint_count is outside 0..CAMD_MAX_KEYPOINTS";
    }
    bool finite = std::isfinite(d.score);
    for (const float value : d.box) finite = finite && std::isfinite(value);
    for (std::int32_t k = 0; k < d.keypoint_count; ++k) {
      finite = finite && std::isfinite(d.keypoints[k][0]) && std::isfinite(d.keypoints[k][1]);
    }
    if (!finite) return "left a detection with a number that is not finite";
    if (std::any_of(std::begin(d.reserved), std::end(d.reserved), [](std::uint32_t word) { return word != 0; })) {
      return "left a detection whose reserved words are not 0";
    }
  }
  return nullptr;
}

}  // namespace camd::pipeline
