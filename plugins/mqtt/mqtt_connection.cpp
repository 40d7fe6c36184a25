#include "plugins/mqtt/mqtt_connection.hpp"

#include <fmt/format.h>
#include <mosquitto.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace camd::plugins {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kKeepAliveSeconds = 20;
constexpr seconds kAnswerPatience{10};           // for the broker's word after a connect
constexpr seconds kAcknowledgementPatience{30};  // for that of a message
constexpr int kConnectMs = 5000;
constexpr std::size_t kWindow = 20;  // messages on their way: mosquitto's brokers take as many unless told otherwise

std::string error_text(int code) {
  return code == MOSQ_ERR_ERRNO ? std::strerror(errno) : mosquitto_strerror(code);  // NOLINT(concurrency-mt-unsafe)
}
void check(int code, std::string_view what) {
  if (code != MOSQ_ERR_SUCCESS) throw std::runtime_error(fmt::format("{}: {}", what, error_text(code)));
}

// Whether somebody listens there. mosquitto_connect() waits for a host that does not answer as long as the kernel does,
// two minutes; this asks with a bound first. Throws std::runtime_error.
void try_to_reach(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) throw std::runtime_error(fmt::format("{}: {}", host, ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, &::freeaddrinfo);
  int problem = EHOSTUNREACH;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int file = ::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol);
    if (file < 0) {
      problem = errno;
      continue;
    }
    problem = ::connect(file, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (problem == EINPROGRESS) {
      pollfd wait{file, POLLOUT, 0};
      socklen_t size = sizeof(problem);
      if (::poll(&wait, 1, kConnectMs) != 1) {
        problem = ETIMEDOUT;
      } else if (::getsockopt(file, SOL_SOCKET, SO_ERROR, &problem, &size) != 0) {
        problem = errno;
      }
    }
    ::close(file);
    if (problem == 0) return;
  }
  throw std::runtime_error(std::strerror(problem));  // NOLINT(concurrency-mt-unsafe)
}

class MqttConnection final : public Connection {
 public:
  MqttConnection(MqttOptions options, std::shared_ptr<Retained> retained)
      : options_(std::move(options)), retained_(std::move(retained)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (wake_ < 0) throw std::runtime_error("no descriptor is left for an outlet");
    static const bool kOnce = mosquitto_lib_init() == MOSQ_ERR_SUCCESS;
    static_cast<void>(kOnce);
  }
  ~MqttConnection() override {
    end_client();
    ::close(wake_);
  }

  [[nodiscard]] std::string name() const override { return fmt::format("mqtt {}:{}", options_.host, options_.port); }
  [[nodiscard]] bool ready() const override { return ready_; }
  [[nodiscard]] std::size_t window() const override { return kWindow; }

  void open() override {
    try_to_reach(options_.host, options_.port);
    client_ = mosquitto_new(options_.client_id.c_str(), true, this);
    if (client_ == nullptr) throw std::runtime_error("no client could be made: " + error_text(MOSQ_ERR_ERRNO));
    mosquitto_connect_callback_set(client_, &MqttConnection::on_connect);
    mosquitto_disconnect_callback_set(client_, &MqttConnection::on_disconnect);
    mosquitto_publish_callback_set(client_, &MqttConnection::on_publish);
    mosquitto_message_callback_set(client_, &MqttConnection::on_message);
    mosquitto_log_callback_set(client_, &MqttConnection::on_log);
    check(mosquitto_int_option(client_, MOSQ_OPT_TCP_NODELAY, 1), "TCP_NODELAY");
    check(mosquitto_will_set(client_, options_.status_topic.c_str(), 7, "offline", 1, true), "last will");
    if (!options_.user.empty()) {
      check(mosquitto_username_pw_set(client_, options_.user.c_str(),
                                      options_.password.empty() ? nullptr : options_.password.c_str()),
            "user");
    }
    if (options_.tls) {
      const auto file = [](const std::string& path) { return path.empty() ? nullptr : path.c_str(); };
      if (options_.ca_file.empty()) check(mosquitto_int_option(client_, MOSQ_OPT_TLS_USE_OS_CERTS, 1), "TLS");
      check(mosquitto_tls_set(client_, file(options_.ca_file), nullptr, file(options_.cert_file),
                              file(options_.key_file), nullptr),
            "TLS");
      check(mosquitto_tls_opts_set(client_, options_.verify ? 1 : 0, nullptr, nullptr), "TLS");
      if (!options_.verify) check(mosquitto_tls_insecure_set(client_, true), "TLS");
    }
    patience_ = steady_clock::now() + kAnswerPatience;
    lost_.clear();
    tls_problem_.clear();
    out_of_memory_ = false;
    const int code = mosquitto_connect(client_, options_.host.c_str(), options_.port, kKeepAliveSeconds);
    if (code != MOSQ_ERR_SUCCESS) throw std::runtime_error(problem(code));
  }

  void send(std::uint64_t id, const Message& message) override {
    int number = 0;
    check(mosquitto_publish(client_, &number, message.topic.c_str(), static_cast<int>(message.payload.size()),
                            message.payload.data(), options_.qos, message.retain),
          "publish");
    if (ids_.empty()) patience_ = steady_clock::now() + kAcknowledgementPatience;
    ids_[number] = id;
  }

  void work(Answers& answers, milliseconds most) override {
    if (ready_) send_retained();
    const int file = mosquitto_socket(client_);
    if (file < 0 && lost_.empty()) lost_ = "the connection was closed";
    if (lost_.empty()) {
      std::array<pollfd, 2> wait{{{file, POLLIN, 0}, {wake_, POLLIN, 0}}};
      if (mosquitto_want_write(client_)) wait[0].events |= POLLOUT;
      // The keep-alive is looked after once a second.
      const int ms = static_cast<int>(std::min<std::int64_t>(most.count(), done_.empty() ? 1000 : 0));
      static_cast<void>(::poll(wait.data(), wait.size(), ms));
      std::uint64_t ignored = 0;
      if ((wait[1].revents & POLLIN) != 0)
        static_cast<void>(!::read(wake_, &ignored, sizeof(ignored)));  // how often does not matter
      int code = MOSQ_ERR_SUCCESS;
      if ((wait[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) code = mosquitto_loop_read(client_, 100);
      if (code == MOSQ_ERR_SUCCESS && mosquitto_want_write(client_)) code = mosquitto_loop_write(client_, 100);
      if (code == MOSQ_ERR_SUCCESS) code = mosquitto_loop_misc(client_);
      if (code != MOSQ_ERR_SUCCESS && lost_.empty()) lost_ = problem(code);
    }
    for (const int number : done_) {
      const auto found = ids_.find(number);
      if (found == ids_.end()) continue;  // a retained value
      const std::uint64_t id = found->second;
      ids_.erase(found);
      patience_ = steady_clock::now() + kAcknowledgementPatience;
      answers.acknowledged(id);
    }
    done_.clear();
    if (lost_.empty() && (!ready_ || !ids_.empty()) && steady_clock::now() > patience_) {
      lost_ = ready_ ? fmt::format("no acknowledgement for {} s", kAcknowledgementPatience.count())
                     : fmt::format("the broker took the connection and said nothing for {} s", kAnswerPatience.count());
    }
    if (out_of_memory_) throw std::runtime_error("memory is short");
    if (!lost_.empty()) throw std::runtime_error(lost_);
  }

  void wake() noexcept override {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_, &one, sizeof(one)));
  }

  void close(bool politely) noexcept override {
    if (client_ != nullptr && politely && ready_) {
      const auto until = steady_clock::now() + milliseconds(500);
      static_cast<void>(mosquitto_publish(client_, nullptr, options_.status_topic.c_str(), 7, "offline", 0, true));
      static_cast<void>(mosquitto_disconnect(client_));
      while (mosquitto_want_write(client_) && mosquitto_socket(client_) >= 0 && steady_clock::now() < until) {
        pollfd wait{mosquitto_socket(client_), POLLOUT, 0};
        static_cast<void>(::poll(&wait, 1, 100));
        if (mosquitto_loop_write(client_, 100) != MOSQ_ERR_SUCCESS) break;
      }
    }
    end_client();
  }

 private:
  // libmosquitto is C: nothing may be thrown through it.
  template <class Do>
  static void noted(void* self, Do&& what) noexcept {
    auto& me = *static_cast<MqttConnection*>(self);
    try {
      what(me);
    } catch (const std::exception&) {
      me.out_of_memory_ = true;  // work() ends the connection
    }
  }
  static void on_connect(mosquitto* client, void* self, int code) {
    noted(self, [&](MqttConnection& me) {
      if (code != 0) {
        me.lost_ = fmt::format("the broker refused: {}", mosquitto_connack_string(code));
        return;
      }
      me.ready_ = true;
      me.retained_->all_again();
      static_cast<void>(mosquitto_publish(client, nullptr, me.options_.status_topic.c_str(), 6, "online", 1, true));
      if (!me.options_.birth_topic.empty()) {
        static_cast<void>(mosquitto_subscribe(client, nullptr, me.options_.birth_topic.c_str(), 1));
      }
    });
  }
  static void on_disconnect(mosquitto* /*client*/, void* self, int code) {
    noted(self, [&](MqttConnection& me) {
      if (me.lost_.empty())
        me.lost_ = me.tls_problem_.empty() ? fmt::format("the connection was lost: {}", error_text(code))
                                           : me.problem(MOSQ_ERR_TLS);
    });
  }
  static void on_publish(mosquitto* /*client*/, void* self, int number) {
    noted(self, [&](MqttConnection& me) { me.done_.push_back(number); });
  }
  static void on_message(mosquitto* /*client*/, void* self, const mosquitto_message* message) {
    noted(self, [&](MqttConnection& me) {
      const std::string_view text(static_cast<const char*>(message->payload),
                                  message->payload != nullptr ? static_cast<std::size_t>(message->payloadlen) : 0);
      if (text == "online") me.retained_->all_again();
    });
  }

  // OpenSSL's own words, "OpenSSL Error[0]: error:0A000086:SSL routines::certificate verify failed", are only here.
  static void on_log(mosquitto* /*client*/, void* self, int /*level*/, const char* text) {
    noted(self, [&](MqttConnection& me) {
      const std::string_view line(text);
      if (line.substr(0, 13) == "OpenSSL Error" && me.tls_problem_.empty()) {
        me.tls_problem_ = line.substr(line.rfind(':') + 1);
      }
    });
  }
  [[nodiscard]] std::string problem(int code) const {
    return code == MOSQ_ERR_TLS && !tls_problem_.empty() ? "TLS: " + tls_problem_ : error_text(code);
  }

  void send_retained() {
    while (retained_->take(topic_, value_)) {
      check(mosquitto_publish(client_, nullptr, topic_.c_str(), static_cast<int>(value_.size()),
                              value_.empty() ? nullptr : value_.data(), 1, true),
            "publish");
    }
  }
  void end_client() noexcept {
    if (client_ != nullptr) mosquitto_destroy(std::exchange(client_, nullptr));
    ready_ = false;
    ids_.clear();
    done_.clear();
    lost_.clear();
  }

  const MqttOptions options_;
  const std::shared_ptr<Retained> retained_;
  const int wake_;
  mosquitto* client_ = nullptr;
  bool ready_ = false;
  bool out_of_memory_ = false;
  std::string lost_;                   // why there is no connection any more
  std::string tls_problem_;            // what OpenSSL said of it first
  std::map<int, std::uint64_t> ids_;   // of messages, by libmosquitto's number
  std::vector<int> done_;              // numbers that the broker has acknowledged
  steady_clock::time_point patience_;  // until when the broker has to say something
  std::string topic_, value_;
};

}  // namespace

std::unique_ptr<Connection> connect_mqtt(MqttOptions options, std::shared_ptr<Retained> retained) {
  return std::make_unique<MqttConnection>(std::move(options), std::move(retained));
}

}  // namespace camd::plugins
