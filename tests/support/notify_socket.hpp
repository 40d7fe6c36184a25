// A socket that a service tells of itself, in systemd's place.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>

namespace camd::test {

// As systemd listens; '@' begins a name in the abstract name space.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& name) : name_(name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0) << std::strerror(errno);
  }
  ~NotifySocket() {
    ::close(socket_);
    if (name_[0] != '@') std::filesystem::remove(name_);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  // [blocks] The next message; "nothing" when there is none for so long.
  [[nodiscard]] std::string next(std::chrono::milliseconds patience = std::chrono::seconds(20)) const {
    pollfd wait{socket_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(patience.count())) <= 0) return "nothing";
    std::string message(4096, '\0');
    const ssize_t size = ::recv(socket_, message.data(), message.size(), 0);
    message.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return message;
  }
  [[nodiscard]] std::string more() const { return next(std::chrono::milliseconds(0)); }

 private:
  const std::string name_;
  int socket_ = -1;
};

}  // namespace camd::test
