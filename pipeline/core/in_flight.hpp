// InFlight: everything that one frame needs between dispatch and the last plug-in's return: its slot, execution,
// buffers, events, tensors and times. A lane has a fixed number of them and reuses them frame after frame.
//
// Threads: used by one job at a time: [dispatch], then [completion], then [post]. The lane's JobQueue hands it on.
// Invariants: FramePath::make_in_flight() allocates all of it. Later only `picture` and `host_picture` grow, for a
// picture that is bigger than any before, and graphs are captured.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "capture/frame_ring.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"
#include "pipeline/core/metrics.hpp"
#include "pipeline/core/postprocessor_chain.hpp"

namespace camd::pipeline {

// The times that the device's own clock takes of a frame.
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
  const std::byte* picture = nullptr;  // where preprocessing reads it; null: where InFlight::address_there says
  const std::byte* shown = nullptr;    // and where the CPU wrote it; null where no barrier is between them
  base::PictureLayout layout;
  device::GraphExec graph;
};

// One copy back to the host: outputs that lie side by side on the device travel as one.
struct CopyBack {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t size_bytes = 0;
  std::vector<std::size_t> outputs;  // whose events come first
};

// An output that the network writes to memory which the CPU reads as well.
struct WrittenOutput {
  const std::byte* on_host = nullptr;
  std::size_t size_bytes = 0;
};

struct InFlight {
  // `room` is how many detections the frame can hold.
  InFlight(device::Device& device, std::unique_ptr<infer::Execution> made_execution, std::int32_t room)
      : execution(std::move(made_execution)),
        times(device),
        uploaded(device.make_event()),
        slot_read(device.make_fence()),
        computed(device.make_event()),
        picture_back(device.make_event()),
        downloaded(device.make_fence()),
        timed(device.make_event()),
        detections(static_cast<std::size_t>(room)) {}

  // ---- Made once
  std::vector<std::shared_ptr<std::byte>> shared;  // PostprocessorChain::shared_memory() behind outputs; goes last
  std::vector<device::DeviceBuffer> exported;      // outputs that other processes read on the device
  std::unique_ptr<infer::Execution> execution;
  device::DeviceBuffer picture;                  // where the upload goes; grows with the pictures
  device::HostBuffer address;                    // of a picture that is on the device already,
  device::DeviceBuffer address_there;            // and where its graph finds that
  std::shared_ptr<std::byte> shared_picture;     // behind `host_picture`, where other processes read it
  device::HostBuffer host_picture;               // for plug-ins, of a picture on the device; grows with the pictures
  std::vector<device::HostBuffer> host_outputs;  // the memory behind `copies` and mapped outputs
  std::vector<CopyBack> copies;
  std::vector<WrittenOutput> written;
  device::HostBuffer host_input;  // empty unless a plug-in reads the network's input
  StageEvents times;
  device::Signal picture_there;                // raised behind the upload; empty where graphs do not await it
  device::Event uploaded;                      // the picture is in device memory
  device::Fence slot_read;                     // FramePath::slot_read()
  device::Event computed;                      // the network has ended
  device::Event picture_back;                  // `host_picture` is filled
  device::Fence downloaded;                    // all wanted outputs are in host memory
  device::Event timed;                         // the last time is taken, where that happens behind `downloaded`
  std::unique_ptr<device::Stream> own_stream;  // streams: per_frame
  std::vector<CapturedPath> captured;          // one per layout (and slot, in mapped memory), last used first
  FrameTensors tensors;
  std::unique_ptr<FramePostprocessing> postprocessing;
  std::vector<camd_detection> detections;  // MergedNeeds::detections of them
  std::size_t d2h_bytes = 0;               // what every frame copies back

  // ---- The frame that is being computed
  capture::SlotLease lease;
  capture::Frame frame;  // pixels are valid only while `lease` is held
  base::TimePoint dispatched;
  base::TimePoint completed;
  base::Status status;
  std::size_t h2d_bytes = 0;
  bool tapped = false;  // somebody who looks on wants the picture: the slot is kept until delivery
};

}  // namespace camd::pipeline
