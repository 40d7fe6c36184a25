// Strides of views, and which of them kernels can read as an image or as a plain tensor.
#include "infer/cuda/plan/form.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace camd::infer::cuda {
namespace {

constexpr std::int64_t kImageAlignment = 8;  // kernels read 8 channels at a time

std::vector<std::int64_t> row_major(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

bool is_plain(const std::vector<std::int64_t>& strides, const Shape& shape) {
  const std::vector<std::int64_t> wanted = row_major(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && strides[d] != wanted[d]) return false;
  }
  return true;
}

// Says of a form with strides what reads it. Reading whole groups of 8 channels must not leave a pixel.
void classify(Form& form, const Shape& shape) {
  form.plain = is_plain(form.strides, shape);
  form.image = false;
  form.pitch = 0;
  if (shape.size() != 4 || shape[0] != 1) return;
  const std::int64_t c = shape[1], h = shape[2], w = shape[3];
  const std::int64_t pitch = w > 1 ? form.strides[3] : form.strides[2];
  const std::int64_t padded = (c + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
  const bool channels_last = (c == 1 || form.strides[1] == 1) && (h == 1 || form.strides[2] == w * pitch);
  const auto group = static_cast<std::size_t>(kImageAlignment) * size_of(form.type);
  // One pixel has no pitch of its own, and a picture of one channel may be a plane: neither is taken for an image.
  if (!channels_last || h * w == 1 || pitch < padded || pitch % kImageAlignment != 0) return;
  if (form.offset_bytes % group != 0) return;
  form.image = true;
  form.pitch = static_cast<int>(pitch);
}

}  // namespace

Form row_major_form(int buffer, DataType type, const Shape& shape) {
  Form form;
  form.buffer = buffer;
  form.type = type;
  form.strides = row_major(shape);
  form.plain = true;
  return form;
}

Form image_form(int buffer, DataType type, const Shape& shape, int pitch) {
  Form form;
  form.buffer = buffer;
  form.type = type;
  form.strides = {shape[2] * shape[3] * pitch, 1, shape[3] * pitch, pitch};
  form.image = true;
  form.pitch = pitch;
  return form;
}

Form slice_view(const Form& form, const Slice& slice, const Shape& to) {
  Form view = form;
  std::int64_t first = 0;
  bool channels_only = true;
  for (std::size_t d = 0; d < to.size(); ++d) {
    first += slice.start[d] * form.strides[d];
    view.strides[d] = form.strides[d] * slice.step[d];
    channels_only = channels_only && (d == 1 || (slice.start[d] == 0 && slice.step[d] == 1));
  }
  view.offset_bytes = static_cast<std::size_t>(static_cast<std::int64_t>(form.offset_bytes) +
                                               first * static_cast<std::int64_t>(size_of(form.type)));
  classify(view, to);
  // Of an image of one pixel the channels stay an image's.
  if (form.image && channels_only && slice.step[1] == 1 && slice.start[1] % kImageAlignment == 0) {
    view.image = true;
    view.pitch = form.pitch;
  }
  // A last group of channels that is not whole would hold what belongs to others.
  if (view.image && to[1] % kImageAlignment != 0) view.image = false;
  return view;
}

Form transpose_view(const Form& form, const Transpose& transpose, const Shape& to) {
  Form view = form;
  for (std::size_t d = 0; d < to.size(); ++d) {
    view.strides[d] = form.strides[static_cast<std::size_t>(transpose.permutation[d])];
  }
  classify(view, to);
  if (view.image && to[1] % kImageAlignment != 0) view.image = false;
  return view;
}

std::optional<Form> reshape_view(const Form& form, const Shape& from, const Shape& to) {
  // Dimensions of the old shape whose elements follow each other with one stride, joined; then cut anew.
  struct Run {
    std::int64_t size, stride;
  };
  std::vector<Run> runs;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    if (!runs.empty() && runs.back().stride == from[d] * form.strides[d]) {
      runs.back() = {runs.back().size * from[d], form.strides[d]};
    } else {
      runs.push_back({from[d], form.strides[d]});
    }
  }
  Form view = form;
  view.strides.assign(to.size(), 0);
  std::size_t run = runs.size();
  std::int64_t left = 1, stride = 1;  // of the run that is being cut, from its end
  for (std::size_t d = to.size(); d-- > 0;) {
    if (to[d] == 1) {
      view.strides[d] = left * stride;
      continue;
    }
    if (left == 1) {
      if (run == 0) return std::nullopt;
      --run;
      left = runs[run].size;
      stride = runs[run].stride;
    }
    if (left % to[d] != 0) return std::nullopt;
    view.strides[d] = stride;
    stride *= to[d];
    left /= to[d];
  }
  if (run != 0 || left != 1) return std::nullopt;
  classify(view, to);
  if (view.image && to[1] % kImageAlignment != 0) view.image = false;
  return view;
}

std::vector<int> memory_order(const std::int64_t* strides, const std::int64_t* shape, int rank) {
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  // A dimension of one element has no neighbours: it goes first.
  const auto distance = [&](int d) { return shape[d] == 1 ? std::int64_t{1} << 62 : std::abs(strides[d]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return distance(a) > distance(b); });
  return order;
}

}  // namespace camd::infer::cuda
