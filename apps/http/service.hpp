// HttpService: the section `http` of a configuration, running. It answers what docs/http.md lists.
//
// Threads: constructor, destructor, attach(), prepare(), commit(), discard(), close() [setup], one thread; requests are
// answered on the server's thread; line() [metrics].
// Invariants: nothing is read of the pipeline but when somebody asks. Whoever does not bring the token, where there is
// one, learns no more than that camd lives and whether it is ready.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "apps/http/feed.hpp"
#include "apps/http/health.hpp"
#include "apps/http/pictures.hpp"
#include "apps/http/server.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/core/frame_tap.hpp"
#include "pipeline/run/session.hpp"

namespace camd::http {

class HttpService final : public pipeline::SideService {
 public:
  // What is asked about. Functions [any].
  struct Sources {
    std::function<std::optional<pipeline::Snapshot>()> snapshot;
    std::function<pipeline::Progress()> progress;
    std::function<std::optional<capture::CameraIndex>(std::string_view name)> find_camera;
  };
  // The clock outlives this.
  HttpService(std::string version, const config::Shard& shard, const base::Clock& clock);
  ~HttpService() override;

  // Before the first prepare().
  void attach(Sources sources);
  // What is asked about goes: nothing is answered any more.
  void close();

  void prepare(const config::Config& next) override;
  void commit() noexcept override;
  void discard() noexcept override;

  // For the session's options. Lives as long as this.
  [[nodiscard]] pipeline::FrameTap& tap() noexcept { return tap_; }
  // A metrics line, for those who look on.
  void line(std::string_view line) { feed_.line(line); }

  // [server] What is answered where `token` is asked for; empty: none is.
  [[nodiscard]] Reply answer(const Request& request, const std::string& token);

  // Where it listens; nothing: it does not.
  [[nodiscard]] std::optional<config::Endpoint> endpoint() const;

 private:
  // Changed in [setup], read on [server].
  class SharedText {
   public:
    [[nodiscard]] std::string text() {
      const base::MutexLock lock(mutex_);
      return text_;
    }
    // False: it is the text of before.
    [[nodiscard]] bool change(std::string text) {
      const base::MutexLock lock(mutex_);
      if (text_ == text) return false;
      text_ = std::move(text);
      return true;
    }

   private:
    base::Mutex mutex_;
    std::string text_ CAMD_GUARDED_BY(mutex_);
  };
  struct Next {
    config::Http settings;
    std::string zones;
    std::shared_ptr<SharedText> token;  // of `server`
    std::unique_ptr<Server> server;     // null: the one that runs stays, or there is none
  };
  [[nodiscard]] Reply latest_picture(const Request& request, std::string_view name);
  [[nodiscard]] Reply events(const Request& request);
  [[nodiscard]] Reply healthz();
  [[nodiscard]] Reply readyz(bool in_full) const;

  const std::string version_;
  const config::Shard shard_;
  const base::Clock& clock_;
  Sources sources_;
  Health health_;
  pipeline::FrameTap tap_;
  Feed feed_;
  Pictures pictures_;
  std::optional<Next> next_;  // [setup] between prepare() and commit() or discard()
  SharedText zones_;          // zones_json() of what runs
  // [setup] The pointer. The token that server_ asks for; empty: none.
  std::shared_ptr<SharedText> token_;
  std::unique_ptr<Server> server_;  // [setup]
  config::Http settings_;           // [setup]
};

}  // namespace camd::http
