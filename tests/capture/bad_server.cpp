#include "bad_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>

namespace camd::capture::testing {
namespace {

constexpr int kGlanceMs = 5;  // how soon a server's thread sees that the server closes

// A good answer to an RTSP request.
std::string ok(const std::string& request, const std::string& headers = "", const std::string& body = "") {
  std::string text = "RTSP/1.0 200 OK\r\nCSeq: " + BadConnection::sequence_of(request) + "\r\n" + headers;
  if (!body.empty()) text += fmt::format("Content-Length: {}\r\n", body.size());
  return text + "\r\n" + body;
}

std::string status(const std::string& request, const std::string& line, const std::string& headers = "") {
  return "RTSP/1.0 " + line + "\r\nCSeq: " + BadConnection::sequence_of(request) + "\r\n" + headers + "\r\n";
}

const std::string kOptions = "Public: OPTIONS, DESCRIBE, SETUP, TEARDOWN, PLAY\r\n";
const std::string kDescribed = "Content-Type: application/sdp\r\n";
const std::string kGoodSdp =
    "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n"
    "a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\na=control:stream=0\r\n";
const std::string kTransport = "Session: 1\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";

// Answers as a good server up to the request `method`, which `last` answers; then says nothing more.
BadServer::Behaviour good_until(const std::string& method,
                                std::function<void(BadConnection&, const std::string& request, int port)> last) {
  return [method, last](BadConnection& to, int port) {
    for (;;) {
      const std::string request = to.request();
      if (request.empty()) return;
      if (request.starts_with(method)) {
        last(to, request, port);
        to.hold();
        return;
      }
      if (request.starts_with("OPTIONS")) to.send(ok(request, kOptions));
      if (request.starts_with("DESCRIBE")) to.send(ok(request, kDescribed, kGoodSdp));
      if (request.starts_with("SETUP")) to.send(ok(request, kTransport));
      if (request.starts_with("PLAY")) to.send(ok(request, "Session: 1\r\n"));
      if (request.starts_with("TEARDOWN")) to.send(ok(request));
    }
  };
}

BadServer::Behaviour answers(const std::string& method, const std::string& status_line,
                             const std::string& headers = "") {
  return good_until(method, [=](BadConnection& to, const std::string& request, int) {
    to.send(status(request, status_line, headers));
  });
}

BadServer::Behaviour describes(const std::string& sdp) {
  return good_until("DESCRIBE",
                    [=](BadConnection& to, const std::string& request, int) { to.send(ok(request, kDescribed, sdp)); });
}

// What any server over TCP can do, whatever it should speak.
std::vector<Misbehaviour> common() {
  std::vector<Misbehaviour> kinds = {
      {"black_hole", [](BadConnection& to, int) { to.hold(); }},
      {"reads_and_never_answers",
       [](BadConnection& to, int) {
         while (!to.request().empty()) {
         }
       }},
      {"closes_at_once", [](BadConnection&, int) {}},
      {"resets_at_once", [](BadConnection& to, int) { to.reset(); }},
      {"closes_after_the_request", [](BadConnection& to, int) { (void)to.request(); }},
      {"resets_after_the_request",
       [](BadConnection& to, int) {
         (void)to.request();
         to.reset();
       }},
  };
  const auto speaks = [&kinds](const std::string& name, const std::string& bytes) {
    kinds.push_back({"speaks_" + name + "_and_holds", [bytes](BadConnection& to, int) {
                       (void)to.request();
                       to.send(bytes);
                       to.hold();
                     }});
    kinds.push_back({"speaks_" + name + "_and_closes", [bytes](BadConnection& to, int) {
                       (void)to.request();
                       to.send(bytes);
                     }});
  };
  speaks("ssh", "SSH-2.0-OpenSSH_9.2p1\r\n");
  speaks("smtp", "220 mail ESMTP\r\n");
  speaks("zeroes", std::string(4096, '\0'));
  speaks("lines", std::string(4096, '\n'));
  speaks("one_long_line", std::string(65536, 'x'));
  speaks("dollars", std::string(4096, '$'));
  std::string noise(4096, '\0');
  unsigned random = 7;
  for (char& c : noise) c = static_cast<char>((random = random * 1664525U + 1013904223U) >> 24U);
  speaks("noise", noise);
  return kinds;
}

// What a server can do with the head of its answer, `protocol` being "RTSP/1.0" or "HTTP/1.1".
void add_heads(std::vector<Misbehaviour>& kinds, const std::string& protocol, const std::string& other) {
  const auto says = [&kinds](const std::string& name, const std::function<std::string(const std::string&)>& text) {
    kinds.push_back({name, [text](BadConnection& to, int) {
                       const std::string request = to.request();
                       to.send(text(BadConnection::sequence_of(request)));
                       to.hold();
                     }});
  };
  const auto head = [protocol](const std::string& cseq, const std::string& line, const std::string& headers) {
    return protocol + " " + line + "\r\nCSeq: " + cseq + "\r\n" + headers + "\r\n";
  };
  says("other_protocol", [other](const std::string&) { return other + " 200 OK\r\n\r\n"; });
  says("unknown_version", [](const std::string&) { return std::string("RTSP/9.9 200 OK\r\n\r\n"); });
  says("body_of_4_gigabytes",
       [head](const std::string& cseq) { return head(cseq, "200 OK", "Content-Length: 4294967295\r\n"); });
  says("body_of_a_terabyte",
       [head](const std::string& cseq) { return head(cseq, "200 OK", "Content-Length: 1099511627776\r\n"); });
  says("negative_length", [head](const std::string& cseq) { return head(cseq, "200 OK", "Content-Length: -1\r\n"); });
  says("length_of_words", [head](const std::string& cseq) { return head(cseq, "200 OK", "Content-Length: many\r\n"); });
  says("body_that_never_comes",
       [head](const std::string& cseq) { return head(cseq, "200 OK", "Content-Length: 100\r\n"); });
  says("status_of_words", [head](const std::string& cseq) { return head(cseq, "fine", ""); });
  says("status_zero", [head](const std::string& cseq) { return head(cseq, "0 Zero", ""); });
  says("header_without_colon", [head](const std::string& cseq) { return head(cseq, "200 OK", "oops\r\n"); });
  says("header_of_a_megabyte", [head](const std::string& cseq) {
    return head(cseq, "200 OK", "X-Long: " + std::string(1 << 20, 'y') + "\r\n");
  });
  says("a_hundred_thousand_headers", [head](const std::string& cseq) {
    std::string many;
    for (int i = 0; i < 100'000; ++i) many += "X: y\r\n";
    return head(cseq, "200 OK", many);
  });
  says("head_without_end", [protocol](const std::string&) { return protocol + " 200 OK\r\nX: y\r\n"; });
  for (const char* const line : {"100 Continue", "301 Moved", "400 Bad Request", "401 Unauthorized", "403 Forbidden",
                                 "404 Not Found", "407 Proxy", "454 Session Not Found", "461 Unsupported Transport",
                                 "500 Error", "503 Unavailable", "551 Option"}) {
    says("says_" + std::string(line, 3), [head, line](const std::string& cseq) { return head(cseq, line, ""); });
  }
  kinds.push_back({"endless_header", [protocol](BadConnection& to, int) {
                     (void)to.request();
                     if (!to.send(protocol + " 200 OK\r\n")) return;
                     while (to.send("X-More: yes\r\n")) {
                     }
                   }});
  kinds.push_back({"endless_line", [protocol](BadConnection& to, int) {
                     (void)to.request();
                     if (!to.send(protocol + " 200 ")) return;
                     while (to.send("more and more ")) {
                     }
                   }});
  kinds.push_back({"slow_bytes", [protocol](BadConnection& to, int) {
                     (void)to.request();
                     while (to.drip(protocol + " 200 OK\r\nX: y\r\n")) {
                     }
                   }});
}

}  // namespace

std::string BadConnection::request() {
  std::string text;
  while (text.find("\r\n\r\n") == std::string::npos) {
    if (closing_) return "";
    pollfd one{socket_, POLLIN, 0};
    if (::poll(&one, 1, kGlanceMs) <= 0) continue;
    char bytes[4096];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return "";
    text.append(bytes, static_cast<std::size_t>(count));
  }
  return text;
}

bool BadConnection::send(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    if (closing_) return false;
    pollfd one{socket_, POLLOUT | POLLRDHUP, 0};
    if (::poll(&one, 1, kGlanceMs) <= 0) continue;
    if ((one.revents & POLLRDHUP) != 0) return false;  // with a full buffer the end of the client shows here alone
    const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool BadConnection::drip(const std::string& bytes) {
  for (const char byte : bytes) {
    if (!send(std::string(1, byte))) return false;
    pollfd gone{socket_, 0, 0};
    (void)::poll(&gone, 1, 1);
  }
  return true;
}

void BadConnection::hold() {
  while (!closing_) {
    pollfd one{socket_, POLLRDHUP, 0};
    if (::poll(&one, 1, kGlanceMs) > 0) return;
  }
}

void BadConnection::reset() {
  const linger hard{1, 0};
  (void)::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

bool BadConnection::pause(int milliseconds) {
  pollfd one{socket_, POLLRDHUP, 0};
  return ::poll(&one, 1, milliseconds) == 0 && !closing_;
}

void BadConnection::end() { (void)::shutdown(socket_, SHUT_WR); }

std::string BadConnection::sequence_of(const std::string& request) {
  const std::size_t at = request.find("CSeq: ");
  if (at == std::string::npos) return "1";
  return request.substr(at + 6, request.find('\r', at) - at - 6);
}

BadServer::BadServer(Behaviour behaviour) : behaviour_(std::move(behaviour)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 && ::listen(listener_, 64) == 0 &&
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port_ = ntohs(address.sin_port);
  }
  thread_ = std::thread([this] { accept_loop(); });
}

BadServer::~BadServer() {
  closing_ = true;
  thread_.join();
  ::close(listener_);
}

void BadServer::accept_loop() {
  while (!closing_) {
    pollfd one{listener_, POLLIN, 0};
    if (::poll(&one, 1, kGlanceMs) <= 0) continue;
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    ++tries_;
    std::erase_if(served_, [](const auto& served) {
      if (served->done) served->thread.join();
      return served->done.load();
    });
    Served& served = *served_.emplace_back(std::make_unique<Served>());
    served.socket = socket;
    served.thread = std::thread([this, &served] {
      BadConnection connection(served.socket, closing_);
      behaviour_(connection, port_);
      ::close(served.socket);
      served.done = true;
    });
  }
  for (const auto& served : served_) served->thread.join();
}

BadServer::Behaviour bad_rtsp_camera() {
  return good_until("PLAY", [](BadConnection& to, const std::string& request, int) {
    to.send(ok(request, "Session: 1\r\n"));
    for (unsigned number = 0; to.pause(33); ++number) {
      std::string packet("$\0\0\0\x80\xe0", 6);  // RFC 2326, 10.12, and RFC 3550, 5.1: a picture's only packet
      const unsigned stamp = number * 3000;
      for (const unsigned byte :
           {number >> 8U, number, stamp >> 24U, stamp >> 16U, stamp >> 8U, stamp, 0U, 0U, 0U, 7U}) {
        packet.push_back(static_cast<char>(byte & 0xFFU));
      }
      packet += "\x41" + std::string(100, 'x');  // a slice, of a sequence that nobody has described
      packet[3] = static_cast<char>(packet.size() - 4);
      if (!to.send(packet)) return;
    }
  });
}

std::vector<Misbehaviour> bad_rtsp_servers() {
  std::vector<Misbehaviour> kinds = common();
  add_heads(kinds, "RTSP/1.0", "HTTP/1.1");
  // A good conversation that is cut at each tenth byte of the server's side.
  const std::string head = ok("CSeq: 1\r", kOptions);
  for (std::size_t length = 1; length < head.size(); length += 10) {
    kinds.push_back({fmt::format("closes_after_{}_bytes", length), [head, length](BadConnection& to, int) {
                       (void)to.request();
                       to.send(head.substr(0, length));
                     }});
  }
  for (const char* const method : {"OPTIONS", "DESCRIBE", "SETUP", "PLAY"}) {
    const std::string name(method);
    kinds.push_back({"never_answers_" + name, good_until(name, [](BadConnection&, const std::string&, int) {})});
    kinds.push_back(
        {"closes_at_" + name, good_until(name, [](BadConnection& to, const std::string&, int) { to.reset(); })});
    kinds.push_back({"refuses_" + name, answers(name, "500 Error")});
    kinds.push_back({"redirects_to_itself_at_" + name,
                     good_until(name, [](BadConnection& to, const std::string& request, int port) {
                       to.send(status(request, "302 Moved", fmt::format("Location: rtsp://127.0.0.1:{}/x\r\n", port)));
                     })});
    kinds.push_back({"asks_for_a_login_again_and_again_at_" + name, [name](BadConnection& to, int) {
                       for (;;) {
                         const std::string request = to.request();
                         if (request.empty()) return;
                         if (request.starts_with(name)) {
                           to.send(status(request, "401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n"));
                         } else if (request.starts_with("DESCRIBE")) {
                           to.send(ok(request, kDescribed, kGoodSdp));
                         } else if (request.starts_with("SETUP")) {
                           to.send(ok(request, kTransport));
                         } else {
                           to.send(ok(request, kOptions));
                         }
                       }
                     }});
  }
  kinds.push_back({"redirects_without_a_place", answers("DESCRIBE", "302 Moved")});
  kinds.push_back({"redirects_to_nothing", answers("DESCRIBE", "302 Moved", "Location: \r\n")});
  kinds.push_back({"redirects_to_a_file", answers("DESCRIBE", "302 Moved", "Location: file:///etc/passwd\r\n")});
  kinds.push_back(
      {"redirects_to_a_closed_port", answers("DESCRIBE", "302 Moved", "Location: rtsp://127.0.0.1:1/x\r\n")});
  kinds.push_back({"sdp_empty", describes("")});
  kinds.push_back({"sdp_of_words", describes("this is no description\r\n")});
  kinds.push_back({"sdp_of_zeroes", describes(std::string(1000, '\0'))});
  kinds.push_back({"sdp_without_media", describes("v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=x\r\nt=0 0\r\n")});
  kinds.push_back(
      {"sdp_with_sound_alone",
       describes("v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=x\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\na=control:a\r\n")});
  kinds.push_back({"sdp_with_an_unknown_codec", good_until("PLAY", [](BadConnection& to, const std::string& request,
                                                                      int) { to.send(ok(request)); })});
  std::string many = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=x\r\nt=0 0\r\n";
  for (int i = 0; i < 500; ++i) many += "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:v\r\n";
  kinds.push_back({"sdp_of_500_videos", describes(many)});
  kinds.push_back({"sdp_with_a_line_of_a_megabyte", describes(kGoodSdp + "a=x:" + std::string(1 << 20, 'z') + "\r\n")});
  kinds.push_back({"setup_without_a_transport", answers("SETUP", "200 OK", "Session: 1\r\n")});
  kinds.push_back({"setup_with_another_transport",
                   answers("SETUP", "200 OK", "Session: 1\r\nTransport: RTP/AVP;multicast;port=1-2\r\n")});
  kinds.push_back({"setup_with_words", answers("SETUP", "200 OK", "Session: 1\r\nTransport: bus\r\n")});
  kinds.push_back({"plays_and_closes", good_until("PLAY", [](BadConnection& to, const std::string& request, int) {
                     to.send(ok(request, "Session: 1\r\n"));
                     to.reset();
                   })});
  kinds.push_back({"plays_and_ends", good_until("PLAY", [](BadConnection& to, const std::string& request, int) {
                     to.send(ok(request, "Session: 1\r\n"));
                     to.end();
                   })});
  kinds.push_back({"plays_zeroes", good_until("PLAY", [](BadConnection& to, const std::string& request, int) {
                     to.send(ok(request, "Session: 1\r\n"));
                     while (to.send(std::string(4096, '\0'))) {
                     }
                   })});
  return kinds;
}

std::vector<Misbehaviour> bad_http_servers() {
  std::vector<Misbehaviour> kinds = common();
  add_heads(kinds, "HTTP/1.1", "RTSP/1.0");
  kinds.push_back({"redirects_to_itself", [](BadConnection& to, int port) {
                     while (!to.request().empty()) {
                       to.send(
                           fmt::format("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/x\r\nContent-Length: "
                                       "0\r\n\r\n",
                                       port));
                     }
                   }});
  kinds.push_back({"body_of_words", [](BadConnection& to, int) {
                     (void)to.request();
                     to.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwords\n");
                   }});
  kinds.push_back({"body_without_end", [](BadConnection& to, int) {
                     (void)to.request();
                     if (!to.send("HTTP/1.1 200 OK\r\nContent-Type: image/jpeg\r\n\r\n")) return;
                     while (to.send(std::string(4096, '\0'))) {
                     }
                   }});
  kinds.push_back({"bad_chunks", [](BadConnection& to, int) {
                     (void)to.request();
                     to.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n");
                     to.hold();
                   }});
  kinds.push_back({"chunk_of_4_gigabytes", [](BadConnection& to, int) {
                     (void)to.request();
                     to.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\nx");
                     to.hold();
                   }});
  return kinds;
}

}  // namespace camd::capture::testing
