// move(): copies between tensors of any layout, by themselves or several in one kernel. No CUDA header is needed to
// include this one.
//
// Threads: as infer/cuda/kernels/launch.hpp says.
#pragma once

#include <cstdint>

#include "infer/cuda/kernels/generic_tensor.hpp"
#include "infer/cuda/kernels/launch.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// y[i0, i1, ..] = activation(x[p0, p1, ..]) with p = start + i * step, or p = table[i] along `table_axis`. `pad_mode`
// says what is read where p lies outside of [0, size). This one kernel copies, changes layout and type, transposes,
// slices, gathers, pads and applies functions of one argument.
struct MoveArguments {
  Strided x, y;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};  // of y
  std::int64_t start[kMaxRank] = {};
  std::int64_t step[kMaxRank] = {};
  std::int64_t size[kMaxRank] = {};  // of x, in y's order of dimensions
  int table_axis = -1;
  const std::int64_t* table = nullptr;
  Pad::Mode pad_mode = Pad::Mode::kConstant;
  float pad_value = 0.0F;
  Activation activation;
};
int move(const MoveArguments& arguments, const LaunchContext& context);

// Moves none of which reads what another one writes: one kernel starts once and waits once for all of them.
inline constexpr int kMostMoves = 8;
struct MovesArguments {
  int count = 0;
  MoveArguments moves[kMostMoves];
};
int moves(const MovesArguments& arguments, const LaunchContext& context);

}  // namespace camd::infer::cuda
