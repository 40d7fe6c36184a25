// lay_out(): how a group of layers becomes a tile program. It decides which pixels of each layer a block makes, where
// they lie in shared memory and how the work is divided, and estimates the cost. It knows no graph and no global
// memory: the planner fills in addresses.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infer/cuda/kernels/tile_program.hpp"

namespace camd::infer::cuda {

// An image that a layer of the group reads or makes.
struct TileImage {
  int h = 0, w = 0, c = 0;
  bool stored = false;  // it reaches global memory
  bool sum = false;     // it is loaded as the sum of two images
};

struct TileLayer {
  int from = 0, to = 0;   // images
  int first_channel = 0;  // of `to`, a multiple of 16
  int channels = 0;       // that the layer makes
  int kernel = 1, stride = 1;
  int pad_top = 0, pad_left = 0;
  bool planes = false;  // its results are outputs of the network, and nothing else reads them
  int add = -1;         // an image that is added to the results; as large as `to`, and read by nothing else
};

// Channels of an image that are loaded, while layers make its other channels.
struct TilePart {
  int image = 0;
  int first_channel = 0, channels = 0;  // multiples of 16
};

// Layers are in the order in which they run. The last one makes an image in which a block's region is the tile itself.
// Images that no layer makes are loaded.
struct TileGroup {
  std::vector<TileImage> images;
  std::vector<TileLayer> layers;
  std::vector<TilePart> parts;
};

struct TileLayout {
  TileProgramArguments program;  // without addresses
  std::vector<TileStage> stages;
  std::vector<int> stage_image;  // for each stage the image that it loads, or -1
  std::vector<int> stage_part;   // for each stage the part that it loads, or -1
  std::vector<int> stage_layer;  // for each stage its layer (kPlanes: the layer whose results it writes), or -1
  // Estimated for a network on one H200: how many cycles it takes, and for how many it would keep the whole GPU busy.
  double cycles = 0, work = 0;
  double cost = 0;  // by which it was chosen
};

// What a layout is for. kGrouping: which groups a network has is decided by what kernels take beside each other.
// kRunning: a group of the longest chain gets the layout that takes the least time by itself.
enum class LayoutFor : std::uint8_t { kGrouping, kRunning };
// The cheapest layout, by its cycles and a share of its work. None where nothing fits, or where tiles of the images do
// not correspond. `shared_bytes`: what a block may have. `share_of_work`: the weight of `work` beside `cycles`, for
// kGrouping, as other kernels can use what this one leaves of the GPU (PlanOptions::share_of_work).
[[nodiscard]] std::optional<TileLayout> lay_out(const TileGroup& group, std::size_t shared_bytes,
                                                LayoutFor purpose = LayoutFor::kRunning, double share_of_work = 1);

}  // namespace camd::infer::cuda
