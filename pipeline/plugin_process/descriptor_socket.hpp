// Sending descriptors to another process over a socket, a message at a time.
//
// Threads: [any], one at a time for each socket.
// Invariants: a message has at most kMostDescriptors of them and a few bytes. A peer that is gone is no error but
// `false`.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/plugin_process/shared_memory.hpp"

namespace camd::pipeline {

inline constexpr std::size_t kMostDescriptors = 4;

// A pair of connected sockets that keep messages apart. Throws Error(kPlugin).
[[nodiscard]] std::pair<Descriptor, Descriptor> socket_pair();
// [blocks] while the other side has not taken earlier ones. `bytes` at most 256.
[[nodiscard]] bool send_descriptors(int socket, std::span<const std::byte> bytes, std::initializer_list<int> fds);
// [blocks] until a message comes. False: the other side is gone, or sent another number of bytes.
[[nodiscard]] bool receive_descriptors(int socket, std::span<std::byte> bytes, std::vector<Descriptor>& fds);

// A sealed file with these bytes, for a message.
[[nodiscard]] MemoryFile sealed_bytes(std::span<const char> bytes);

}  // namespace camd::pipeline
