// FrameOutlet: a built-in that sends frames and events through an outbox, each as one JSON object (frame_json.hpp).
// What distinguishes one outlet from another is its connection. A message's topic is the camera's name.
//
// Threads: as every plug-in (camd_plugin.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/frame_json.hpp"
#include "plugins/outbox/outbox.hpp"
#include "plugins/outbox/publish.hpp"

namespace camd::plugins {

class FrameOutlet : public camd::plugin::Postprocessor {
 public:
  // `identity`: as for Outbox.
  FrameOutlet(camd::plugin::Host host, const PublishOptions& publish, OutboxOptions outbox,
              std::unique_ptr<Connection> connection, std::string identity);

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override;
  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override;
  void sample() override;
  void finish() override;
  std::unique_ptr<Camera> open_camera(int index, const char* name) override;
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override;

 private:
  struct Seen;
  struct OneCamera;
  void send(const std::string& camera);

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  const PublishOptions publish_;
  std::unique_ptr<Outbox> outbox_;
  camd::plugin::Gauge connected_;
  std::vector<std::shared_ptr<Seen>> seen_;  // by camera_index
  std::vector<std::uint64_t> shown_;
  JsonBuffer line_;
};

// What check() of an outlet says of its outbox's spool, after its keys were read. `above`: what stands in front of the
// key, "mqtt." where the outbox belongs to a part of the plug-in.
void check_spool(const camd::plugin::Check& check, const OutboxOptions& outbox, const std::string& above = "");

}  // namespace camd::plugins
