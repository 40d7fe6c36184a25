// Where a server listens: a numeric address and a port, as a configuration spells it.
//
// Threads: plain values and functions of their arguments, [any]. Nothing asks a name server.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace camd::config {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;

  [[nodiscard]] std::uint16_t port() const noexcept;
  // Whether nobody but this machine reaches it: 127.0.0.0/8 or ::1.
  [[nodiscard]] bool is_loopback() const noexcept;
  // "127.0.0.1:8088", "[::1]:8088".
  [[nodiscard]] std::string text() const;
};

// "127.0.0.1:8088", "[::1]:8088" or "localhost:8088", which is 127.0.0.1. Port 0: any free one. Nothing: it is neither.
[[nodiscard]] std::optional<Endpoint> parse_endpoint(std::string_view text);

}  // namespace camd::config
