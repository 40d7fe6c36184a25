// Whether the built-in `detections` reads a model as it is configured: one picture of noise goes through the model, and
// the ranges of the outputs tell what shapes cannot, pixels from parts of the picture and probabilities from logits.
//
// Threads: [setup], [blocks] for one frame of the network.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"

namespace camd::pipeline {

// Every output of the network, as f32 in the model's order, for a picture of noise: the same picture on each call.
// Needs the memory of one frame in flight while it runs. Throws Error(kDevice | kDeviceLost | kModel).
[[nodiscard]] std::vector<std::vector<float>> outputs_of_noise(device::Device& device, infer::Engine& engine);

struct LayoutDoubt {
  std::string key;   // of the configuration: "postprocess.0"
  std::string text;  // one line: what was seen, and what to set
};

// What speaks against the layouts of all `detections` in `postprocess:`; empty when nothing does. Throws as
// outputs_of_noise(), which runs only where `detections` is configured.
[[nodiscard]] std::vector<LayoutDoubt> doubtful_layouts(const config::Config& config, device::Device& device,
                                                        infer::Engine& engine);

}  // namespace camd::pipeline
