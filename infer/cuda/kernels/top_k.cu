// TopK in two ways. In short lines each element counts how many go before it. In long lines a block finds the last
// element that is chosen, digit by digit of its rank, or one near it; then it collects those that go before it and puts
// them in order.
#include "infer/cuda/kernels/launch.cuh"
#include "infer/cuda/kernels/selection.hpp"
#include "infer/cuda/kernels/strided.cuh"
#include "infer/graph/selection_math.hpp"

#include <cstdint>
#include <cstring>

namespace camd::infer::cuda {
namespace {

using selection::goes_before;
using selection::rank_key;

constexpr int kThreads = kStridedThreads;

CAMD_KERNEL(kThreads, 1) count_before_kernel(const TopKArguments p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
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

// The key's bits as a whole number in the order of goes_before(); never 0.
CAMD_DEVICE unsigned ordered_key(float value, bool largest) {
  float key = rank_key(value, largest);
  if (key == 0.0F) key = 0.0F;  // -0 is as large as 0
  unsigned bits = 0;
  memcpy(&bits, &key, sizeof(bits));
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}
// Of equal keys the one with the larger second number goes first.
CAMD_DEVICE unsigned ordered_position(int position) { return 0xFFFFFFFFU - static_cast<unsigned>(position); }

constexpr int kChooseThreads = 1024, kChooseWarps = kChooseThreads / 32;
constexpr int kDigitBits = 11, kBins = 1 << kDigitBits;
static_assert(kBins == 2 * kChooseThreads && kChooseWarps == 32);
// So many more than are wanted may be put in order: fewer digits are counted then.
constexpr int kSpare = 40;
constexpr int kMostCandidates = kMostChosen + kSpare;
constexpr unsigned kSign = 0x80000000U;

struct ChooseMemory {
  unsigned keys[kMostCandidates], positions[kMostCandidates];
  int grouped[kMostCandidates];  // the candidates, those of one bin side by side
  int counts[kBins];             // of elements with this digit, or in this bin
  int of_warp[kChooseWarps];
  int collected, digit, above, here;
  int largest;  // of the candidates' keys, with its sign bit changed
};

struct Sums {
  int from_here_on, all;  // `own` of this lane and of the lanes behind it; of all lanes of the warp
};
CAMD_DEVICE Sums sums_of_warp(int own) {
  Sums s{own, own};
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) {
    const int others = exchange_lanes(s.all, mask);
    if ((lane_index() & mask) == 0) s.from_here_on += others;
    s.all += others;
  }
  return s;
}

// How many are counted in bins above each of the thread's two, the low one and the one behind it. Sets these to zero.
// Called by all threads.
struct Above {
  int low, high;
  int in_low, in_high;
};
CAMD_DEVICE Above take_counts(ChooseMemory& m) {
  int* const own = &m.counts[static_cast<int>(threadIdx.x) * 2];
  const int low = own[0], high = own[1];
  own[0] = own[1] = 0;
  const Sums sums = sums_of_warp(low + high);
  if (lane_index() == 0) m.of_warp[warp_index()] = sums.all;
  block_sync();
  const int behind = sums_of_warp(lane_index() > warp_index() ? m.of_warp[lane_index()] : 0).all;
  const int above_low = behind + sums.from_here_on - low;
  return {above_low, above_low - high, low, high};
}

// Finds the digit of which, with all higher ones, there are at least `wanted`; and how many elements have it (`here`)
// or a higher one (`above`).
CAMD_DEVICE void find_digit(ChooseMemory& m, int wanted) {
  const int thread = static_cast<int>(threadIdx.x);
  const Above a = take_counts(m);
  if (a.high < wanted && wanted <= a.high + a.in_high) m.digit = thread * 2 + 1, m.above = a.high, m.here = a.in_high;
  if (a.low < wanted && wanted <= a.low + a.in_low) m.digit = thread * 2, m.above = a.low, m.here = a.in_low;
  block_sync();
}

// Calls use(candidate, its rank) for each candidate, whose keys are at least `least`. Groups them by bins of keys: then
// each has to be compared with those of its bin only.
template <typename Use>
CAMD_DEVICE void with_ranks(ChooseMemory& m, int candidates, unsigned least, const Use& use) {
  const int thread = static_cast<int>(threadIdx.x);
  const unsigned spread = (static_cast<unsigned>(m.largest) ^ kSign) - least;
  int shift = 0;
  while (spread >> shift >= kBins) ++shift;
  const auto bin_of = [&](int i) { return static_cast<int>((m.keys[i] - least) >> shift); };
  for (int i = thread; i < candidates; i += kChooseThreads) add_to(&m.counts[bin_of(i)], 1);
  block_sync();
  const Above above = take_counts(m);
  m.counts[thread * 2] = above.low;
  m.counts[thread * 2 + 1] = above.high;
  block_sync();
  for (int i = thread; i < candidates; i += kChooseThreads) m.grouped[count_up(&m.counts[bin_of(i)], 1)] = i;
  block_sync();
  // Each bin's count has become its end, and that is where the bin below begins.
  for (int i = thread; i < candidates; i += kChooseThreads) {
    const int bin = bin_of(i), begin = bin + 1 < kBins ? m.counts[bin + 1] : 0, end = m.counts[bin];
    const unsigned key = m.keys[i], position = m.positions[i];
    int rank = begin;
    for (int j = begin; j < end; ++j) {
      const int other = m.grouped[j];
      rank += m.keys[other] > key || (m.keys[other] == key && m.positions[other] > position) ? 1 : 0;
    }
    use(i, rank);
  }
}

// A block for each line. kKept: elements that each thread keeps in registers; 0: they are read again for each digit.
template <int kKept>
CAMD_KERNEL(kChooseThreads, 1)
choose_kernel(const TopKArguments p) {
  CAMD_SHARED(memory);
  ChooseMemory& m = *reinterpret_cast<ChooseMemory*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  m.counts[thread] = m.counts[thread + kChooseThreads] = 0;
  if (thread == 0) {
    m.collected = 0;
    m.largest = static_cast<int>(kSign);
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto outer = static_cast<std::int64_t>(blockIdx.x) / p.inner;
  const auto inner = static_cast<std::int64_t>(blockIdx.x) % p.inner;
  const float* const x = p.x + outer * p.size * p.inner + inner;
  const int size = static_cast<int>(p.size), count = static_cast<int>(p.operation.count);
  const bool largest = p.operation.largest;
  constexpr int kRegisters = kKept > 0 ? kKept : 1;
  unsigned kept[kRegisters];
  if constexpr (kKept > 0) {
    float values[kKept] = {};  // all on their way together
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      if (k * kChooseThreads < size) values[k] = x[min(k * kChooseThreads + thread, size - 1) * p.inner];
    }
#pragma unroll
    for (int k = 0; k < kKept; ++k) kept[k] = k * kChooseThreads + thread < size ? ordered_key(values[k], largest) : 0;
  }
  // Calls use(key, position) for each of this thread's elements; the key is 0 where there is none.
  const auto each = [&](const auto& use) {
    if constexpr (kKept > 0) {
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
        if (k * kChooseThreads < size) use(kept[k], k * kChooseThreads + thread);
      }
    } else {
      for (int i = thread; i < size; i += kChooseThreads) use(ordered_key(x[i * p.inner], largest), i);
    }
  };
  block_sync();

  // The digits of the last chosen element, the highest first: those of its key, then those of its position. `wanted`
  // elements with the digits so far are still to choose.
  unsigned least_key = 0, least_position = 0;
  int wanted = count, candidates = size;
  const auto count_digits = [&](unsigned& least, const auto& number_of) {
    for (int known = 32; known > 0 && candidates - count > kSpare;) {
      const int shift = known > kDigitBits ? known - kDigitBits : 0;
      each([&](unsigned key, int position) {
        const unsigned number = number_of(key, position);  // 0: not among those that are wanted
        if (number != 0 && (known == 32 || (number ^ least) >> known == 0))
          add_to(&m.counts[number >> shift & (kBins - 1)], 1);
      });
      block_sync();
      find_digit(m, wanted);
      least |= static_cast<unsigned>(m.digit) << shift;
      wanted -= m.above;
      candidates = count - wanted + m.here;
      known = shift;
    }
  };
  count_digits(least_key, [](unsigned key, int) { return key; });
  count_digits(least_position, [&](unsigned key, int i) { return key == least_key ? ordered_position(i) : 0; });

  const auto chosen = [&](unsigned key, int position) {
    return key > least_key || (key == least_key && key != 0 && ordered_position(position) >= least_position);
  };
  int own = 0;
  int largest_key = static_cast<int>(kSign);
  each([&](unsigned key, int position) {
    if (!chosen(key, position)) return;
    ++own;
    largest_key = max(largest_key, static_cast<int>(key ^ kSign));
  });
  const Sums sums = sums_of_warp(own);
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) largest_key = max(largest_key, exchange_lanes(largest_key, mask));
  if (lane_index() == 0) {
    m.of_warp[warp_index()] = count_up(&m.collected, sums.all);
    raise_to(&m.largest, largest_key);
  }
  warp_sync();
  int at = m.of_warp[warp_index()] + sums.all - sums.from_here_on;
  each([&](unsigned key, int position) {
    if (!chosen(key, position)) return;
    m.keys[at] = key;
    m.positions[at++] = ordered_position(position);
  });
  block_sync();
  with_ranks(m, candidates, least_key == 0 ? 1 : least_key, [&](int i, int rank) {
    if (rank < count) p.y[(outer * count + rank) * p.inner + inner] = static_cast<float>(0xFFFFFFFFU - m.positions[i]);
  });
}

}  // namespace

int top_k(const TopKArguments& p, const LaunchContext& context) {
  constexpr std::int64_t kShortLine = 1024, kMostPositions = std::int64_t{1} << 30;
  if (p.size > kShortLine && p.size < kMostPositions && p.operation.count <= kMostChosen) {
    const dim3 grid(static_cast<unsigned>(p.outer * p.inner), 1, 1);
    constexpr int kFew = 12, kMany = 24;
    if (p.size <= kFew * kChooseThreads)
      return launch(choose_kernel<kFew>, grid, kChooseThreads, sizeof(ChooseMemory), context, p);
    if (p.size <= kMany * kChooseThreads)
      return launch(choose_kernel<kMany>, grid, kChooseThreads, sizeof(ChooseMemory), context, p);
    return launch(choose_kernel<0>, grid, kChooseThreads, sizeof(ChooseMemory), context, p);
  }
  const std::int64_t elements = p.outer * p.size * p.inner;
  return launch(count_before_kernel, blocks_for(elements), kThreads, 0, context, p);
}

}  // namespace camd::infer::cuda
