// FramePath: the asynchronous way of a frame through the device, as record, wait and enqueue.
//
//   copy stream      upload ── uploaded
//   compute stream             └ preprocess ── slot_read ── network ── output_ready(i)
//   download stream                                                   └ output i to the host ── downloaded
//
// One mechanism with settings: which streams are one and the same (split, per frame, single) and how host memory is
// reached (pageable, pinned, mapped). On the host device memory is always reached in place, so nothing is copied.
//
// Threads: constructor, make_in_flight() [setup]; enqueue() [dispatch]; stage_times() after `downloaded` [completion].
// In a graph the upload has a stream of its own, and the first kernel awaits a signal behind it where the device has
// signals: the graph is then under way before the picture is there.
// Invariants: only outputs that some plug-in reads on the host are copied. enqueue() does not synchronise, except for
// `wait_each`. With `graph`, a frame in flight captures its work when it first meets a picture's size and format (in
// mapped memory: a slot), which allocates, and launches it as one from then on; of what it has captured it keeps what
// it used last, so many that no usual set of cameras needs more. Device, engine and plug-in host outlive the path;
// in-flight objects go before it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "pipeline/in_flight.hpp"

namespace camd::pipeline {

enum class StreamStrategy : std::uint8_t { kSplit, kPerFrame, kSingle };

// How pictures and outputs cross the bus.
enum class Transfer : std::uint8_t {
  kPageable,  // copied from and to ordinary memory
  kPinned,    // copied from and to page-locked memory
  kDirect,    // pictures as kPinned; outputs are written by the network's kernels into page-locked memory
  kMapped,    // nothing is copied: kernels read pictures and write outputs there
};
[[nodiscard]] std::string_view to_string(Transfer transfer) noexcept;  // pageable | pinned | direct | mapped
// Of the slots that pictures come in.
[[nodiscard]] device::HostMemory picture_memory(Transfer transfer) noexcept;

struct FramePathOptions {
  StreamStrategy streams = StreamStrategy::kSplit;
  Transfer transfer = Transfer::kPinned;
  bool wait_each = false;  // every copy waits for its end: what a program does that knows no streams (a bench row)
  bool graph = false;      // what follows the upload is captured once and launched as one
  // The picture's lower part is uploaded first and the network's first layers follow it, while the rest travels; where
  // the engine can, the device has signals and the graph holds kernels alone.
  bool parts = false;
};

// DLPack's word for a type (github.com/dmlc/dlpack).
[[nodiscard]] DLDataType dl_type(infer::DataType type) noexcept;

class FramePath {
 public:
  FramePath(device::Device& device, infer::Engine& engine, const PluginHost& plugins, const FramePathOptions& options);

  // [setup] [blocks] Throws Error(kDevice | kModel).
  [[nodiscard]] std::unique_ptr<InFlight> make_in_flight();

  // [dispatch] Enqueues the whole life of `in_flight.lease`'s frame; does not synchronise.
  // On failure the device is lost or the frame cannot be run: the caller accounts for it.
  base::Status enqueue(InFlight& in_flight);

  // [completion] [blocks] until nothing of a frame whose work failed, or could be enqueued in part only, runs any more.
  void finish(const InFlight& in_flight);

  // Times of the device's stages; `kQueue` gets the waiting between dispatch and completion that no stage explains.
  // Where a graph holds kernels alone, preprocessing counts as part of the network, and the call may wait a microsecond
  // or two until the device has taken the last time.
  void stage_times(const InFlight& in_flight, StageTimes& times);

  [[nodiscard]] const FramePathOptions& options() const noexcept { return options_; }

 private:
  std::vector<std::byte*> plan_copies(InFlight& in_flight);
  base::Status enqueue_work(InFlight& in_flight, const infer::PictureView& picture, device::StreamRef compute);
  base::Status enqueue_graph(InFlight& in_flight);
  base::Status capture(InFlight& in_flight, const infer::PictureView& picture, device::StreamRef stream);
  base::Status follow_lower_part(InFlight& in_flight, const infer::PictureView& picture, device::StreamRef stream);
  [[nodiscard]] bool kernels_alone(const InFlight& in_flight) const noexcept;
  base::Status mark(InFlight& in_flight, device::TimedEvent& event, device::StreamRef stream);
  base::Status make_room(InFlight& in_flight);
  [[nodiscard]] infer::PictureView picture_of(const InFlight& in_flight) const;
  base::Status upload(InFlight& in_flight, std::size_t lower_part, device::StreamRef stream);
  base::Status download(InFlight& in_flight, device::StreamRef compute, device::StreamRef stream);

  device::Device& device_;
  infer::Engine& engine_;
  const PluginHost& plugins_;
  const FramePathOptions options_;
  const bool copies_;                                  // false where the device reads and writes host memory in place
  const bool upload_ends_where_preprocessing_begins_;  // one follows the other without anything between
  const bool signals_;                                 // the graph awaits the picture
  device::Stream copy_stream_;
  device::Stream compute_stream_;
  device::Stream download_stream_;
  device::Stream side_stream_;  // inside a capture: what happens beside the rest (times; the picture's lower part)
  device::Event beside_;
};

}  // namespace camd::pipeline
