// SharedViews: the memory that a CPU and an integrated GPU share, where neither looks into the other's caches. Each has
// a view of its own: what one writes the other sees when it is carried over, and not before. A device reads something
// unlike any picture until then.
//
// Threads: [any], a piece by one at a time.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "device/device.hpp"

namespace camd::test {

class SharedViews {
 public:
  // `of_cpu` is the CPU's view, and mapped memory; what comes back has a view of the device's own beside it. It must
  // not outlive this.
  [[nodiscard]] device::HostBuffer add_view(device::HostBuffer of_cpu) {
    auto owner = std::make_unique<Owner>(*this, std::move(of_cpu));
    std::byte* const on_cpu = owner->of_cpu.data();
    std::byte* const on_device = owner->of_device.data();
    const std::size_t size = owner->of_device.size();
    {
      const base::MutexLock lock(mutex_);
      views_[on_cpu] = {on_device, size};
    }
    return {std::move(owner), device::HostMemory::kMapped, on_cpu, on_device, size};
  }
  // The device's view of `size_bytes` from the CPU's address `data`; null: not all of that is shared.
  [[nodiscard]] std::byte* of_device(const void* data, std::size_t size_bytes) {
    const auto* const address = static_cast<const std::byte*>(data);
    const base::MutexLock lock(mutex_);
    auto after = views_.upper_bound(address);
    if (after == views_.begin()) return nullptr;
    const auto& [first, view] = *--after;
    const auto offset = static_cast<std::size_t>(address - first);
    return offset + size_bytes <= view.size_bytes ? view.of_device + offset : nullptr;
  }
  // Pieces that both can reach.
  [[nodiscard]] std::size_t count() const {
    const base::MutexLock lock(mutex_);
    return views_.size();
  }

 private:
  struct View {
    std::byte* of_device = nullptr;
    std::size_t size_bytes = 0;
  };
  struct Owner final : device::MemoryState {
    Owner(SharedViews& of_views, device::HostBuffer buffer)
        : views(of_views), of_cpu(std::move(buffer)), of_device(of_cpu.size_bytes(), std::byte{0xCD}) {}
    ~Owner() override {
      const base::MutexLock lock(views.mutex_);
      views.views_.erase(of_cpu.data());
    }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    SharedViews& views;
    device::HostBuffer of_cpu;
    std::vector<std::byte> of_device;
  };

  mutable base::Mutex mutex_;
  std::map<const std::byte*, View> views_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::test
