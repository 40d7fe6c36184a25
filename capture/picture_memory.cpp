#include "capture/picture_memory.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace camd::capture {
namespace {

constexpr std::size_t kAlignment = 4096;

std::shared_ptr<std::byte> allocate(const PictureReader& reader, std::size_t size_bytes) {
  if (reader.shared != nullptr) return reader.shared(size_bytes);
  const std::size_t rounded = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const bytes = std::aligned_alloc(kAlignment, rounded);
  if (bytes == nullptr) {
    throw base::Error(base::ErrorKind::kDevice, fmt::format("no memory for a picture of {} bytes", size_bytes));
  }
  std::memset(bytes, 0, rounded);
  return {static_cast<std::byte*>(bytes), &std::free};
}

}  // namespace

PictureMemory::PictureMemory(const PictureReader& reader, std::size_t size_bytes)
    : reader_(reader),
      size_bytes_(size_bytes),
      bytes_(allocate(reader, size_bytes)),
      readable_(reader.device->register_host(bytes_.get(), size_bytes, reader.kind)) {}

}  // namespace camd::capture
