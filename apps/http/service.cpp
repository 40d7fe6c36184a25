#include "apps/http/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/http/access.hpp"
#include "apps/http/page.hpp"
#include "apps/http/prometheus.hpp"
#include "apps/http/zones.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/secrets.hpp"
#include "config/value.hpp"
#include "pipeline/run/metrics_lines.hpp"

namespace camd::http {
namespace {

using pipeline::CameraSnapshot;
using pipeline::Snapshot;

constexpr const char* kJson = "application/json";
constexpr std::string_view kCameras = "/api/v1/cameras";
constexpr std::string_view kLatest = "/latest.jpg";
constexpr base::Duration kPicturePatience = std::chrono::seconds(3);
constexpr base::Duration kMostEvery = std::chrono::hours(1);
// Of a picture; few, so that few are made of each.
constexpr std::array<int, 3> kWidths = {320, 640, 1280};

Reply problem(unsigned status, const std::string& what) {
  return {status, "text/plain; charset=utf-8", what + "\n", {}};
}

// NAME of /api/v1/cameras/NAME/latest.jpg; nothing: the path is another one.
std::optional<std::string_view> camera_of(std::string_view path) {
  if (path.size() <= kCameras.size() + kLatest.size() || !path.starts_with(kCameras) || !path.ends_with(kLatest) ||
      path[kCameras.size()] != '/') {
    return std::nullopt;
  }
  path.remove_prefix(kCameras.size() + 1);
  path.remove_suffix(kLatest.size());
  return path;
}

// Whether a camera does what it is there for. One whose file has ended has done it.
bool is_well(const CameraSnapshot& camera) { return camera.state == "running" || camera.state == "ended"; }

Reply page() {
  return {200,
          "text/html; charset=utf-8",
          std::string(page_html()),
          {{"Content-Security-Policy", page_policy()}, {"Referrer-Policy", "no-referrer"}}};
}

Reply cameras(const Snapshot& now) {
  std::string body = R"({"cameras":[)";
  for (std::size_t i = 0; i < now.cameras.size(); ++i) {
    body += (i == 0 ? "" : ",") + pipeline::camera_json(now.cameras[i]);
  }
  return {200, kJson, body + "]}\n", {}};
}

}  // namespace

base::Duration Health::stuck_for(const pipeline::Progress& now, base::TimePoint when) {
  const base::MutexLock lock(mutex_);
  if (now.in_flight == 0 || now.finished != last_.finished || last_.in_flight == 0) {
    last_ = now;
    since_ = when;
  }
  return when - since_;
}

HttpService::HttpService(std::string version, const config::Shard& shard, const base::Clock& clock)
    : version_(std::move(version)), shard_(shard), clock_(clock), feed_(clock, tap_), pictures_(clock, tap_) {}

HttpService::~HttpService() { close(); }

void HttpService::attach(Sources sources) { sources_ = std::move(sources); }

void HttpService::close() {
  discard();
  server_ = nullptr;
}

void HttpService::prepare(const config::Config& next) {
  Next made{next.http, zones_json(next.postprocess), nullptr, nullptr};
  const std::string& listen = next.http.listen;
  if (!listen.empty() && (server_ == nullptr || listen != settings_.listen)) {
    const std::optional<config::Endpoint> endpoint = config::parse_endpoint(listen);
    try {
      if (!endpoint) throw base::Error(base::ErrorKind::kInternal, "is no address");  // the loader has checked it
      const int socket = listen_on(*endpoint, server_ == nullptr ? -1 : server_->socket());
      // It answers at once, and must not do so with the token of another configuration.
      made.token = std::make_shared<SharedText>();
      (void)made.token->change(next.http.token);
      made.server = std::make_unique<Server>(
          socket, [this, token = made.token](const Request& request) { return answer(request, token->text()); });
    } catch (const base::Error& error) {
      throw next.error(error.kind(), "http.listen", error.what());
    }
  }
  next_ = std::move(made);
}

void HttpService::commit() noexcept {
  if (!next_) return;
  const bool other = settings_ != next_->settings;
  settings_ = std::move(next_->settings);
  (void)zones_.change(std::move(next_->zones));
  if (next_->server != nullptr || settings_.listen.empty()) {
    server_ = std::move(next_->server);
    token_ = std::move(next_->token);
  } else {
    // Those who look on came in with the token of before.
    if (token_->change(settings_.token)) feed_.end_all();
  }
  next_.reset();
  if (!other) return;
  if (const std::optional<config::Endpoint> endpoint = this->endpoint()) {
    base::log().info("http: listening on {}{}", endpoint->text(), settings_.token.empty() ? "" : ", with a token");
  } else {
    base::log().info("http: off");
  }
}

void HttpService::discard() noexcept { next_.reset(); }

std::optional<config::Endpoint> HttpService::endpoint() const {
  if (server_ == nullptr) return std::nullopt;
  return server_->endpoint();
}

Reply HttpService::answer(const Request& request, const std::string& token) {
  const bool trusted = token.empty() ? names_this_machine(request.host) : brings_token(request.authorization, token);
  if (request.path == "/healthz") return healthz();
  if (request.path == "/readyz") return readyz(trusted);
  if (!trusted && token.empty()) {
    return problem(403, "ask by a numeric address or as localhost: other names need http.token in the configuration");
  }
  if (!trusted) {
    Reply reply = problem(401, "needs the token: as a bearer token, or as the password of any user");
    reply.headers.emplace_back("WWW-Authenticate", R"(Basic realm="camd", charset="UTF-8")");
    return reply;
  }
  if (request.path == "/") return page();
  if (request.path == "/api/v1/zones") return {200, kJson, zones_.text(), {}};
  if (request.path == "/api/v1/events") return events(request);
  if (const auto name = camera_of(request.path)) return latest_picture(request, *name);
  if (request.path != "/metrics" && request.path != kCameras) {
    return problem(404,
                   "there is /, /metrics, /healthz, /readyz, /api/v1/cameras, /api/v1/cameras/NAME/latest.jpg, "
                   "/api/v1/events and /api/v1/zones");
  }
  const std::optional<Snapshot> now = sources_.snapshot();
  if (!now) return problem(503, "nothing runs");
  if (request.path == "/metrics") return {200, kPrometheusType, prometheus_text(*now, version_, shard_), {}};
  return cameras(*now);
}

Reply HttpService::latest_picture(const Request& request, std::string_view name) {
  int width = 0;
  if (const std::string_view asked = request.parameter("width"); !asked.empty()) {
    const auto found = std::find_if(kWidths.begin(), kWidths.end(),
                                    [asked](int one) { return asked == std::string_view(std::to_string(one)); });
    if (found == kWidths.end()) return problem(400, "width: 320, 640 or 1280; without it, the camera's own");
    width = *found;
  }
  const std::optional<capture::CameraIndex> slot = sources_.find_camera(name);
  if (!slot) return problem(404, "there is no such camera");
  const std::shared_ptr<const Jpeg> jpeg = pictures_.ask(std::string(name), *slot, width);
  if (jpeg == nullptr && request.waited >= kPicturePatience) {
    return problem(503,
                   fmt::format("no frame was delivered for {} s: {} says how the camera is",
                               std::chrono::duration_cast<std::chrono::seconds>(kPicturePatience).count(), kCameras));
  }
  Reply reply;
  reply.later = jpeg == nullptr;
  if (reply.later) return reply;
  reply.type = "image/jpeg";
  reply.body = jpeg->bytes;
  reply.headers = {{"Camd-Sequence", std::to_string(jpeg->sequence)},
                   {"Camd-Width", std::to_string(jpeg->width)},
                   {"Camd-Height", std::to_string(jpeg->height)}};
  return reply;
}

Reply HttpService::events(const Request& request) {
  FeedFilter filter;
  filter.camera = request.parameter("camera");
  if (!filter.camera.empty() && !sources_.find_camera(filter.camera)) return problem(404, "there is no such camera");
  if (const std::string_view metrics = request.parameter("metrics"); metrics == "1") {
    filter.metrics = true;
  } else if (!metrics.empty()) {
    return problem(400, "metrics: 1, or nothing");
  }
  if (const std::string_view every = request.parameter("every"); !every.empty()) {
    const std::optional<base::Duration> duration = config::parse_duration(every);
    if (!duration || *duration > kMostEvery) return problem(400, "every: a duration such as 200ms, at most 1h");
    filter.every = *duration;
  }
  Reply reply;
  reply.type = "text/event-stream";
  reply.stream = feed_.open(filter);
  if (reply.stream == nullptr) return problem(503, fmt::format("{} look on already", kMostViewers));
  return reply;
}

Reply HttpService::healthz() {
  const base::Duration stuck = health_.stuck_for(sources_.progress(), clock_.now());
  if (stuck < kNoProgress) return {200, "text/plain; charset=utf-8", "ok\n", {}};
  return problem(503, fmt::format("frames are on their way and none has come through for {} s",
                                  std::chrono::duration_cast<std::chrono::seconds>(stuck).count()));
}

Reply HttpService::readyz(bool in_full) const {
  const std::optional<Snapshot> now = sources_.snapshot();
  const std::size_t all = now ? now->cameras.size() : 0;
  nlohmann::ordered_json body;
  nlohmann::ordered_json waited_for = nlohmann::ordered_json::array();
  for (const CameraSnapshot& camera : now ? now->cameras : std::vector<CameraSnapshot>()) {
    if (is_well(camera)) continue;
    waited_for.push_back({{"camera", camera.camera}, {"state", camera.state}});
    if (!camera.reason.empty()) waited_for.back()["reason"] = base::without_secrets(camera.reason);
  }
  const bool ready = now.has_value() && waited_for.empty();
  body["ready"] = ready;
  body["cameras"] = all;
  body["not_running"] = waited_for.size();
  if (in_full) body["waits_for"] = std::move(waited_for);
  return {ready ? 200U : 503U,
          kJson,
          body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
          {}};
}

}  // namespace camd::http
