// Looking at shapes that several projects' exports have.
#include "plugins/detections/unread.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace camd::plugins {

std::string lists_without_names(const camd_model& model) {
  std::vector<const camd_tensor_spec*> lists;
  const camd_tensor_spec* boxes = nullptr;
  for (int i = 0; i < model.output_count; ++i) {
    const camd_tensor_spec& output = model.outputs[i];
    const bool batch = output.ndim > 1 && output.shape[0] == 1;
    const int rank = output.ndim - (batch ? 1 : 0);
    if (rank == 2 && output.shape[output.ndim - 1] == 4) boxes = &output;
    if (rank == 1) lists.push_back(&output);
  }
  const auto rows = [](const camd_tensor_spec& output, int behind) { return output.shape[output.ndim - 1 - behind]; };
  if (boxes == nullptr || model.output_count != 3 || lists.size() != 2) return "";
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
  return same(4, 1) || same(4, 3) || same(5, 4);
}

}  // namespace camd::plugins
