// --set key.path=value: changes a tree before it is checked, so that an override obeys the same rules as the file.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/yaml_tree.hpp"

namespace camd::config {

// Applies each "key.path=value" to the map `root`, the later after the earlier. An element of a list is named by its
// number (cameras.0, or cameras[0]), a camera also by its name (cameras.door), a postprocessor by its plug-in
// (postprocess.jsonl); the number one past the end appends. Places of changed values read "--set KEY".
void apply_overrides(TreeNode& root, std::span<const std::string> overrides, std::vector<Problem>& problems);

}  // namespace camd::config
