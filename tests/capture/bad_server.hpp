// A server on loopback that misbehaves on purpose, in ways that a table names.
//
// Threads: constructor, destructor, tries() [test]; connections are served on threads of the server's own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.hpp"

namespace camd::capture::testing {

// One accepted connection, [server].
class BadConnection {
 public:
  BadConnection(int socket, const std::atomic<bool>& closing) : socket_(socket), closing_(closing) {}
  // The next request, headers alone; "" when the client has gone or the server closes.
  [[nodiscard]] std::string request();
  // False when the client has gone.
  bool send(const std::string& bytes);
  // A byte every millisecond.
  bool drip(const std::string& bytes);
  // Says nothing more until the client goes or the server closes.
  void hold();
  // Waits for a while. False when the client has gone or the server closes.
  [[nodiscard]] bool pause(int milliseconds);
  // Closes with a reset instead of an end.
  void reset();
  // Says that nothing more comes.
  void end();
  // The CSeq of a request, for its answer.
  [[nodiscard]] static std::string sequence_of(const std::string& request);

 private:
  const int socket_;
  const std::atomic<bool>& closing_;
};

class BadServer {
 public:
  using Behaviour = std::function<void(BadConnection&, int port)>;
  explicit BadServer(Behaviour behaviour);
  ~BadServer();
  BadServer(const BadServer&) = delete;
  BadServer& operator=(const BadServer&) = delete;
  [[nodiscard]] int port() const { return port_; }
  // Connections accepted so far.
  [[nodiscard]] int tries() const { return tries_; }

 private:
  void accept_loop();
  struct Served {
    int socket;
    std::thread thread;
    std::atomic<bool> done{false};
  };
  const Behaviour behaviour_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> closing_{false};
  std::atomic<int> tries_{0};
  std::vector<std::unique_ptr<Served>> served_;  // of the accepting thread
  std::thread thread_;
};

struct Misbehaviour {
  std::string name;  // letters, digits and '_'
  BadServer::Behaviour behaviour;
};

// A camera that plays, 30 pictures a second, of which nothing can be decoded.
[[nodiscard]] BadServer::Behaviour bad_rtsp_camera();

// What an RTSP server, and an HTTP server, can do wrong.
[[nodiscard]] std::vector<Misbehaviour> bad_rtsp_servers();
[[nodiscard]] std::vector<Misbehaviour> bad_http_servers();

}  // namespace camd::capture::testing
