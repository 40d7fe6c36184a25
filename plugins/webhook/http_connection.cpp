#include "plugins/webhook/http_connection.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace camd::plugins {
namespace {

using std::chrono::milliseconds;

constexpr long kConnectMs = 5000;
constexpr std::size_t kMostBody = std::size_t{4} << 20U;    // bytes of a request, but for a message that is larger
constexpr std::size_t kMostAnswer = std::size_t{1} << 20U;  // a server that sends more is cut off
constexpr std::size_t kMostReason = 120;                    // of an answer, for the log

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Multi = std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

// Whether the message is at fault, and not the server, the way, or who asks.
bool is_refusal(long status) { return status == 400 || status == 413 || status == 415 || status == 422; }

// The address without what may be secret.
std::string shown(const std::string& url) { return url.substr(0, url.find_first_of("?#")); }

// As much of an answer as goes into a line of the log.
std::string first_line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, kMostReason)) {
    if (c == '\n' || c == '\r') break;
    line += static_cast<unsigned char>(c) < 0x20U || static_cast<unsigned char>(c) > 0x7EU ? '?' : c;
  }
  return line;
}

class HttpConnection final : public Connection {
 public:
  explicit HttpConnection(HttpOptions options)
      : options_(std::move(options)),
        multi_(start(), &curl_multi_cleanup),
        easy_(nullptr, &curl_easy_cleanup),
        headers_(nullptr, &curl_slist_free_all) {
    if (multi_ == nullptr) throw std::runtime_error("libcurl cannot start");
    add_header("Content-Type: application/json");
    add_header("Expect:");  // the body goes with its head: no wait for a word in between
    for (const std::string& header : options_.headers) add_header(header);
  }
  ~HttpConnection() override { end(); }

  [[nodiscard]] std::string name() const override { return "webhook " + shown(options_.url); }
  [[nodiscard]] bool ready() const override { return easy_ != nullptr; }
  [[nodiscard]] std::size_t window() const override { return 2 * options_.batch; }

  // Reaches the server once, so that one that is away is known before a message is sent.
  void open() override {
    Easy probe(curl_easy_init(), &curl_easy_cleanup);
    set_up(probe.get());
    curl_easy_setopt(probe.get(), CURLOPT_CONNECT_ONLY, 1L);
    const CURLcode code = curl_easy_perform(probe.get());
    if (code != CURLE_OK) throw std::runtime_error(curl_easy_strerror(code));
    easy_.reset(curl_easy_init());
    set_up(easy_.get());
    alone_ = 0;
  }

  void send(std::uint64_t id, const Message& message) override { waiting_.push_back({id, message.payload}); }

  void work(Answers& answers, milliseconds most) override {
    if (!under_way_ && !waiting_.empty()) begin();
    int running = 0;
    check(curl_multi_perform(multi_.get(), &running));
    if (!under_way_ || running > 0) {
      check(curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(most.count()), nullptr));
      check(curl_multi_perform(multi_.get(), &running));
    }
    int left = 0;
    while (const CURLMsg* const told = curl_multi_info_read(multi_.get(), &left)) {
      if (told->msg == CURLMSG_DONE) finish(answers, told->data.result);
    }
  }

  void wake() noexcept override { curl_multi_wakeup(multi_.get()); }

  void close(bool /*politely*/) noexcept override { end(); }

 private:
  struct Waiting {
    std::uint64_t id = 0;
    std::string payload;
  };

  static CURLM* start() {
    static const bool kOnce = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    return kOnce ? curl_multi_init() : nullptr;
  }
  static void check(CURLMcode code) {
    if (code != CURLM_OK) throw std::runtime_error(curl_multi_strerror(code));
  }
  void add_header(const std::string& header) {
    curl_slist* const longer = curl_slist_append(headers_.get(), header.c_str());
    if (longer == nullptr) throw std::runtime_error("memory is short");
    static_cast<void>(headers_.release());
    headers_.reset(longer);
  }

  void set_up(CURL* easy) {
    if (easy == nullptr) throw std::runtime_error("memory is short");
    const auto set_text = [easy](CURLoption option, const std::string& text) {
      if (!text.empty()) curl_easy_setopt(easy, option, text.c_str());
    };
    curl_easy_setopt(easy, CURLOPT_URL, options_.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     std::min(kConnectMs, static_cast<long>(options_.timeout.count())));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
    set_text(CURLOPT_USERAGENT, options_.user_agent);
    set_text(CURLOPT_USERNAME, options_.user);
    set_text(CURLOPT_PASSWORD, options_.password);
    set_text(CURLOPT_CAINFO, options_.ca_file);
    set_text(CURLOPT_SSLCERT, options_.cert_file);
    set_text(CURLOPT_SSLKEY, options_.key_file);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, options_.verify ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, options_.verify ? 2L : 0L);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpConnection::take_answer);
  }

  // libcurl is C: nothing may be thrown through it. Another size than what came ends the transfer.
  static std::size_t take_answer(const char* bytes, std::size_t one, std::size_t count, void* self) noexcept {
    auto& me = *static_cast<HttpConnection*>(self);
    const std::size_t size = one * count;
    me.answer_bytes_ += size;
    if (me.answer_bytes_ > kMostAnswer) return 0;
    try {
      me.answer_.append(bytes, std::min(size, kMostReason - std::min(kMostReason, me.answer_.size())));
    } catch (const std::exception&) {
      return 0;
    }
    return size;
  }

  void begin() {
    body_ = "[";
    in_request_ = 0;
    const std::size_t most = alone_ > 0 ? 1 : options_.batch;
    for (const Waiting& one : waiting_) {
      if (in_request_ == most || (in_request_ > 0 && body_.size() + one.payload.size() > kMostBody)) break;
      if (in_request_++ > 0) body_ += ',';
      body_ += one.payload;
    }
    body_ += ']';
    answer_.clear();
    answer_bytes_ = 0;
    curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDS, body_.c_str());
    check(curl_multi_add_handle(multi_.get(), easy_.get()));
    under_way_ = true;
  }

  void finish(Answers& answers, CURLcode code) {
    curl_multi_remove_handle(multi_.get(), easy_.get());
    under_way_ = false;
    if (code != CURLE_OK) throw std::runtime_error(curl_easy_strerror(code));
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    const std::string said = fmt::format("HTTP {} {}", status, first_line(answer_));
    const bool taken = status >= 200 && status < 300;
    if (!taken && !is_refusal(status)) throw std::runtime_error(said);
    if (!taken && in_request_ > 1) {
      alone_ = in_request_;  // each by itself, to find the one that it does not take
      return;
    }
    for (; in_request_ > 0; --in_request_) {
      const std::uint64_t id = waiting_.front().id;
      waiting_.pop_front();
      if (alone_ > 0) --alone_;
      if (taken) {
        answers.acknowledged(id);
      } else {
        answers.refused(id, said);
      }
    }
  }

  void end() noexcept {
    if (std::exchange(under_way_, false)) curl_multi_remove_handle(multi_.get(), easy_.get());
    easy_.reset();
    waiting_.clear();
  }

  const HttpOptions options_;
  Multi multi_;
  Easy easy_;
  Headers headers_;
  std::deque<Waiting> waiting_;  // the first in_request_ of them are on their way
  std::size_t in_request_ = 0;
  std::size_t alone_ = 0;  // so many of the first go by themselves
  bool under_way_ = false;
  std::string body_;
  std::string answer_;  // its beginning
  std::size_t answer_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Connection> connect_http(HttpOptions options) {
  return std::make_unique<HttpConnection>(std::move(options));
}

}  // namespace camd::plugins
