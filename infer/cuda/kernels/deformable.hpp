// deformable_attention(): a weighted sum of places between the pixels of several images, as one kernel. No CUDA header
// is needed to include this one.
//
// Source: Zhu et al., "Deformable DETR" (2021), equation 3, as exporters write it: a GridSample for each level.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/launch.hpp"

namespace camd::infer::cuda {

struct DeformableLevel {
  Strided x;     // [heads, channels, height, width]
  Strided grid;  // [heads, queries, points, 2]: (x, y) from -1 to 1, as GridSample's
  int height = 1, width = 1, points = 0;
};
inline constexpr int kMostDeformableLevels = 5;

// y[head, channel, query] = the sum over the points of all levels, one level after the other, of the place's value
// times weights[head, query, point]. Places between pixels are linear, those outside are 0.
struct DeformableArguments {
  DeformableLevel levels[kMostDeformableLevels];
  Strided weights;  // [heads, queries, points of all levels]
  Strided y;        // [heads, channels, queries]
  int level_count = 0;
  int heads = 1, channels = 1, queries = 1;
  bool softmax = false;  // the weights are those after a Softmax over the points
  bool align_corners = false;
};
int deformable_attention(const DeformableArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
