// Frames: where their tensors lie, the call, and what comes back.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "pipeline/plugin_process/descriptor_socket.hpp"
#include "pipeline/plugin_process/futex.hpp"
#include "pipeline/plugin_process/remote_plugin.hpp"
#include "pipeline/plugin_process/remote_prepared.hpp"
#include "pipeline/plugin_process/untrusted_answer.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

std::size_t bytes_of(const DLTensor& tensor) noexcept {
  std::size_t bytes = (static_cast<std::size_t>(tensor.dtype.bits) * tensor.dtype.lanes + 7) / 8;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) bytes *= static_cast<std::size_t>(tensor.shape[i]);
  return bytes;
}

}  // namespace

std::unique_ptr<PreparedFrame> RemotePlugin::prepare(const camd_tensors& tensors) {
  auto made = std::make_unique<Prepared>(*this);
  const auto add = [&](const DLTensor* tensor, bool device) {
    wire::TensorOrder& order = made->tensors.emplace_back();
    if (tensor == nullptr) return;
    order.present = true;
    order.device = device;
    order.where = tensor->device;
    order.dtype = tensor->dtype;
    order.shape.assign(tensor->shape, tensor->shape + tensor->ndim);
    if (tensor->data == nullptr) return;
    if (tensor->device.device_type == kDLCUDA) {
      if (!spec_.isolation.gpu) {
        throw Error(
            ErrorKind::kPlugin,
            fmt::format("{}: asks for an output where the GPU left it: allow: [gpu], or isolation: none", prefix_));
      }
      order.exported = device::exported_at(static_cast<const std::byte*>(tensor->data) + tensor->byte_offset);
      if (!order.exported) {
        throw Error(
            ErrorKind::kPlugin,
            fmt::format("{}: asks for an output on a GPU, where another process cannot open it: isolation: none",
                        prefix_));
      }
      return;
    }
    // Where page-locked memory lies is the host's business: the worker's pages are ordinary ones.
    order.where = {kDLCPU, 0};
    const auto* data = static_cast<const std::byte*>(tensor->data) + tensor->byte_offset;
    std::optional<SharedPlace> place = shared_place(data);
    if (!place) {
      const std::size_t size = std::max<std::size_t>(bytes_of(*tensor), 1);
      made->staged.push_back({data, allocate_shared(size), size});
      place = shared_place(made->staged.back().to.get());
    }
    order.place = {place->region->id, 0, place->offset};
    if (std::find(made->regions.begin(), made->regions.end(), place->region->id) == made->regions.end()) {
      made->regions.push_back(place->region->id);
      const base::MutexLock lock(mutex_);
      map(place->region);
    }
  };
  for (std::int32_t i = 0; i < tensors.output_count; ++i) {
    const DLTensor* device = tensors.device_outputs[i];
    add(device != nullptr ? device : tensors.outputs[i], device != nullptr);
  }
  add(tensors.input, false);
  const base::MutexLock lock(mutex_);
  made->id = ++last_prepared_;
  prepared_.push_back(made.get());
  if (ready_) send_prepared(*made);
  return made;
}

void RemotePlugin::map(const std::shared_ptr<const SharedRegion>& region) {
  Mapped& mapped = regions_[region->id];
  if (mapped.uses++ > 0) return;
  mapped.region = region;
  if (ready_) send_region(*region);
}

void RemotePlugin::send_region(const SharedRegion& region) {
  const std::uint64_t size = region.file.size_bytes();
  if (!send_descriptors(socket_.get(), std::as_bytes(std::span(&size, 1)), {region.file.fd()})) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: its process has ended", prefix_));
  }
  orders_.region = region.id;
  if (request(wire::Op::kMapRegion, patience_.others, "a set-up call") != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_));
  }
}

void RemotePlugin::send_prepared(const Prepared& prepared) {
  orders_.prepared = prepared.id;
  // The first piece of a GPU's memory takes its driver and a context.
  const bool gpu = std::any_of(prepared.tensors.begin(), prepared.tensors.end(),
                               [](const wire::TensorOrder& tensor) { return tensor.exported.has_value(); });
  if (request(wire::Op::kPrepare, wire::tensor_bytes(prepared.tensors), gpu ? patience_.set_up : patience_.others,
              "a set-up call") != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_));
  }
}

void RemotePlugin::unmap(std::uint32_t region) {
  const auto found = regions_.find(region);
  if (found == regions_.end() || --found->second.uses > 0) return;
  regions_.erase(found);
  if (!ready_) return;
  orders_.region = region;
  (void)request(wire::Op::kUnmapRegion, patience_.others, "a set-up call");
}

void RemotePlugin::forget(Prepared& prepared) noexcept {
  const base::MutexLock lock(mutex_);
  std::erase(prepared_, &prepared);
  try {
    if (ready_) {
      orders_.prepared = prepared.id;
      (void)request(wire::Op::kForget, patience_.others, "a set-up call");
    }
    for (const std::uint32_t region : prepared.regions) unmap(region);
    unmap_pictures();
  } catch (const Error& error) {  // the worker's end is told by itself
    note_error(error.what());
  }
}

// ---- One frame

void RemotePlugin::put_frame(const camd_frame& frame) {
  wire::Frame& to = orders_.frame;
  std::snprintf(to.camera, sizeof(to.camera), "%s", frame.camera == nullptr ? "" : frame.camera);
  to.camera_index = frame.camera_index;
  to.width = frame.width;
  to.height = frame.height;
  to.flags = frame.flags;
  to.sequence = frame.sequence;
  to.captured_mono_ns = frame.captured_mono_ns;
  to.arrived_mono_ns = frame.arrived_mono_ns;
  to.captured_unix_ns = frame.captured_unix_ns;
  to.captured_uncertainty_ns = frame.captured_uncertainty_ns;
  to.scale_x = frame.scale_x;
  to.scale_y = frame.scale_y;
  to.offset_x = frame.offset_x;
  to.offset_y = frame.offset_y;
  to.picture.present = 0;
  if (needs_.picture && frame.picture != nullptr) put_picture(*frame.picture);
}

void RemotePlugin::put_picture(const camd_picture& picture) {
  wire::Picture& to = orders_.frame.picture;
  to.format = picture.format;
  to.bt709 = picture.bt709;
  to.full_range = picture.full_range;
  to.plane_count = std::clamp(picture.plane_count, 0, 3);
  if (!shows_picture(picture)) copy_picture(picture);
  to.present = 1;
}

bool RemotePlugin::shows_picture(const camd_picture& picture) {
  wire::Picture& to = orders_.frame.picture;
  for (std::int32_t i = 0; i < to.plane_count; ++i) {
    const camd_plane& plane = picture.planes[i];
    const std::optional<SharedPlace> place = shared_place(plane.data);
    if (!place) return false;
    const std::uint32_t id = place->region->id;
    if (std::find(picture_regions_.begin(), picture_regions_.end(), id) == picture_regions_.end()) {
      unmap_pictures();
      picture_regions_.push_back(id);
      map(place->region);
    }
    to.planes[i] = {{id, 0, place->offset}, plane.stride_bytes, plane.width, plane.height};
  }
  return true;
}

void RemotePlugin::unmap_pictures() {
  for (auto one = picture_regions_.begin(); one != picture_regions_.end();) {
    const std::uint32_t id = *one;
    if (shared_place(regions_.at(id).region->file.data())) {
      ++one;
    } else {
      one = picture_regions_.erase(one);
      unmap(id);
    }
  }
}

void RemotePlugin::copy_picture(const camd_picture& picture) {
  wire::Picture& to = orders_.frame.picture;
  const auto bytes = [](const camd_plane& plane) {
    return static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height);
  };
  std::size_t whole = 0;
  for (std::int32_t i = 0; i < to.plane_count; ++i) whole += (bytes(picture.planes[i]) + 63) / 64 * 64;
  if (whole > picture_bytes_) {  // bigger than any before
    if (picture_ != nullptr) unmap(shared_place(picture_.get())->region->id);
    picture_ = allocate_shared(whole);
    picture_bytes_ = whole;
    map(shared_place(picture_.get())->region);
  }
  const SharedPlace place = *shared_place(picture_.get());
  std::size_t at = 0;
  for (std::int32_t i = 0; i < to.plane_count; ++i) {
    const camd_plane& plane = picture.planes[i];
    std::memcpy(picture_.get() + at, plane.data, bytes(plane));
    bytes_copied_.fetch_add(bytes(plane), std::memory_order_relaxed);
    to.planes[i] = {{place.region->id, 0, place.offset + at}, plane.stride_bytes, plane.width, plane.height};
    at += (bytes(plane) + 63) / 64 * 64;
  }
}

CallResult RemotePlugin::lost(camd_error& error, const std::string& why) noexcept {
  frames_lost_.fetch_add(1, std::memory_order_relaxed);
  if (spec_.isolation.on_failure == OnFailure::kPassThrough) return CallResult::kMissing;
  std::snprintf(error.message, sizeof(error.message), "%s", why.c_str());
  return CallResult::kFailed;
}

CallResult RemotePlugin::call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& /*tensors*/,
                              camd_results& results, FrameEvents& events, camd_error& error, bool& moved) noexcept {
  constexpr const char* kAway = "has no process at the moment: it is being started anew, or was given up";
  if (!ready_) return lost(error, kAway);
  const base::MutexLock lock(mutex_);
  if (!ready_) return lost(error, kAway);
  auto& mine = static_cast<Prepared&>(*prepared);
  const std::int32_t events_before = events.count();
  try {
    put_frame(frame);
  } catch (const Error& failure) {
    return lost(error, failure.what());
  }
  for (const Prepared::Staged& staged : mine.staged) {
    std::memcpy(staged.to.get(), staged.from, staged.size_bytes);
    bytes_copied_.fetch_add(staged.size_bytes, std::memory_order_relaxed);
  }
  orders_.prepared = mine.id;
  orders_.capacity = std::min(results.capacity, CAMD_MAX_DETECTIONS);
  orders_.count = std::clamp(results.count, 0, orders_.capacity);
  orders_.event_count = events_before;
  if (orders_.count > 0) {
    std::memcpy(answers_.items, results.items, static_cast<std::size_t>(orders_.count) * sizeof(camd_detection));
  }
  for (std::int32_t i = 0; i < events_before; ++i) answers_.events[i] = *events.get(i);

  events_.store(&events, std::memory_order_relaxed);
  const std::uint32_t number = begin(wire::Op::kProcess);
  const Wait outcome = wait(number, base::system_clock().now() + spec_.isolation.deadline);
  events_.store(nullptr, std::memory_order_relaxed);
  switch (outcome) {
    case Wait::kDone:
      doing_ = wire::Op::kNone;
      return take_answer(answers_, orders_.capacity, events_before, results, events, error, moved);
    case Wait::kDied: {
      const base::MutexLock error_lock(error_mutex_);
      return lost(error, "its process ended: " + last_error_);
    }
    case Wait::kLate: {
      ready_ = false;
      deadline_missed_.fetch_add(1, std::memory_order_relaxed);
      const std::string why =
          fmt::format("did not return within its deadline of {} ms",
                      std::chrono::duration_cast<std::chrono::milliseconds>(spec_.isolation.deadline).count());
      worker_->kill(why);
      return lost(error, why + ": its process was ended");
    }
    case Wait::kNonsense: break;
  }
  ready_ = false;
  worker_->kill("wrote what no worker writes");
  return lost(error, "its process wrote what no worker writes, and was ended");
}

}  // namespace camd::pipeline
