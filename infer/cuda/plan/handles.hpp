// Handles: what a plan's arguments hold in place of addresses, and PointerVisitor, which knows the pointers in the
// arguments of each kernel.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infer/cuda/plan/plan.hpp"

namespace camd::infer::cuda {

// The upper 32 bits are the buffer's number + 1, the lower 32 the offset. So a handle is never null.
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

// Called with the arguments of a kernel, calls read(pointer&) for each pointer that the kernel reads and
// write(pointer&) for each that it writes; null pointers are left out.
template <typename Read, typename Write>
class PointerVisitor {
 public:
  PointerVisitor(Read read, Write write) : read_(read), write_(write) {}

  void operator()(SeparableArguments& a) {
    reads(a.x.data, a.depthwise, a.depthwise_bias, a.pointwise, a.pointwise_bias);
    writes(a.y.data);
  }
  void operator()(BottleneckArguments& a) {
    reads(a.x.data, a.table, a.front, a.front_bias, a.depthwise, a.depthwise_bias, a.pointwise, a.pointwise_bias);
    writes(a.y.data, a.kept.data);
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
  void operator()(GenericConvArguments& a) {
    reads(a.x.data, a.weights, a.bias, a.residual.data);
    writes(a.y.data, a.y_sums, a.x_sums);
  }
  void operator()(PlanesConvArguments& a) {
    reads(a.planes, a.weights, a.bias);
    writes(a.y.data);
  }
  void operator()(PoolArguments& a) {
    reads(a.x.data);
    writes(a.y.data);
  }
  void operator()(MaxPoolsArguments& a) {
    reads(a.x.data);
    for (int i = 0; i < a.count; ++i) writes(a.y[i].data);
  }
  void operator()(ResizeArguments& a) {
    reads(a.x.data, a.added.data, a.rows, a.row_weights, a.columns, a.column_weights);
    writes(a.y.data);
  }
  void operator()(MoveArguments& a) {
    reads(a.x.data, a.table);
    writes(a.y.data);
  }
  void operator()(MovesArguments& a) {
    for (int i = 0; i < a.count; ++i) (*this)(a.moves[i]);
  }
  void operator()(ElementwiseArguments& a) {
    for (int i = 0; i < a.input_count; ++i) reads(a.x[i].data);
    writes(a.y.data);
  }
  void operator()(ElementwisesArguments& a) {
    for (int i = 0; i < a.count; ++i) (*this)(a.programs[i]);
  }
  void operator()(SoftmaxArguments& a) {
    reads(a.x.data, a.weights, a.bias);
    writes(a.y.data);
  }
  void operator()(ReduceArguments& a) {
    reads(a.x.data);
    writes(a.y.data);
  }
  void operator()(MatMulArguments& a) {
    reads(a.a.data, a.b.data, a.bias.data);
    writes(a.y.data);
  }
  void operator()(AttentionArguments& a) {
    reads(a.q.at.data, a.k.at.data, a.v.at.data, a.bias.at.data);
    writes(a.y.at.data);
  }
  void operator()(TopKArguments& a) {
    reads(a.x);
    writes(a.y);
  }
  void operator()(PickArguments& a) {
    reads(a.x.data, a.indices.data, a.updates);
    writes(a.y.data);
  }
  void operator()(CumSumArguments& a) {
    reads(a.x);
    writes(a.y);
  }
  void operator()(GridSampleArguments& a) {
    reads(a.x, a.grid);
    writes(a.y);
  }
  void operator()(DeformableArguments& a) {
    for (int i = 0; i < a.level_count; ++i) reads(a.levels[i].x.data, a.levels[i].grid.data);
    reads(a.weights.data);
    writes(a.y.data);
  }
  void operator()(SqueezeArguments& a) {
    reads(a.x.data, a.sums, a.first, a.second);
    writes(a.y.data);
  }
  void operator()(LayerNormArguments& a) {
    reads(a.x.data, a.added.data, a.gain, a.offset);
    writes(a.y.data);
  }
  void operator()(SelectArguments& a) {
    reads(a.condition.data, a.a.data, a.b.data);
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

// Replaces the handles in `arguments` by addresses: bases[b] is the first byte of buffer b.
void bind(Arguments& arguments, const std::vector<std::byte*>& bases);

}  // namespace camd::infer::cuda
