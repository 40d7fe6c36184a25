// MemoryExporter: what a device offers beside Device (device.hpp) where other processes can open its memory.
#pragma once

#include "device/device.hpp"

namespace camd::device {

class MemoryExporter {
 public:
  virtual ~MemoryExporter() = default;
  // [any] [blocks] exported_at() knows the buffer's address (exported_memory.hpp). Throws Error(kDevice).
  [[nodiscard]] virtual DeviceBuffer allocate_exported(std::size_t size_bytes) = 0;
};

}  // namespace camd::device
