// How a group of layers becomes a tile program: which pixels each layer makes, where they lie in shared memory, how the
// work is cut, and what that is estimated to cost. Knows no graph and no memory: the planner fills in addresses.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "infer/cuda/tile_program.hpp"

namespace camd::infer::cuda {

// An image that layers of the group read or make.
struct TileImage {
  int h = 0, w = 0, c = 0;
  bool stored = false;  // it reaches global memory
  bool sum = false;     // loaded from two images
};

struct TileLayer {
  int from = 0, to = 0;   // images
  int first_channel = 0;  // of `to`, a multiple of 16
  int channels = 0;       // that it makes
  int kernel = 1, stride = 1;
  int pad_top = 0, pad_left = 0;
  bool planes = false;  // what it makes goes to the network's outputs and nowhere else
  int add = -1;         // image to add to the results, of the size of `to`; read by nothing else
};

// Channels of an image that are loaded where layers make others.
struct TilePart {
  int image = 0;
  int first_channel = 0, channels = 0;  // multiples of 16
};

// Layers are in execution order; the last one makes an image of the tile's own size. Images that no layer makes are
// loaded.
struct TileGroup {
  std::vector<TileImage> images;
  std::vector<TileLayer> layers;
  std::vector<TilePart> parts;
};

struct TileLayout {
  TileProgramArguments program;  // without addresses
  std::vector<TileStage> stages;
  std::vector<int> stage_image;  // of each stage: the image that it loads, or -1
  std::vector<int> stage_part;   // of each stage: the part that it loads, or -1
  std::vector<int> stage_layer;  // of each stage: its layer (kPlanes: the layer whose results it writes), or -1
  // Estimated for one H200, in cycles: how long it takes alone, and for how long it would keep the whole GPU busy.
  double cycles = 0, work = 0;
};

// Others can use what a kernel leaves of the GPU: so much does work count beside time.
inline constexpr double kShareOfWork = 0.5;

// The cheapest layout, time and work together, or none: nothing fits, or the layers' pixels do not belong together.
[[nodiscard]] std::optional<TileLayout> lay_out(const TileGroup& group, std::size_t shared_bytes);

}  // namespace camd::infer::cuda
