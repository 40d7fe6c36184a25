// Copies between tensors of any layout: a thread for each element of y, or for each eight where they lie side by side.
#include "infer/cuda/kernels/move.hpp"

#include "infer/cuda/kernels/activation.cuh"
#include "infer/cuda/kernels/eight.cuh"
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/strided.cuh"

namespace camd::infer::cuda {
namespace {

constexpr int kThreads = kStridedThreads;

// What a kernel of several moves needs of each besides its arguments.
struct Together {
  MovesArguments all;
  unsigned blocks[kMostMoves] = {};  // of each move
  bool eights[kMostMoves] = {};      // by eights; then the last of `shape` counts them
};

CAMD_DEVICE_CALL std::int64_t quotient(std::int64_t value, std::int64_t by) { return value / by; }

// Where a thread's element of y, or the first of its eight, lies in x and in y.
struct Places {
  std::int64_t from = 0, to = 0;
  bool outside = false;  // of x
};
// `block`: of those that make this move. False beyond the last element. Indices are used as they are found: an array of
// them would lie in memory.
CAMD_DEVICE bool places_of(const MoveArguments& p, unsigned block, int elements, Places& found) {
  std::int64_t rest = static_cast<std::int64_t>(block) * kThreads + static_cast<std::int64_t>(threadIdx.x);
#pragma unroll
  for (int d = kMaxRank - 1; d >= 0; --d) {
    if (d >= p.rank) continue;
    const std::int64_t size = p.shape[d];
    // A division of 64 bits takes many times as long.
    const bool small = rest <= 0x7FFFFFFF && size <= 0x7FFFFFFF;
    const std::int64_t next = small ? static_cast<unsigned>(rest) / static_cast<unsigned>(size) : quotient(rest, size);
    const std::int64_t index = (rest - next * size) * (d == p.rank - 1 ? elements : 1);
    rest = next;
    found.to += index * p.y.strides[d];
    std::int64_t i = d == p.table_axis ? p.table[index] : p.start[d] + index * p.step[d];
    if (i < 0 || i >= p.size[d]) {
      if (p.pad_mode == Pad::Mode::kReflect)
        i = i < 0 ? -i : 2 * (p.size[d] - 1) - i;
      else if (p.pad_mode == Pad::Mode::kEdge)
        i = i < 0 ? 0 : p.size[d] - 1;
      else
        found.outside = true;
    }
    found.from += i * p.x.strides[d];
  }
  return rest == 0;
}

// Each finds its places before the kernel in front has ended.
CAMD_DEVICE void move_one(const MoveArguments& p, unsigned block) {
  Places at;
  const bool inside = places_of(p, block, 1, at);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (!inside) return;
  store(p.y, at.to, activate_any(p.activation, at.outside ? p.pad_value : load(p.x, at.from)));
}
// Eight elements of y side by side, which lie so in x too.
CAMD_DEVICE void move_eight(const MoveArguments& p, unsigned block) {
  Places at;
  const bool inside = places_of(p, block, 8, at);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (!inside) return;
  float v[8];
#pragma unroll
  for (float& one : v) one = p.pad_value;
  if (!at.outside) load_eight(v, p.x, at.from);
  activate_each(p.activation, v);
  store_eight(p.y, at.to, v);
}

CAMD_KERNEL(kThreads, 1) move_kernel(CAMD_GRID_CONSTANT const MoveArguments p) { move_one(p, blockIdx.x); }
CAMD_KERNEL(kThreads, 1) move_eights_kernel(CAMD_GRID_CONSTANT const MoveArguments p) { move_eight(p, blockIdx.x); }
CAMD_KERNEL(kThreads, 1) moves_kernel(CAMD_GRID_CONSTANT const Together p) {
  unsigned block = blockIdx.x;
  int which = 0;
  while (which + 1 < p.all.count && block >= p.blocks[which]) block -= p.blocks[which++];
  if (p.eights[which])
    move_eight(p.all.moves[which], block);
  else
    move_one(p.all.moves[which], block);
}

bool takes_eights(const MoveArguments& p) {
  const int last = p.rank - 1;
  if (p.rank < 1 || p.table_axis == last || p.shape[last] % 8 != 0 || p.start[last] % 8 != 0 || p.step[last] != 1)
    return false;
  return p.start[last] >= 0 && p.start[last] + p.shape[last] <= p.size[last] &&
         by_eights(p.x, p.size, p.rank, last, p.x.strides[last]) &&
         by_eights(p.y, p.shape, p.rank, last, p.y.strides[last]);
}

}  // namespace

int move(const MoveArguments& p, const LaunchContext& context) {
  if (takes_eights(p)) {
    MoveArguments eights = p;
    eights.shape[p.rank - 1] /= 8;
    return launch(move_eights_kernel, blocks_for(count_of(eights.shape, p.rank)), kThreads, 0, context, eights);
  }
  return launch(move_kernel, blocks_for(count_of(p.shape, p.rank)), kThreads, 0, context, p);
}

int moves(const MovesArguments& p, const LaunchContext& context) {
  Together together{p};
  unsigned blocks = 0;
  for (int i = 0; i < p.count; ++i) {
    MoveArguments& one = together.all.moves[i];
    together.eights[i] = takes_eights(one);
    if (together.eights[i]) one.shape[one.rank - 1] /= 8;
    together.blocks[i] = blocks_for(count_of(one.shape, one.rank)).x;
    blocks += together.blocks[i];
  }
  return launch(moves_kernel, dim3(blocks, 1, 1), kThreads, 0, context, together);
}

}  // namespace camd::infer::cuda
