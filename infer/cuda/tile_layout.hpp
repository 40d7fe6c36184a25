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

// Layers are in execution order; the last one makes an image of the tile's own size. Images that no layer makes are
// loaded.
struct TileGroup {
  std::vector<TileImage> images;
  std::vector<TileLayer> layers;
};

struct TileLayout {
  TileProgramArguments program;  // without addresses
  std::vector<int> stage_image;  // of each stage: the image that it loads, or -1
  std::vector<int> stage_layer;  // of each stage: its layer (kPlanes: the layer whose results it writes), or -1
  double cycles = 0;             // estimated, alone on one H200
};

// The cheapest layout, or none: nothing fits, or the layers' pixels do not belong together.
[[nodiscard]] std::optional<TileLayout> lay_out(const TileGroup& group, std::size_t shared_bytes);

}  // namespace camd::infer::cuda
