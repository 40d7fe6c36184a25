// Which places of a grid have a score worth a look, and their values, written straight into memory of the host.
//
// A block looks at 256 places. Those that pass gather in shared memory, and the block takes room for them in the grid's
// list. Few pass as a rule: then all threads share their values, so that all of these are on their way at once. Where
// many do, each thread writes those of its own place: neighbours write side by side, which the bus carries as one.
#include "infer/cuda/kernels/filter.hpp"

#include "infer/cuda/kernels/launch.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = kFilterThreads;
constexpr int kMany = kThreads / 8;

struct FilterMemory {
  int count;
  int base;
  int last;
  int unused;
  int places[kThreads];
};

struct Place {
  int cell, anchor;
};
CAMD_DEVICE Place place_of(const FilterGrid& grid, int place) {
  const int cell = divide(place, grid.by_anchors);
  return {cell, place - cell * grid.anchors};
}
CAMD_DEVICE int first_of(const FilterSteps& steps, const Place& place) {
  return place.cell * steps.cell_step + place.anchor * steps.anchor_step;
}

CAMD_DEVICE bool passes(const FilterGrid& grid, const Place& place) {
  const float* const scores = grid.scores + first_of(grid.steps, place);
  int passed = 0;  // no `||`: each load would wait for the one before
#pragma unroll 16
  for (int c = 0; c < grid.steps.channels; ++c) {
    passed |= static_cast<int>(scores[c * grid.steps.channel_step] >= grid.floor);
  }
  return passed != 0;
}

CAMD_DEVICE void write(const FilterValues& values, const Place& place, int channel) {
  const int at = first_of(values.steps, place) + channel * values.steps.channel_step;
  values.to[at] = values.from[at];
}

CAMD_KERNEL(kThreads, 1)
filter_kernel(CAMD_GRID_CONSTANT const FilterArguments p) {
  CAMD_SHARED(memory);
  auto* const s = reinterpret_cast<FilterMemory*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const int block = static_cast<int>(blockIdx.x);
  int g = 0;
  while (g + 1 < p.count && block >= p.grids[g + 1].first_block) ++g;
  const FilterGrid& grid = p.grids[g];
  if (thread == 0) s->count = 0;
  block_sync();
  wait_for_previous_kernel();
  let_next_kernel_start();

  const int own = (block - grid.first_block) * kThreads + thread;
  const Place own_place = place_of(grid, own < grid.places ? own : 0);
  const bool passed = own < grid.places && passes(grid, own_place);
  if (passed) s->places[count_up(&s->count, 1)] = own;
  block_sync();
  const int count = s->count;
  if (thread == 0 && count != 0) s->base = count_up(&p.counters[g], count);
  block_sync();
  if (thread < count) grid.passed[1 + s->base + thread] = s->places[thread];
  if (count >= kMany) {
    for (int v = 0; v < grid.value_count && passed; ++v) {
      for (int c = 0; c < grid.values[v].steps.channels; ++c) write(grid.values[v], own_place, c);
    }
  } else {
    for (int i = thread; i < count * grid.channels; i += kThreads) {
      const Place place = place_of(grid, s->places[i / grid.channels]);
      int c = i % grid.channels, v = 0;
      for (; c >= grid.values[v].steps.channels; ++v) c -= grid.values[v].steps.channels;
      write(grid.values[v], place, c);
    }
  }

  // The last block of all tells how many there are, and leaves the counters as they were.
  if (thread == 0) {
    device_fence();
    s->last = count_up(&p.counters[kMostFilters], 1) == p.blocks - 1 ? 1 : 0;
  }
  block_sync();
  if (s->last == 0) return;
  device_fence();
  if (thread < p.count) p.grids[thread].passed[0] = count_up(&p.counters[thread], 0);
  block_sync();
  if (thread <= kMostFilters) p.counters[thread] = 0;
}

}  // namespace

int filter(const FilterArguments& p, const LaunchContext& context) {
  return launch(filter_kernel, dim3(static_cast<unsigned>(p.blocks), 1, 1), kThreads, sizeof(FilterMemory), context, p);
}

}  // namespace camd::infer::cuda
