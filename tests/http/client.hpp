// A client of the tests: one request on one connection, as raw text.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "config/endpoint.hpp"

namespace camd::test {

// One connection to a server of this machine.
class Connection {
 public:
  explicit Connection(const config::Endpoint& server)
      : socket_(::socket(server.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&server.address), server.size) == 0;
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  // Whether all of it was taken.
  [[nodiscard]] bool send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void finish_sending() const { ::shutdown(socket_, SHUT_WR); }
  // Some more of the answer; empty: the server has closed the connection.
  [[nodiscard]] std::string receive() const {
    std::string some(4096, '\0');
    const ssize_t size = ::recv(socket_, some.data(), some.size(), 0);
    some.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return some;
  }
  [[nodiscard]] bool has_something() const {
    char one = 0;
    return ::recv(socket_, &one, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
  // [blocks] until the server closes the connection.
  [[nodiscard]] std::string rest() const {
    std::string all;
    for (std::string some = receive(); !some.empty(); some = receive()) all += some;
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

struct Answer {
  int status = 0;  // 0: there was none
  std::string head;
  std::string body;
};

inline Answer answer_of(const std::string& text) {
  Answer answer;
  const auto end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.1 ") || end == std::string::npos) return answer;
  answer.status = std::stoi(text.substr(9, 3));
  answer.head = text.substr(0, end);
  answer.body = text.substr(end + 4);
  return answer;
}

// `headers`: whole lines, each with its "\r\n".
inline Answer ask(const config::Endpoint& server, const std::string& path, const std::string& headers = "",
                  const std::string& host = "127.0.0.1") {
  const Connection connection(server);
  if (!connection.connected()) return {};
  EXPECT_TRUE(
      connection.send("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + headers + "\r\n"));
  return answer_of(connection.rest());
}

}  // namespace camd::test
