// A few layers of a network as one kernel: each block makes one tile of the last layer and, in shared memory, what the
// layers before must deliver for it (its tile and the border that their neighbours see). Included by kernels.hpp.
//
// A program is a list of stages, which lie first in shared memory. Stages that do not read each other's results share a
// phase: warps spread over all their units of work, and the block meets only where a phase begins. Behind them lie the
// weights and biases of all stages, then the images between the stages. In global memory stages and weights lie as they
// shall in shared memory, so that a block fetches them as one piece, while the kernel in front still runs.
//
// Threads: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

// Division of a small number by one that is known before the launch: a multiplication in the kernel, where a division
// costs some 40 instructions. Exact while numerator * divisor < 2^32.
struct Divider {
  unsigned magic = 0;  // ceil(2^32 / divisor); 0 for a divisor of 1
};
[[nodiscard]] constexpr Divider make_divider(int divisor) {
  const auto d = static_cast<unsigned long long>(divisor);
  return {divisor == 1 ? 0U : static_cast<unsigned>(((1ULL << 32) + d - 1) / d)};
}

enum class TileStageKind : std::uint8_t {
  kLoad,    // a part of an image in global memory, or of the sum of two; zeros where it ends
  kDense,   // 1x1 or 3x3 convolution over all channels
  kPlanes,  // an image in shared memory to the network's outputs
};

// How many groups of 16 pixels and of 16 output channels a warp makes at a time.
inline constexpr int kTileUnits[][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};
inline constexpr int kTileUnitCount = 4;

struct alignas(16) TileStage {
  TileStageKind kind = TileStageKind::kLoad;
  bool meet = false;              // the block meets before this stage
  bool activation_first = false;  // kDense: before what is added
  bool special = false;           // `activation` is more than two bounds
  std::uint8_t kernel = 1, stride = 1;
  std::uint8_t unit = 0;  // kDense: kTileUnits
  // Pixels. Block (by, bx) makes rows by * step_y - back_y and on, `h` of them; columns likewise. Those outside of the
  // image are zeros for the stages behind, and only the rows and columns from by * step_y to (by + 1) * step_y reach
  // global memory.
  std::int16_t step_y = 0, step_x = 0, back_y = 0, back_x = 0, h = 0, w = 0;
  int image_h = 0, image_w = 0;
  Divider by_w;  // kPlanes: by the runs of kPlaneRun pixels of a row
  // The source in shared memory, in bytes: first channel of tap (0, 0) of pixel (0, 0).
  int from = 0, from_pixel = 0, from_row = 0;
  // kLoad: 16-byte words of a pixel. kDense: steps of 16 channels, for each tap. kPlanes: groups of 8 channels.
  int depth = 0;
  Divider by_depth;
  int units = 0;                    // of work, one for a warp at a time
  Divider by_columns;               // kDense: units side by side
  int n16 = 0;                      // kDense: groups of 16 output channels of this block
  int n16_total = 0;                // and of the layer
  int weights_at = 0, bias_at = 0;  // in shared memory: packed (packing.hpp), [16 * n16]
  int to = -1, to_pixel = 0;        // destination in shared memory, -1: none
  int to_row = 0;                   // bytes from a row to the next
  int planes_at = 0;                // kPlanes: in shared memory, kPlaneBytes a channel
  int stored = 0;                   // channels that go there, a multiple of 4
  int add_at = -1, add_pixel = 0;   // kDense: an image in shared memory to add, with the stage's own pixels
  Activation activation;
  float low = 0, high = 0;  // `activation` as bounds, which may be infinite
  // Of the image in global memory that is read or written: elements of a pixel, and channels, a multiple of 8.
  // kPlanes: channels of all outputs.
  int pitch = 0, channels = 0;
  int source_h = 0, source_w = 0;                 // kLoad
  int added_pitch = 0, added_h = 0, added_w = 0;  // kLoad: of what is added, enlarged to the image
};

// Part of the channels that kPlanes reads: [channels][h * w] in global memory.
struct PlaneSink {
  void* data = nullptr;
  int first = 0;  // first output channel
  int channels = 0;
  Activation activation;
};

inline constexpr int kPlaneRun = 8;     // neighbouring pixels that a lane writes: tiles are as wide or a multiple
inline constexpr int kPlaneBytes = 32;  // in shared memory, of a channel of the outputs
inline constexpr int kMaxTileStages = 16;
inline constexpr int kMaxPlaneSinks = 4;
inline constexpr int kMaxTileThreads = 512;

struct TileProgramArguments {
  // [columns][program_bytes]: stages, then their weights and biases, of each block of a tile.
  const void* program = nullptr;
  int program_bytes = 0;
  int stage_count = 0;
  int threads = 256;  // a power of two
  int tiles_y = 1, tiles_x = 1;
  int columns = 1;  // blocks that share a tile: each makes n16 of the n16_total of `split_stage`
  int split_stage = -1;
  int shared_bytes = 0;
  bool special = false;                  // some stage's activation is more than two bounds
  DataType plane_type = DataType::kF32;  // of the sinks: f32 or f16
  int sink_count = 0;
  PlaneSink sinks[kMaxPlaneSinks];
  // Images in global memory, of each stage, or null: what kLoad reads, what it adds, what kDense writes.
  const void* read[kMaxTileStages] = {};
  const void* added[kMaxTileStages] = {};
  void* written[kMaxTileStages] = {};
};

}  // namespace camd::infer::cuda
