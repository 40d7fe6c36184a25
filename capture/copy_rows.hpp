// Copying pictures row by row, for who reads them next.
//
// Threads: functions of their arguments, [any]; [no-alloc].
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.hpp"

namespace camd::capture {

// kCpu: through the caches. kDevice: past them (x86-64; elsewhere as kCpu). What a device fetches over the bus is
// slower to reach when it lies changed in a core's cache, and such a copy need not read what it overwrites:
// docs/performance.md, "How a picture gets into its slot".
enum class NextReader : std::uint8_t { kCpu, kDevice };

// Who reads next what is written into host memory of a kind that is allocated on a device of a kind.
[[nodiscard]] NextReader next_reader_of(device::DeviceKind kind, device::HostMemory memory) noexcept;

// The smaller of both strides from each of `rows` rows. Strides in bytes, positive. Returns when all threads and
// devices that learn of the copy later see it.
void copy_rows(std::byte* to, std::size_t to_stride, const std::byte* from, std::size_t from_stride, int rows,
               NextReader next) noexcept;

}  // namespace camd::capture
