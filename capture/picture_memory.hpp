// PictureMemory: host memory for one picture that is filled before there is a slot for it, by somebody who wants to
// know early where to write: a camera's driver (capture/memory_lender.hpp).
//
// The bytes and the device's right to read them are two things: a driver that hangs may keep the bytes longer than the
// device lives.
//
// Threads: [any], one at a time. Invariant: withdraw() or the destructor comes before the end of the device.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "device/device.hpp"

namespace camd::capture {

// Makes host memory that other processes can read, too: aligned to 4096, as long as the pointer lives. Throws
// base::Error.
using SharedMemory = std::shared_ptr<std::byte> (*)(std::size_t size_bytes);

// Who reads pictures, and how.
struct PictureReader {
  device::Device* device = nullptr;
  device::HostMemory kind = device::HostMemory::kPinned;
  SharedMemory shared = nullptr;  // null: nobody in other processes

  friend bool operator==(const PictureReader&, const PictureReader&) = default;
};

class PictureMemory {
 public:
  // [blocks] Zeros that the reader can read, aligned to 4096. Throws base::Error when memory cannot be had, or not be
  // page-locked.
  PictureMemory(const PictureReader& reader, std::size_t size_bytes);

  [[nodiscard]] std::byte* data() const noexcept { return bytes_.get(); }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] const PictureReader& reader() const noexcept { return reader_; }
  // As HostBuffer::device_data().
  [[nodiscard]] const std::byte* device_data() const noexcept { return readable_.device_data(); }
  // The device's right to read it, which ends with what is returned [blocks]. The bytes stay as they are.
  [[nodiscard]] device::HostBuffer withdraw() noexcept { return std::exchange(readable_, {}); }

 private:
  const PictureReader reader_;
  const std::size_t size_bytes_;
  const std::shared_ptr<std::byte> bytes_;
  device::HostBuffer readable_;
};

}  // namespace camd::capture
