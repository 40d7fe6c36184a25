// What both kinds of instances have in common.
#include "pipeline/plugin/plugin_instance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

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

namespace {

constexpr std::int64_t kMostPlaces = std::int64_t{1} << 24;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 28;  // more is in no output, and products do not overflow

// What is wrong with elements; empty: nothing.
std::string problem_of(const camd_elements& elements, const camd_filter& filter, const camd_model& model,
                       const std::vector<camd_need>& wishes) {
  if (elements.output < 0 || elements.output >= model.output_count) {
    return fmt::format("names output {}, the model has {}", elements.output, model.output_count);
  }
  const camd_tensor_spec& output = model.outputs[elements.output];
  if (wishes[static_cast<std::size_t>(elements.output)] != CAMD_NEED_HOST) {
    return fmt::format("names output '{}', which is not wanted as HOST", output.name);
  }
  std::int64_t size = 1;
  for (std::int32_t i = 0; i < output.ndim; ++i) size *= output.shape[i];
  std::int64_t first = elements.first, last = elements.first;
  bool inside = elements.channels > 0 && elements.channels <= kMostSteps && std::abs(elements.first) <= kMostSteps;
  const auto reach = [&](std::int64_t step, std::int64_t count) {
    inside = inside && std::abs(step) <= kMostSteps;
    if (inside) (step < 0 ? first : last) += step * (count - 1);
  };
  reach(elements.cell_step, filter.cells);
  reach(elements.anchor_step, filter.anchors);
  reach(elements.channel_step, elements.channels);
  if (inside && first >= 0 && last < size) return {};
  return fmt::format("reaches beyond output '{}' of {} elements", output.name, size);
}

std::string problem_of(const camd_filter& filter, const camd_model& model, const std::vector<camd_need>& wishes) {
  if (filter.cells < 1 || filter.anchors < 1 || filter.cells > kMostPlaces ||
      filter.cells * filter.anchors > kMostPlaces) {
    return fmt::format("has {} cells of {} anchors, allowed are 1 to {} places", filter.cells, filter.anchors,
                       kMostPlaces);
  }
  if (!std::isfinite(filter.floor)) return "has a floor that is not finite";
  if (filter.value_count < 1 || filter.value_count > CAMD_FILTER_VALUES) {
    return fmt::format("has a value_count of {}, allowed are 1 to {}", filter.value_count, CAMD_FILTER_VALUES);
  }
  std::string problem = problem_of(filter.scores, filter, model, wishes);
  for (std::int32_t i = 0; i < filter.value_count && problem.empty(); ++i) {
    problem = problem_of(filter.values[i], filter, model, wishes);
  }
  return problem;
}

}  // namespace

std::vector<camd_filter> checked_filters(const camd_needs& needs, const camd_model& model,
                                         const std::vector<camd_need>& wishes, const std::string& prefix) {
  const std::int32_t count = needs.filter_count;
  if (count < 0 || count > CAMD_MAX_FILTERS || (count > 0 && needs.filters == nullptr)) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("{}: outputs() left {} filters, 0 to {} can be had", prefix, count, CAMD_MAX_FILTERS));
  }
  std::vector<camd_filter> filters(needs.filters, needs.filters + count);
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const std::string problem = problem_of(filters[i], model, wishes);
    if (problem.empty()) continue;
    throw Error(ErrorKind::kPlugin, fmt::format("{}: filter {} of outputs() {}", prefix, i, problem));
  }
  return filters;
}

bool names(const camd_filter& filter, std::int32_t output) noexcept {
  return std::any_of(filter.values, filter.values + filter.value_count,
                     [output](const camd_elements& values) { return values.output == output; });
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
