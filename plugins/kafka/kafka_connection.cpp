#include "plugins/kafka/kafka_connection.hpp"

#include <fmt/format.h>
#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

namespace camd::plugins {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kAnswerPatience{10};  // for a first word of the cluster
constexpr milliseconds kGreeting{500};               // for an answer to one question
constexpr const char* kDeliveryMs = "30000";         // for a message's acknowledgement
constexpr std::size_t kWindow = 1000;                // messages on their way
constexpr std::size_t kReason = 512;

using Producer = std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)>;
using Queue = std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)>;
using Topic = std::unique_ptr<rd_kafka_topic_t, decltype(&rd_kafka_topic_destroy)>;
using Event = std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)>;

// Whether the message is at fault, and not the cluster or the way.
bool is_refusal(rd_kafka_resp_err_t error) {
  return error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || error == RD_KAFKA_RESP_ERR_INVALID_MSG ||
         error == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE || error == RD_KAFKA_RESP_ERR_INVALID_RECORD;
}

class KafkaConnection final : public Connection {
 public:
  explicit KafkaConnection(KafkaOptions options)
      : options_(std::move(options)),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        producer_(nullptr, &rd_kafka_destroy),
        queue_(nullptr, &rd_kafka_queue_destroy),
        topic_(nullptr, &rd_kafka_topic_destroy) {
    if (wake_ < 0) throw std::runtime_error("no descriptor is left for an outlet");
  }
  ~KafkaConnection() override {
    end();
    ::close(wake_);
  }

  [[nodiscard]] std::string name() const override { return fmt::format("kafka {}", options_.brokers); }
  [[nodiscard]] bool ready() const override { return ready_; }
  [[nodiscard]] std::size_t window() const override { return kWindow; }

  void open() override {
    std::array<char, kReason> why{};
    rd_kafka_conf_t* const conf = configuration();
    producer_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, conf, why.data(), why.size()));
    if (producer_ == nullptr) {
      rd_kafka_conf_destroy(conf);
      throw std::runtime_error(why.data());
    }
    topic_.reset(rd_kafka_topic_new(producer_.get(), options_.topic.c_str(), nullptr));
    if (topic_ == nullptr) throw std::runtime_error(rd_kafka_err2str(rd_kafka_last_error()));
    queue_.reset(rd_kafka_queue_get_main(producer_.get()));
    rd_kafka_queue_io_event_enable(queue_.get(), wake_, &kOne, sizeof(kOne));
    patience_ = steady_clock::now() + kAnswerPatience;
  }

  void send(std::uint64_t id, const Message& message) override {
    const rd_kafka_resp_err_t error =
        rd_kafka_producev(producer_.get(), RD_KAFKA_V_RKT(topic_.get()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_KEY(message.topic.data(), message.topic.size()),
                          // librdkafka takes what it copies as not constant.
                          RD_KAFKA_V_VALUE(const_cast<char*>(message.payload.data()), message.payload.size()),
                          RD_KAFKA_V_OPAQUE(reinterpret_cast<void*>(static_cast<std::uintptr_t>(id))), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    if (!is_refusal(error)) throw std::runtime_error(rd_kafka_err2str(error));
    refused_.emplace_back(id, rd_kafka_err2str(error));
  }

  void work(Answers& answers, milliseconds most) override {
    if (!ready_) {
      greet(std::clamp(most, milliseconds(100), kGreeting));
    } else if (refused_.empty()) {
      pollfd wait{wake_, POLLIN, 0};
      static_cast<void>(::poll(&wait, 1, static_cast<int>(most.count())));
    }
    std::uint64_t ignored = 0;
    static_cast<void>(!::read(wake_, &ignored, sizeof(ignored)));  // how often does not matter
    for (const auto& [id, why] : std::exchange(refused_, {})) answers.refused(id, why);
    while (const Event event{rd_kafka_queue_poll(queue_.get(), 0), &rd_kafka_event_destroy}) take(answers, *event);
    if (!lost_.empty()) throw std::runtime_error(lost_);
  }

  void wake() noexcept override { static_cast<void>(!::write(wake_, &kOne, sizeof(kOne))); }

  void close(bool /*politely*/) noexcept override { end(); }

 private:
  static constexpr std::uint64_t kOne = 1;

  // Owned by the caller. Throws std::runtime_error.
  [[nodiscard]] rd_kafka_conf_t* configuration() const {
    std::unique_ptr<rd_kafka_conf_t, decltype(&rd_kafka_conf_destroy)> conf(rd_kafka_conf_new(),
                                                                            &rd_kafka_conf_destroy);
    const auto set = [&conf](const char* key, const std::string& value) {
      std::array<char, kReason> why{};
      if (value.empty()) return;
      if (rd_kafka_conf_set(conf.get(), key, value.c_str(), why.data(), why.size()) != RD_KAFKA_CONF_OK) {
        throw std::runtime_error(why.data());
      }
    };
    set("bootstrap.servers", options_.brokers);
    set("client.id", options_.client_id);
    set("enable.idempotence", "true");
    set("compression.type", options_.compression);
    set("delivery.timeout.ms", kDeliveryMs);
    set("linger.ms", "5");
    set("log.connection.close", "false");
    const bool login = !options_.user.empty();
    set("security.protocol", options_.tls ? (login ? "sasl_ssl" : "ssl") : (login ? "sasl_plaintext" : "plaintext"));
    if (login) {
      set("sasl.mechanisms", options_.mechanism);
      set("sasl.username", options_.user);
      set("sasl.password", options_.password);
    }
    if (options_.tls) {
      set("ssl.ca.location", options_.ca_file);
      set("ssl.certificate.location", options_.cert_file);
      set("ssl.key.location", options_.key_file);
      set("enable.ssl.certificate.verification", options_.verify ? "true" : "false");
      if (!options_.verify) set("ssl.endpoint.identification.algorithm", "none");
    }
    // What librdkafka would print; what counts comes as an event.
    rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    return conf.release();
  }

  // [blocks] for at most `most`: asks the cluster for the topic. Messages go once it has answered.
  void greet(milliseconds most) {
    const struct rd_kafka_metadata* found = nullptr;
    const rd_kafka_resp_err_t error = rd_kafka_metadata(producer_.get(), 0, topic_.get(), &found,
                                                        static_cast<int>(std::max<std::int64_t>(1, most.count())));
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
      rd_kafka_metadata_destroy(found);
      ready_ = true;
    } else if (steady_clock::now() > patience_) {
      lost_ = fmt::format("no broker answers: {}", rd_kafka_err2str(error));
    }
  }

  void take(Answers& answers, rd_kafka_event_t& event) {
    if (rd_kafka_event_type(&event) == RD_KAFKA_EVENT_ERROR) {
      const rd_kafka_resp_err_t error = rd_kafka_event_error(&event);
      // Others heal by themselves. That all are down follows a login or a certificate that was refused, and says less.
      const bool all_down = error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
      if ((all_down && lost_.empty()) || error == RD_KAFKA_RESP_ERR__AUTHENTICATION ||
          error == RD_KAFKA_RESP_ERR__FATAL || error == RD_KAFKA_RESP_ERR__SSL) {
        lost_ = rd_kafka_event_error_string(&event);
        lost_.resize(std::min(lost_.size(), lost_.find(" (after ")));  // how long it took: another each time
      }
      return;
    }
    while (const rd_kafka_message_t* const told = rd_kafka_event_message_next(&event)) {
      const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(told->_private));
      if (told->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        answers.acknowledged(id);
      } else if (is_refusal(told->err)) {
        answers.refused(id, rd_kafka_err2str(told->err));
      } else {
        lost_ = rd_kafka_err2str(told->err);
      }
    }
  }

  void end() noexcept {
    ready_ = false;
    lost_.clear();
    refused_.clear();
    if (producer_ != nullptr) {
      rd_kafka_purge(producer_.get(),
                     RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
    }
    topic_.reset();
    queue_.reset();
    producer_.reset();
  }

  const KafkaOptions options_;
  const int wake_;
  Producer producer_;
  Queue queue_;
  Topic topic_;
  bool ready_ = false;
  std::string lost_;  // why there is no connection any more
  std::vector<std::pair<std::uint64_t, std::string>> refused_;
  steady_clock::time_point patience_;  // until when a broker has to answer
};

}  // namespace

std::unique_ptr<Connection> connect_kafka(KafkaOptions options) {
  return std::make_unique<KafkaConnection>(std::move(options));
}

}  // namespace camd::plugins
