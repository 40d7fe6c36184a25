// Copies pictures row by row, in the way that suits whoever reads them next.
//
// Threads: functions of their arguments, [any]; [no-alloc].
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.hpp"

namespace camd::capture {

// kCpu: through the caches. kDevice: past them (x86-64; elsewhere as kCpu). What a device fetches over the bus is
// slower to reach when it lies changed in a core's cache, and such a copy need not read what it overwrites:
// docs/experiments.md, "How a picture gets into its slot".
enum class NextReader : std::uint8_t { kCpu, kDevice };

// Who reads host memory of this kind next, on a device of this kind.
[[nodiscard]] NextReader next_reader_of(const device::DeviceInfo& info, device::HostMemory memory) noexcept;

// Copies `rows` rows, of each as many bytes as the smaller stride has. Strides are in bytes and positive. When it
// returns, every thread or device that is told of the copy sees it.
void copy_rows(std::byte* to, std::size_t to_stride, const std::byte* from, std::size_t from_stride, int rows,
               NextReader next) noexcept;

}  // namespace camd::capture
