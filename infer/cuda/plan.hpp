// Plan: what the CUDA engine does with a Graph, as a list of kernels with their arguments. Made on the host, without
// a GPU; tests run it under emulation.
//
// Addresses. Memory does not exist yet when a plan is made: a pointer in a step's arguments is a handle (buffer number
// and byte offset), and bind() replaces it. Every execution binds its own copy of the steps.
//
// Threads: plain values; make_plan() is a function of its arguments, [any].
// Invariants of a Plan:
//  - steps are in an order in which they can run one after the other. Step i may run beside others as soon as the
//    step before it in its lane and all steps in `waits` are done: memory is planned for that, not only for the order.
//  - arena buffers that share bytes are never alive at the same time in any order that lanes and waits allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "infer/cuda/kernels.hpp"
#include "infer/graph.hpp"

namespace camd::infer::cuda {

struct PlanOptions {
  DataType type = DataType::kF16;         // of activations; kF32: every operator by its plain kernel, for comparison
  DataType output_type = DataType::kF32;  // of the network's outputs: kF32 or kF16
  std::size_t shared_bytes = std::size_t{48} * 1024;  // shared memory that a block may have on this GPU
  bool fuse = true;                                   // false: one step an operator, plain kernels only
  // So many convolutions from the first on, and what lies between them, by their plain kernels in f32: for networks
  // that amplify what f16 takes from their first layers.
  int exact_convolutions = 0;
  // Steps that may run side by side, at most. With four, libcuda allocates at every launch of their graph
  // (test_pipeline_gpu_steady).
  int lanes = 3;
};

enum class BufferKind : std::uint8_t {
  kConstants,  // weights and tables, shared by all executions
  kInput,      // planes [3][H][W] of f32
  kArena,
  kOutput,
};

struct Buffer {
  BufferKind kind = BufferKind::kArena;
  std::size_t size_bytes = 0;
  std::size_t offset_bytes = 0;  // within the arena, or within the outputs' memory
  // Shares its bytes with nobody and is zero before the first run: an image whose padding no kernel writes.
  bool exclusive = false;
};
// A buffer's size where it lies among others: every one starts on 256 bytes, as cudaMalloc's do.
[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

struct ArenaLayout {
  std::vector<std::size_t> offsets;  // of each of a plan's buffers, bytes; 0 for those that lie elsewhere
  std::size_t size_bytes = 0;
};

inline constexpr int kConstantsBuffer = 0;
inline constexpr int kInputBuffer = 1;

using Arguments = std::variant<SeparableArguments, TileProgramArguments, ConvArguments, StemArguments,
                               PlainConvArguments, PoolArguments, ResizeArguments, MoveArguments, BinaryArguments,
                               SoftmaxArguments, ReduceArguments, MatMulArguments>;

inline constexpr double kUsualCycles = 6000;  // of a step that is not estimated

struct Step {
  Arguments arguments;
  std::string origin;              // the operators it came from, for messages
  std::vector<int> reads, writes;  // buffers, constants left out
  double cycles = kUsualCycles;    // roughly, alone on one H200: which chain of steps is the longest
  int lane = 0;
  std::vector<int> waits;         // steps of other lanes that must be done before
  bool signals = false;           // a step of another lane, or an output's reader, waits for this one
  bool overlap_previous = false;  // LaunchContext's
};

struct PlannedOutput {
  TensorSpec spec;  // type is PlanOptions::output_type
  int buffer = -1;
  int step = -1;  // the last one that writes it, behind all others that do
};

struct Plan {
  DataType type = DataType::kF16;
  int exact_convolutions = 0;  // PlanOptions'
  std::vector<std::byte> constants;
  std::vector<Buffer> buffers;
  std::size_t arena_bytes = 0;
  std::size_t output_bytes = 0;  // all outputs, packed in order, each at a multiple of 256
  std::vector<Step> steps;
  int lane_count = 1;
  std::vector<PlannedOutput> outputs;
  // The step that can read the camera's picture instead of the input's planes (StemArguments), or -1. It is the only
  // reader of the input, and step 0.
  int stem = -1;

  // "31 kernels in 3 lanes, 12.3 MiB" and what runs by plain kernels in f16 mode, for the log.
  [[nodiscard]] std::string summary() const;
};

// Throws Error(kModel) for what no kernel takes (tensors of more than kMaxRank dimensions); `path` is for messages.
[[nodiscard]] Plan make_plan(const Graph& graph, const PlanOptions& options, const std::string& path);

// Replaces the handles in `arguments` by addresses: bases[b] is buffer b's first byte.
void bind(Arguments& arguments, const std::vector<std::byte*>& bases);

// Enqueues the step's kernel; a cudaError_t.
int run(const Arguments& arguments, const LaunchContext& context);

[[nodiscard]] std::string_view kernel_name(const Arguments& arguments) noexcept;

}  // namespace camd::infer::cuda
