#include "infer/host_execution.hpp"

#include <fmt/format.h>

#include <exception>

#include "infer/onnx/input.hpp"

namespace camd::infer {

using base::ErrorKind;
using base::Status;

HostExecution::HostExecution(const Engine& engine, device::Device& device)
    : engine_(engine), device_(device), preprocessor_(engine.input_options()) {
  input_ = device.allocate_device(engine.input().size_bytes());
  input_address_ = input_.data();
  for (const TensorSpec& spec : engine.outputs()) {
    outputs_.push_back(device.allocate_device(std::max<std::size_t>(spec.size_bytes(), 1)));
    addresses_.push_back(outputs_.back().data());
    ready_.push_back(device.make_event());
  }
}

bool HostExecution::bind_output(std::size_t i, void* address) {
  addresses_[i] = static_cast<std::byte*>(address);
  outputs_[i] = {};
  return true;
}

bool HostExecution::bind_input(void* address) {
  input_address_ = static_cast<std::byte*>(address);
  input_ = {};
  return true;
}

Status HostExecution::enqueue_preprocess(const PictureView& picture, device::StreamRef stream) {
  if ((picture.data == nullptr && picture.at == nullptr) || picture.layout.width <= 0 || picture.layout.height <= 0) {
    return {ErrorKind::kInternal, "enqueue_preprocess: no picture"};
  }
  picture_ = picture;
  return device_.call(&HostExecution::preprocess_on_stream, this, stream);
}

Status HostExecution::enqueue_network(device::StreamRef stream) {
  if (Status status = device_.call(&HostExecution::run_on_stream, this, stream); !status) return status;
  for (device::Event& event : ready_) {
    if (Status status = device_.record(event, stream); !status) return status;
  }
  return {};
}

void HostExecution::preprocess_on_stream(void* self) noexcept {
  auto& execution = *static_cast<HostExecution*>(self);
  try {
    execution.result_ = Status();
    const PictureView& picture = execution.picture_;
    execution.preprocessor_.run({picture.bytes(), picture.layout}, execution.input_data());
  } catch (const std::exception& error) {
    execution.result_ =
        Status(ErrorKind::kModel, fmt::format("preprocessing failed: {}", base::one_line(error.what())));
  }
}

void HostExecution::run_on_stream(void* self) noexcept {
  auto& execution = *static_cast<HostExecution*>(self);
  if (!execution.result_) return;
  try {
    execution.run_network();
  } catch (const std::exception& error) {
    execution.result_ =
        Status(ErrorKind::kModel, fmt::format("{}: the network failed in engine {}: {}", execution.engine_.model().path,
                                              execution.engine_.name(), base::one_line(error.what())));
  }
}

TensorView HostExecution::input() const noexcept { return {input_address_, &engine_.input()}; }

TensorView HostExecution::output(std::size_t i) const noexcept { return {addresses_[i], &engine_.outputs()[i]}; }

const device::Event& HostExecution::output_ready(std::size_t i) const noexcept { return ready_[i]; }

Status HostExecution::result() const noexcept { return result_; }

}  // namespace camd::infer
