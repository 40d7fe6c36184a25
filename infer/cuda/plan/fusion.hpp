// find_fusions(): which operators of a graph share a kernel. Private to the planner.
//
// Threads: a function of its arguments, [any].
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "infer/cuda/plan/bottlenecks.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/cuda/plan/tile_layout.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// The value that a convolution adds to its sums, or kNoValue.
[[nodiscard]] inline ValueId residual_of(const Op& op) noexcept {
  return op.inputs.size() > 3 ? op.inputs[3] : kNoValue;
}

// Operators that one tile program computes. An op is named by its index in Graph::ops.
struct TileProgramPlan {
  std::vector<int> ops;  // ascending, absorbed ones included
  TileGroup group;
  std::vector<ValueId> image_values;        // the value of each of the group's images
  std::vector<ValueId> part_values;         // the value of each of the group's parts
  std::vector<ValueId> image_sums;          // for each image what is added, enlarged, when it is loaded, or kNoValue
  std::vector<std::vector<int>> layer_ops;  // the convolutions of each layer; heads are several in one layer
  TileLayout layout;
};

// softmax(scale * q k^T + bias) v. Each of the values keeps the layout that its operator has.
struct Attention {
  int scores = -1;  // the MatMul of q and k
  ValueId bias = kNoValue;
  float scale = 1.0F;
  bool v_first = false;  // the second MatMul is v times the transposed probabilities
};

// (v - mean) / sqrt(variance + epsilon) * gain + offset along one axis, with v = sum_activation(x + added).
struct LayerNorm {
  ValueId x = kNoValue;
  ValueId added = kNoValue;
  Activation sum_activation;
  int axis = 0;
  float epsilon = 0.0F;
  ValueId gain = kNoValue, offset = kNoValue;
};

// The sum over the points of all levels of a place's value times its weight.
struct Deformable {
  std::vector<int> samples;  // GridSamples, one for each level
  bool align_corners = false;
  ValueId weights = kNoValue;  // [heads, 1, queries, points]
  int softmax = -1;            // the Softmax over the points that makes them, or -1
  std::vector<int> movements;  // Reshapes and Transposes between the Softmax and the weights
};

// Max pools whose windows lie around the same pixels of one value, the smallest first.
struct MaxPools {
  ValueId x = kNoValue;
  std::vector<int> ops;
  std::vector<int> radius;
};

// A depthwise convolution that adds the pixels of what it makes, and perhaps of what it reads, for the average pool of
// `image`. The image is its result, or a Concat.
struct PixelSums {
  ValueId image = kNoValue;
  int y_first = 0;   // channel of the image at which the convolution's result begins
  int x_first = -1;  // the same of what it reads; -1: that is no part of the image
};

// An op is named by its index in Graph::ops.
struct Fusion {
  [[nodiscard]] bool in_f32(int op) const { return !f32_ops.empty() && f32_ops[static_cast<std::size_t>(op)]; }

  std::vector<bool> f32_ops;                // for each op, or empty: computed in f32, whatever the plan's type
  int stem = -1;                            // the convolution that reads the picture
  int stem_block = -1;                      // the pointwise op of the block that shares the stem's kernel
  std::map<int, int> depthwise_of;          // pointwise op -> its depthwise op
  std::map<int, Bottleneck> bottlenecks;    // pointwise op -> the convolutions that end with it; depthwise_of has it
  std::map<int, int> expectation_of;        // product to one channel -> the Softmax that it weighs
  std::map<int, MaxPools> max_pools;        // first op -> all pools of its max_pools(), itself included
  std::map<int, Attention> attention_of;    // MatMul of the probabilities and v -> what is in front of it
  std::map<int, LayerNorm> layer_norm_of;   // its last operator -> what is in front of it
  std::map<int, Deformable> deformable_of;  // the Reduce that sums -> what is in front of it
  std::map<int, std::pair<int, int>>
      squeeze_of;                       // 1x1 convolution of one pixel -> the average pool and the one between
  std::map<int, int> excited_by;        // product of the pool's image and that pixel -> the convolution
  std::map<int, PixelSums> pixel_sums;  // depthwise convolution -> what it adds for a squeeze; all parts of that image
  // Results of Binary and Unary, each with its op: those that read one compute it in their own kernels.
  std::map<ValueId, int> computed_where_read;
  std::set<ValueId> halves;  // row-major values that are f16, because kernels read them as images or by pieces
  std::set<int> absorbed;    // ops that the kernel of another op computes
  std::set<ValueId> pairs;   // images of pairs of f16 (SeparableArguments)
  std::map<int, std::vector<int>> siblings;     // first op -> all convolutions of its conv(), itself included
  std::map<int, std::vector<int>> head_groups;  // first op -> 1x1 convolutions of one input that make network outputs
  std::map<int, int> head_of;                   // each of them -> the first
  std::map<int, ValueId> flattened_heads;       // heads, each a group alone -> the flattened value that they make
  std::set<int> enlargements;                   // Resizes that a program may do while it loads part of a Concat
  std::map<int, ValueId> enlarged_residual;     // convolution -> the small image that is enlarged to its residual
  // Sum -> the two values that it adds; the second is enlarged to the first, or as large. The sum is computed where it
  // is read.
  std::map<ValueId, std::pair<ValueId, ValueId>> sums;
  // Sum of two images -> the Resize that makes one of them for it alone, and the other one.
  std::map<int, std::pair<int, ValueId>> resized_sums;
  std::vector<TileProgramPlan> programs;
  std::map<int, int> program_at;  // op at which a program is run -> the program's index
  std::vector<int> order;         // the order in which ops are computed; empty: the graph's
};

// `graph` may be changed: activations move from behind a Concat to in front of it.
[[nodiscard]] Fusion find_fusions(Graph& graph, const PlanOptions& options);

// Sizes and shape of the kernel that computes these dense convolutions, which read the same and differ in their weights
// and outputs only. The shape's tile is -1 when none fits.
[[nodiscard]] ConvArguments conv_sizes(const Graph& graph, const std::vector<int>& ops, const PlanOptions& options);

}  // namespace camd::infer::cuda
