#include "plugins/outbox/frame_outlet.hpp"

#include <utility>

#include "plugins/outbox/report.hpp"
#include "plugins/paths.hpp"

namespace camd::plugins {

struct FrameOutlet::Seen {
  std::string name;
  PublishGate gate;
};
struct FrameOutlet::OneCamera final : Camera {
  std::shared_ptr<Seen> seen;
};

FrameOutlet::FrameOutlet(camd::plugin::Host host, const PublishOptions& publish, OutboxOptions outbox,
                         std::unique_ptr<Connection> connection, std::string identity)
    : host_(host), events_(host.events()), publish_(publish) {
  const auto log = [host](camd_log_level level, const std::string& text) { host.log(level, text); };
  outbox_ = std::make_unique<Outbox>(std::move(outbox), std::move(connection), std::move(identity), log);
  connected_ = host.gauge("connected");
  line_.reserve(std::size_t{1} << 16U);
}

void FrameOutlet::outputs(const camd_model& model, camd::plugin::Needs& needs) {
  static_cast<void>(needs);  // reads `results` alone
  for (int i = 0; i < model.camera_count; ++i) {
    const char* const name = model.camera_names[i];
    exchange_camera(i, name[0] != '\0' ? open_camera(i, name) : nullptr);
  }
  // After a reload the instance before still sends; this one begins with its first frame.
  if (host_.reloads() == 0) outbox_->start();
}

void FrameOutlet::process(const camd_frame& frame, const camd::plugin::Tensors& tensors,
                          camd::plugin::Results& results) {
  static_cast<void>(tensors);
  outbox_->start();
  Seen& seen = *seen_.at(static_cast<std::size_t>(frame.camera_index));
  const std::int64_t now_ns = host_.now_mono_ns();
  shown_.clear();
  for (const camd_detection& detection : results) shown_.push_back(identity_of(detection));
  if (seen.gate.opens(publish_, shown_, now_ns)) {
    line_.clear();
    put_frame(line_, frame, results, events_, now_ns);
    send(seen.name);
  }
  if (!publish_.events) return;
  each_frame_event(line_, frame, events_, [&] { send(seen.name); });
}

void FrameOutlet::send(const std::string& camera) {
  outbox_->put(camera, camera, std::string_view(line_.data(), line_.size()), false);
}

void FrameOutlet::sample() {
  connected_.set(outbox_->connected() ? 1 : 0);
  report_totals(host_, *outbox_);
}

void FrameOutlet::finish() {
  outbox_->stop();
  report_totals(host_, *outbox_);
}

std::unique_ptr<FrameOutlet::Camera> FrameOutlet::open_camera(int /*index*/, const char* name) {
  auto opened = std::make_unique<OneCamera>();
  opened->seen = std::make_shared<Seen>();
  opened->seen->name = name;
  outbox_->add_camera(name);
  return opened;
}

std::unique_ptr<FrameOutlet::Camera> FrameOutlet::exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept {
  const auto place = static_cast<std::size_t>(index);
  if (seen_.size() <= place) seen_.resize(place + 1);
  auto before = std::make_unique<OneCamera>();
  before->seen = std::move(seen_[place]);
  if (camera) seen_[place] = std::move(static_cast<OneCamera&>(*camera).seen);
  if (before->seen != nullptr) outbox_->remove_camera(before->seen->name);
  return before;
}

void check_spool(const camd::plugin::Check& check, const OutboxOptions& outbox, const std::string& above) {
  if (outbox.spool.empty()) return;
  const std::string key = above + "outbox.spool";
  if (const std::string problem = folder_problem(outbox.spool); !problem.empty()) check.mistake(key, problem);
  check.claim(key, outbox.spool);
}

}  // namespace camd::plugins
