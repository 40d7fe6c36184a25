#include "apps/http/server.hpp"

#include <fmt/format.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <limits>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"

namespace camd::http {
namespace {

using base::Error;
using base::ErrorKind;

constexpr int kBacklog = 64;
constexpr std::size_t kStreamBlock = std::size_t{32} * 1024;
// What every answer says: it is for this moment, it is what it says it is, and no page of another server may use it.
constexpr std::array<std::pair<const char*, const char*>, 3> kAlways = {{
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
}};

std::string_view header(MHD_Connection* connection, const char* name) {
  const char* const value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

MHD_Result send(MHD_Connection* connection, const Reply& reply, MHD_Response* response) {
  if (response == nullptr) return MHD_NO;
  (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply.type.c_str());
  for (const auto& [name, value] : kAlways) (void)MHD_add_response_header(response, name, value);
  for (const auto& [name, value] : reply.headers) {
    (void)MHD_add_response_header(response, name.c_str(), value.c_str());
  }
  const MHD_Result result = MHD_queue_response(connection, reply.status, response);
  MHD_destroy_response(response);
  return result;
}

MHD_Result send(MHD_Connection* connection, const Reply& reply) {
  return send(connection, reply,
              MHD_create_response_from_buffer(reply.body.size(),
                                              const_cast<char*>(reply.body.data()),  // NOLINT: it is copied
                                              MHD_RESPMEM_MUST_COPY));
}

std::string problem_of(const config::Endpoint& endpoint, int error) {
  switch (error) {
    case EADDRINUSE:
      return fmt::format("{} is taken by another program: choose another port (`ss -ltnp` shows who has it)",
                         endpoint.text());
    case EADDRNOTAVAIL: return fmt::format("{}: this machine has no such address", endpoint.text());
    case EACCES: return fmt::format("{}: this port is for root alone: choose one from 1024 on", endpoint.text());
    default: return fmt::format("{}: {}", endpoint.text(), std::strerror(error));
  }
}

void set(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof(value));
}

// 0, or what went wrong.
int bind_and_listen(int socket, const config::Endpoint& endpoint) {
  const auto* const address = reinterpret_cast<const sockaddr*>(&endpoint.address);
  return ::bind(socket, address, endpoint.size) == 0 && ::listen(socket, kBacklog) == 0 ? 0 : errno;
}

}  // namespace

int listen_on(const config::Endpoint& endpoint, int beside) {
  const int socket = ::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) throw Error(ErrorKind::kConfig, problem_of(endpoint, errno));
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  int error = bind_and_listen(socket, endpoint);
  if (error == EADDRINUSE && beside >= 0) {
    // Perhaps it is our own: 127.0.0.1:8088 while 0.0.0.0:8088 shall be opened. For this one call both allow that.
    for (const int one : {beside, socket}) set(one, SOL_SOCKET, SO_REUSEPORT, 1);
    error = bind_and_listen(socket, endpoint);
    for (const int one : {beside, socket}) set(one, SOL_SOCKET, SO_REUSEPORT, 0);
  }
  if (error == 0) return socket;
  ::close(socket);
  throw Error(ErrorKind::kConfig, problem_of(endpoint, error));
}

struct Server::Answering {
  // One request, from its first line until its answer is sent.
  struct Asked {
    base::TimePoint begun = base::system_clock().now();
  };
  // A stream that is being sent.
  struct Sending {
    Server& server;
    MHD_Connection* connection;
    std::unique_ptr<Stream> stream;
    std::string text{};
    std::size_t sent = 0;
  };

  static ssize_t read(void* self, std::uint64_t /*position*/, char* to, std::size_t most) {
    auto& sending = *static_cast<Sending*>(self);
    try {
      if (sending.sent == sending.text.size()) {
        std::optional<std::string> next = sending.stream->next();
        if (!next) return MHD_CONTENT_READER_END_OF_STREAM;
        sending.text = std::move(*next);
        sending.sent = 0;
      }
    } catch (const std::exception& error) {
      base::log().error("http: {}", error.what());
      return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    const std::size_t size = std::min(most, sending.text.size() - sending.sent);
    if (size == 0) return sending.server.let_wait(sending.connection) ? 0 : MHD_CONTENT_READER_END_OF_STREAM;
    std::copy_n(sending.text.data() + sending.sent, size, to);
    sending.sent += size;
    return static_cast<ssize_t>(size);
  }
  // The library has held both.
  static void forget_stream(void* self) { const std::unique_ptr<Sending> gone(static_cast<Sending*>(self)); }
  static void forget_request(void* /*self*/, MHD_Connection* /*connection*/, void** asked,
                             MHD_RequestTerminationCode /*why*/) {
    const std::unique_ptr<Asked> gone(static_cast<Asked*>(std::exchange(*asked, nullptr)));
  }

  static MHD_Result answer(Server& server, MHD_Connection* connection, const Request& request, bool head) {
    Reply reply = server.handler_(request);
    if (reply.later) {
      return server.let_wait(connection) ? MHD_YES : send(connection, {503, "text/plain", "camd ends\n", {}});
    }
    if (head) reply.stream = nullptr;  // the library would send the end of its chunks
    if (reply.stream == nullptr) return send(connection, reply);
    auto sending = std::make_unique<Sending>(Sending{server, connection, std::move(reply.stream)});
    MHD_Response* const response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlock, &read, sending.get(), &forget_stream);
    if (response != nullptr) (void)sending.release();
    return send(connection, reply, response);
  }

  static MHD_Result access(void* self, MHD_Connection* connection, const char* url, const char* method,
                           const char* /*version*/, const char* /*upload*/, std::size_t* upload_size, void** seen) {
    const bool first = *seen == nullptr;
    try {
      if (first) *seen = std::make_unique<Asked>().release();
      const std::string_view verb(method);
      if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD) {
        return first ? send(connection, {405, {}, "only GET and HEAD are answered\n", {{"Allow", "GET, HEAD"}}})
                     : MHD_NO;
      }
      const std::string_view length = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
      const bool has_body =
          (!length.empty() && length != "0") || !header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING).empty();
      if (has_body || *upload_size != 0) {
        return first ? send(connection, {413, {}, "a request has no body here\n", {}}) : MHD_NO;
      }
      if (first) return MHD_YES;  // once more, when the request is complete
      const Request request{
          url, header(connection, MHD_HTTP_HEADER_HOST), header(connection, MHD_HTTP_HEADER_AUTHORIZATION),
          base::system_clock().now() - static_cast<const Asked*>(*seen)->begun, [connection](const char* name) {
            const char* const value = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
            return value == nullptr ? std::string_view() : std::string_view(value);
          }};
      return answer(*static_cast<Server*>(self), connection, request, verb == MHD_HTTP_METHOD_HEAD);
    } catch (const std::exception& error) {
      base::log().error("http: {}: {}", url, error.what());
      return send(connection, {500, {}, "internal error; camd's log says more\n", {}});
    }
  }
};

Server::Server(int socket, Handler handler) : socket_(socket), handler_(std::move(handler)) {
  constexpr auto kSeconds = std::chrono::duration_cast<std::chrono::seconds>(kSilence).count();
  daemon_ = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr,
                             &Answering::access, this, MHD_OPTION_LISTEN_SOCKET, socket_,     //
                             MHD_OPTION_CONNECTION_LIMIT, kMostConnections,                   //
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMostRequestBytes,           //
                             MHD_OPTION_CONNECTION_TIMEOUT, static_cast<unsigned>(kSeconds),  //
                             MHD_OPTION_NOTIFY_COMPLETED, &Answering::forget_request, nullptr, MHD_OPTION_END);
  if (daemon_ == nullptr) throw Error(ErrorKind::kInternal, "the HTTP server cannot be started");
  ticker_ = std::thread([this] { tick(); });
}

Server::~Server() {
  {
    const base::MutexLock lock(mutex_);
    ending_ = true;
    resume_all();  // the library does not end while one is suspended
    changed_.notify_all();
  }
  ticker_.join();
  MHD_stop_daemon(daemon_);
}

bool Server::let_wait(MHD_Connection* connection) {
  const base::MutexLock lock(mutex_);
  if (ending_) return false;
  MHD_suspend_connection(connection);
  waiting_.push_back(connection);
  changed_.notify_all();
  return true;
}

void Server::resume_all() {
  for (MHD_Connection* const connection : waiting_) MHD_resume_connection(connection);
  waiting_.clear();
}

void Server::tick() {
  base::name_this_thread("http-tick");
  const base::Clock& clock = base::system_clock();
  const base::MutexLock lock(mutex_);
  while (!ending_) {
    while (!ending_ && waiting_.empty()) changed_.wait(mutex_);
    const base::TimePoint next = clock.now() + kTick;
    while (!ending_ && clock.now() < next) (void)clock.wait_until(changed_, mutex_, next);
    if (!ending_) resume_all();
  }
}

config::Endpoint Server::endpoint() const noexcept {
  config::Endpoint endpoint;
  endpoint.size = sizeof(endpoint.address);
  (void)::getsockname(socket_, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.size);
  return endpoint;
}

}  // namespace camd::http
