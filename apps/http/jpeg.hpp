// A picture as JPEG, by libturbojpeg.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <cstddef>
#include <string>

#include "base/picture.hpp"

namespace camd::http {

// The picture as JPEG with 4:2:0 chroma, in the colours that JFIF means (BT.601, full range; ITU-T T.871). Its sides
// are those of the picture divided by the smallest whole number that leaves at most `most_width` pixels a row; 0: they
// are not divided. A pixel of a smaller picture is the mean of four. `pixels` has layout.size_bytes bytes. Throws
// std::runtime_error.
[[nodiscard]] std::string jpeg_of(const base::PictureLayout& layout, const std::byte* pixels, int most_width);

}  // namespace camd::http
