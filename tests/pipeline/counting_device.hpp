// CountingDevice: a device that hands everything on to another one and counts, while it is asked to, what is made, what
// is enqueued and what waits.
//
// Threads: as Device; count() [any].
#pragma once

#include <atomic>
#include <string>

#include "device/device.hpp"

namespace camd::test {

class CountingDevice final : public device::Device {
 public:
  explicit CountingDevice(device::Device& to) : to_(to), info_(to.info()) {}

  // [setup] What it says of itself, in place of what the other device says.
  void set_default_depth(int depth) { info_.default_depth = depth; }

  void count(bool counting) noexcept { counting_ = counting; }
  [[nodiscard]] int made() const noexcept { return made_; }              // buffers, streams, events
  [[nodiscard]] int waits() const noexcept { return waits_; }            // synchronize()
  [[nodiscard]] int operations() const noexcept { return operations_; }  // enqueued

  [[nodiscard]] const device::DeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] device::HostBuffer allocate_host(device::HostMemory kind, std::size_t size_bytes) override {
    return make(), to_.allocate_host(kind, size_bytes);
  }
  [[nodiscard]] device::HostBuffer register_host(void* data, std::size_t size, device::HostMemory kind) override {
    return make(), to_.register_host(data, size, kind);
  }
  [[nodiscard]] device::DeviceBuffer allocate_device(std::size_t size_bytes) override {
    return make(), to_.allocate_device(size_bytes);
  }
  [[nodiscard]] device::Stream make_stream(const std::string& name) override { return make(), to_.make_stream(name); }
  [[nodiscard]] device::Event make_event() override { return make(), to_.make_event(); }
  [[nodiscard]] device::TimedEvent make_timed_event() override { return make(), to_.make_timed_event(); }
  [[nodiscard]] device::Fence make_fence() override { return make(), to_.make_fence(); }

  base::Status copy(void* to, const void* from, std::size_t size, device::CopyKind kind,
                    device::StreamRef stream) override {
    return enqueue(), to_.copy(to, from, size, kind, stream);
  }
  base::Status record(device::Event& event, device::StreamRef stream) override {
    return enqueue(), to_.record(event, stream);
  }
  base::Status record(device::TimedEvent& event, device::StreamRef stream) override {
    return enqueue(), to_.record(event, stream);
  }
  base::Status signal(device::Fence& fence, device::StreamRef stream) override {
    return enqueue(), to_.signal(fence, stream);
  }
  base::Status wait(const device::Event& event, device::StreamRef stream) override {
    return enqueue(), to_.wait(event, stream);
  }
  base::Status call(device::HostFunction function, void* argument, device::StreamRef stream) override {
    return enqueue(), to_.call(function, argument, stream);
  }

  base::Status synchronize(const device::Event& event) override { return wait(), to_.synchronize(event); }
  base::Status synchronize(const device::Fence& fence) override { return wait(), to_.synchronize(fence); }
  base::Status synchronize(device::StreamRef stream) override { return wait(), to_.synchronize(stream); }
  [[nodiscard]] bool reached(const device::Event& event) override { return to_.reached(event); }
  [[nodiscard]] base::Duration elapsed(const device::TimedEvent& from, const device::TimedEvent& to) override {
    return to_.elapsed(from, to);
  }
  [[nodiscard]] base::Status status() const override { return to_.status(); }
  [[nodiscard]] std::size_t allocated_bytes() const noexcept override { return to_.allocated_bytes(); }

 private:
  void make() noexcept { made_ += counting_ ? 1 : 0; }
  void enqueue() noexcept { operations_ += counting_ ? 1 : 0; }
  void wait() noexcept { waits_ += counting_ ? 1 : 0; }

  device::Device& to_;
  device::DeviceInfo info_;
  std::atomic<bool> counting_{false};
  std::atomic<int> made_{0};
  std::atomic<int> waits_{0};
  std::atomic<int> operations_{0};
};

}  // namespace camd::test
