// An outbox's connection to a web server, by libcurl: messages are posted as a JSON array, one request after the other.
//
// Threads: as Connection.
// Invariants: one request is on its way at a time, so that order is kept; what comes meanwhile goes into the next one.
// A
//   request that the server refuses is split, until it is known which message it does not take.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "plugins/outbox/connection.hpp"

namespace camd::plugins {

struct HttpOptions {
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string user;                  // "": none; basic authentication
  std::string password;
  std::string ca_file;    // "": the system's certificates
  std::string cert_file;  // of the client, "": none
  std::string key_file;
  bool verify = true;
  std::chrono::milliseconds timeout{10'000};  // of a request
  std::size_t batch = 100;                    // messages in a request
  std::string user_agent;
};

// Throws std::runtime_error when libcurl cannot start.
[[nodiscard]] std::unique_ptr<Connection> connect_http(HttpOptions options);

}  // namespace camd::plugins
