#include "infer/preprocess.hpp"

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

PictureTransform picture_transform(int source_width, int source_height, int network_width, int network_height,
                                   ResizeMode mode) noexcept {
  PictureTransform transform;
  const auto source_w = static_cast<double>(source_width);
  const auto source_h = static_cast<double>(source_height);
  if (mode == ResizeMode::kStretch) {
    transform.scale_x = static_cast<float>(network_width / source_w);
    transform.scale_y = static_cast<float>(network_height / source_h);
    return transform;
  }
  const double ratio = std::min(network_width / source_w, network_height / source_h);
  // The picture covers whole network pixels, so that its edges are sharp and the scale is known exactly.
  const auto shown = [ratio](double source, int network) {
    return std::clamp(static_cast<int>(std::lround(source * ratio)), 1, network);
  };
  const int width = shown(source_w, network_width);
  const int height = shown(source_h, network_height);
  transform.scale_x = static_cast<float>(width / source_w);
  transform.scale_y = static_cast<float>(height / source_h);
  if (mode == ResizeMode::kLetterbox) {
    transform.offset_x = static_cast<float>((network_width - width) / 2);
    transform.offset_y = static_cast<float>((network_height - height) / 2);
  }
  return transform;
}

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

Preprocessor::Preprocessor(const InputOptions& options) : options_(options) {}

void Preprocessor::set_layout(const base::PictureLayout& layout) {
  layout_ = layout;
  plan_ = make_sample_plan(layout, options_);
  const int width = plan_.x1 - plan_.x0;
  for (int p = 0; p < plan_.plane_count; ++p) rows_[p].assign(static_cast<std::size_t>(plan_.planes[p].row_bytes), 0);
  for (int c = 0; c < plan_.component_count; ++c) {
    const SampleComponent& component = plan_.components[c];
    lines_[c].assign(static_cast<std::size_t>(width), 0);
    columns_[c].clear();
    for (int tap = 0; tap < component.x.taps; ++tap) {
      for (int x = plan_.x0; x < plan_.x1; ++x) {
        const SampleTap t = sample_tap(component.x, x, tap);
        columns_[c].push_back({component.offset_bytes + t.first * component.step_bytes,
                               component.offset_bytes + t.second * component.step_bytes, t.weight});
      }
    }
  }
  ready_ = true;
}

// rows_[plane] = the mean over the taps of network row y, over all bytes of a source row.
void Preprocessor::blend_rows(const std::uint8_t* picture, int plane, const SampleAxis& axis, int y) {
  const SamplePlane& p = plan_.planes[plane];
  const std::uint8_t* data = picture + p.offset_bytes;
  const auto stride = static_cast<std::size_t>(p.stride_bytes);
  float* const out = rows_[plane].data();
  const int count = p.row_bytes;
  const float share = 1.0F / static_cast<float>(axis.taps);
  for (int tap = 0; tap < axis.taps; ++tap) {
    const SampleTap t = sample_tap(axis, y, tap);
    const std::uint8_t* const a = data + static_cast<std::size_t>(t.first) * stride;
    const std::uint8_t* const b = data + static_cast<std::size_t>(t.second) * stride;
    const float wb = t.weight * share;
    const float wa = share - wb;
    if (tap == 0) {
      for (int i = 0; i < count; ++i) out[i] = wa * static_cast<float>(a[i]) + wb * static_cast<float>(b[i]);
    } else {
      for (int i = 0; i < count; ++i) out[i] += wa * static_cast<float>(a[i]) + wb * static_cast<float>(b[i]);
    }
  }
}

// line = the mean over the taps of each network pixel of the current blended row.
void Preprocessor::gather(int component, float* line) const {
  const SampleComponent& c = plan_.components[component];
  const float* const row = rows_[c.plane].data();
  const int width = plan_.x1 - plan_.x0;
  const float share = 1.0F / static_cast<float>(c.x.taps);
  const Column* column = columns_[component].data();
  for (int tap = 0; tap < c.x.taps; ++tap, column += width) {
    if (tap == 0) {
      for (int x = 0; x < width; ++x) {
        const float left = row[column[x].first];
        line[x] = (left + column[x].weight * (row[column[x].second] - left)) * share;
      }
    } else {
      for (int x = 0; x < width; ++x) {
        const float left = row[column[x].first];
        line[x] += (left + column[x].weight * (row[column[x].second] - left)) * share;
      }
    }
  }
}

void Preprocessor::finish_row(float* output, int y) const {
  const int width = plan_.x1 - plan_.x0;
  const std::size_t plane_size =
      static_cast<std::size_t>(plan_.network_width) * static_cast<std::size_t>(plan_.network_height);
  for (int c = 0; c < 3; ++c) {
    float* const row = output + static_cast<std::size_t>(c) * plane_size +
                       static_cast<std::size_t>(y) * static_cast<std::size_t>(plan_.network_width);
    std::fill(row, row + plan_.x0, plan_.pad[c]);
    std::fill(row + plan_.x1, row + plan_.network_width, plan_.pad[c]);
    float* const out = row + plan_.x0;
    const float gain = plan_.gain[c];
    const float bias = plan_.bias[c];
    if (plan_.color == SampleColor::kYcc) {
      const float* const m = plan_.matrix[c];
      const float my = m[0], mb = m[1], mr = m[2], m1 = m[3];
      const float* const luma = lines_[0].data();
      const float* const cb = lines_[1].data();
      const float* const cr = lines_[2].data();
      for (int x = 0; x < width; ++x) {
        out[x] = clamp_channel(my * luma[x] + mb * cb[x] + mr * cr[x] + m1) * gain + bias;
      }
    } else {
      const float* const line = lines_[plan_.color == SampleColor::kGray ? 0 : c].data();
      for (int x = 0; x < width; ++x) out[x] = line[x] * gain + bias;
    }
  }
}

void Preprocessor::run(const PictureView& picture, float* output) {
  if (!ready_ || !(picture.layout == layout_)) set_layout(picture.layout);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(picture.data);
  const auto network_width = static_cast<std::size_t>(plan_.network_width);
  const auto network_height = static_cast<std::size_t>(plan_.network_height);
  for (int y = 0; y < plan_.network_height; ++y) {
    if (y < plan_.y0 || y >= plan_.y1) {
      for (std::size_t c = 0; c < 3; ++c) {
        float* const row = output + (c * network_height + static_cast<std::size_t>(y)) * network_width;
        std::fill(row, row + network_width, plan_.pad[c]);
      }
      continue;
    }
    int blended = -1;
    for (int c = 0; c < plan_.component_count; ++c) {
      const SampleComponent& component = plan_.components[c];
      // Components of one plane come one after the other and share its vertical axis.
      if (component.plane != blended) blend_rows(bytes, component.plane, component.y, y);
      blended = component.plane;
      gather(c, lines_[c].data());
    }
    finish_row(output, y);
  }
}

}  // namespace camd::infer
