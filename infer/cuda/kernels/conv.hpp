// conv(): a dense convolution on the tensor cores, in f16. No CUDA header is needed to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include "infer/cuda/kernels/image.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// Where a range of a convolution's output channels goes. Ranges begin at multiples of 16.
struct Sink {
  void* data = nullptr;
  int pitch = 0;
  int first = 0;   // the first output channel that goes here
  int stored = 0;  // channels to store, a multiple of 8
  Activation activation;
};
inline constexpr int kMaxSinks = 4;

// What a block makes, and how it goes through its input.
struct ConvShape {
  int tile = -1;        // index into kConvTiles; behind them, those of kWarpgroupTiles
  int ty = 0, tx = 0;   // its pixels; no more than the tile's
  int slice_steps = 0;  // the input arrives in slices of so many steps of 16 channels
  int stages = 0;       // slices that shared memory holds at a time
};

// 1x1 or 3x3, stride 1 or 2, dilation 1, for layers whose weights are more than a tile program can keep. Where `add`
// has data, its element at (y * add.h / h, x * add.w / w) is added before or after the activation; then there is one
// sink.
struct ConvArguments {
  Image x;                        // f16
  const void* weights = nullptr;  // packed, taps outermost
  const float* bias = nullptr;    // [n16]
  int kernel = 3;
  int stride = 1;
  int pad_top = 1, pad_left = 1;
  int h = 0, w = 0;  // of the output
  int n = 0;         // output channels, multiple of 16
  int sink_count = 0;
  Sink sinks[kMaxSinks];
  Image add;
  bool activation_first = false;
  ConvShape shape;
};
// Calls warpgroup_conv() where the shape is one of its.
int conv(const ConvArguments& arguments, const LaunchContext& context);
// The same by products of warpgroups, for a shape of kWarpgroupTiles. All sinks have the same activation. Weights are
// packed by pack_warpgroup_taps(). Only on GPUs of compute capability 9.0, and in builds for sm_90a.
int warpgroup_conv(const ConvArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
