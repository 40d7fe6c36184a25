// InFlight: one frame's whole device-side life: slot, execution, buffers, events, tensors and times. From a fixed pool.
//
// Threads: owned by one stage at a time and handed on through queues: [dispatch] -> [completion] -> [post] -> pool.
// Invariants: everything is allocated by make_in_flight(); afterwards a frame allocates nothing, except when a bigger
// picture arrives than any before (the device-side picture grows).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "capture/frame_ring.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"
#include "pipeline/metrics.hpp"
#include "pipeline/plugin_host.hpp"

namespace camd::pipeline {

// The points of a frame's device-side life that are timed by the device's own clock.
struct StageEvents {
  explicit StageEvents(device::Device& device)
      : upload_begin(device.make_timed_event()),
        upload_end(device.make_timed_event()),
        preprocess_begin(device.make_timed_event()),
        preprocess_end(device.make_timed_event()),
        infer_end(device.make_timed_event()),
        download_end(device.make_timed_event()) {}
  device::TimedEvent upload_begin, upload_end, preprocess_begin, preprocess_end, infer_end, download_end;
};

// A frame's work captured as a graph: valid for one place and one layout of the picture, because both are part of it.
struct CapturedPath {
  const std::byte* picture = nullptr;  // where preprocessing reads it
  base::PictureLayout layout;
  std::size_t lower_part = 0;  // its first byte, where the picture comes in two parts
  device::GraphExec graph;
};

// One copy back to the host: outputs that lie side by side on the device travel as one.
struct CopyBack {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t size_bytes = 0;
  std::vector<std::size_t> outputs;  // whose events come first
};

struct InFlight {
  InFlight(device::Device& device, std::unique_ptr<infer::Execution> made_execution)
      : execution(std::move(made_execution)),
        times(device),
        uploaded(device.make_event()),
        slot_read(device.make_event()),
        computed(device.make_event()),
        downloaded(device.make_event()),
        timed(device.make_event()),
        detections(static_cast<std::size_t>(PluginHost::kResultCapacity)) {}

  // ---- Made once
  std::unique_ptr<infer::Execution> execution;
  device::DeviceBuffer picture;                  // where the upload goes; grows with the pictures
  std::vector<device::HostBuffer> host_outputs;  // the memory behind `copies` and mapped outputs
  std::vector<CopyBack> copies;
  device::HostBuffer host_input;  // empty unless a plug-in reads the network's input
  StageEvents times;
  device::Signal picture_there;                // raised behind the upload; empty where graphs do not await it
  device::Signal lower_part_there;             // raised behind that part; empty where pictures come whole
  device::Event uploaded;                      // the picture is in device memory
  device::Event slot_read;                     // the device has read the slot: it may be freed
  device::Event computed;                      // the network has ended
  device::Event downloaded;                    // all wanted outputs are in host memory
  device::Event timed;                         // the last time is taken, where that happens behind `downloaded`
  std::unique_ptr<device::Stream> own_stream;  // streams: per_frame
  std::vector<CapturedPath> captured;          // one per layout (and slot, in mapped memory), last used first
  FrameTensors tensors;
  std::unique_ptr<PluginViews> views;
  std::vector<camd_detection> detections;  // PluginHost::kResultCapacity
  std::size_t d2h_bytes = 0;               // what every frame copies back

  // ---- The frame that is being computed
  capture::SlotLease lease;
  capture::Frame frame;  // pixels are valid only while `lease` is held
  base::TimePoint dispatched;
  base::TimePoint completed;
  base::Status status;
  std::size_t h2d_bytes = 0;
};

}  // namespace camd::pipeline
