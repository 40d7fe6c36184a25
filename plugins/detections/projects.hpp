// Whose head a network has, by the names in its file. Boxes as offsets from anchors, or from a cell's point, have the
// same shapes in many projects, and neither shapes nor values tell by which rules they are meant.
//
// Threads: [any], a function of its arguments.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace camd::plugins {

// The name of known_layouts() whose project calls its parts so; empty where no names tell, or those of two projects do.
// `names`: of the outputs, or of weights and nodes.
[[nodiscard]] std::string_view layout_by_names(std::span<const std::string> names);

}  // namespace camd::plugins
