// Server: HTTP/1.1 on one socket, by libmicrohttpd (docs/adr/0035-http-by-libmicrohttpd.md). What is asked for is
// answered by a handler.
//
// Threads: constructor, destructor [setup]; the handler is called on the server's one thread (named by the library).
// Invariants: only GET and HEAD are answered, without a body. Connections, the size of a request and the time that a
// silent client is waited for are bounded by the constants below; nothing else of a client is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "config/endpoint.hpp"

struct MHD_Daemon;

namespace camd::http {

inline constexpr unsigned kMostConnections = 128;
inline constexpr std::size_t kMostRequestBytes =
    std::size_t{16} * 1024;  // of a request's line and headers, and what goes with them
inline constexpr base::Duration kSilence = std::chrono::seconds(15);  // after which a connection is closed

// Valid during the call. What a client did not send is empty.
struct Request {
  std::string_view path;  // without percent encoding and query
  std::string_view host;  // the header, as are those below
  std::string_view authorization;
};

struct Reply {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// May throw: the client is answered with 500.
using Handler = std::function<Reply(const Request&)>;

// A bound and listening socket. Throws Error(kConfig) without a place: what is wrong with the address, how to mend it.
// Where `beside` is a socket of ours, its port may be the same.
[[nodiscard]] int listen_on(const config::Endpoint& endpoint, int beside);

class Server {
 public:
  // Takes the socket over. Throws Error(kInternal).
  Server(int socket, Handler handler);
  ~Server();  // [blocks] until no request is answered any more; closes all connections
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int socket() const noexcept { return socket_; }
  // Where it listens, with the port that was taken.
  [[nodiscard]] config::Endpoint endpoint() const noexcept;

  struct Answering;  // what the library calls

 private:
  const int socket_;
  const Handler handler_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace camd::http
