#include "capture/copy_rows.hpp"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace camd::capture {
namespace {

#if defined(__SSE2__)
constexpr std::size_t kLine = 64;  // what the memory takes at once: less than a line written past the caches is slow

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  const std::size_t before = std::min(size, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, before);
  std::size_t at = before;
  for (; at + kLine <= size; at += kLine) {
    __m128i line[4];
    std::memcpy(line, from + at, kLine);
    auto* const words = reinterpret_cast<__m128i*>(to + at);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(words + i, line[i]);
  }
  std::memcpy(to + at, from + at, size - at);
}
// Such stores are not ordered with later ones by themselves.
void order_stores() noexcept { _mm_sfence(); }
#else
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size) noexcept { std::memcpy(to, from, size); }
void order_stores() noexcept {}
#endif

}  // namespace

NextReader next_reader_of(const device::DeviceInfo& info, device::HostMemory memory) noexcept {
  // Pageable memory is read by the CPU, which copies it to where the device can.
  const bool by_device = !info.works_in_host_memory && memory != device::HostMemory::kPageable;
  return by_device ? NextReader::kDevice : NextReader::kCpu;
}

void copy_rows(std::byte* to, std::size_t to_stride, const std::byte* from, std::size_t from_stride, int rows,
               NextReader next) noexcept {
  std::size_t row_bytes = std::min(to_stride, from_stride);
  std::size_t count = rows < 0 ? 0 : static_cast<std::size_t>(rows);
  if (to_stride == from_stride) {
    row_bytes *= count;
    count = std::min<std::size_t>(count, 1);
  }
  for (; count > 0; --count, to += to_stride, from += from_stride) {
    if (next == NextReader::kDevice)
      copy_past_caches(to, from, row_bytes);
    else
      std::memcpy(to, from, row_bytes);
  }
  if (next == NextReader::kDevice) order_stores();
}

}  // namespace camd::capture
