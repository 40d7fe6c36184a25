// Plan: a Graph as a list of steps, each a kernel with its arguments. It is made on the host, without a GPU; tests run
// it under emulation.
//
// Addresses: memory does not exist yet when a plan is made. A pointer in a step's arguments is a handle (buffer number
// and byte offset), and bind() (handles.hpp) replaces it by an address. Every execution binds a copy of the steps.
//
// Threads: plain values; make_plan() is a function of its arguments and the machine's memory, [any].
// Invariants of a Plan:
//  - The steps are in an order in which they can run one after the other. A step may also start as soon as the step
//    before it in its lane and all steps in its `waits` are done: memory is laid out for that.
//  - Arena buffers that share bytes are never in use at the same time, in any order that lanes and waits allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "infer/cuda/kernels/attention.hpp"
#include "infer/cuda/kernels/bottleneck.hpp"
#include "infer/cuda/kernels/conv.hpp"
#include "infer/cuda/kernels/deformable.hpp"
#include "infer/cuda/kernels/elementwise.hpp"
#include "infer/cuda/kernels/generic_conv.hpp"
#include "infer/cuda/kernels/generic_image.hpp"
#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/layer_norm.hpp"
#include "infer/cuda/kernels/max_pools.hpp"
#include "infer/cuda/kernels/move.hpp"
#include "infer/cuda/kernels/planes_conv.hpp"
#include "infer/cuda/kernels/selection.hpp"
#include "infer/cuda/kernels/separable.hpp"
#include "infer/cuda/kernels/squeeze.hpp"
#include "infer/cuda/kernels/stem.hpp"
#include "infer/cuda/kernels/tile_program.hpp"
#include "infer/graph/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

// The weight of how long a plan would keep the whole GPU busy, beside how long it takes: for one frame alone, and for
// many that share the GPU.
inline constexpr double kWorkForLatency = 0.5;
inline constexpr double kWorkForThroughput = 16;

struct PlanOptions {
  DataType type = DataType::kF16;                     // of activations; kF32: generic kernels only, for comparison
  DataType output_type = DataType::kF32;              // of the network's outputs: kF32 or kF16
  std::size_t shared_bytes = std::size_t{48} * 1024;  // shared memory that a block may have on this GPU
  bool warpgroup_products = false;                    // the GPU has them: its compute capability is 9.0
  bool fuse = true;                                   // false: one step for each operator, generic kernels only
  // Mixed precision: for each of the graph's convolutions, in their order, whether generic kernels compute it in f32.
  // Other operators are computed in f32 where they hand what comes in f32 on to such a convolution or to an output.
  // Empty: none. For networks that amplify what f16 rounds in some of their layers (mixed_precision.hpp).
  std::vector<bool> f32_convolutions;
  // How dense convolutions of f32 are computed (GenericConvArguments).
  int products = 3;
  // The first convolution reads the input's planes itself where planes_conv() takes it. False: each convolution of f32
  // is a step of generic_conv(), as the trial of f16 needs it, which measures each alone.
  bool read_planes = true;
  // At most so many steps run beside each other. With four, libcuda allocates at every launch of their graph
  // (test_pipeline_gpu_steady).
  int lanes = 3;
  double share_of_work = kWorkForLatency;
};

enum class BufferKind : std::uint8_t {
  kConstants,  // weights and tables, shared by all executions
  kInput,      // planes [3][H][W] of f32
  kArena,      // activations
  kOutput,     // one of the network's outputs
};

struct Buffer {
  BufferKind kind = BufferKind::kArena;
  std::size_t size_bytes = 0;
  std::size_t offset_bytes = 0;  // within the arena, or within the outputs' memory
  // Shares its bytes with no other buffer and is zero before the first run: an image whose padding no kernel writes.
  bool exclusive = false;
};
// The bytes that a buffer takes among others: each begins at a multiple of 256, as cudaMalloc()'s do.
[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

inline constexpr int kConstantsBuffer = 0;
inline constexpr int kInputBuffer = 1;

using Arguments =
    std::variant<SeparableArguments, BottleneckArguments, TileProgramArguments, ConvArguments, StemArguments,
                 GenericConvArguments, PlanesConvArguments, PoolArguments, MaxPoolsArguments, ResizeArguments,
                 MoveArguments, MovesArguments, ElementwiseArguments, ElementwisesArguments, SoftmaxArguments,
                 ReduceArguments, MatMulArguments, AttentionArguments, TopKArguments, PickArguments, CumSumArguments,
                 GridSampleArguments, SelectArguments, LayerNormArguments, DeformableArguments, SqueezeArguments>;

inline constexpr double kUsualCycles = 6000;  // of a step whose time is not estimated

struct Step {
  Arguments arguments;
  std::string origin;              // the operators that it computes, for messages
  std::vector<int> reads, writes;  // buffers, without the constants
  double cycles = kUsualCycles;    // estimated, alone on one H200; tells which chain of steps is the longest
  int lane = 0;
  std::vector<int> waits;         // steps of other lanes that must be done before this one starts
  bool signals = false;           // a step of another lane, or an output's reader, waits for this one
  bool overlap_previous = false;  // LaunchContext::overlap_previous
};

struct PlannedOutput {
  TensorSpec spec;  // type is PlanOptions::output_type
  int buffer = -1;
  // The last step that writes it, which waits for all others that do; or kAllSteps: it is final when all have ended.
  int step = kAllSteps;
  static constexpr int kAllSteps = -1;
};

struct Plan {
  DataType type = DataType::kF16;
  int f32_convolutions = 0;  // how many PlanOptions::f32_convolutions names
  std::vector<std::byte> constants;
  std::vector<Buffer> buffers;
  std::size_t arena_bytes = 0;
  std::size_t output_bytes = 0;  // of all outputs, in their order, each aligned()
  std::vector<Step> steps;
  int lane_count = 1;
  std::vector<PlannedOutput> outputs;
  // The step that can read the camera's picture instead of the input's planes (StemArguments), or -1. It is step 0, and
  // no other step reads the input.
  int stem = -1;

  // For the log: "31 kernels in 3 lanes (29 on tensor cores, 1 generic convolutions), 12595 KiB a frame, ...".
  [[nodiscard]] std::string summary() const;
};

// The graph with operators in place of others that the kernels know better. Its convolutions are numbered as before; a
// second call changes nothing.
[[nodiscard]] Graph rewritten(const Graph& graph, const PlanOptions& options);
// Throws Error(kModel) for what no kernel takes (tensors of more than kMaxRank dimensions), and ModelTooLarge
// (infer/frame_memory.hpp); `path` is for messages.
[[nodiscard]] Plan make_plan(const Graph& graph, const PlanOptions& options, const std::string& path);

}  // namespace camd::infer::cuda
