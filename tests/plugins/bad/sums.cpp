// An event "sums" for each frame: a checksum of the bits of all outputs, exact, so that those of any other frame give
// another. {"where": "host" | "device", "as": "NAME"}: the event's zone is the name. The same as python/sums.py. With
// "touch" it reads one byte of each cache line on the host; with "unread" it asks for all outputs there and reads
// nothing, with "none" it asks for none. Numbers of the event say when process() was entered and left.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"

namespace {

class Sums final : public camd::plugin::Postprocessor {
 public:
  Sums(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    const auto config = nlohmann::json::parse(config_json);
    const std::string where = config.at("where");
    on_device_ = where == "device";
    touches_ = where == "touch";
    asks_nothing_ = where == "none";
    reads_nothing_ = asks_nothing_ || where == "unread";
    as_ = config.at("as");
    if (!on_device_) return;
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver != nullptr) *reinterpret_cast<void**>(&copy_to_host_) = dlsym(driver, "cuMemcpyDtoH_v2");
    if (copy_to_host_ == nullptr) throw std::runtime_error("no cuMemcpyDtoH_v2() in libcuda.so.1");
  }
  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    if (asks_nothing_) return;
    for (int i = 0; i < model.output_count; ++i) needs.output(i, on_device_ ? CAMD_NEED_DEVICE : CAMD_NEED_HOST);
  }
  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results&) override {
    constexpr std::int64_t kPrime = 2'147'483'647;
    const std::int64_t entered = host_.now_mono_ns();
    std::int64_t all = 0;
    for (int i = 0; i < tensors.output_count() && !reads_nothing_; ++i) {
      all = (all * 31 + sum_of(on_device_ ? *tensors.device_output(i) : *tensors.output(i))) % kPrime;
    }
    camd::plugin::Event event("sums");
    event.zone(as_).number("sums", static_cast<double>(all)).number("sequence", static_cast<double>(frame.sequence));
    event.number("camera", frame.camera_index).number("entered", static_cast<double>(entered));
    event.number("left", static_cast<double>(host_.now_mono_ns()));
    if (!events_.add(event)) throw std::runtime_error("no room for an event");
  }

 private:
  // Each element's bits as a signed number, times 1 to 251 by its place; not negative.
  std::int64_t sum_of(const DLTensor& tensor) {
    constexpr std::int64_t kPrime = 2'147'483'647;
    const std::size_t size = tensor.dtype.bits / 8;
    std::size_t count = 1;
    for (int i = 0; i < tensor.ndim; ++i) count *= static_cast<std::size_t>(tensor.shape[i]);
    const auto* bytes = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    if (on_device_) {
      if (tensor.device.device_type != kDLCUDA) throw std::runtime_error("the output is not on a GPU");
      copied_.resize(count * size);
      const int error = copy_to_host_(copied_.data(), reinterpret_cast<std::uintptr_t>(bytes), copied_.size());
      if (error != 0) throw std::runtime_error("cuMemcpyDtoH() failed: " + std::to_string(error));
      bytes = copied_.data();
    }
    std::int64_t sum = 0;
    if (touches_) {
      constexpr std::size_t kLine = 64;
      for (std::size_t at = 0; at < count * size; at += kLine) sum += std::to_integer<std::int64_t>(bytes[at]);
      return sum;
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t bits = 0;
      if (size == 2) {
        std::int16_t value = 0;
        std::memcpy(&value, bytes + i * size, sizeof(value));
        bits = value;
      } else if (size == 4) {
        std::int32_t value = 0;
        std::memcpy(&value, bytes + i * size, sizeof(value));
        bits = value;
      } else {
        throw std::runtime_error("an output of " + std::to_string(size) + " bytes an element");
      }
      sum += bits * static_cast<std::int64_t>(i % 251 + 1);
    }
    return (sum % kPrime + kPrime) % kPrime;
  }

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  bool on_device_ = false, touches_ = false, asks_nothing_ = false, reads_nothing_ = false;
  std::string as_;
  std::vector<std::byte> copied_;
  int (*copy_to_host_)(void* to, std::uint64_t from, std::size_t size_bytes) = nullptr;
};

}  // namespace

CAMD_PLUGIN(Sums, "sums", "1.0.0", "checksums of the outputs")
