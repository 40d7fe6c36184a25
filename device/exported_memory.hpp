// Device memory that other processes of this machine can open, found by its address (cudaIpcGetMemHandle()).
//
// Threads: [any]; a lock inside.
// Invariants: a piece is noted as long as it lives. Who opens it reads and writes it as its owner does.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace camd::device {

// cudaIpcMemHandle_t: what another process opens the piece with.
struct ExportHandle {
  std::array<std::byte, 64> bytes{};
};

// From now on exported_at(begin) finds the handle; an earlier one of the same address is replaced.
void note_exported(const void* begin, const ExportHandle& handle);
void forget_exported(const void* begin) noexcept;
// Of the piece that begins at this address; empty for any other memory.
[[nodiscard]] std::optional<ExportHandle> exported_at(const void* begin);

}  // namespace camd::device
