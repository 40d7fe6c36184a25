#include "plugins/tensors/npy.hpp"

#include <cstring>
#include <stdexcept>

#include "plugins/camd_plugin.hpp"
#include "plugins/half.hpp"

namespace camd::plugins {
namespace {

template <class T>
void widen(const DLTensor& tensor, const std::string& name, std::uint8_t* to) {
  for (const T value : camd::plugin::host_tensor<T>(&tensor, name)) {
    const auto number = static_cast<float>(value);
    std::memcpy(to, &number, sizeof(number));
    to += sizeof(number);
  }
}

}  // namespace

std::string npy_header(const std::int64_t* shape, int ndim) {
  std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < ndim; ++i) {
    dictionary += std::to_string(shape[i]);
    dictionary += i + 1 < ndim ? ", " : (ndim == 1 ? "," : "");  // Python's tuple of one
  }
  dictionary += "), }";
  constexpr std::size_t kBefore = 10;  // magic, version, length
  while ((kBefore + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xFFU);
  header += static_cast<char>(dictionary.size() >> 8U);
  return header + dictionary;
}

void to_npy(const DLTensor& tensor, const std::string& name, std::vector<std::uint8_t>& file) {
  const std::string header = npy_header(tensor.shape, tensor.ndim);
  std::size_t count = 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= static_cast<std::size_t>(tensor.shape[i]);
  file.resize(header.size() + count * sizeof(float));
  std::memcpy(file.data(), header.data(), header.size());
  std::uint8_t* numbers = file.data() + header.size();
  const unsigned kind = tensor.dtype.code * 1000U + tensor.dtype.bits;
  switch (kind) {
    case kDLFloat * 1000U + 32: widen<float>(tensor, name, numbers); return;
    case kDLFloat * 1000U + 16: {
      DLTensor raw = tensor;  // the adaptor has no half type: the same checks under another name
      raw.dtype.code = kDLUInt;
      for (const std::uint16_t half : camd::plugin::host_tensor<std::uint16_t>(&raw, name)) {
        const float number = half_to_float(half);
        std::memcpy(numbers, &number, sizeof(number));
        numbers += sizeof(number);
      }
      return;
    }
    case kDLUInt * 1000U + 8: widen<std::uint8_t>(tensor, name, numbers); return;
    case kDLInt * 1000U + 8: widen<std::int8_t>(tensor, name, numbers); return;
    case kDLInt * 1000U + 32: widen<std::int32_t>(tensor, name, numbers); return;
    case kDLInt * 1000U + 64: widen<std::int64_t>(tensor, name, numbers); return;
    default:
      throw std::runtime_error("tensor '" + name + "' holds DLPack type " + std::to_string(tensor.dtype.code) + " of " +
                               std::to_string(tensor.dtype.bits) + " bits, which `tensors` cannot write");
  }
}

void to_npy_channels_last(const DLTensor& tensor, const std::string& name, std::vector<std::uint8_t>& file) {
  if (tensor.ndim != 4 || tensor.shape[0] != 1) throw std::runtime_error("tensor '" + name + "' is not [1,C,H,W]");
  std::vector<std::uint8_t> planar;
  to_npy(tensor, name, planar);
  const std::int64_t channels = tensor.shape[1], height = tensor.shape[2], width = tensor.shape[3];
  const std::int64_t shape[4] = {1, height, width, channels};
  const std::string header = npy_header(shape, 4);
  const std::size_t count = static_cast<std::size_t>(channels * height * width);
  const std::uint8_t* const from = planar.data() + planar.size() - count * sizeof(float);
  file.resize(header.size() + count * sizeof(float));
  std::memcpy(file.data(), header.data(), header.size());
  std::uint8_t* to = file.data() + header.size();
  for (std::int64_t pixel = 0; pixel < height * width; ++pixel) {
    for (std::int64_t c = 0; c < channels; ++c, to += sizeof(float)) {
      std::memcpy(to, from + static_cast<std::size_t>(c * height * width + pixel) * sizeof(float), sizeof(float));
    }
  }
}

}  // namespace camd::plugins
