// Server: HTTP/1.1 on one socket, by libmicrohttpd (docs/adr/0035-http-by-libmicrohttpd.md). What is asked for is
// answered by a handler.
//
// Threads: constructor, destructor [setup]; the handler and streams are called on the server's one thread, [server]
// (named by the library). A second one, "http-tick", lets those go on that wait; it sleeps while nobody does.
// Invariants: only GET and HEAD are answered, without a body. Connections, the size of a request and the time that a
// silent client is waited for are bounded by the constants below; nothing else of a client is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "config/endpoint.hpp"

struct MHD_Connection;
struct MHD_Daemon;

namespace camd::http {

inline constexpr unsigned kMostConnections = 128;
inline constexpr std::size_t kMostRequestBytes =
    std::size_t{16} * 1024;  // of a request's line and headers, and what goes with them
inline constexpr base::Duration kSilence = std::chrono::seconds(15);    // after which a connection is closed
inline constexpr base::Duration kTick = std::chrono::milliseconds(20);  // between two looks for those who wait

// Valid during the call. What a client did not send is empty.
struct Request {
  std::string_view path;  // without percent encoding and query
  std::string_view host;  // the header, as are those below
  std::string_view authorization;
  base::Duration waited{0};  // since it was asked for the first time; see Reply::later
  // The value of a parameter behind `?`, without percent encoding; empty: it is not there.
  std::function<std::string_view(const char* name)> parameter = [](const char*) { return std::string_view(); };
};

// An answer that goes on for as long as the client stays. Destroyed on [server], when the client has gone.
class Stream {
 public:
  virtual ~Stream() = default;
  // [server] What comes next. Empty: nothing yet, it is asked again in kTick. Nothing: it ends here.
  [[nodiscard]] virtual std::optional<std::string> next() = 0;
};

struct Reply {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::unique_ptr<Stream> stream = nullptr;  // instead of `body`
  bool later = false;                        // there is no answer yet: the same is asked again in kTick
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
  void tick();
  // [server] The connection goes on with the next tick. False: the server ends.
  [[nodiscard]] bool let_wait(MHD_Connection* connection);
  void resume_all() CAMD_REQUIRES(mutex_);

  const int socket_;
  const Handler handler_;
  MHD_Daemon* daemon_ = nullptr;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<MHD_Connection*> waiting_ CAMD_GUARDED_BY(mutex_);  // suspended
  bool ending_ CAMD_GUARDED_BY(mutex_) = false;
  std::thread ticker_;
};

}  // namespace camd::http
