#include "infer/graph/read_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "infer/half.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

// One raw little-endian element widened.
template <typename T>
std::vector<std::int64_t> widen(const std::string& raw) {
  std::vector<std::int64_t> values(raw.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T v;
    std::memcpy(&v, raw.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<std::int64_t>(v);
  }
  return values;
}

float bfloat16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16U;
  float v;
  std::memcpy(&v, &wide, sizeof(v));
  return v;
}

std::string external_bytes(const std::string& model, const onnx::TensorProto& tensor, std::size_t size) {
  std::string location;
  std::uint64_t offset = 0;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = std::strtoull(entry.value().c_str(), nullptr, 10);
  }
  const auto fail = [&](const std::string& why) {
    return WeightsMissing(fmt::format("{}: weight '{}' is in the external file '{}', which {}", model,
                                      printable(tensor.name()), printable(location), why));
  };
  const std::filesystem::path relative(location);
  // A model must not read files outside its own folder.
  if (size > kMaxModelBytes)
    throw fail(fmt::format("would be read for {} bytes, camd reads at most {}", size, kMaxModelBytes));
  const bool inside = !location.empty() && relative.is_relative() &&
                      std::none_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
  if (!inside) throw fail("is not inside the model's folder");
  const std::filesystem::path path = std::filesystem::path(model).parent_path() / relative;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw fail("does not exist");
  const std::uintmax_t available = std::filesystem::file_size(path, error);
  if (error || offset > available || size > available - offset) throw fail("is too short");
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(size, '\0');
  stream.seekg(static_cast<std::streamoff>(offset));
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!stream) throw fail("cannot be read");
  return bytes;
}

}  // namespace

Constant read_tensor(const Lowering& l, const onnx::TensorProto& tensor) {
  using T = onnx::TensorProto;
  Constant c;
  c.shape.assign(tensor.dims().begin(), tensor.dims().end());
  const auto count = static_cast<std::size_t>(element_count(c.shape));
  const bool external = tensor.data_location() == T::EXTERNAL;
  const std::string outside =
      external ? external_bytes(l.path(), tensor, onnx_tensor_bytes(tensor.data_type(), count)) : "";
  const bool raw = external || tensor.has_raw_data();
  const std::string& bytes = external ? outside : tensor.raw_data();
  const auto integers_from = [&](auto sample) {
    using Element = decltype(sample);
    if (raw)
      c.i64 = widen<Element>(bytes);
    else
      c.i64.assign(tensor.int32_data().begin(), tensor.int32_data().end());
    c.type = DataType::kI64;
  };
  switch (tensor.data_type()) {
    case T::FLOAT:
      if (raw) {
        c.f32.resize(count);
        if (count > 0) std::memcpy(c.f32.data(), bytes.data(), bytes.size());
      } else {
        c.f32.assign(tensor.float_data().begin(), tensor.float_data().end());
      }
      break;
    case T::DOUBLE:
      for (std::size_t i = 0; i < count; ++i) {
        double v;
        if (raw)
          std::memcpy(&v, bytes.data() + i * sizeof(v), sizeof(v));
        else
          v = tensor.double_data(static_cast<int>(i));
        c.f32.push_back(static_cast<float>(v));
      }
      break;
    case T::FLOAT16:
    case T::BFLOAT16: {
      integers_from(std::uint16_t{});
      c.type = DataType::kF32;
      for (const std::int64_t v : c.i64) {
        const auto bits = static_cast<std::uint16_t>(v);
        c.f32.push_back(tensor.data_type() == T::FLOAT16 ? half_to_float(bits) : bfloat16(bits));
      }
      c.i64.clear();
      break;
    }
    case T::INT64:
      c.type = DataType::kI64;
      if (raw)
        c.i64 = widen<std::int64_t>(bytes);
      else
        c.i64.assign(tensor.int64_data().begin(), tensor.int64_data().end());
      break;
    case T::UINT32:
    case T::UINT64:
      c.type = DataType::kI64;
      if (!raw)
        for (const auto v : tensor.uint64_data()) c.i64.push_back(static_cast<std::int64_t>(v));
      else
        c.i64 = tensor.data_type() == T::UINT32 ? widen<std::uint32_t>(bytes) : widen<std::int64_t>(bytes);
      break;
    case T::INT32: integers_from(std::int32_t{}); break;
    case T::INT16: integers_from(std::int16_t{}); break;
    case T::INT8: integers_from(std::int8_t{}); break;
    case T::UINT16: integers_from(std::uint16_t{}); break;
    case T::UINT8:
    case T::BOOL: integers_from(std::uint8_t{}); break;
    case kUint4:
    case kInt4:
      c.type = DataType::kI64;
      for (std::size_t i = 0; i < count && i / 2 < bytes.size(); ++i) {
        const auto byte = static_cast<std::uint8_t>(bytes[i / 2]);
        const int half = i % 2 == 0 ? byte & 0xF : byte >> 4;
        c.i64.push_back(tensor.data_type() == kInt4 && half >= 8 ? half - 16 : half);
      }
      break;
    default: l.refuse(fmt::format("constants of type {} are not supported", onnx_type_name(tensor.data_type())));
  }
  if ((c.type == DataType::kF32 ? c.f32.size() : c.i64.size()) != count) {
    l.refuse(fmt::format("constant '{}' does not hold {} elements", printable(tensor.name()), count));
  }
  return c;
}

}  // namespace camd::infer
