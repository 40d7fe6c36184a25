// An engine for devices with memory and streams of their own, which a picture or an output that went astray betrays.
//
// Threads: as infer::Engine; its work, `working` included, runs on the streams' threads.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "infer/engine.hpp"

namespace camd::test {

// A picture's bytes summed, and the last of them.
struct Digest {
  float sum = 0;
  float last = 0;
  bool operator==(const Digest& o) const { return sum == o.sum && last == o.last; }
};
inline Digest digest(const std::byte* data, std::size_t size) {
  // Eight bytes at a time: sanitizers pay for each read, and tests sum thousands of pictures.
  constexpr std::uint64_t kEvenBytes = 0x00ff00ff00ff00ff;
  constexpr std::uint64_t kFourOnes = 0x0001000100010001;
  std::uint32_t sum = 0;
  std::size_t i = 0;
  for (std::uint64_t word = 0; i + sizeof(word) <= size; i += sizeof(word)) {
    std::memcpy(&word, data + i, sizeof(word));
    const std::uint64_t pairs = (word & kEvenBytes) + ((word >> 8U) & kEvenBytes);
    sum += static_cast<std::uint32_t>((pairs * kFourOnes) >> 48U);
  }
  for (; i < size; ++i) sum += std::to_integer<std::uint32_t>(data[i]);
  return {static_cast<float>(sum), static_cast<float>(std::to_integer<int>(data[size - 1]))};
}

// An engine whose network's two outputs are the picture's digest. The first is final before the second. Its input is
// the picture's first byte.
class DigestEngine final : public infer::Engine {
 public:
  // `working` is called by the device for each frame.
  explicit DigestEngine(
      device::Device& device, std::function<void()> working = [] {})
      : device_(device), working_(std::move(working)) {
    model_.path = "digest.onnx";
    input_ = {"input", {1}, infer::DataType::kF32};
    outputs_ = {{"sum", {1, 1}, infer::DataType::kF32}, {"last", {1, 1}, infer::DataType::kF32}};
    options_.width = options_.height = 4;
  }
  [[nodiscard]] std::string_view name() const noexcept override { return "digest"; }
  [[nodiscard]] const infer::ModelDescription& model() const noexcept override { return model_; }
  [[nodiscard]] const infer::InputOptions& input_options() const noexcept override { return options_; }
  [[nodiscard]] const infer::TensorSpec& input() const noexcept override { return input_; }
  [[nodiscard]] const std::vector<infer::TensorSpec>& outputs() const noexcept override { return outputs_; }
  [[nodiscard]] std::unique_ptr<infer::Execution> make_execution() override {
    return std::make_unique<DigestExecution>(*this);
  }
  // Whether somebody reads the network's input.
  [[nodiscard]] bool keeps_input() const noexcept { return keeps_input_; }

 private:
  class DigestExecution final : public infer::Execution {
   public:
    static constexpr std::size_t kApart = 256;  // bytes, as a GPU's engine aligns its outputs
    explicit DigestExecution(DigestEngine& engine)
        : engine_(engine), memory_(engine.device_.allocate_device(3 * kApart)) {
      for (std::size_t i = 0; i < 2; ++i) {
        addresses_[i] = memory_.data() + i * kApart;
        ready_.push_back(engine.device_.make_event());
      }
    }
    base::Status enqueue_preprocess(const infer::PictureView& picture, device::StreamRef stream) override {
      // Work notes where its picture lies: a graph runs it again when others have been captured.
      if (jobs_.empty() || jobs_.back().picture.data != picture.data || jobs_.back().picture.at != picture.at ||
          !(jobs_.back().picture.layout == picture.layout)) {
        jobs_.push_back({this, picture});
      }
      return engine_.device_.call(
          [](void* argument) noexcept {
            const auto& job = *static_cast<Job*>(argument);
            job.execution->engine_.working_();
            job.execution->made_ = digest(job.picture.bytes(), job.picture.layout.size_bytes);
            *static_cast<float*>(job.execution->input().data) = digest(job.picture.bytes(), 1).last;
          },
          &jobs_.back(), stream);
    }
    base::Status enqueue_network(device::StreamRef stream) override {
      base::Status status = write_output<0>(stream);
      return status.ok() ? write_output<1>(stream) : status;
    }
    void keep_input() override { engine_.keeps_input_ = true; }
    bool bind_output(std::size_t i, void* address) override {
      addresses_[i] = static_cast<std::byte*>(address);
      return true;
    }
    [[nodiscard]] infer::TensorView input() const noexcept override {
      return {memory_.data() + 2 * kApart, &engine_.input_};
    }
    [[nodiscard]] infer::TensorView output(std::size_t i) const noexcept override {
      return {addresses_[i], &engine_.outputs_[i]};
    }
    [[nodiscard]] const device::Event& output_ready(std::size_t i) const noexcept override { return ready_[i]; }
    [[nodiscard]] base::Status result() const noexcept override { return engine_.device_.status(); }

   private:
    struct Job {
      DigestExecution* execution;
      infer::PictureView picture;
    };
    template <std::size_t kOutput>
    base::Status write_output(device::StreamRef stream) {
      base::Status status = engine_.device_.call(
          [](void* self) noexcept {
            const auto& execution = *static_cast<DigestExecution*>(self);
            const float value = kOutput == 0 ? execution.made_.sum : execution.made_.last;
            std::memcpy(execution.addresses_[kOutput], &value, sizeof(value));
          },
          this, stream);
      return status.ok() ? engine_.device_.record(ready_[kOutput], stream) : status;
    }

    DigestEngine& engine_;
    device::DeviceBuffer memory_;
    std::array<std::byte*, 2> addresses_{};
    Digest made_;
    std::vector<device::Event> ready_;
    std::deque<Job> jobs_;
  };

  device::Device& device_;
  const std::function<void()> working_;
  bool keeps_input_ = false;
  infer::ModelDescription model_;
  infer::InputOptions options_;
  infer::TensorSpec input_;
  std::vector<infer::TensorSpec> outputs_;
};

}  // namespace camd::test
