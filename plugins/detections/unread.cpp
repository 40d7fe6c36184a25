// Looking at shapes that several projects' exports have.
#include "plugins/detections/unread.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace camd::plugins {

std::string lists_without_names(const camd_model& model) {
  std::vector<const camd_tensor_spec*> lists;
  const camd_tensor_spec* boxes = nullptr;
  int counts = 0;
  for (int i = 0; i < model.output_count; ++i) {
    const camd_tensor_spec& output = model.outputs[i];
    const bool batch = output.ndim > 1 && output.shape[0] == 1;
    const int rank = output.ndim - (batch ? 1 : 0);
    if (rank == 2 && output.shape[output.ndim - 1] == 4) boxes = &output;
    const bool count = rank == 1 && output.shape[output.ndim - 1] == 1;  // how many boxes there are
    if (count) ++counts;
    if (rank == 1 && !count) lists.push_back(&output);
  }
  const auto rows = [](const camd_tensor_spec& output, int behind) { return output.shape[output.ndim - 1 - behind]; };
  if (boxes == nullptr || model.output_count != 3 + counts || lists.size() != 2) return "";
  if (rows(*lists[0], 0) != rows(*boxes, 1) || rows(*lists[1], 0) != rows(*boxes, 1)) return "";
  const std::string a = lists[0]->name, b = lists[1]->name;
  return "the model's outputs look like boxes that the graph has chosen, but their names do not tell scores from "
         "classes: set "
         "{layout: rows, outputs: {obj: \"" +
         a + "\", cls: \"" + b + "\"}} where \"" + a + "\" holds the scores, or the other way round";
}

bool are_whole_maps(const camd_model& model) {
  constexpr std::int64_t kLeast = 6;  // box, objectness and a class
  const auto same = [&](int ndim, int axis) {
    const std::int64_t values =
        model.output_count < 2 || model.outputs[0].ndim != ndim ? 0 : model.outputs[0].shape[axis];
    return values >= kLeast && std::all_of(model.outputs, model.outputs + model.output_count, [&](const auto& output) {
             return output.ndim == ndim && output.shape[0] == 1 && output.shape[axis] == values;
           });
  };
  // Of several strides, and not pictures, as those of segments and heat are.
  const auto shrink = [&](int first, int second) {
    return std::adjacent_find(
               model.outputs, model.outputs + model.output_count, [&](const auto& one, const auto& other) {
                 return one.shape[first] == other.shape[first] && one.shape[second] == other.shape[second];
               }) == model.outputs + model.output_count;
  };
  const bool upright = std::all_of(model.outputs, model.outputs + model.output_count, [&](const auto& output) {
    return output.ndim != 4 || std::abs(model.input.shape[2] / std::max<std::int64_t>(output.shape[1], 1) -
                                        model.input.shape[3] / std::max<std::int64_t>(output.shape[2], 1)) <= 1;
  });
  return (same(4, 1) && shrink(2, 3)) || (same(4, 3) && upright && shrink(1, 2)) || same(5, 4);
}

}  // namespace camd::plugins
