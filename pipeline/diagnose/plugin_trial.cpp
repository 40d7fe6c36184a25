#include "pipeline/diagnose/plugin_trial.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "pipeline/run/plugin_host.hpp"

namespace camd::pipeline {
namespace {

constexpr int kWidth = 64, kHeight = 48;

camd_detection made_up_detection() {
  camd_detection made{};
  made.score = 0.75F;
  made.box[0] = 8;
  made.box[1] = 8;
  made.box[2] = 16;
  made.box[3] = 16;
  std::memcpy(made.class_name, "thing", sizeof("thing"));
  return made;
}

}  // namespace

PluginTrial try_plugin(const std::string& path, const std::string& config_json, const std::string& python) {
  PluginSpec spec;
  spec.plugin = path;
  spec.config_json = config_json;
  spec.isolation.isolation = Isolation::kProcess;
  spec.isolation.python = python;
  PluginHostOptions options;
  options.restart.most_deaths = 0;  // it is seen once
  PluginHost host({spec}, base::system_clock(), std::move(options));

  const std::array<std::int64_t, 4> input_shape = {1, 3, 64, 64};
  std::array<std::int64_t, 2> output_shape = {1, 8};
  const camd_tensor_spec output{"output", 2, output_shape.data(), {kDLFloat, 32, 1}};
  const std::array<const char*, 1> cameras = {"camera"};
  camd_model model{};
  model.struct_size = sizeof(model);
  model.path = "made-up.onnx";
  model.input = {"input", 4, input_shape.data(), {kDLFloat, 32, 1}};
  model.output_count = 1;
  model.outputs = &output;
  model.card_json = "{}";
  model.camera_count = 1;
  model.camera_names = cameras.data();
  host.declare(model);

  std::array<float, 8> values{};
  std::vector<float> input(std::size_t{3} * 64 * 64, 0.5F);
  const auto tensor = [](float* data, const std::int64_t* shape, std::int32_t ndim) {
    DLTensor made{};
    made.data = data;
    made.device = {kDLCPU, 0};
    made.ndim = ndim;
    made.dtype = {kDLFloat, 32, 1};
    made.shape = const_cast<std::int64_t*>(shape);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    return made;
  };
  FrameTensors tensors;
  tensors.host = {tensor(values.data(), output_shape.data(), 2)};
  tensors.device = tensors.host;
  tensors.input = tensor(input.data(), input_shape.data(), 4);

  std::vector<std::uint8_t> grey(std::size_t{kWidth} * kHeight * 3, 128);
  camd_picture picture{};
  picture.struct_size = sizeof(picture);
  picture.format = CAMD_PIXEL_BGR;
  picture.plane_count = 1;
  picture.planes[0] = {grey.data(), kWidth * 3, kWidth, kHeight};
  camd_frame frame{};
  frame.struct_size = sizeof(frame);
  frame.camera = cameras[0];
  frame.width = kWidth;
  frame.height = kHeight;
  frame.scale_x = frame.scale_y = 1;
  frame.picture = &picture;

  PluginTrial trial;
  const MergedNeeds& needs = host.needs();
  trial.needs =
      fmt::format("detections{}{}{}", needs.outputs[0] == CAMD_NEED_NONE ? "" : ", outputs",
                  needs.input == CAMD_NEED_NONE ? "" : ", the network's input", needs.picture ? ", the picture" : "");
  std::vector<camd_detection> items(static_cast<std::size_t>(needs.detections));
  camd_results results{sizeof(results), needs.detections, 0, items.data()};
  const std::unique_ptr<FramePostprocessing> prepared = host.prepare(tensors);
  // process() begins with an empty list; what is in it comes from a plug-in in front of this one.
  if (!items.empty()) items[0] = made_up_detection();
  results.count = items.empty() ? 0 : 1;
  const base::Status status = prepared->process(frame, results);
  trial.confinement = host.counters().front().health.confinement;
  trial.good = status.ok();
  trial.outcome = status.ok() ? fmt::format("a made-up frame with 1 detection: {} left", results.count)
                              : "a made-up frame: " + std::string(status.message());
  return trial;
}

}  // namespace camd::pipeline
