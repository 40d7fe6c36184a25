// What outputs that no layout reads look like, by their names and shapes alone.
//
// Threads: [any], functions of their argument.
#pragma once

#include <string>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// What to write for chosen boxes [N,4] beside two lists [N] whose names do not tell scores from classes, as
// torchvision's exports have them; empty for other models.
[[nodiscard]] std::string lists_without_names(const camd_model& model);

// Maps of several strides with as many values a cell each: [1,k,h,w], [1,h,w,k] or, of several boxes a cell,
// [1,a,h,w,k].
[[nodiscard]] bool are_whole_maps(const camd_model& model);

}  // namespace camd::plugins
