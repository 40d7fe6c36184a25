// A picture as JPEG, by libturbojpeg: for the built-ins and for the HTTP server.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <string>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// A picture of `width` x `height` pixels as baseline JPEG with 4:2:0 chroma, in the colours that JFIF means (BT.601,
// full range; ITU-T T.871). `quality`: 1..100. Its sides are those of the picture divided by the smallest whole number
// that leaves at most `most_width` pixels a row; 0: they are not divided. A pixel of a smaller picture is the mean of
// four. Throws std::runtime_error.
[[nodiscard]] std::string jpeg_of(const camd_picture& picture, int width, int height, int most_width, int quality);

}  // namespace camd::plugins
