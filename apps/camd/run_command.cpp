// camd run: load, run, reload on SIGHUP, open files anew on SIGUSR1, drain on SIGINT and SIGTERM, leave at once on the
// second. systemd hears of it.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "apps/camd/commands.hpp"
#include "apps/camd/service_manager.hpp"
#include "apps/camd/signals.hpp"
#include "apps/camd/stdout_lines.hpp"
#include "apps/dashboard/live_dashboard.hpp"
#include "apps/http/service.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "config/loader.hpp"
#include "pipeline/run/proposal.hpp"
#include "pipeline/run/session.hpp"

namespace camd::app {
namespace {

using pipeline::EndReason;
using pipeline::Session;

constexpr auto kLeavePatience = std::chrono::milliseconds(300);  // for the log, when what hangs is left behind

// Where the metrics lines go.
class Output {
 public:
  Output(MetricsMode mode, Signals& signals) : signals_(signals), lines_(STDOUT_FILENO) {
    if (mode == MetricsMode::kAuto) {
      mode = dashboard::LiveDashboard::usable(STDOUT_FILENO) ? MetricsMode::kDashboard : MetricsMode::kJson;
    }
    mode_ = mode;
    if (mode_ == MetricsMode::kDashboard) {
      dashboard::LiveDashboard::Options options;
      options.on_quit = [&signals] { signals.ask_to_stop(); };
      dashboard_ = std::make_unique<dashboard::LiveDashboard>(std::move(options));
      signals.on_leave([this] { dashboard_->close(); });
    }
  }
  ~Output() { signals_.on_leave({}); }  // first of all: the action uses the dashboard
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view line) {
    if (dashboard_) dashboard_->feed(line);
    if (mode_ == MetricsMode::kJson) lines_.write(line);
  }
  // While a session drains, what stdout does not take within a second is given up.
  void draining(bool now) {
    if (now) {
      lines_.cancel();
    } else {
      lines_.resume();
    }
  }

 private:
  Signals& signals_;
  MetricsMode mode_;
  StdoutLines lines_;
  std::unique_ptr<dashboard::LiveDashboard> dashboard_;
};

// The signals wake the session, and the HTTP server asks it, for as long as this lives.
class Attached {
 public:
  Attached(Signals& signals, http::HttpService& http, Session& session) : signals_(signals), http_(http) {
    signals_.attach({[&session] { session.request_end(); }, [&session] { return session.stuck_line(); }});
    http_.attach({[&session] { return session.snapshot(); }, [&session] { return session.progress(); },
                  [&session](std::string_view name) { return session.find_camera(name); }});
  }
  ~Attached() {
    http_.close();
    signals_.attach({});
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  Signals& signals_;
  http::HttpService& http_;
};

// Puts the built-in `record` in front of the first plug-in from a path, or behind all.
void insert_recorder(config::Config& config, const std::string& file, std::uint64_t frames) {
  config::Postprocessor recorder;
  recorder.plugin = "record";
  recorder.config_json = nlohmann::json({{"path", file}, {"frames", frames}, {"input", true}}).dump();
  recorder.key = "--record";
  const auto from_path = [](const config::Postprocessor& entry) { return entry.plugin.find('/') != std::string::npos; };
  config.postprocess.insert(std::find_if(config.postprocess.begin(), config.postprocess.end(), from_path), recorder);
}

}  // namespace

int run_command(const RunOptions& options) {
  const base::Clock& clock = base::system_clock();
  Signals signals;
  ServiceManager systemd(ServiceEnvironment::of_this_process(), clock);
  systemd.status("starting: the model is made ready");
  std::unique_ptr<Output> output;
  http::HttpService http(CAMD_VERSION, options.shard, clock);
  pipeline::SessionOptions session_options;
  session_options.frame_limit = options.frames;
  session_options.side = &http;
  session_options.tap = &http.tap();
  session_options.set_up_patience.stop_asked = [&signals] { return signals.stop_asked(); };
  session_options.draining = [&](bool now) {
    if (now) systemd.stopping();
    output->draining(now);
    signals.draining(now);
  };
  pipeline::Proposer proposer;
  const auto load = [&] {
    config::Reading reading = read_shard(options.config, options.overrides, options.shard);
    if (const auto decided = proposer.complete(reading.config)) {
      base::log().info("{}: {}", reading.config.model.path.string(), fmt::join(decided->reasons, "; "));
    }
    if (!options.record.empty()) insert_recorder(reading.config, options.record, options.frames);
    return reading;
  };
  Session session(load, session_options, clock, [&](std::string_view line) {
    // The first line comes once everything was built. The terminal is taken over only then: what is
    // refused before stays readable.
    if (!output) output = std::make_unique<Output>(options.metrics, signals);
    output->write(line);
    http.line(line);
  });
  const Attached attached(signals, http, session);
  session.start();
  if (options.shard.count > 1 && session.snapshot()->cameras.empty()) {
    base::log().warn("shard {}/{} has none of the file's cameras: it waits for those that a reload brings",
                     options.shard.index, options.shard.count);
  }
  systemd.ready(session.status_line());
  const ServiceWatch watch(systemd,
                           {[&session] { return session.status_line(); },
                            [&session] {
                              const pipeline::Progress now = session.progress();
                              return PipelineProgress{now.finished, now.in_flight > 0};
                            }},
                           clock);
  // Counts from the first start, not from the set-up before it.
  const base::TimePoint deadline =
      options.duration.count() > 0 ? clock.now() + options.duration : base::TimePoint::max();
  const auto stop = [&](EndReason why) {
    const int code = session.stop(why);
    if (session.hangs()) {  // nothing may be destroyed under foreign code that still runs
      output = nullptr;
      (void)base::flush_log(kLeavePatience);
      std::_Exit(code);
    }
    return code;
  };
  for (;;) {
    const EndReason reason = session.wait(deadline);
    if (reason != EndReason::kRequested) return stop(reason);
    // Before the signals are looked at: one that comes later asks again, and is not forgotten with this request.
    session.forget_request();
    if (signals.stop_asked() || session.plugin_given_up()) return stop(reason);
    if (signals.take_reopen()) session.reopen_files();
    if (!signals.take_reload()) continue;
    base::log().info("{}: reloading", options.config);
    systemd.reloading();
    (void)session.reload();
    systemd.ready(session.status_line());
  }
}

}  // namespace camd::app
