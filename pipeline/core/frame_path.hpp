// FramePath: enqueues a frame's work on the device, and orders it by events.
//
//   copy stream      upload ── uploaded
//   compute stream             └ preprocess ── slot_read ── network ── output_ready(i)
//   download stream                                                   └ output i to the host ── downloaded
//
// Settings say which of these streams are one and the same (StreamStrategy), how pictures and outputs cross the bus
// (Transfer), and whether the work is captured as a graph. A device that works in host memory reads pictures and writes
// outputs in place: nothing is copied there.
//
// With `graph`, everything behind the upload is captured when a frame in flight first meets a picture of this size and
// format, and launched as one from then on. In mapped memory the picture's address is part of the graph, so that each
// slot has its own. Captured graphs are kept, the least recently used one goes first; there is room for more than any
// usual set of cameras needs. Where the device has signals, the graph is launched while the picture is still on its
// way, and its first kernel awaits a signal that is raised behind the upload.
//
// A picture that lies on the device already (Frame::on_device) is read where it lies. Its address is not part of the
// graph, but comes with the signal: so graphs do not multiply by the decoders' surfaces. The decoder gets its surface
// back when the frame is complete. Plug-ins that read pictures, and those who look on, get it from the device, for
// these frames alone.
//
//   function                         thread
//   constructor, make_in_flight()    [setup]
//   enqueue()                        [dispatch]
//   finish()                         [completion]
//   stage_times()                    [post]
//
// Outputs that plug-ins filter (MergedNeeds::filters) are not copied: behind the network a kernel writes what passes to
// the host.
//
// Invariants: only outputs that some plug-in reads on the host are copied. enqueue() does not synchronise, except with
// `wait_each`, and allocates only to capture a graph or for a picture that is bigger than any before. Device, engine
// and postprocessors outlive the path; the frames in flight are destroyed before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "device/device.hpp"
#include "infer/engine.hpp"
#include "pipeline/core/in_flight.hpp"
#include "pipeline/core/metrics.hpp"
#include "pipeline/core/postprocessor_chain.hpp"

namespace camd::pipeline {

enum class StreamStrategy : std::uint8_t {
  kSplit,     // one stream each for uploads, the network and downloads, shared by all frames
  kPerFrame,  // each frame in flight has one stream for all of its work
  kSingle,    // one stream for all work of all frames
};

// How pictures and outputs cross the bus.
enum class Transfer : std::uint8_t {
  kPageable,  // copied from and to ordinary memory
  kPinned,    // copied from and to page-locked memory
  kDirect,    // pictures as kPinned; outputs are written by the network's kernels into page-locked memory
  kMapped,    // nothing is copied: kernels read pictures and write outputs there
};
[[nodiscard]] std::string_view to_string(Transfer transfer) noexcept;  // pageable | pinned | direct | mapped
// The memory of the slots that pictures are published in.
[[nodiscard]] device::HostMemory picture_memory(Transfer transfer) noexcept;

struct FramePathOptions {
  StreamStrategy streams = StreamStrategy::kSplit;
  Transfer transfer = Transfer::kPinned;
  bool wait_each = false;  // enqueue() waits for each copy, as a program without streams does (a row of `camd bench`)
  bool graph = false;      // what follows the upload is captured once and launched as one
  infer::Goal goal = infer::Goal::kLatency;  // that the engine serves

  friend bool operator==(const FramePathOptions&, const FramePathOptions&) = default;
};

// DLPack's name for a type (github.com/dmlc/dlpack).
[[nodiscard]] DLDataType dl_type(infer::DataType type) noexcept;

class FramePath {
 public:
  // [setup] Throws Error(kDevice): streams cannot be made, or the device cannot capture graphs and `graph` asks for it.
  FramePath(device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors,
            const FramePathOptions& options);

  // [setup] [blocks] Everything that one frame needs. Throws Error(kDevice | kModel).
  [[nodiscard]] std::unique_ptr<InFlight> make_in_flight();

  // [dispatch] Enqueues all work on the frame of `in_flight.lease`. Does not synchronise. On failure the device is lost
  // or this frame cannot be run; part of its work may have been enqueued. The caller accounts for it.
  base::Status enqueue(InFlight& in_flight);

  // Reached when the device has read the frame's picture, so that its slot may be freed.
  [[nodiscard]] const device::Fence& slot_read(const InFlight& in_flight) const noexcept;

  // [completion] [blocks] until none of a frame's work runs any more. For frames that have failed.
  void finish(const InFlight& in_flight);

  // [post] Times of the device's stages of a completed frame. `kQueue` gets what is left of the time between dispatch
  // and completion. Where a graph ends without a copy, preprocessing counts as part of the network, and the call may
  // wait a microsecond or two until the device has taken the last time.
  void stage_times(const InFlight& in_flight, StageTimes& times);

  [[nodiscard]] const FramePathOptions& options() const noexcept { return options_; }

 private:
  void export_outputs(InFlight& in_flight);
  [[nodiscard]] bool is_exported(std::size_t output) const {
    const std::vector<bool>& exported = postprocessors_.needs().exported_outputs;
    return output < exported.size() && exported[output];
  }
  std::vector<std::byte*> filter_outputs(InFlight& in_flight);
  void plan_copies(InFlight& in_flight, std::vector<std::byte*>& on_host);
  device::HostBuffer output_memory(InFlight& in_flight, device::HostMemory kind, std::size_t size_bytes);
  base::Status enqueue_work(InFlight& in_flight, const infer::PictureView& picture, device::StreamRef compute);
  base::Status enqueue_graph(InFlight& in_flight);
  base::Status await_picture(InFlight& in_flight, const infer::PictureView& picture, device::StreamRef stream);
  base::Status capture(InFlight& in_flight, const infer::PictureView& picture, device::StreamRef stream);
  [[nodiscard]] bool kernels_alone(const InFlight& in_flight) const noexcept;
  base::Status mark(InFlight& in_flight, device::TimedEvent& event, device::StreamRef stream);
  base::Status make_room(InFlight& in_flight);
  [[nodiscard]] infer::PictureView picture_of(const InFlight& in_flight) const;
  [[nodiscard]] bool uploads(const InFlight& in_flight) const noexcept;
  [[nodiscard]] bool reads_by_address(const InFlight& in_flight) const noexcept;
  base::Status upload(InFlight& in_flight, device::StreamRef stream);
  base::Status download(InFlight& in_flight, device::StreamRef compute, device::StreamRef stream);
  [[nodiscard]] bool reads_slot(const InFlight& in_flight) const noexcept;
  [[nodiscard]] bool takes_picture_back(const InFlight& in_flight) const noexcept;
  base::Status take_picture_back(InFlight& in_flight, device::StreamRef last);

  device::Device& device_;
  infer::Engine& engine_;
  PostprocessorChain& postprocessors_;
  const FramePathOptions options_;
  const bool copies_;                                  // false where the device reads and writes host memory in place
  const bool upload_ends_where_preprocessing_begins_;  // one follows the other without anything between
  const bool signals_;                                 // the graph awaits the picture, or its address
  device::Stream copy_stream_;
  device::Stream compute_stream_;
  device::Stream download_stream_;
  device::Stream mark_stream_;  // inside a capture: where times are taken beside the work
  device::Event marked_;
};

}  // namespace camd::pipeline
