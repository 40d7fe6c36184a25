// A picture in memory as plug-ins are shown it (plugins/camd_plugin.h).
//
// Threads: a function of its arguments, [any].
#pragma once

#include <cstddef>

#include "base/picture.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline {

// Points into `pixels`, which has layout.size_bytes bytes.
[[nodiscard]] camd_picture plugin_picture(const base::PictureLayout& layout, const std::byte* pixels) noexcept;

}  // namespace camd::pipeline
