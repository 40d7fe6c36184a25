#include "infer/sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace camd::infer {
namespace {

using base::PixelFormat;

SampleAxis make_axis(int first, int network_span, int source_span, int samples, float samples_per_pixel) noexcept {
  SampleAxis axis;
  const float source_step = static_cast<float>(source_span) / static_cast<float>(network_span);
  axis.step = source_step * samples_per_pixel;
  axis.origin = -static_cast<float>(first) * axis.step;
  axis.taps = std::max(1, static_cast<int>(std::ceil(axis.step / 2.0F - 1e-4F)));
  axis.size = samples;
  return axis;
}

// Rows: R, G, B. Columns: factors of Y', Cb, Cr and the constant, for samples in 0..255.
void fill_matrix(const base::PictureLayout& layout, float rgb[3][4]) noexcept {
  const float kr = layout.matrix == base::ColorMatrix::kBt709 ? 0.2126F : 0.299F;
  const float kb = layout.matrix == base::ColorMatrix::kBt709 ? 0.0722F : 0.114F;
  const float kg = 1.0F - kr - kb;
  const float y_gain = layout.full_range ? 1.0F : 255.0F / 219.0F;
  const float c_gain = layout.full_range ? 1.0F : 255.0F / 224.0F;
  const float y_zero = layout.full_range ? 0.0F : 16.0F;
  const float factors[3][2] = {{0.0F, 2.0F * (1.0F - kr)},
                               {-2.0F * kb * (1.0F - kb) / kg, -2.0F * kr * (1.0F - kr) / kg},
                               {2.0F * (1.0F - kb), 0.0F}};
  for (int c = 0; c < 3; ++c) {
    rgb[c][0] = y_gain;
    rgb[c][1] = factors[c][0] * c_gain;
    rgb[c][2] = factors[c][1] * c_gain;
    rgb[c][3] = -y_gain * y_zero - 128.0F * (rgb[c][1] + rgb[c][2]);
  }
}

struct ComponentPlace {
  int plane, offset_bytes, step_bytes;
  bool half_x, half_y;
};

}  // namespace

SamplePlan make_sample_plan(const base::PictureLayout& layout, const InputOptions& options) noexcept {
  SamplePlan plan;
  plan.network_width = options.width;
  plan.network_height = options.height;
  const PictureTransform t =
      picture_transform(layout.width, layout.height, options.width, options.height, options.resize);
  const auto span = [](float scale, int source) {
    return static_cast<int>(std::lround(static_cast<double>(scale) * source));
  };
  plan.x0 = static_cast<int>(t.offset_x);
  plan.y0 = static_cast<int>(t.offset_y);
  plan.x1 = std::min(plan.x0 + span(t.scale_x, layout.width), options.width);
  plan.y1 = std::min(plan.y0 + span(t.scale_y, layout.height), options.height);

  const bool rgb_network = options.color == ColorOrder::kRgb;
  for (int c = 0; c < 3; ++c) {
    const auto i = static_cast<std::size_t>(c);
    plan.gain[c] = options.scale[i];
    plan.bias[c] = -options.mean[i] * options.scale[i];
    plan.pad[c] = (options.pad - options.mean[i]) * options.scale[i];
  }

  plan.plane_count = layout.plane_count;
  for (int p = 0; p < layout.plane_count; ++p) {
    const base::Plane& plane = layout.planes[static_cast<std::size_t>(p)];
    plan.planes[p].offset_bytes = plane.offset_bytes;
    plan.planes[p].stride_bytes = plane.stride_bytes;
  }
  const int half_width = (layout.width + 1) / 2;
  const int half_height = (layout.height + 1) / 2;
  ComponentPlace places[3] = {};
  plan.component_count = 3;
  plan.color = SampleColor::kYcc;
  switch (layout.format) {
    case PixelFormat::kBgr:
    case PixelFormat::kRgb: {
      plan.color = SampleColor::kDirect;
      plan.planes[0].row_bytes = 3 * layout.width;
      const bool swap = (layout.format == PixelFormat::kRgb) != rgb_network;
      for (int c = 0; c < 3; ++c) places[c] = {0, swap ? 2 - c : c, 3, false, false};
      break;
    }
    case PixelFormat::kNv12:
      plan.planes[0].row_bytes = layout.width;
      plan.planes[1].row_bytes = 2 * half_width;
      places[0] = {0, 0, 1, false, false};
      places[1] = {1, 0, 2, true, true};
      places[2] = {1, 1, 2, true, true};
      break;
    case PixelFormat::kI420:
      plan.planes[0].row_bytes = layout.width;
      plan.planes[1].row_bytes = plan.planes[2].row_bytes = half_width;
      places[0] = {0, 0, 1, false, false};
      places[1] = {1, 0, 1, true, true};
      places[2] = {2, 0, 1, true, true};
      break;
    case PixelFormat::kYuy2:
      plan.planes[0].row_bytes = 4 * half_width;
      places[0] = {0, 0, 2, false, false};
      places[1] = {0, 1, 4, true, false};
      places[2] = {0, 3, 4, true, false};
      break;
    case PixelFormat::kGray8:
      plan.color = SampleColor::kGray;
      plan.component_count = 1;
      plan.planes[0].row_bytes = layout.width;
      places[0] = {0, 0, 1, false, false};
      break;
  }
  for (int c = 0; c < plan.component_count; ++c) {
    const ComponentPlace& place = places[c];
    SampleComponent& component = plan.components[c];
    component.plane = place.plane;
    component.offset_bytes = place.offset_bytes;
    component.step_bytes = place.step_bytes;
    component.x = make_axis(plan.x0, plan.x1 - plan.x0, layout.width, place.half_x ? half_width : layout.width,
                            place.half_x ? 0.5F : 1.0F);
    component.y = make_axis(plan.y0, plan.y1 - plan.y0, layout.height, place.half_y ? half_height : layout.height,
                            place.half_y ? 0.5F : 1.0F);
  }
  if (plan.color == SampleColor::kYcc) {
    float rgb[3][4];
    fill_matrix(layout, rgb);
    for (int c = 0; c < 3; ++c) std::memcpy(plan.matrix[c], rgb[rgb_network ? c : 2 - c], sizeof(rgb[0]));
  }
  return plan;
}

}  // namespace camd::infer
