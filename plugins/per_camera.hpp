// PerCamera: what a plug-in keeps for each of its cameras, found by the camera's index.
//
// Threads: fill() in outputs(), exchange() in exchange_camera(), the rest in process() and sample(): calls of one
//   instance never overlap.
// Invariants: of() throws std::out_of_range for a camera that the model did not name and that never came.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "plugins/camd_plugin.hpp"

namespace camd::plugins {

// `Kept` derives from camd::plugin::Postprocessor::Camera.
template <class Kept>
class PerCamera {
 public:
  using Camera = camd::plugin::Postprocessor::Camera;

  // make(name) for each camera of the model. A place that nobody has stays empty.
  template <class Make>
  void fill(const camd_model& model, Make&& make) {
    for (int i = 0; i < model.camera_count; ++i) {
      const char* const name = model.camera_names[i];
      kept_.push_back(name[0] != '\0' ? make(name) : std::unique_ptr<Kept>());
    }
  }
  [[nodiscard]] Kept& of(const camd_frame& frame) { return *kept_.at(static_cast<std::size_t>(frame.camera_index)); }
  // As Postprocessor::exchange_camera(): puts `camera` into its place and returns what was there.
  [[nodiscard]] std::unique_ptr<Camera> exchange(int index, std::unique_ptr<Camera> camera) {
    const auto place = static_cast<std::size_t>(index);
    if (kept_.size() <= place) kept_.resize(place + 1);
    std::unique_ptr<Camera> before = std::move(kept_[place]);
    kept_[place].reset(static_cast<Kept*>(camera.release()));
    return before;
  }
  // what(kept) for each camera that is there.
  template <class What>
  void each(What&& what) const {
    for (const std::unique_ptr<Kept>& one : kept_) {
      if (one) what(*one);
    }
  }

 private:
  std::vector<std::unique_ptr<Kept>> kept_;
};

}  // namespace camd::plugins
