// A YAML tree as JSON, for what camd hands on without reading it: the plug-ins' configuration.
//
// Threads: functions of their arguments, [any]. Private to the room: its header is the only one that names nlohmann.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/place.hpp"
#include "config/yaml_tree.hpp"

namespace camd::config {

// Types follow the YAML 1.2 core schema (yaml.org/spec/1.2.2, section 10.3): null, booleans, integers, numbers, and
// text for everything else. Numbers that JSON cannot hold are problems. `key` is the node's dotted key.
[[nodiscard]] nlohmann::json to_json(const TreeNode& node, const std::string& key, std::vector<Problem>& problems);

}  // namespace camd::config
