// Tensors: specification (name, shape, type) and views of memory.
//
// Threads: plain values, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace camd::infer {

enum class DataType : std::uint8_t { kF32, kF16, kU8, kI8, kI32, kI64 };

[[nodiscard]] std::string_view to_string(DataType type) noexcept;
[[nodiscard]] std::size_t size_of(DataType type) noexcept;

using Shape = std::vector<std::int64_t>;

// "[1,3,360,640]"; unknown dimensions (-1) print as "?".
[[nodiscard]] std::string to_string(const Shape& shape);
// Product of the dimensions; 1 for a scalar. All dimensions must be known.
[[nodiscard]] std::int64_t element_count(const Shape& shape) noexcept;

// Compact elements of kF32 or kF16 as f32.
[[nodiscard]] std::vector<float> to_floats(const std::byte* elements, std::size_t count, DataType type);

struct TensorSpec {
  std::string name;
  Shape shape;  // -1: not known before the configuration fixes it
  DataType type = DataType::kF32;
  [[nodiscard]] std::size_t size_bytes() const noexcept {
    return static_cast<std::size_t>(element_count(shape)) * size_of(type);
  }
};

// Memory of a tensor that somebody else owns: compact, row-major in the order of the model's dimensions.
struct TensorView {
  void* data = nullptr;
  const TensorSpec* spec = nullptr;  // owned by the maker of the view; outlives it
};

// Elements of one value. The bound keeps a hostile model from taking all memory.
inline constexpr std::int64_t kMaxValueElements = std::int64_t{1} << 27;

}  // namespace camd::infer
