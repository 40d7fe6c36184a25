#include "infer/preprocess.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace camd::infer {
namespace {

// What a pixel of which no run is regular costs less than a second pass.
constexpr int kLeastRegular = 16;

// line[x] = share of the sample at x * kStride and of the one `next` behind it. kFirst: the line begins with it.
template <int kStride, bool kFirst>
void blend_regular(const float* row, int next, float weight, float share, float* line, int count) {
  const float* const second = row + next;
  for (std::ptrdiff_t x = 0; x < count; ++x) {
    const float left = row[x * kStride];
    const float value = (left + weight * (second[x * kStride] - left)) * share;
    line[x] = kFirst ? value : line[x] + value;
  }
}

template <bool kFirst>
void blend_regular(int stride, const float* row, int next, float weight, float share, float* line, int count) {
  switch (stride) {
    case 1: return blend_regular<1, kFirst>(row, next, weight, share, line, count);
    case 2: return blend_regular<2, kFirst>(row, next, weight, share, line, count);
    case 3: return blend_regular<3, kFirst>(row, next, weight, share, line, count);
    case 4: return blend_regular<4, kFirst>(row, next, weight, share, line, count);
    case 6: return blend_regular<6, kFirst>(row, next, weight, share, line, count);
    default: break;
  }
}

template <bool kFirst>
void blend_each(const float* row, const int* first, const float* weights, int next, float share, float* line,
                int count) {
  for (int x = 0; x < count; ++x) {
    const float left = row[first[x]];
    const float value = (left + weights[x] * (row[first[x] + next] - left)) * share;
    line[x] = kFirst ? value : line[x] + value;
  }
}

// A pixel with the sample behind it; the last of the four numbers is of no use.
using Pixel = float __attribute__((vector_size(16)));
Pixel load_pixel(const float* at) {
  Pixel p;
  std::memcpy(&p, at, sizeof(p));
  return p;
}

}  // namespace

Preprocessor::Preprocessor(const InputOptions& options) : options_(options) {}

void Preprocessor::set_layout(const base::PictureLayout& layout) {
  layout_ = layout;
  plan_ = make_sample_plan(layout, options_);
  const int width = plan_.x1 - plan_.x0;
  for (int p = 0; p < plan_.plane_count; ++p) rows_[p].assign(static_cast<std::size_t>(plan_.planes[p].row_bytes), 0);
  for (int c = 0; c < plan_.component_count; ++c) {
    const SampleComponent& component = plan_.components[c];
    std::vector<float>& row = rows_[component.plane];
    const int samples = plan_.planes[component.plane].row_bytes + component.step_bytes + 1;  // one more: see Pixel
    const auto samples_end = static_cast<std::size_t>(samples);
    if (row.size() < samples_end) row.resize(samples_end, 0);
    lines_[c].assign(static_cast<std::size_t>(width), 0);
    columns_[c].assign(static_cast<std::size_t>(component.x.taps), {});
    for (int tap = 0; tap < component.x.taps; ++tap) {
      Columns& columns = columns_[c][static_cast<std::size_t>(tap)];
      for (int x = plan_.x0; x < plan_.x1; ++x) {
        // At the right border the second sample has no weight, so the next one may stand for it.
        const SampleTap t = sample_tap(component.x, x, tap);
        columns.first.push_back(component.offset_bytes + t.first * component.step_bytes);
        columns.weight.push_back(t.weight);
      }
      columns.find_regular();
    }
  }
  const auto irregular = [](const Columns& columns) { return columns.regular_end == 0; };
  by_pixels_ = plan_.color == SampleColor::kDirect && std::all_of(columns_[0].begin(), columns_[0].end(), irregular);
  ready_ = true;
}

// Around the middle: borders are not regular.
void Preprocessor::Columns::find_regular() {
  const int count = static_cast<int>(first.size());
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  if (count < kLeastRegular) return;
  const int middle = count / 2;
  stride = first[at(middle)] - first[at(middle - 1)];
  const auto follows = [&](int x) {
    return first[at(x)] - first[at(x - 1)] == stride && weight[at(x)] == weight[at(x - 1)];
  };
  int begin = middle, end = middle;
  while (begin > 0 && follows(begin)) --begin;
  while (end < count && follows(end)) ++end;
  const bool known = stride == 1 || stride == 2 || stride == 3 || stride == 4 || stride == 6;
  if (!known || end - begin < kLeastRegular) return;
  regular_begin = begin;
  regular_end = end;
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
  const int next = c.step_bytes;
  const float share = 1.0F / static_cast<float>(c.x.taps);
  bool begun = false;
  for (const Columns& columns : columns_[component]) {
    const int begin = columns.regular_begin, end = columns.regular_end;
    const auto each = [&](int from, int to) {
      const int* const first = columns.first.data() + from;
      const float* const weights = columns.weight.data() + from;
      begun ? blend_each<false>(row, first, weights, next, share, line + from, to - from)
            : blend_each<true>(row, first, weights, next, share, line + from, to - from);
    };
    each(0, begin);
    if (end > begin) {
      const float* const first = row + columns.first[static_cast<std::size_t>(begin)];
      const float weight = columns.weight[static_cast<std::size_t>(begin)];
      begun ? blend_regular<false>(columns.stride, first, next, weight, share, line + begin, end - begin)
            : blend_regular<true>(columns.stride, first, next, weight, share, line + begin, end - begin);
    }
    each(end, width);
    begun = true;
  }
}

// gather() for pixels of three components side by side: where they lie is looked up once for all three.
void Preprocessor::gather_pixels() {
  const SampleComponent& c = plan_.components[0];
  const float* const row = rows_[c.plane].data();
  // The network's first channel is a pixel's first component or its last.
  float* const first = lines_[c.offset_bytes == 0 ? 0 : 2].data();
  float* const last = lines_[c.offset_bytes == 0 ? 2 : 0].data();
  const float share = 1.0F / static_cast<float>(c.x.taps);
  for (std::size_t x = 0; x < lines_[1].size(); ++x) {
    Pixel sum = {};
    for (const Columns& columns : columns_[0]) {
      const float* const at = row + (columns.first[x] - c.offset_bytes);
      const Pixel left = load_pixel(at);
      sum += left + columns.weight[x] * (load_pixel(at + c.step_bytes) - left);
    }
    sum *= share;
    first[x] = sum[0];
    lines_[1][x] = sum[1];
    last[x] = sum[2];
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
      if (!by_pixels_) gather(c, lines_[c].data());
    }
    if (by_pixels_) gather_pixels();
    finish_row(output, y);
  }
}

}  // namespace camd::infer
