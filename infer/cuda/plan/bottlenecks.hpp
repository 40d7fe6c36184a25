// describe_bottleneck(): what bottleneck() needs to know of three convolutions behind each other. Private to the
// planner.
//
// Threads: functions of their arguments, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "infer/cuda/kernels/bottleneck.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// A 1x1 convolution in front of a depthwise one and the 1x1 behind it. An op is named by its index in Graph::ops.
struct Bottleneck {
  int front = -1, point = -1;
  int kept = -1;                     // a Gather of what the front reads, whose result is joined with the block's; or -1
  std::vector<std::uint16_t> table;  // BottleneckArguments::table
  BottleneckArguments sizes;         // without addresses
};

struct Fusion;

// What find_fusions() knows of an op.
struct ConvolutionKinds {
  std::function<bool(int op)> pointwise;        // a 1x1 convolution of all pixels that makes no output of the network
  std::function<int(int op)> depthwise_before;  // the depthwise 3x3 convolution that it alone reads, or -1
  std::function<bool(int op)> in_f32;
};

// Adds to Fusion::bottlenecks, depthwise_of and absorbed where one kernel fits `shared_bytes` and pays. Slices of
// channels that a kernel copies become Gathers.
void find_bottlenecks(Graph& graph, std::size_t shared_bytes, const ConvolutionKinds& kinds, Fusion& fusion);

}  // namespace camd::infer::cuda
