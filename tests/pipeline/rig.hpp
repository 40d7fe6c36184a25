// A pipeline with everything around it, for one test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/pipeline/support.hpp"

namespace camd::test {

// On streams with threads of their own, where the device works beside the pipeline as a GPU does (true), and on streams
// that the pipeline's workers run themselves, which is what camd uses on the host.
class OnStreams : public testing::TestWithParam<bool> {};

inline std::string name_of_streams(const testing::TestParamInfo<bool>& with_threads) {
  return with_threads.param ? "WithThreads" : "RunByWorkers";
}

inline device::HostDeviceOptions device_options(bool stream_threads) {
  device::HostDeviceOptions options;
  options.stream_threads = stream_threads;
  return options;
}

inline base::Status works(const infer::PictureView& /*picture*/) { return {}; }

// Device, engine and plug-ins of one test; the pipeline is made last because it asks the plug-ins what they need.
struct Rig {
  explicit Rig(const base::Clock& rig_clock = base::system_clock(), FakeEngine::Network network = works,
               bool stream_threads = OnStreams::GetParam())
      : clock(rig_clock),
        device(device::make_host_device(clock, device_options(stream_threads))),
        engine(*device, std::move(network)),
        plugins({}, clock) {
    path.transfer = pipeline::Transfer::kMapped;
  }
  pipeline::Pipeline& make(std::vector<pipeline::CameraSpec> cameras, pipeline::PipelineListener* listener = nullptr) {
    declare(plugins, engine);
    made = std::make_unique<pipeline::Pipeline>(lanes(), plugins, clock, std::move(cameras), options, listener);
    return *made;
  }
  [[nodiscard]] std::vector<pipeline::LaneSpec> lanes() { return {{"host", *device, engine, path, device_depth}}; }
  const base::Clock& clock;
  std::unique_ptr<device::HostDevice> device;
  FakeEngine engine;
  pipeline::PluginHost plugins;
  pipeline::FramePathOptions path;
  int device_depth = 0;
  pipeline::PipelineOptions options;
  std::unique_ptr<pipeline::Pipeline> made;
};

inline FakeSource::Body publishes(const base::Clock& clock, int frames) {
  return [&clock, frames](capture::FrameRing& ring, const std::atomic<bool>&) {
    for (int i = 0; i < frames; ++i) (void)publish_frame(ring, clock.now());
  };
}

// What a pipeline said of losing its device.
struct Losses final : pipeline::PipelineListener {
  void camera_changed(capture::CameraIndex, capture::SourceState, const std::string&) override {}
  void device_lost(const std::string& /*device*/, const std::string& reason) override { lost.push_back(reason); }
  std::vector<std::string> lost;
};

inline std::uint64_t dropped(const pipeline::Totals& totals, pipeline::DropReason reason) {
  return totals.dropped[static_cast<std::size_t>(reason)];
}

}  // namespace camd::test
