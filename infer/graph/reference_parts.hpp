// What the reference evaluator's sources share: walking over tensors, and the operators of networks.
//
// Threads: functions of their arguments, [any]. Private to infer/graph/reference*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer::reference {

using Index = std::int64_t;
using Inputs = std::vector<const Constant*>;

[[nodiscard]] constexpr std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

[[nodiscard]] inline std::vector<Index> strides_of(const Shape& shape) {
  std::vector<Index> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Calls visit(flat output index, output coordinates) for every element, in order.
template <typename Visit>
void for_each_index(const Shape& shape, Visit visit) {
  const Index count = element_count(shape);
  std::vector<Index> where(shape.size(), 0);
  for (Index flat = 0; flat < count; ++flat) {
    visit(flat, where);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++where[d] < shape[d]) break;
      where[d] = 0;
    }
  }
}

template <typename T>
const std::vector<T>& data(const Constant& c) {
  if constexpr (std::is_same_v<T, float>)
    return c.f32;
  else
    return c.i64;
}
template <typename T>
std::vector<T>& data(Constant& c) {
  if constexpr (std::is_same_v<T, float>)
    return c.f32;
  else
    return c.i64;
}

template <typename T>
Constant make_result(const Shape& shape) {
  Constant result;
  result.type = std::is_same_v<T, float> ? DataType::kF32 : DataType::kI64;
  result.shape = shape;
  data<T>(result).resize(at(element_count(shape)));
  return result;
}

// Flat index into a tensor that broadcasts to coordinates `where`.
[[nodiscard]] inline Index broadcast_index(const std::vector<Index>& where, const Shape& shape,
                                           const std::vector<Index>& strides) {
  Index i = 0;
  const std::size_t skip = where.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) i += shape[d] == 1 ? 0 : where[d + skip] * strides[d];
  return i;
}

// One op's result, without its activation (reference_network.cpp). Inputs and output are f32.
[[nodiscard]] Constant run_float(const Conv& o, const Inputs& in, const Shape& shape);
[[nodiscard]] Constant run_float(const ConvTranspose& o, const Inputs& in, const Shape& shape);
[[nodiscard]] Constant run_float(const MatMul& o, const Inputs& in, const Shape& shape);
[[nodiscard]] Constant run_float(const Pool& o, const Inputs& in, const Shape& shape);
[[nodiscard]] Constant run_float(const Resize& o, const Inputs& in, const Shape& shape);
[[nodiscard]] Constant run_float(const Softmax& o, const Inputs& in, const Shape& shape);

}  // namespace camd::infer::reference
