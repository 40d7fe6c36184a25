#include "apps/camd-plugin/worker_end.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "pipeline/plugin_process/descriptor_socket.hpp"
#include "pipeline/plugin_process/futex.hpp"

namespace camd::worker {

using base::Error;
using base::ErrorKind;
using pipeline::Descriptor;
using pipeline::MemoryFile;
namespace wire = pipeline::wire;

WorkerEnd::WorkerEnd(Descriptor socket, Descriptor orders, Descriptor answers)
    : socket_(std::move(socket)),
      orders_file_(std::move(orders), sizeof(wire::Orders), false),
      answers_file_(std::move(answers), sizeof(wire::Answers), true),
      orders_(*reinterpret_cast<const wire::Orders*>(orders_file_.data())),
      answers_(*reinterpret_cast<wire::Answers*>(answers_file_.data())) {}

wire::Op WorkerEnd::next() {
  for (;;) {
    std::uint32_t seen = orders_.number.load(std::memory_order_acquire);
    while (seen == number_) {
      (void)pipeline::futex_wait(orders_.number, seen, nullptr);
      seen = orders_.number.load(std::memory_order_acquire);
    }
    number_ = seen;
    const auto op = static_cast<wire::Op>(orders_.op);
    try {
      if (!do_by_itself(op)) return op;
      answer(CAMD_OK);
    } catch (const std::exception& error) {
      answer(CAMD_ERROR_FAILED, error.what());
    }
  }
}

void WorkerEnd::answer(std::int32_t code, std::string_view message) noexcept {
  const std::size_t bytes = std::min(message.size(), sizeof(answers_.message) - 1);
  std::copy_n(message.begin(), bytes, answers_.message);
  answers_.message[bytes] = '\0';
  answers_.code = code;
  answers_.number.store(number_, std::memory_order_release);
  pipeline::futex_wake(answers_.number);
}

std::span<const char> WorkerEnd::blob() const noexcept {
  return {reinterpret_cast<const char*>(blob_.data()), blob_bytes_};
}

void WorkerEnd::receive_blob() {
  std::uint64_t size = 0;
  std::vector<Descriptor> fds;
  if (!pipeline::receive_descriptors(socket_.get(), std::as_writable_bytes(std::span(&size, 1)), fds) ||
      fds.size() != 1) {
    throw Error(ErrorKind::kPlugin, "camd is gone");
  }
  blob_ = MemoryFile(std::move(fds.front()), size, false);
  blob_bytes_ = size;
}

bool WorkerEnd::do_by_itself(wire::Op op) {
  switch (op) {
    case wire::Op::kMapRegion: {
      std::uint64_t size = 0;
      std::vector<Descriptor> fds;
      if (!pipeline::receive_descriptors(socket_.get(), std::as_writable_bytes(std::span(&size, 1)), fds) ||
          fds.size() != 1) {
        throw Error(ErrorKind::kPlugin, "camd is gone");
      }
      regions_.insert_or_assign(orders_.region, MemoryFile(std::move(fds.front()), size, false));
      return true;
    }
    case wire::Op::kUnmapRegion: regions_.erase(orders_.region); return true;
    case wire::Op::kPrepare:
      receive_blob();
      prepare();
      return true;
    case wire::Op::kForget: prepared_.erase(orders_.prepared); return true;
    case wire::Op::kCheck:
    case wire::Op::kCreate:
    case wire::Op::kOutputs: receive_blob(); return false;
    default: return false;
  }
}

const std::byte* WorkerEnd::at(const wire::Place& place) const {
  const auto found = regions_.find(place.region);
  if (found == regions_.end() || place.offset >= found->second.size_bytes()) return nullptr;
  return found->second.data() + place.offset;
}

void WorkerEnd::prepare() {
  Prepared& made = prepared_.insert_or_assign(orders_.prepared, Prepared{}).first->second;
  made.orders = wire::read_tensors(blob());
  for (wire::TensorOrder& order : made.orders) {
    DLTensor tensor{};
    tensor.device = order.where;
    tensor.ndim = static_cast<std::int32_t>(order.shape.size());
    tensor.dtype = order.dtype;
    tensor.shape = order.shape.data();
    // The memory can only be read: who writes ends this process.
    tensor.data = const_cast<std::byte*>(at(order.place));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    if (order.exported) {
      made.opened.emplace_back(order.where.device_id, *order.exported);
      tensor.data = made.opened.back().data();
    }
    made.tensors.push_back(tensor);
  }
  const std::size_t outputs = made.tensors.size() - 1;
  made.outputs.assign(outputs, nullptr);
  made.device_outputs.assign(outputs, nullptr);
  for (std::size_t i = 0; i < outputs; ++i) {
    if (!made.orders[i].present) continue;
    (made.orders[i].device ? made.device_outputs : made.outputs)[i] = &made.tensors[i];
  }
  made.view.struct_size = sizeof(made.view);
  made.view.output_count = static_cast<std::int32_t>(outputs);
  made.view.outputs = made.outputs.data();
  made.view.device_outputs = made.device_outputs.data();
  made.view.input = made.orders.back().present ? &made.tensors.back() : nullptr;
}

void WorkerEnd::finish_gpu_work() {
  if (!prepared_.at(orders_.prepared).opened.empty()) wait_for_gpu();
}

const camd_tensors& WorkerEnd::tensors() { return prepared_.at(orders_.prepared).view; }

const camd_frame& WorkerEnd::frame() {
  const wire::Frame& from = orders_.frame;
  frame_.struct_size = sizeof(frame_);
  frame_.camera = from.camera;
  frame_.camera_index = from.camera_index;
  frame_.width = from.width;
  frame_.height = from.height;
  frame_.sequence = from.sequence;
  frame_.captured_mono_ns = from.captured_mono_ns;
  frame_.arrived_mono_ns = from.arrived_mono_ns;
  frame_.captured_unix_ns = from.captured_unix_ns;
  frame_.captured_uncertainty_ns = from.captured_uncertainty_ns;
  frame_.flags = from.flags;
  frame_.scale_x = from.scale_x;
  frame_.scale_y = from.scale_y;
  frame_.offset_x = from.offset_x;
  frame_.offset_y = from.offset_y;
  frame_.picture = nullptr;
  if (from.picture.present != 0) {
    picture_ = {};
    picture_.struct_size = sizeof(picture_);
    picture_.format = static_cast<camd_pixel_format>(from.picture.format);
    picture_.bt709 = from.picture.bt709;
    picture_.full_range = from.picture.full_range;
    picture_.plane_count = from.picture.plane_count;
    for (std::int32_t i = 0; i < picture_.plane_count; ++i) {
      const wire::Plane& plane = from.picture.planes[i];
      picture_.planes[i] = {reinterpret_cast<const std::uint8_t*>(at(plane.place)), plane.stride_bytes, plane.width,
                            plane.height};
    }
    frame_.picture = &picture_;
  }
  return frame_;
}

camd_results WorkerEnd::results() noexcept {
  return {sizeof(camd_results), orders_.capacity, orders_.count, answers_.items};
}

}  // namespace camd::worker
