// HostExecution: what the Executions of all engines of the host device have in common. It owns the memory of the input
// and the outputs, preprocesses pictures, and runs the network in the stream's order.
//
// Threads: as Execution. run_network() is called on the thread that runs the stream, one call at a time.
// Invariants: an exception of run_network() does not leave the stream; result() returns it as a Status. When
// preprocessing failed, the network does not run and the outputs are those of an earlier frame.
#pragma once

#include <vector>

#include "device/device.hpp"
#include "infer/engine.hpp"
#include "infer/preprocess.hpp"

namespace camd::infer {

class HostExecution : public Execution {
 public:
  base::Status enqueue_preprocess(const PictureView& picture, device::StreamRef stream) final;
  base::Status enqueue_network(device::StreamRef stream) final;
  bool bind_output(std::size_t i, void* address) final;
  bool bind_input(void* address) final;
  [[nodiscard]] TensorView input() const noexcept final;
  [[nodiscard]] TensorView output(std::size_t i) const noexcept final;
  [[nodiscard]] const device::Event& output_ready(std::size_t i) const noexcept final;
  [[nodiscard]] base::Status result() const noexcept final;

 protected:
  // The specs are the engine's and outlive this object.
  HostExecution(const Engine& engine, device::Device& device);
  // Reads input_data(), writes every output_data(i), whose address bind_output() changes. May throw.
  virtual void run_network() = 0;

  [[nodiscard]] float* input_data() const noexcept { return reinterpret_cast<float*>(input_address_); }
  [[nodiscard]] std::byte* output_data(std::size_t i) const noexcept { return addresses_[i]; }

 private:
  static void preprocess_on_stream(void* self) noexcept;
  static void run_on_stream(void* self) noexcept;

  const Engine& engine_;
  device::Device& device_;
  Preprocessor preprocessor_;
  device::DeviceBuffer input_;  // empty where bind_input() gave other memory
  std::byte* input_address_ = nullptr;
  std::vector<device::DeviceBuffer> outputs_;  // empty where bind_output() gave other memory
  std::vector<std::byte*> addresses_;
  std::vector<device::Event> ready_;
  PictureView picture_;  // of the frame in flight
  base::Status result_;  // written in the stream's order, read after its last event
};

}  // namespace camd::infer
