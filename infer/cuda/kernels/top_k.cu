// TopK in two ways. In short lines each element counts how many go before it. In long lines a block finds the last
// element that is chosen, digit by digit of its rank, then collects those that go before it and puts them in order.
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/selection.hpp"
#include "infer/cuda/kernels/strided.cuh"
#include "infer/graph/selection_math.hpp"

#include <cstring>

namespace camd::infer::cuda {
namespace {

using selection::goes_before;
using selection::rank_key;

constexpr int kThreads = kStridedThreads;

CAMD_KERNEL(kThreads, 1) count_before_kernel(const TopKArguments p) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const std::int64_t t = static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
  if (t >= p.outer * p.size * p.inner) return;
  // Neighbouring threads take neighbouring positions of one line.
  const std::int64_t own = t % p.size, line = t / p.size;
  const std::int64_t outer = line / p.inner, inner = line % p.inner;
  const float* const x = p.x + outer * p.size * p.inner + inner;
  const float key = rank_key(x[own * p.inner], p.operation.largest);
  std::int64_t rank = 0;
  for (std::int64_t i = 0; i < p.size; ++i) {
    rank += goes_before(rank_key(x[i * p.inner], p.operation.largest), i, key, own) ? 1 : 0;
  }
  if (rank < p.operation.count) {
    p.y[(outer * p.operation.count + rank) * p.inner + inner] = static_cast<float>(own);
  }
}

// goes_before() as an order of whole numbers, the first one the largest: the key's bits in their order, then the
// position, negated. No two elements of a line have the same.
CAMD_DEVICE unsigned long long ordered(float value, bool largest, unsigned position) {
  float key = rank_key(value, largest);
  if (key == 0.0F) key = 0.0F;  // -0 is as large as 0
  unsigned bits = 0;
  memcpy(&bits, &key, sizeof(bits));
  bits = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<unsigned long long>(bits) << 32 | (0xFFFFFFFFU - position);
}

constexpr int kChooseThreads = 1024;
constexpr int kBins = 256;  // of a digit

struct ChooseMemory {
  unsigned long long chosen[kMostChosen];
  int ranks[kMostChosen];
  int counts[kBins];  // of elements with this digit, then with this one or a higher one
  int collected, digit, above;
};

// A block for each line. kKept: elements that each thread keeps in registers; 0: they are read again for each digit.
template <int kKept>
CAMD_KERNEL(kChooseThreads, 1)
choose_kernel(const TopKArguments p) {
  CAMD_SHARED(memory);
  ChooseMemory& m = *reinterpret_cast<ChooseMemory*>(memory);
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  const auto outer = static_cast<std::int64_t>(blockIdx.x) / p.inner;
  const auto inner = static_cast<std::int64_t>(blockIdx.x) % p.inner;
  const float* const x = p.x + outer * p.size * p.inner + inner;
  const int size = static_cast<int>(p.size), count = static_cast<int>(p.operation.count);
  const auto element = [&](int i) { return ordered(x[i * p.inner], p.operation.largest, static_cast<unsigned>(i)); };
  // 0, which no element has, stands for none.
  unsigned long long kept[kKept > 0 ? kKept : 1];
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int i = k * kChooseThreads + thread;
    kept[k] = i < size ? element(i) : 0;
  }
  // Calls use(element or 0) for each of this thread's; all threads take part in each call.
  const auto each = [&](const auto& use) {
    if constexpr (kKept > 0) {
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
        if (k * kChooseThreads < size) use(kept[k]);
      }
    } else {
      for (int base = 0; base < size; base += kChooseThreads) use(base + thread < size ? element(base + thread) : 0);
    }
  };

  // The last chosen element's digits, the highest first. `wanted` elements with the digits so far are still to choose.
  unsigned long long least = 0;
  int wanted = count;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (thread < kBins) m.counts[thread] = 0;
    block_sync();
    each([&](unsigned long long e) {
      const bool same = shift == 56 || (e ^ least) >> (shift + 8) == 0;
      count_in(m.counts, e != 0 && same ? static_cast<int>(e >> shift & 0xFFU) : -1);
    });
    block_sync();
    for (int step = 1; step < kBins; step *= 2) {
      const int higher = thread + step < kBins ? m.counts[thread + step] : 0;
      block_sync();
      if (thread < kBins) m.counts[thread] += higher;
      block_sync();
    }
    if (thread < kBins) {
      const int higher = thread + 1 < kBins ? m.counts[thread + 1] : 0;
      if (m.counts[thread] >= wanted && higher < wanted) {
        m.digit = thread;
        m.above = higher;
      }
    }
    block_sync();
    const int digit = m.digit, all = m.counts[digit] - m.above;
    wanted -= m.above;
    least |= static_cast<unsigned long long>(digit) << shift;
    block_sync();
    if (all == wanted) break;  // all with these digits are chosen
  }

  if (thread == 0) m.collected = 0;
  block_sync();
  each([&](unsigned long long e) {
    if (e != 0 && e >= least) m.chosen[count_up(&m.collected)] = e;
  });
  block_sync();
  // Several threads share an element: each counts some of those that go before it.
  for (int own = thread; own < count; own += kChooseThreads) m.ranks[own] = 0;
  block_sync();
  const int parts = count < kChooseThreads ? kChooseThreads / count : 1, share = (count + parts - 1) / parts;
  for (int t = thread; t < count * parts; t += kChooseThreads) {
    const int own = t % count, first = t / count * share, end = min(first + share, count);
    const unsigned long long e = m.chosen[own];
    int rank = 0;
#pragma unroll 4
    for (int i = first; i < end; ++i) rank += m.chosen[i] > e ? 1 : 0;
    add_to(&m.ranks[own], rank);
  }
  block_sync();
  for (int own = thread; own < count; own += kChooseThreads) {
    const unsigned position = 0xFFFFFFFFU - static_cast<unsigned>(m.chosen[own] & 0xFFFFFFFFU);
    p.y[(outer * count + m.ranks[own]) * p.inner + inner] = static_cast<float>(position);
  }
}

}  // namespace

int top_k(const TopKArguments& p, const LaunchContext& context) {
  constexpr std::int64_t kShortLine = 1024, kMostPositions = std::int64_t{1} << 30;
  if (p.size > kShortLine && p.size < kMostPositions && p.operation.count <= kMostChosen) {
    const dim3 grid(static_cast<unsigned>(p.outer * p.inner), 1, 1);
    constexpr int kKept = 12;
    if (p.size <= kKept * kChooseThreads)
      return launch(choose_kernel<kKept>, grid, kChooseThreads, sizeof(ChooseMemory), context, p);
    return launch(choose_kernel<0>, grid, kChooseThreads, sizeof(ChooseMemory), context, p);
  }
  const std::int64_t elements = p.outer * p.size * p.inner;
  return launch(count_before_kernel, blocks_for(elements), kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
