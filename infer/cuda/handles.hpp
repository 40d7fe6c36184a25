// Pointers that are not addresses yet (plan.hpp), and the one place that knows which members of a kernel's arguments
// are pointers.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels.hpp"

namespace camd::infer::cuda {

// Buffer number + 1 in the upper half, byte offset in the lower: never null, never a real address of this machine.
[[nodiscard]] inline void* make_handle(int buffer, std::size_t offset_bytes) noexcept {
  const std::uint64_t bits = (static_cast<std::uint64_t>(buffer) + 1) << 32 | static_cast<std::uint64_t>(offset_bytes);
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(bits));  // NOLINT(performance-no-int-to-ptr)
}
[[nodiscard]] inline int handle_buffer(const void* handle) noexcept {
  return static_cast<int>(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle)) >> 32) - 1;
}
[[nodiscard]] inline std::size_t handle_offset(const void* handle) noexcept {
  return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(handle) & 0xFFFFFFFFU);
}

// Calls read(pointer&) for what the kernel reads and write(pointer&) for what it writes; null ones are left out.
template <typename Read, typename Write>
class PointerVisitor {
 public:
  PointerVisitor(Read read, Write write) : read_(read), write_(write) {}

  void operator()(SeparableArguments& a) {
    reads(a.x.data, a.depthwise, a.depthwise_bias, a.pointwise, a.pointwise_bias);
    writes(a.y.data);
  }
  void operator()(TileProgramArguments& a) {
    reads(a.program);
    for (int i = 0; i < a.stage_count; ++i) {
      reads(a.read[i], a.added[i]);
      writes(a.written[i]);
    }
    for (int i = 0; i < a.sink_count; ++i) writes(a.sinks[i].data);
  }
  void operator()(ConvArguments& a) {
    reads(a.x.data, a.weights, a.bias, a.add.data);
    for (int i = 0; i < a.sink_count; ++i) writes(a.sinks[i].data);
  }
  void operator()(StemArguments& a) {
    reads(a.planes, a.weights, a.bias, a.block.depthwise, a.block.depthwise_bias, a.block.pointwise,
          a.block.pointwise_bias);
    writes(a.y.data);
  }
  void operator()(PlainConvArguments& a) {
    reads(a.x.data, a.weights, a.bias, a.residual.data);
    writes(a.y.data);
  }
  void operator()(PoolArguments& a) {
    reads(a.x.data);
    writes(a.y.data);
  }
  void operator()(ResizeArguments& a) {
    reads(a.x.data, a.rows, a.row_weights, a.columns, a.column_weights);
    writes(a.y.data);
  }
  void operator()(MoveArguments& a) {
    reads(a.x.data, a.table);
    writes(a.y.data);
  }
  void operator()(BinaryArguments& a) {
    reads(a.a.data, a.b.data);
    writes(a.y.data);
  }
  void operator()(SoftmaxArguments& a) {
    reads(a.x);
    writes(a.y);
  }
  void operator()(ReduceArguments& a) {
    reads(a.x.data);
    writes(a.y.data);
  }
  void operator()(MatMulArguments& a) {
    reads(a.a.data, a.b.data, a.bias.data);
    writes(a.y.data);
  }

 private:
  template <typename... Pointers>
  void reads(Pointers&... pointers) {
    ((pointers != nullptr ? read_(pointers) : void()), ...);
  }
  template <typename... Pointers>
  void writes(Pointers&... pointers) {
    ((pointers != nullptr ? write_(pointers) : void()), ...);
  }
  Read read_;
  Write write_;
};

}  // namespace camd::infer::cuda
