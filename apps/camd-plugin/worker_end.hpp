// WorkerEnd: a worker's side of one instance: the orders that come, and what is answered.
//
// Threads: one. Invariants: what camd maps for the worker cannot be written to. Everything that process() gets is valid
// until the next call of next().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/camd-plugin/gpu_memory.hpp"
#include "pipeline/plugin_process/blob.hpp"
#include "pipeline/plugin_process/protocol.hpp"
#include "pipeline/plugin_process/shared_memory.hpp"

namespace camd::worker {

class WorkerEnd {
 public:
  // Throws Error(kPlugin).
  WorkerEnd(pipeline::Descriptor socket, pipeline::Descriptor orders, pipeline::Descriptor answers);
  WorkerEnd(const WorkerEnd&) = delete;
  WorkerEnd& operator=(const WorkerEnd&) = delete;

  // [blocks] until there is an order for the plug-in; those about memory are carried out by itself. It has to be
  // answered.
  [[nodiscard]] pipeline::wire::Op next();
  // Answers the order. `message` is for a code that is not CAMD_OK.
  void answer(std::int32_t code, std::string_view message = {}) noexcept;

  [[nodiscard]] const pipeline::wire::Orders& orders() const noexcept { return orders_; }
  [[nodiscard]] pipeline::wire::Answers& answers() noexcept { return answers_; }
  // What came with the order.
  [[nodiscard]] std::span<const char> blob() const noexcept;

  // ---- Of kProcess
  [[nodiscard]] std::uint32_t prepared() const noexcept { return orders_.prepared; }
  [[nodiscard]] const camd_frame& frame();
  [[nodiscard]] const camd_tensors& tensors();
  // [blocks] until what the plug-in has begun on a GPU is done, where it was given memory there: camd writes the next
  // frame into that. Throws Error(kPlugin).
  void finish_gpu_work();
  // Its items lie in shared memory.
  [[nodiscard]] camd_results results() noexcept;

 private:
  struct Prepared {
    std::vector<pipeline::wire::TensorOrder> orders;
    std::vector<DLTensor> tensors;
    std::vector<const DLTensor*> outputs, device_outputs;
    std::vector<OpenedMemory> opened;  // on a GPU
    camd_tensors view{};
  };
  [[nodiscard]] bool do_by_itself(pipeline::wire::Op op);
  void receive_blob();
  void prepare();
  [[nodiscard]] const std::byte* at(const pipeline::wire::Place& place) const;

  pipeline::Descriptor socket_;
  pipeline::MemoryFile orders_file_, answers_file_;
  const pipeline::wire::Orders& orders_;
  pipeline::wire::Answers& answers_;
  std::uint32_t number_ = 0;
  pipeline::MemoryFile blob_;
  std::size_t blob_bytes_ = 0;
  std::map<std::uint32_t, pipeline::MemoryFile> regions_;
  std::map<std::uint32_t, Prepared> prepared_;
  camd_frame frame_{};
  camd_picture picture_{};
};

}  // namespace camd::worker
