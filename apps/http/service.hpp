// HttpService: the section `http` of a configuration, running. It answers what docs/http.md lists.
//
// Threads: constructor, destructor, attach(), prepare(), commit(), discard(), close() [setup], one thread; requests are
// answered on the server's thread.
// Invariants: nothing is read of the pipeline but when somebody asks. Whoever does not bring the token, where there is
// one, learns no more than that camd lives and whether it is ready.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/http/health.hpp"
#include "apps/http/server.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/run/session.hpp"

namespace camd::http {

class HttpService final : public pipeline::SideService {
 public:
  // What is asked about. Functions [any].
  struct Sources {
    std::function<std::optional<pipeline::Snapshot>()> snapshot;
    std::function<pipeline::Progress()> progress;
  };
  // The clock outlives this.
  HttpService(std::string version, const base::Clock& clock);
  ~HttpService() override;

  // Before the first prepare().
  void attach(Sources sources);
  // What is asked about goes: nothing is answered any more.
  void close();

  void prepare(const config::Config& next) override;
  void commit() noexcept override;
  void discard() noexcept override;

  // Where it listens; nothing: it does not.
  [[nodiscard]] std::optional<config::Endpoint> endpoint() const;

 private:
  // What a server asks of its clients.
  struct Door {
    base::Mutex mutex;
    std::string token CAMD_GUARDED_BY(mutex);  // empty: none
  };
  struct Next {
    config::Http settings;
    std::shared_ptr<Door> door;
    std::unique_ptr<Server> server;  // null: the one that runs stays, or there is none
  };
  [[nodiscard]] Reply answer(const Request& request, Door& door);
  [[nodiscard]] Reply healthz();
  [[nodiscard]] Reply readyz(bool in_full) const;

  const std::string version_;
  const base::Clock& clock_;
  Sources sources_;
  Health health_;
  std::optional<Next> next_;        // [setup] between prepare() and commit() or discard()
  std::shared_ptr<Door> door_;      // [setup] of server_
  std::unique_ptr<Server> server_;  // [setup]
  config::Http settings_;           // [setup]
};

}  // namespace camd::http
