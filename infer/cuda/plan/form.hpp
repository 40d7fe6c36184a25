// Form: how a value lies in memory, and views: forms of other values in the same memory, which cost no kernel.
//
// Threads: plain values; functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infer/graph/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

// A value may exist in several forms.
struct Form {
  int buffer = -1;
  std::size_t offset_bytes = 0;
  DataType type = DataType::kF32;
  std::vector<std::int64_t> strides;  // in elements, one for each of the value's dimensions; may be negative
  // Kernels of images can read it: [1,C,H,W], channels side by side, `pitch` elements from pixel to pixel, aligned to 8
  // channels.
  bool image = false;
  int pitch = 0;
  bool plain = false;  // row-major without gaps
};

[[nodiscard]] Form row_major_form(int buffer, DataType type, const Shape& shape);
// `pitch`: a multiple of 8, at least the number of channels.
[[nodiscard]] Form image_form(int buffer, DataType type, const Shape& shape, int pitch);

// The views. `from` and `to` are the shapes of the value that has `form` and of the value that the view is of.
// Output index i of dimension d is start[d] + i * step[d].
[[nodiscard]] Form slice_view(const Form& form, const Slice& slice, const Shape& to);
[[nodiscard]] Form transpose_view(const Form& form, const Transpose& transpose, const Shape& to);
// Nothing where the elements would need more than one stride for a dimension.
[[nodiscard]] std::optional<Form> reshape_view(const Form& form, const Shape& from, const Shape& to);

// The dimensions in the order in which neighbours lie closest in memory last, for a tensor with these strides. Threads
// count through them in that order, so that neighbouring threads write neighbouring elements.
[[nodiscard]] std::vector<int> memory_order(const std::int64_t* strides, const std::int64_t* shape, int rank);

}  // namespace camd::infer::cuda
