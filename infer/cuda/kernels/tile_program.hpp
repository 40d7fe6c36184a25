// tile_program(): a few layers of a network as one kernel, on the tensor cores, in f16. No CUDA header is needed to
// include this one.
//
// Each block makes one tile of the last layer. What the layers before must deliver for that tile, its border included,
// the block makes in shared memory.
//
// A program is a list of stages. Stages that do not read each other's results form a phase: their units of work are
// spread over all warps, and a barrier stands only where a phase begins. Shared memory holds the stages, then the
// weights and biases of all stages, then the images between the stages. Stages and weights lie in global memory in the
// same order, so a block fetches them as one piece while the kernel in front still runs.
//
// Threads: as infer/cuda/kernels/launch.hpp says; the rest are plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/kernels/divider.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"
#include "infer/tensor.hpp"

namespace camd::infer::cuda {

enum class TileStageKind : std::uint8_t {
  kLoad,    // copies part of an image, or of the sum of two, from global to shared memory; zeros outside of it
  kDense,   // 1x1 or 3x3 convolution over all channels
  kPlanes,  // writes an image in shared memory to the network's outputs
};

// A unit of work: how many groups of 16 pixels and of 16 output channels a warp makes at a time.
inline constexpr int kTileUnits[][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};
inline constexpr int kTileUnitCount = 4;

struct alignas(16) TileStage {
  TileStageKind kind = TileStageKind::kLoad;
  bool barrier = false;           // the block's threads wait for each other before this stage
  bool activation_first = false;  // kDense: the activation comes before the sum with `add_at`
  bool special = false;           // `activation` is not bounds_only()
  std::uint8_t kernel = 1, stride = 1;
  std::uint8_t unit = 0;  // kDense: index into kTileUnits
  // Pixels. Block (by, bx) makes `h` rows from by * step_y - back_y on; columns likewise. Those outside of the image
  // are zeros for later stages. Of the rows only by * step_y to (by + 1) * step_y - 1 reach global memory; columns
  // likewise.
  std::int16_t step_y = 0, step_x = 0, back_y = 0, back_x = 0, h = 0, w = 0;
  int image_h = 0, image_w = 0;
  Divider by_w;  // by `w`; kPlanes: by the runs of kPlaneRun pixels in a row
  // The source in shared memory, in bytes: where the first channel of tap (0, 0) of pixel (0, 0) lies, and the
  // distances of pixels and rows.
  int from = 0, from_pixel = 0, from_row = 0;
  // kLoad: 16-byte words of a pixel. kDense: steps of 16 channels for each tap. kPlanes: groups of 8 channels.
  int depth = 0;
  Divider by_depth;
  int units = 0;                    // units of work; a warp makes one at a time
  Divider by_columns;               // kDense: units side by side
  int n16 = 0;                      // kDense: groups of 16 output channels of this block
  int n16_total = 0;                // kDense: groups of 16 output channels of the layer
  int weights_at = 0, bias_at = 0;  // in shared memory: packed (packing.hpp), [16 * n16]
  int to = -1, to_pixel = 0;        // destination in shared memory, -1: none
  int to_row = 0;                   // bytes from a row to the next
  int planes_at = 0;                // kPlanes: in shared memory, kPlaneBytes a channel
  int stored = 0;                   // channels that go there, a multiple of 4
  int add_at = -1, add_pixel = 0;   // kDense: an image in shared memory to add, with the stage's own pixels
  Activation activation;
  float low = 0, high = 0;  // the bounds of `activation`; may be infinite
  // The image in global memory that is read or written: elements from one pixel to the next, and its channels, a
  // multiple of 8. kPlanes: `channels` are those of all outputs.
  int pitch = 0, channels = 0;
  int source_h = 0, source_w = 0;                 // kLoad: size of the image that is read
  int added_pitch = 0, added_h = 0, added_w = 0;  // kLoad: of the image that is added, enlarged to this one
};

// One output: some of the channels that kPlanes reads, as [channels][h * w] in global memory.
struct PlaneSink {
  void* data = nullptr;
  int first = 0;  // first output channel
  int channels = 0;
  int pitch = 0;  // elements from a channel to the next, h * w at least
  Activation activation;
};

inline constexpr int kPlaneRun = 8;     // neighbouring pixels that a lane writes; a tile's width is a multiple of it
inline constexpr int kPlaneBytes = 32;  // of shared memory for each channel of the outputs
inline constexpr int kMaxTileStages = 16;
inline constexpr int kMaxPlaneSinks = 4;
inline constexpr int kMaxTileThreads = 512;

struct TileProgramArguments {
  // [columns][program_bytes]: for each block of a tile its stages, then their weights and biases.
  const void* program = nullptr;
  int program_bytes = 0;
  int stage_count = 0;
  int threads = 256;  // a power of two
  int tiles_y = 1, tiles_x = 1;
  int columns = 1;  // blocks that share a tile: each makes n16 of the n16_total groups of stage `split_stage`
  int split_stage = -1;
  int shared_bytes = 0;
  bool special = false;                  // the activation of some stage is not bounds_only()
  DataType plane_type = DataType::kF32;  // of the sinks: f32 or f16
  bool planes_aligned = true;            // every sink's channels begin at multiples of 8 elements
  int sink_count = 0;
  PlaneSink sinks[kMaxPlaneSinks];
  // For each stage the images in global memory that kLoad reads, that it adds, and that kDense writes; or null.
  const void* read[kMaxTileStages] = {};
  const void* added[kMaxTileStages] = {};
  void* written[kMaxTileStages] = {};
};
int tile_program(const TileProgramArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
