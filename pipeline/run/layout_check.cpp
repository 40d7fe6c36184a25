// Running one picture of noise, and asking `detections` about its outputs.
#include "pipeline/run/layout_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"
#include "base/picture.hpp"
#include "pipeline/run/plain_model.hpp"
#include "pipeline/run/throw_if_failed.hpp"
#include "plugins/builtin.hpp"

namespace camd::pipeline {
std::vector<std::vector<float>> outputs_of_noise(device::Device& device, infer::Engine& engine) {
  const infer::Shape& shape = engine.input().shape;
  const base::PictureLayout layout =
      base::tight_layout(base::PixelFormat::kBgr, static_cast<int>(shape[3]), static_cast<int>(shape[2]));
  const device::HostBuffer picture = device.allocate_host(device::HostMemory::kPageable, layout.size_bytes);
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same picture in every run
  for (std::size_t i = 0; i < layout.size_bytes; ++i) picture.data()[i] = static_cast<std::byte>(random() & 0xFFU);
  const device::DeviceBuffer uploaded = device.allocate_device(layout.size_bytes);
  std::vector<device::HostBuffer> downloaded;
  for (const infer::TensorSpec& spec : engine.outputs()) {
    downloaded.push_back(
        device.allocate_host(device::HostMemory::kPageable, std::max<std::size_t>(spec.size_bytes(), 1)));
  }
  const auto execution = engine.make_execution();
  const device::Stream stream = device.make_stream("noise");
  throw_if_failed(
      device.copy(uploaded.data(), picture.data(), layout.size_bytes, device::CopyKind::kHostToDevice, stream));
  throw_if_failed(execution->enqueue_preprocess({uploaded.data(), layout}, stream));
  throw_if_failed(execution->enqueue_network(stream));
  for (std::size_t i = 0; i < downloaded.size(); ++i) {
    throw_if_failed(device.wait(execution->output_ready(i), stream));
    throw_if_failed(device.copy(downloaded[i].data(), execution->output(i).data, engine.outputs()[i].size_bytes(),
                                device::CopyKind::kDeviceToHost, stream));
  }
  throw_if_failed(device.synchronize(stream));
  throw_if_failed(execution->result());
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < downloaded.size(); ++i) {
    const infer::TensorSpec& spec = engine.outputs()[i];
    values.push_back(
        infer::to_floats(downloaded[i].data(), static_cast<std::size_t>(infer::element_count(spec.shape)), spec.type));
  }
  return values;
}

std::vector<LayoutDoubt> doubtful_layouts(const config::Config& config, device::Device& device, infer::Engine& engine) {
  std::vector<LayoutDoubt> doubts;
  std::vector<std::vector<float>> values;
  const std::string path = config.model.path.string();
  const std::vector<std::string> names;
  const PlainModel plain(engine.input(), engine.outputs(), path, config.model.card_json, names);
  for (std::size_t i = 0; i < config.postprocess.size(); ++i) {
    if (config.postprocess[i].plugin != "detections") continue;
    if (values.empty()) values = outputs_of_noise(device, engine);
    try {
      std::string text = plugins::doubt_layout(plain.model(), config.postprocess[i].config_json, values);
      if (!text.empty()) doubts.push_back({fmt::format("postprocess.{}", i), std::move(text)});
    } catch (const std::invalid_argument&) {
      continue;  // the plug-in itself says what does not fit
    }
  }
  return doubts;
}

}  // namespace camd::pipeline
