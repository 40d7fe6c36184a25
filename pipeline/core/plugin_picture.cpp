#include "pipeline/core/plugin_picture.hpp"

namespace camd::pipeline {

camd_picture plugin_picture(const base::PictureLayout& layout, const std::byte* pixels) noexcept {
  camd_picture picture{};
  picture.struct_size = sizeof(picture);
  picture.format = static_cast<camd_pixel_format>(layout.format);  // same order; tests/pipeline checks it
  picture.bt709 = layout.matrix == base::ColorMatrix::kBt709 ? 1 : 0;
  picture.full_range = layout.full_range ? 1 : 0;
  picture.plane_count = layout.plane_count;
  for (int i = 0; i < layout.plane_count; ++i) {
    const base::Plane& plane = layout.planes[static_cast<std::size_t>(i)];
    picture.planes[i] = {reinterpret_cast<const std::uint8_t*>(pixels + plane.offset_bytes), plane.stride_bytes,
                         plane.width, plane.height};
  }
  return picture;
}

}  // namespace camd::pipeline
