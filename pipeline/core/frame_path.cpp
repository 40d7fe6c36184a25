// A frame's work, enqueued on streams or captured as a graph, and the times of its stages.
#include "pipeline/core/frame_path.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "device/memory_exporter.hpp"

namespace camd::pipeline {
namespace {

using base::Status;
using device::CopyKind;
using device::DeviceInfo;
using device::DeviceKind;
using device::StreamRef;

// Graphs that a frame in flight keeps. More than so many layouts no set of cameras has; a stream whose pictures change
// their size all the time shall not fill the device's memory. In mapped memory each slot of each camera has one.
constexpr std::size_t kMostCapturedLayouts = 64;
constexpr std::size_t kMostCapturedPictures = 512;

// What an engine may take for granted of an address that it learns when the work runs (PictureView::at).
constexpr std::uintptr_t kPictureAlignment = 16;

// Times that a capture which was broken off is begun anew. A frame that meets that many is lost, the device is not.
constexpr int kMostRecaptures = 20;

// Returns early with the first failure; per-frame code throws nothing.
#define CAMD_TRY(expression)                                          \
  do {                                                                \
    if (Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

// DLPack's shape pointer is not const, though nobody writes through it.
DLTensor dl_tensor(const infer::TensorSpec& spec, void* data, DLDevice device) {
  DLTensor tensor{};
  tensor.data = data;
  tensor.device = device;
  tensor.ndim = static_cast<std::int32_t>(spec.shape.size());
  tensor.dtype = dl_type(spec.type);
  tensor.shape = const_cast<std::int64_t*>(spec.shape.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return tensor;
}

// DLPack's names for a device's own memory and for host memory that it reaches.
DLDevice dl_device(const DeviceInfo& info) noexcept {
  switch (info.kind) {
    case DeviceKind::kHost: return {kDLCPU, 0};
    case DeviceKind::kCuda: return {kDLCUDA, info.index};
  }
  return {kDLCPU, 0};
}

DLDevice dl_host_of(const DeviceInfo& info) noexcept {
  return {info.kind == DeviceKind::kCuda ? kDLCUDAHost : kDLCPU, 0};
}

infer::Filter filter_of(const camd_filter& from) {
  const auto elements = [](const camd_elements& e) {
    return infer::Elements{e.output, e.channels, e.first, e.cell_step, e.anchor_step, e.channel_step};
  };
  infer::Filter filter{from.cells, from.anchors, from.floor, elements(from.scores), {}};
  for (std::int32_t i = 0; i < from.value_count; ++i) filter.values.push_back(elements(from.values[i]));
  return filter;
}

}  // namespace

std::string_view to_string(Transfer transfer) noexcept {
  switch (transfer) {
    case Transfer::kPageable: return "pageable";
    case Transfer::kPinned: return "pinned";
    case Transfer::kDirect: return "direct";
    case Transfer::kMapped: return "mapped";
  }
  return "?";
}

device::HostMemory picture_memory(Transfer transfer) noexcept {
  switch (transfer) {
    case Transfer::kPageable: return device::HostMemory::kPageable;
    case Transfer::kMapped: return device::HostMemory::kMapped;
    case Transfer::kPinned:
    case Transfer::kDirect: break;
  }
  return device::HostMemory::kPinned;
}

DLDataType dl_type(infer::DataType type) noexcept {
  switch (type) {
    case infer::DataType::kF32: return {kDLFloat, 32, 1};
    case infer::DataType::kF16: return {kDLFloat, 16, 1};
    case infer::DataType::kU8: return {kDLUInt, 8, 1};
    case infer::DataType::kI8: return {kDLInt, 8, 1};
    case infer::DataType::kI32: return {kDLInt, 32, 1};
    case infer::DataType::kI64: return {kDLInt, 64, 1};
  }
  return {kDLFloat, 32, 1};
}

FramePath::FramePath(device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors,
                     const FramePathOptions& options)
    : device_(device),
      engine_(engine),
      postprocessors_(postprocessors),
      options_(options),
      copies_(!device.info().works_in_host_memory && options.transfer != Transfer::kMapped),
      upload_ends_where_preprocessing_begins_(copies_ && options.streams != StreamStrategy::kSplit),
      signals_(options.graph && device.supports_signals()),
      copy_stream_(device.make_stream("copy")),
      compute_stream_(device.make_urgent_stream("compute")),
      download_stream_(device.make_stream("download")),
      mark_stream_(device.make_urgent_stream("mark")),
      marked_(device.make_event()) {
  if (options.graph && !device.supports_graphs()) {
    throw base::Error(base::ErrorKind::kDevice, "this device cannot capture graphs: choose another strategy");
  }
}

std::unique_ptr<InFlight> FramePath::make_in_flight() {
  auto made = std::make_unique<InFlight>(device_, engine_.make_execution_for(options_.goal),
                                         postprocessors_.needs().detections);
  if (options_.streams == StreamStrategy::kPerFrame) {
    made->own_stream = std::make_unique<device::Stream>(device_.make_urgent_stream("frame"));
  }
  if (signals_) made->picture_there = device_.make_signal();
  if (options_.graph) {
    made->address = device_.allocate_host(device::HostMemory::kPinned, sizeof(std::uint64_t));
    made->address_there = device_.allocate_device(sizeof(std::uint64_t));
  }

  const bool in_place = device_.info().works_in_host_memory;
  const DLDevice host_device = dl_host_of(device_.info());
  const DLDevice own_device = dl_device(device_.info());
  const MergedNeeds& needs = postprocessors_.needs();
  const std::vector<infer::TensorSpec>& outputs = engine_.outputs();
  if (needs.input == CAMD_NEED_HOST) made->execution->keep_input();
  for (std::size_t i = 0; in_place && i < outputs.size(); ++i) {
    if (needs.outputs[i] != CAMD_NEED_HOST && !needs.device_outputs[i]) continue;
    std::shared_ptr<std::byte> memory = postprocessors_.shared_memory(outputs[i].size_bytes());
    if (memory != nullptr && made->execution->bind_output(i, memory.get())) made->shared.push_back(std::move(memory));
  }
  if (in_place && needs.input == CAMD_NEED_HOST) {
    std::shared_ptr<std::byte> memory = postprocessors_.shared_memory(engine_.input().size_bytes());
    if (memory != nullptr && made->execution->bind_input(memory.get())) made->shared.push_back(std::move(memory));
  }
  if (!in_place) export_outputs(*made);
  std::vector<std::byte*> on_host(outputs.size(), nullptr);
  if (!in_place) {
    on_host = filter_outputs(*made);
    plan_copies(*made, on_host);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    void* on_device = made->execution->output(i).data;
    made->tensors.host.push_back(dl_tensor(outputs[i], in_place ? on_device : on_host[i], host_device));
    made->tensors.device.push_back(dl_tensor(outputs[i], on_device, own_device));
  }
  void* input = made->execution->input().data;
  if (!in_place && needs.input == CAMD_NEED_HOST) {
    made->host_input = output_memory(*made, device::HostMemory::kPinned, engine_.input().size_bytes());
    made->d2h_bytes += engine_.input().size_bytes();
    input = made->host_input.data();
  }
  made->tensors.input = dl_tensor(engine_.input(), input, host_device);
  made->tensors.stream = made->own_stream ? made->own_stream->ref().native() : compute_stream_.ref().native();
  made->postprocessing = postprocessors_.prepare(made->tensors);
  return made;
}

// Device memory that other processes can open, for the outputs that plug-ins there read on the device.
void FramePath::export_outputs(InFlight& in_flight) {
  const std::vector<infer::TensorSpec>& outputs = engine_.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_exported(i)) continue;
    auto* const exporter = dynamic_cast<device::MemoryExporter*>(&device_);
    if (exporter == nullptr) {
      throw base::Error(base::ErrorKind::kDevice, "this device has no memory that other processes can open");
    }
    device::DeviceBuffer buffer = exporter->allocate_exported(outputs[i].size_bytes());
    if (!in_flight.execution->bind_output(i, buffer.data())) {
      throw base::Error(base::ErrorKind::kDevice,
                        "output '" + outputs[i].name + "': the engine cannot put it where another process reads it");
    }
    in_flight.exported.push_back(std::move(buffer));
  }
}

// Lets the engine bring what passes the plug-ins' filters to the host by itself. Returns where each output is there
// (null: not yet anywhere). Pageable memory is for comparisons: everything is copied then.
std::vector<std::byte*> FramePath::filter_outputs(InFlight& in_flight) {
  const std::vector<infer::TensorSpec>& outputs = engine_.outputs();
  const std::vector<camd_filter>& wanted = postprocessors_.needs().filters;
  std::vector<std::byte*> on_host(outputs.size(), nullptr);
  if (wanted.empty() || options_.transfer == Transfer::kPageable) return on_host;
  std::vector<infer::Filter> filters;
  filters.reserve(wanted.size());
  for (const camd_filter& filter : wanted) filters.push_back(filter_of(filter));
  std::vector<device::HostBuffer> memory;
  infer::FilteredTo to;
  std::vector<std::byte*> found(outputs.size(), nullptr);
  to.values.assign(outputs.size(), nullptr);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool named = std::any_of(filters.begin(), filters.end(), [i](const infer::Filter& filter) {
      return std::any_of(filter.values.begin(), filter.values.end(),
                         [i](const infer::Elements& values) { return values.output == static_cast<int>(i); });
    });
    if (!named) continue;
    memory.push_back(device_.allocate_host(device::HostMemory::kMapped, outputs[i].size_bytes()));
    to.values[i] = reinterpret_cast<float*>(memory.back().device_data());
    found[i] = memory.back().data();
  }
  std::vector<const std::int32_t*> passed;
  for (const infer::Filter& filter : filters) {
    const auto numbers = static_cast<std::size_t>(filter.places() + 1);
    memory.push_back(device_.allocate_host(device::HostMemory::kMapped, numbers * sizeof(std::int32_t)));
    to.passed.push_back(reinterpret_cast<std::int32_t*>(memory.back().device_data()));
    passed.push_back(reinterpret_cast<const std::int32_t*>(memory.back().data()));
  }
  if (!in_flight.execution->filter(filters, to)) return on_host;
  for (device::HostBuffer& buffer : memory) {
    in_flight.written.push_back({buffer.data(), buffer.size_bytes()});
    in_flight.host_outputs.push_back(std::move(buffer));
  }
  in_flight.tensors.passed = std::move(passed);
  return found;
}

// Host memory for the other outputs that plug-ins read there, and the copies that fill it. Tells where each one will
// be. Mapped or direct, the network writes them there by itself, where its engine can. In a graph outputs that lie side
// by side on the device travel as one copy: on one H200 that takes less than sending the early ones off while later
// ones are computed (docs/experiments.md).
void FramePath::plan_copies(InFlight& in_flight, std::vector<std::byte*>& on_host) {
  constexpr std::ptrdiff_t kLargestGap = 512;  // bytes; engines align each output
  const std::vector<infer::TensorSpec>& outputs = engine_.outputs();
  std::vector<std::size_t> copied;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (postprocessors_.needs().outputs[i] != CAMD_NEED_HOST || on_host[i] != nullptr) continue;
    // One that stays on the device for another process is copied.
    if ((options_.transfer == Transfer::kMapped || options_.transfer == Transfer::kDirect) && !is_exported(i)) {
      device::HostBuffer buffer = output_memory(in_flight, device::HostMemory::kMapped, outputs[i].size_bytes());
      if (in_flight.execution->bind_output(i, buffer.device_data())) {
        on_host[i] = buffer.data();
        in_flight.written.push_back({buffer.data(), buffer.size_bytes()});
        in_flight.host_outputs.push_back(std::move(buffer));
        continue;
      }
    }
    copied.push_back(i);
  }
  const auto from = [&in_flight](std::size_t i) {
    return static_cast<const std::byte*>(in_flight.execution->output(i).data);
  };
  std::sort(copied.begin(), copied.end(), [&from](std::size_t a, std::size_t b) { return from(a) < from(b); });
  for (const std::size_t i : copied) {
    CopyBack* last = in_flight.copies.empty() ? nullptr : &in_flight.copies.back();
    if (options_.graph && last != nullptr && from(i) - (last->from + last->size_bytes) <= kLargestGap) {
      last->size_bytes = static_cast<std::size_t>(from(i) - last->from) + outputs[i].size_bytes();
      last->outputs.push_back(i);
    } else {
      in_flight.copies.push_back({nullptr, from(i), outputs[i].size_bytes(), {i}});
    }
  }
  // In the model's order again where each travels by itself, so that early heads come first.
  std::sort(in_flight.copies.begin(), in_flight.copies.end(),
            [](const CopyBack& a, const CopyBack& b) { return a.outputs.front() < b.outputs.front(); });
  for (CopyBack& copy : in_flight.copies) {
    in_flight.host_outputs.push_back(output_memory(in_flight, picture_memory(options_.transfer), copy.size_bytes));
    copy.to = in_flight.host_outputs.back().data();
    for (const std::size_t i : copy.outputs) on_host[i] = copy.to + (from(i) - copy.from);
    in_flight.d2h_bytes += copy.size_bytes;
  }
}

// Where outputs arrive on the host. Memory that other processes read as well is page-locked here.
device::HostBuffer FramePath::output_memory(InFlight& in_flight, device::HostMemory kind, std::size_t size_bytes) {
  std::shared_ptr<std::byte> memory = postprocessors_.shared_memory(size_bytes);
  if (memory == nullptr) return device_.allocate_host(kind, size_bytes);
  device::HostBuffer buffer = device_.register_host(memory.get(), size_bytes, kind);
  in_flight.shared.push_back(std::move(memory));
  return buffer;
}

Status FramePath::enqueue(InFlight& in_flight) {
  CAMD_TRY(make_room(in_flight));
  if (options_.graph) return enqueue_graph(in_flight);
  const StreamRef compute = in_flight.own_stream ? in_flight.own_stream->ref() : compute_stream_.ref();
  const bool split = options_.streams == StreamStrategy::kSplit;
  const StreamRef copy = split ? copy_stream_.ref() : compute;
  // Where nothing travels back (the host device, mapped memory) a stream for it would only be one more to wait for.
  const StreamRef back = split && in_flight.d2h_bytes > 0 ? download_stream_.ref() : compute;
  const infer::PictureView picture = picture_of(in_flight);
  CAMD_TRY(upload(in_flight, copy));
  if (uploads(in_flight) && split) {
    CAMD_TRY(device_.record(in_flight.uploaded, copy));
    CAMD_TRY(device_.wait(in_flight.uploaded, compute));
  }
  CAMD_TRY(enqueue_work(in_flight, picture, compute));
  CAMD_TRY(download(in_flight, compute, back));
  if (in_flight.d2h_bytes > 0) CAMD_TRY(device_.record(in_flight.times.download_end, back));
  CAMD_TRY(take_picture_back(in_flight, back));
  return device_.signal(in_flight.downloaded, back);
}

// The upload stays outside: so the graph is the same for every slot, and the slot is free as soon as it was read. The
// graph is launched while the picture travels, and waits for it itself where the device has signals. Where copies end
// the graph, their time is taken inside: a timed event behind them delays what comes after it (docs/experiments.md).
Status FramePath::enqueue_graph(InFlight& in_flight) {
  const StreamRef stream = in_flight.own_stream ? in_flight.own_stream->ref() : compute_stream_.ref();
  const infer::PictureView picture = picture_of(in_flight);
  const std::byte* const shown = reads_slot(in_flight) ? in_flight.frame.pixels.data() : nullptr;
  std::vector<CapturedPath>& captured = in_flight.captured;
  auto found = std::find_if(captured.begin(), captured.end(), [&](const CapturedPath& path) {
    return path.picture == picture.data && path.shown == shown && path.layout == picture.layout;
  });
  if (found == captured.end()) {
    if (captured.size() == (copies_ ? kMostCapturedLayouts : kMostCapturedPictures)) captured.pop_back();
    // Before the upload: a signal that is raised for a frame without a graph would let the next one go too early.
    // What other libraries do in the device's context can break captures off.
    Status status = capture(in_flight, picture, stream);
    for (int again = 0; again < kMostRecaptures && status.kind() == base::ErrorKind::kState; ++again) {
      status = capture(in_flight, picture, stream);
    }
    CAMD_TRY(std::move(status));
    found = captured.end() - 1;
  }
  std::rotate(captured.begin(), found, found + 1);  // the one used last is the first
  if (!uploads(in_flight) && kernels_alone(in_flight)) CAMD_TRY(device_.record(in_flight.times.upload_end, stream));
  CAMD_TRY(upload(in_flight, signals_ ? copy_stream_.ref() : stream));
  CAMD_TRY(device_.launch(captured.front().graph, stream));
  CAMD_TRY(take_picture_back(in_flight, stream));
  CAMD_TRY(device_.signal(in_flight.downloaded, stream));
  if (!kernels_alone(in_flight)) return {};
  // Behind what the completion waits for: it need not wait for this.
  CAMD_TRY(device_.record(in_flight.times.infer_end, stream));
  return device_.record(in_flight.timed, stream);
}

Status FramePath::capture(InFlight& in_flight, const infer::PictureView& picture, StreamRef stream) {
  CapturedPath path{picture.data, reads_slot(in_flight) ? in_flight.frame.pixels.data() : nullptr, picture.layout, {}};
  CAMD_TRY(device_.begin_capture(stream));
  Status status = await_picture(in_flight, picture, stream);
  if (status.ok()) status = enqueue_work(in_flight, picture, stream);
  if (status.ok()) status = download(in_flight, stream, stream);
  if (status.ok()) status = mark(in_flight, in_flight.times.download_end, stream);
  if (!kernels_alone(in_flight)) {
    // A capture ends with all its streams joined; nothing comes after that would wait.
    if (status.ok()) status = device_.record(marked_, mark_stream_);
    if (status.ok()) status = device_.wait(marked_, stream);
  }
  Status ended = device_.end_capture(stream, path.graph);
  if (!status.ok()) return status;
  if (!ended.ok()) return ended;
  in_flight.captured.push_back(std::move(path));
  return {};
}

// What the graph begins with: it waits until the picture, or its address, is there.
Status FramePath::await_picture(InFlight& in_flight, const infer::PictureView& picture, StreamRef stream) {
  if (!signals_ || !(uploads(in_flight) || picture.at != nullptr)) return {};
  auto* const address = reinterpret_cast<std::uint64_t*>(in_flight.address_there.data());
  return device_.await(in_flight.picture_there, picture.at != nullptr ? address : nullptr, stream);
}

// Whether no copy ends the frame's graph. Times are then taken around it: with a branch for them beside three lanes of
// kernels, and no copy in which all end, libcuda allocates whenever an event is recorded behind the graph
// (test_pipeline_gpu_steady).
bool FramePath::kernels_alone(const InFlight& in_flight) const noexcept {
  return options_.graph && in_flight.d2h_bytes == 0;
}

// Takes the time at which the work of `stream` so far has ended. In a graph that happens on a branch of its own:
// between two kernels it would keep the second from starting before the first has ended. [dispatch] Does not block.
Status FramePath::mark(InFlight& in_flight, device::TimedEvent& event, StreamRef stream) {
  if (!options_.graph) return device_.record(event, stream);
  if (kernels_alone(in_flight)) return {};
  CAMD_TRY(device_.record(marked_, stream));
  CAMD_TRY(device_.wait(marked_, mark_stream_));
  return device_.record(event, mark_stream_);
}

// Memory for the picture; outside of any capture, where nothing may be allocated.
Status FramePath::make_room(InFlight& in_flight) {
  const std::size_t size = in_flight.frame.layout.size_bytes;
  in_flight.h2d_bytes = uploads(in_flight) ? size : 0;
  try {
    if (takes_picture_back(in_flight)) {
      if (in_flight.host_picture.size_bytes() < size) {
        const auto shared = postprocessors_.needs().picture_memory;
        in_flight.host_picture = {};
        in_flight.shared_picture = shared == nullptr ? nullptr : shared(size);
        in_flight.host_picture = shared == nullptr ? device_.allocate_host(device::HostMemory::kPinned, size)
                                                   : device_.register_host(in_flight.shared_picture.get(), size,
                                                                           device::HostMemory::kPinned);
      }
      in_flight.frame.pixels = {in_flight.host_picture.data(), size};
    }
    if (!uploads(in_flight) || in_flight.picture.size_bytes() >= size) return {};
    in_flight.captured.clear();  // they upload to the old place
    in_flight.picture = device_.allocate_device(size);
  } catch (const base::Error& error) {
    return {error.kind(), error.what()};
  }
  return {};
}

Status FramePath::enqueue_work(InFlight& in_flight, const infer::PictureView& picture, StreamRef compute) {
  // On one stream preprocessing begins where the upload ends: a second event there would only cost its time.
  if (!upload_ends_where_preprocessing_begins_ || !uploads(in_flight)) {
    CAMD_TRY(mark(in_flight, in_flight.times.preprocess_begin, compute));
  }
  if (reads_slot(in_flight)) {
    CAMD_TRY(device_.show_to_device(in_flight.frame.pixels.data(), picture.layout.size_bytes, compute));
  }
  CAMD_TRY(in_flight.execution->enqueue_preprocess(picture, compute));
  CAMD_TRY(mark(in_flight, in_flight.times.preprocess_end, compute));
  // What is not uploaded is read where it lies.
  if (!uploads(in_flight) && !options_.graph) CAMD_TRY(device_.signal(in_flight.slot_read, compute));
  CAMD_TRY(in_flight.execution->enqueue_network(compute));
  return mark(in_flight, in_flight.times.infer_end, compute);
}

bool FramePath::uploads(const InFlight& in_flight) const noexcept { return copies_ && !in_flight.frame.on_device; }

const device::Fence& FramePath::slot_read(const InFlight& in_flight) const noexcept {
  return uploads(in_flight) || !options_.graph ? in_flight.slot_read : in_flight.downloaded;
}

// Whether the graph learns where the picture lies when it runs.
bool FramePath::reads_by_address(const InFlight& in_flight) const noexcept {
  return in_flight.frame.on_device && options_.graph &&
         reinterpret_cast<std::uintptr_t>(in_flight.lease.device_pixels()) % kPictureAlignment == 0;
}

// Where preprocessing reads the picture.
infer::PictureView FramePath::picture_of(const InFlight& in_flight) const {
  const base::PictureLayout& layout = in_flight.frame.layout;
  if (uploads(in_flight)) return {in_flight.picture.data(), layout, signals_};
  if (reads_by_address(in_flight)) {
    return {nullptr, layout, signals_, reinterpret_cast<const std::byte* const*>(in_flight.address_there.data())};
  }
  const std::byte* const there = in_flight.lease.device_pixels();
  return {there != nullptr ? there : in_flight.frame.pixels.data(), layout};
}

// Brings the picture, or else its address, to the device.
Status FramePath::upload(InFlight& in_flight, StreamRef stream) {
  if (reads_by_address(in_flight)) {
    const auto address = std::uint64_t{reinterpret_cast<std::uintptr_t>(in_flight.lease.device_pixels())};
    if (signals_) return device_.raise(in_flight.picture_there, address, stream);
    std::memcpy(in_flight.address.data(), &address, sizeof(address));
    return device_.copy(in_flight.address_there.data(), in_flight.address.data(), sizeof(address),
                        CopyKind::kHostToDevice, stream);
  }
  if (!uploads(in_flight)) return {};
  const capture::Frame& frame = in_flight.frame;
  CAMD_TRY(device_.record(in_flight.times.upload_begin, stream));
  CAMD_TRY(device_.copy(in_flight.picture.data(), frame.pixels.data(), frame.layout.size_bytes, CopyKind::kHostToDevice,
                        stream));
  if (signals_) CAMD_TRY(device_.raise(in_flight.picture_there, 1, stream));
  if (options_.wait_each) CAMD_TRY(device_.synchronize(stream));
  CAMD_TRY(device_.record(in_flight.times.upload_end, stream));
  return device_.signal(in_flight.slot_read, stream);
}

Status FramePath::download(InFlight& in_flight, StreamRef compute, StreamRef stream) {
  const bool own_stream = &stream.state() != &compute.state();
  // Where outputs are read where the network wrote them, behind all of its work.
  for (const WrittenOutput& output : in_flight.written) {
    CAMD_TRY(device_.show_to_host(output.on_host, output.size_bytes, compute));
  }
  for (const CopyBack& copy : in_flight.copies) {
    if (own_stream) {
      for (const std::size_t i : copy.outputs) CAMD_TRY(device_.wait(in_flight.execution->output_ready(i), stream));
    }
    CAMD_TRY(device_.copy(copy.to, copy.from, copy.size_bytes, CopyKind::kDeviceToHost, stream));
    if (options_.wait_each) CAMD_TRY(device_.synchronize(stream));
  }
  if (own_stream) {
    // Outputs that nobody reads are waited for too: the frame is complete when the network is.
    CAMD_TRY(device_.record(in_flight.computed, compute));
    CAMD_TRY(device_.wait(in_flight.computed, stream));
  }
  if (in_flight.host_input.size_bytes() == 0) return {};
  return device_.copy(in_flight.host_input.data(), in_flight.execution->input().data, in_flight.host_input.size_bytes(),
                      CopyKind::kDeviceToHost, stream);
}

// Whether preprocessing reads the picture where its source put it, in memory that device and CPU share.
bool FramePath::reads_slot(const InFlight& in_flight) const noexcept {
  return !copies_ && !device_.info().works_in_host_memory && !in_flight.frame.on_device;
}

bool FramePath::takes_picture_back(const InFlight& in_flight) const noexcept {
  return in_flight.frame.on_device && (postprocessors_.needs().picture || in_flight.tapped);
}

// The frame is complete, in `last`, when its picture is on the host, too. The copy is not ordered behind the network's
// work: the decoder's surface is read, which is ready and held as long as plug-ins read pictures.
Status FramePath::take_picture_back(InFlight& in_flight, StreamRef last) {
  if (!takes_picture_back(in_flight)) return {};
  CAMD_TRY(device_.copy(in_flight.host_picture.data(), in_flight.lease.device_pixels(),
                        in_flight.frame.layout.size_bytes, CopyKind::kDeviceToHost, download_stream_));
  CAMD_TRY(device_.record(in_flight.picture_back, download_stream_));
  return device_.wait(in_flight.picture_back, last);
}

void FramePath::finish(const InFlight& in_flight) {
  for (const StreamRef stream : {copy_stream_.ref(), compute_stream_.ref(), download_stream_.ref()}) {
    (void)device_.synchronize(stream);  // whatever it says, it has waited
  }
  if (in_flight.own_stream) (void)device_.synchronize(in_flight.own_stream->ref());
}

void FramePath::stage_times(const InFlight& in_flight, StageTimes& times) {
  const StageEvents& events = in_flight.times;
  const auto at = [&times](Stage stage) -> base::Duration& { return times[static_cast<std::size_t>(stage)]; };
  const auto span = [this](const device::TimedEvent& from, const device::TimedEvent& to) {
    return std::max(device_.elapsed(from, to), base::Duration::zero());
  };
  const base::Duration on_device = in_flight.completed - in_flight.dispatched;
  at(Stage::kH2d) = uploads(in_flight) ? span(events.upload_begin, events.upload_end) : base::Duration::zero();
  if (kernels_alone(in_flight)) {
    // On its way when `downloaded` was reached. A device that is lost instead has no times.
    if (!device_.synchronize(in_flight.timed).ok()) return;
    at(Stage::kPreprocess) = base::Duration::zero();
    at(Stage::kInfer) = span(events.upload_end, events.infer_end);
  } else {
    const bool follows_upload = upload_ends_where_preprocessing_begins_ && uploads(in_flight);
    at(Stage::kPreprocess) = span(follows_upload ? events.upload_end : events.preprocess_begin, events.preprocess_end);
    at(Stage::kInfer) = span(events.preprocess_end, events.infer_end);
  }
  // Early outputs travel while later ones are computed: only what is left after the network's end is a cost.
  at(Stage::kD2h) = in_flight.d2h_bytes > 0 ? span(events.infer_end, events.download_end) : base::Duration::zero();
  const base::Duration explained = at(Stage::kH2d) + at(Stage::kPreprocess) + at(Stage::kInfer) + at(Stage::kD2h);
  at(Stage::kCapture) = in_flight.frame.arrived - in_flight.frame.captured;
  at(Stage::kQueue) =
      (in_flight.dispatched - in_flight.frame.arrived) + std::max(on_device - explained, base::Duration::zero());
}

}  // namespace camd::pipeline
