// The kernel behind a network that brings to the host what passes a filter (infer/filter.hpp). No CUDA header is needed
// to include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/divider.hpp"
#include "infer/cuda/kernels/launch.hpp"

namespace camd::infer::cuda {

inline constexpr int kMostFilters = 8;  // of one kernel
inline constexpr int kMostFilterValues = 6;

// The value of cell, anchor and channel is at cell * cell_step + anchor * anchor_step + channel * channel_step.
struct FilterSteps {
  int cell_step = 0, anchor_step = 0, channel_step = 0;
  int channels = 0;
};

struct FilterValues {
  const float* from = nullptr;  // of the first value
  float* to = nullptr;          // the same value's place in memory of the host
  FilterSteps steps;
};

struct FilterGrid {
  int places = 0;
  Divider by_anchors;
  int anchors = 1;
  int first_block = 0;  // of the kernel's blocks
  float floor = 0.0F;
  const float* scores = nullptr;  // of the first place
  FilterSteps steps;
  int value_count = 0;
  int channels = 0;  // of all values together
  FilterValues values[kMostFilterValues];
  std::int32_t* passed = nullptr;  // in memory of the host: how many, then the places
};

struct FilterArguments {
  int count = 0;
  int blocks = 0;
  int* counters = nullptr;  // [kMostFilters + 1], all 0 before the kernel and behind it
  FilterGrid grids[kMostFilters];
};
inline constexpr int kFilterThreads = 256;  // places of a block
int filter(const FilterArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
