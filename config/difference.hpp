// What distinguishes two configurations: what a reload has to touch, and what it may leave alone.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"

namespace camd::config {

struct Difference {
  bool device = false;   // another device
  bool engine = false;   // another network, engine or input: everything of `model` but the card's other keys
  bool card = false;     // the model card's keys that plug-ins read
  bool buffers = false;  // pipeline.transfer: other memory for the pictures
  bool path = false;     // pipeline.streams, slots or max_age
  bool period = false;   // metrics.period
  bool http = false;     // another address or token

  // By index. Cameras are the same when their names are.
  std::vector<std::size_t> cameras_added;    // of `next`
  std::vector<std::size_t> cameras_altered;  // of `next`: the same name with another source
  std::vector<std::size_t> cameras_removed;  // of `running`

  // For each entry of `next.postprocess` the entry of `running` that it equals, each at most once.
  std::vector<std::optional<std::size_t>> plugins_kept;
  bool plugins = false;  // some entry is new, gone or elsewhere

  // Nothing that has an effect: comments, the order of cameras and the places of values do not count.
  [[nodiscard]] bool nothing() const noexcept;
  // For the metrics and the log: "device", "model", "pipeline", "postprocess", "metrics", "http", "camera NAME added",
  // "camera NAME altered", "camera NAME removed"; in this order.
  [[nodiscard]] std::vector<std::string> names(const Config& running, const Config& next) const;
};

[[nodiscard]] Difference difference(const Config& running, const Config& next);

}  // namespace camd::config
