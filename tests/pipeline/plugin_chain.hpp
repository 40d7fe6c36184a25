// A chain of plug-ins that do harm, with one frame in flight, for tests of worker processes.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/run/plugin_host.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {

inline std::string library(const std::string& name) { return test::binary_dir() + "/lib/bad/" + name + ".so"; }

inline PluginSpec isolated(const std::string& how, std::uint64_t at = ~0ULL) {
  PluginSpec spec;
  spec.plugin = library("faults");
  spec.config_json = fmt::format(R"({{"how":"{}","at":{}}})", how, at);
  spec.isolation.isolation = Isolation::kProcess;
  spec.isolation.deadline = std::chrono::seconds(20);
  return spec;
}

inline constexpr std::int64_t kFewValues = 4;

// Tells the plug-ins of a model with one output of so many values, and of the cameras.
inline void declare_model(PluginHost& host, const std::vector<const char*>& cameras, std::int64_t count = kFewValues) {
  const std::array<std::int64_t, 2> shape = {1, count};
  const camd_tensor_spec output{"out", 2, shape.data(), {kDLFloat, 32, 1}};
  camd_model model{};
  model.struct_size = sizeof(model);
  model.path = "fake.onnx";
  model.card_json = "{}";
  model.input = output;
  model.output_count = 1;
  model.outputs = &output;
  model.camera_count = static_cast<std::int32_t>(cameras.size());
  model.camera_names = cameras.data();
  host.declare(model);
}

// A chain with one frame in flight, whose one output lies in shared memory.
class Chain {
 public:
  explicit Chain(const std::vector<PluginSpec>& specs, PluginHostOptions options = {},
                 std::vector<const char*> cameras = {"door"}, std::int64_t value_count = kFewValues,
                 float* on_gpu = nullptr)
      : cameras_(std::move(cameras)), host(specs, base::system_clock(), std::move(options)), shape_({1, value_count}) {
    declare_model(host, cameras_, value_count);
    memory_ = host.shared_memory(sizeof(float) * static_cast<std::size_t>(value_count));
    if (memory_ == nullptr) own_.resize(static_cast<std::size_t>(value_count));
    values = memory_ == nullptr ? own_.data() : reinterpret_cast<float*>(memory_.get());
    values[0] = 0.25F;
    DLTensor tensor{};
    tensor.data = values;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 2;
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shape_.data();
    tensors_.host = {tensor};
    if (on_gpu != nullptr) {
      values = on_gpu;
      tensor.data = on_gpu;
      tensor.device = {kDLCUDA, 0};
    }
    tensors_.device = {tensor};
    items.resize(static_cast<std::size_t>(host.needs().detections));
    frame_ = host.prepare(tensors_);
  }
  ~Chain() { frame_ = nullptr; }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // What went wrong with the next frame; empty when all is well.
  std::string process(const camd_picture* picture = nullptr, std::int32_t width = 0, std::int32_t height = 0) {
    return process_of(0, picture, width, height);
  }
  std::string process_of(std::size_t camera, const camd_picture* picture = nullptr, std::int32_t width = 0,
                         std::int32_t height = 0) {
    camd_frame frame{};
    frame.struct_size = sizeof(frame);
    frame.camera = cameras_[camera];
    frame.camera_index = static_cast<std::int32_t>(camera);
    frame.sequence = sequence++;
    frame.picture = picture;
    frame.width = width;
    frame.height = height;
    results = {sizeof(results), static_cast<std::int32_t>(items.size()), 0, items.data()};
    return std::string(frame_->process(frame, results).message());
  }
  // Frames that are lost until one comes through again.
  int lost_until_back() {
    int lost = 0;
    while (!process().empty()) {
      ++lost;
      std::this_thread::yield();
    }
    return lost;
  }
  PluginHealth health() { return host.counters().front().health; }

 private:
  std::vector<const char*> cameras_;

 public:
  PluginHost host;
  float* values = nullptr;
  camd_results results{};
  std::vector<camd_detection> items;
  std::uint64_t sequence = 0;

 private:
  std::array<std::int64_t, 2> shape_;
  std::vector<float> own_;
  std::shared_ptr<std::byte> memory_;
  FrameTensors tensors_;
  std::unique_ptr<FramePostprocessing> frame_;
};

inline PluginHostOptions never_given_up() {
  PluginHostOptions options;
  options.restart.second = options.restart.longest = base::Duration(0);
  options.restart.most_deaths = 1 << 20;
  return options;
}

}  // namespace camd::pipeline
