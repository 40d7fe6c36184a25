#include "infer/tensor.hpp"

#include <cstring>

#include "infer/half.hpp"

namespace camd::infer {

std::string_view to_string(DataType type) noexcept {
  switch (type) {
    case DataType::kF32: return "f32";
    case DataType::kF16: return "f16";
    case DataType::kU8: return "u8";
    case DataType::kI8: return "i8";
    case DataType::kI32: return "i32";
    case DataType::kI64: return "i64";
  }
  return "?";
}

std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::kF32: return 4;
    case DataType::kF16: return 2;
    case DataType::kU8: return 1;
    case DataType::kI8: return 1;
    case DataType::kI32: return 4;
    case DataType::kI64: return 8;
  }
  return 0;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ',';
    text += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return text + ']';
}

std::int64_t element_count(const Shape& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) count *= dimension;
  return count;
}

std::vector<float> to_floats(const std::byte* elements, std::size_t count, DataType type) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (type == DataType::kF32) {
      std::memcpy(&values[i], elements + i * sizeof(float), sizeof(float));
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, elements + i * sizeof(half), sizeof(half));
      values[i] = half_to_float(half);
    }
  }
  return values;
}

}  // namespace camd::infer
