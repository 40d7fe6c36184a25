// Runs CUDA kernels on the CPU, so that tests of their indexing need no GPU. Not linked into camd.
//
// Each thread of a block is a fiber. A fiber runs until it reaches a barrier of its block (block_sync()) or of its warp
// (matrix instructions). Blocks run one after the other, so races between blocks are not seen. Only what
// infer/cuda/kernels/primitives.cuh offers exists here.
//
// Threads: [any]; each thread of the CPU has an emulated GPU of its own.
#pragma once

#include <ucontext.h>
#include <csetjmp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include <cuda_fp16.h>
#include <vector_functions.h>

#include "device/cuda/emulated_stream.hpp"

#define CAMD_KERNEL(threads, blocks) void
#define CAMD_DEVICE inline
#define CAMD_DEVICE_CALL [[maybe_unused]] static
#define CAMD_GRID_CONSTANT
#define CAMD_SHARED(name) unsigned char* const name = ::camd::infer::cuda::emulation::shared_memory()
#define threadIdx (::camd::infer::cuda::emulation::thread_index())
#define blockIdx (::camd::infer::cuda::emulation::block_index())
#define blockDim (::camd::infer::cuda::emulation::block_size())
#define gridDim (::camd::infer::cuda::emulation::grid_size())

namespace camd::infer::cuda::emulation {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

enum class Barrier { kNone, kBlock, kWarp, kDone };

struct Fiber {
  static constexpr std::size_t kStackBytes = std::size_t{256} * 1024;
  ucontext_t begin{};
  bool begun = false;
  std::jmp_buf resume{};
  // Not initialised: most of its pages are never touched.
  std::unique_ptr<unsigned char[]> stack = std::make_unique_for_overwrite<unsigned char[]>(kStackBytes);
  Index thread;
  Barrier barrier = Barrier::kNone;
};

// A block's state. Shared memory is exactly as large as the launch asked for, so that a sanitizer sees overruns.
struct Machine {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::jmp_buf scheduler{};
  Fiber* current = nullptr;
  Index block, block_dim, grid_dim;
  std::vector<uint4> shared;
  const void* rows[1024] = {};
  float a[1024][8] = {};  // a lane's parts of the matrices, two halfs a word
  float b[1024][4] = {};
  float wide[1024][8] = {};
  std::function<void()> body;
};

inline Machine& machine() {
  static thread_local Machine instance;
  return instance;
}
inline const Index& thread_index() { return machine().current->thread; }
inline const Index& block_index() { return machine().block; }
inline const Index& block_size() { return machine().block_dim; }
inline const Index& grid_size() { return machine().grid_dim; }
inline unsigned char* shared_memory() { return reinterpret_cast<unsigned char*>(machine().shared.data()); }

// Stops the fiber at a barrier. It jumps between stacks; swapcontext() would make a system call each time, which took
// test_infer_cuda_plan 46 s instead of 13.
[[gnu::noinline]] inline void wait_at(Barrier barrier) {
  Fiber& self = *machine().current;
  self.barrier = barrier;
  if (_setjmp(self.resume) == 0) _longjmp(machine().scheduler, 1);
}
// Runs the fiber to its next barrier.
[[gnu::noinline]] inline void run_fiber(Fiber& fiber) {
  Machine& m = machine();
  m.current = &fiber;
  if (_setjmp(m.scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.resume, 1);
  fiber.begun = true;
  setcontext(&fiber.begin);
}

inline void fiber_main() {
  machine().body();
  wait_at(Barrier::kDone);
}

// Runs fibers until all have ended. In each round every fiber runs to its next barrier. All fibers of a warp must then
// be at the same one. A block's barrier is passed when every fiber that has not ended is there.
inline void run_block(unsigned threads) {
  Machine& m = machine();
  while (m.fibers.size() < threads) m.fibers.push_back(std::make_unique<Fiber>());
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& f = *m.fibers[i];
    getcontext(&f.begin);
    f.begin.uc_stack.ss_sp = f.stack.get();
    f.begin.uc_stack.ss_size = Fiber::kStackBytes;
    f.begin.uc_link = nullptr;
    f.begun = false;
    f.thread = Index{i, 0, 0};
    f.barrier = Barrier::kNone;
    makecontext(&f.begin, fiber_main, 0);
  }
  const unsigned warps = (threads + 31) / 32;
  bool running = true;
  while (running) {
    running = false;
    for (unsigned w = 0; w < warps; ++w) {
      // A warp passes its own barriers until it is at one of its block or has ended.
      for (bool again = true; again;) {
        unsigned met = 0, lanes = 0;
        for (unsigned i = w * 32; i < threads && i < w * 32 + 32; ++i) {
          Fiber& f = *m.fibers[i];
          ++lanes;
          if (f.barrier == Barrier::kNone || f.barrier == Barrier::kWarp) {
            run_fiber(f);
          }
          if (f.barrier == Barrier::kWarp) ++met;
        }
        if (met != 0 && met != lanes) throw std::logic_error("a warp's lanes disagree about a matrix instruction");
        again = met != 0;
      }
    }
    bool all_done = true;
    for (unsigned i = 0; i < threads; ++i) all_done = all_done && m.fibers[i]->barrier == Barrier::kDone;
    if (all_done) break;
    for (unsigned i = 0; i < threads; ++i) {
      if (m.fibers[i]->barrier == Barrier::kBlock) m.fibers[i]->barrier = Barrier::kNone;
    }
    running = true;
  }
}

inline void unpack(float* to, unsigned bits) {
  __half2 both;
  std::memcpy(static_cast<void*>(&both), &bits, sizeof(both));
  const float2 values = __half22float2(both);
  to[0] = values.x;
  to[1] = values.y;
}

}  // namespace camd::infer::cuda::emulation

namespace camd::infer::cuda {

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }

inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  const float2 x = __half22float2(a), y = __half22float2(b), z = __half22float2(c);
  return __floats2half2_rn(std::fma(x.x, y.x, z.x), std::fma(x.y, y.y, z.y));
}
inline float __saturatef(float v) { return v > 0.0F ? (v < 1.0F ? v : 1.0F) : 0.0F; }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned which) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(high) << 32U | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> ((which >> (4 * i) & 7U) * 8) & 0xFFU) << (8 * i);
  }
  return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(high) << 32U | low) >> (shift & 31U));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(a) * b >> 32);
}

inline void block_sync() { emulation::wait_at(emulation::Barrier::kBlock); }
inline void copy16_async(void* to, const void* from, bool valid) {
  if (valid)
    std::memcpy(to, from, 16);
  else
    std::memset(to, 0, 16);
}
inline void copy_wait_all() {}
inline void copy_commit() {}
template <int kGroups>
void copy_wait_but() {}
inline void wait_for_previous_kernel() {}
inline void let_next_kernel_start() {}
inline void compute_here(int&) {}
inline void compute_here(float&) {}

using SharedAddress = const unsigned char*;
inline SharedAddress shared_address(const void* pointer) { return static_cast<SharedAddress>(pointer); }

class BulkCopies {
 public:
  explicit BulkCopies(void*) {}
  void copy(void* to, int to_pitch, const void* from, int from_pitch, int rows, int row_bytes) const {
    if (emulation::thread_index().x != 0) return;
    for (int row = 0; row < rows; ++row) {
      std::memcpy(static_cast<unsigned char*>(to) + row * to_pitch,
                  static_cast<const unsigned char*>(from) + row * from_pitch, static_cast<std::size_t>(row_bytes));
    }
  }
  void copy(void* to, const void* from, int bytes) const { copy(to, 0, from, 0, 1, bytes); }
  void end() const {}
  void wait() const {}
};

class StageCopies {
 public:
  explicit StageCopies(void*) {}
  [[nodiscard]] static constexpr int bytes(int stages) { return stages * 8; }
  void begin(int) const {}
  void copy(int, void* to, const void* from, int bytes) const {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void wait(int, int) const {}
};

// The value of the lane whose number differs in the bits of `mask`.
inline float exchange_lanes(float value, int mask) {
  auto& m = emulation::machine();
  const unsigned self = emulation::thread_index().x;
  m.a[self][0] = value;
  emulation::wait_at(emulation::Barrier::kWarp);
  const float other = m.a[self ^ static_cast<unsigned>(mask)][0];
  emulation::wait_at(emulation::Barrier::kWarp);
  return other;
}
inline int exchange_lanes(int value, int mask) {
  float bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = exchange_lanes(bits, mask);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline void warp_sync() { emulation::wait_at(emulation::Barrier::kWarp); }
inline int count_up(int* counter, int value) {
  *counter += value;
  return *counter - value;
}
inline void add_to(int* counter, int value) { *counter += value; }
inline void device_fence() {}
inline void raise_to(int* number, int value) { *number = max(*number, value); }

// Tells the warp where this lane's row of a matrix lies. Returns the rows of all its lanes.
inline const void* const* exchange_rows(SharedAddress row) {
  auto& m = emulation::machine();
  const unsigned self = emulation::thread_index().x;
  m.rows[self] = row;
  emulation::wait_at(emulation::Barrier::kWarp);
  return m.rows + (self & ~31U);
}

inline void load_matrices(unsigned (&to)[4], SharedAddress row) {
  const void* const* const rows = exchange_rows(row);
  const unsigned lane = emulation::thread_index().x & 31U;
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(&to[i], static_cast<const unsigned char*>(rows[i * 8 + lane / 4]) + (lane % 4) * 4, 4);
  }
  emulation::wait_at(emulation::Barrier::kWarp);
}

inline void load_matrices_transposed(unsigned (&to)[4], SharedAddress row) {
  const void* const* const rows = exchange_rows(row);
  const unsigned lane = emulation::thread_index().x & 31U;
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned half = 0; half < 2; ++half) {
      const auto* bytes = static_cast<const unsigned char*>(rows[i * 8 + lane % 4 * 2 + half]);
      std::memcpy(reinterpret_cast<unsigned char*>(&to[i]) + half * 2, bytes + lane / 4 * 2, 2);
    }
  }
  emulation::wait_at(emulation::Barrier::kWarp);
}

inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  auto& m = emulation::machine();
  const unsigned self = emulation::thread_index().x;
  const unsigned warp = self & ~31U, lane = self & 31U, g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) emulation::unpack(&m.a[self][i * 2], a[i]);
  emulation::unpack(&m.b[self][0], b0);
  emulation::unpack(&m.b[self][2], b1);
  emulation::wait_at(emulation::Barrier::kWarp);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned column = 2 * t + (i & 1U);
    float sum = c[i];
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned a_lane = warp + g * 4 + (k % 8) / 2;
      const unsigned a_register = (i >= 2 ? 1U : 0U) + (k >= 8 ? 2U : 0U);
      const unsigned b_lane = warp + column * 4 + (k % 8) / 2;
      sum += m.a[a_lane][a_register * 2 + (k & 1U)] * m.b[b_lane][(k >= 8 ? 2 : 0) + (k & 1U)];
    }
    c[i] = sum;
  }
  emulation::wait_at(emulation::Barrier::kWarp);
}

inline int of_first_lane(int value) { return value; }  // only for what all lanes have alike

struct MatrixDescriptor {
  SharedAddress first;
  int next_columns, next_rows;
};
inline MatrixDescriptor describe_matrix(SharedAddress first, int next_columns, int next_rows) {
  return {first, next_columns, next_rows};
}
inline MatrixDescriptor moved(MatrixDescriptor matrix, int bytes) {
  return {matrix.first + bytes, matrix.next_columns, matrix.next_rows};
}
inline void publish_to_tensor_cores() {}
inline void begin_products() {}
inline void end_products() {}
template <int kGroups>
void wait_for_products() {}
template <std::size_t kSums>
void add_product(float (&sums)[kSums], MatrixDescriptor a, MatrixDescriptor b) {
  auto& m = emulation::machine();
  const unsigned self = emulation::thread_index().x;
  const unsigned warp = self & ~31U, lane = self & 31U, g = lane / 4, t = lane % 4;
  // Each lane of a warp reads half a row of the left matrix.
  const auto row_of = [](const MatrixDescriptor& matrix, unsigned row, unsigned half) {
    return matrix.first + static_cast<int>(row / 8) * matrix.next_rows + row % 8 * 16 +
           static_cast<int>(half) * matrix.next_columns;
  };
  const auto read = [](float* to, SharedAddress from) {
    for (unsigned i = 0; i < 4; ++i) {
      unsigned bits;
      std::memcpy(&bits, from + static_cast<std::size_t>(i) * 4, 4);
      emulation::unpack(to + static_cast<std::size_t>(i) * 2, bits);
    }
  };
  read(m.a[self], row_of(a, self % 128 / 32 * 16 + lane / 2, lane % 2));
  for (unsigned n8 = 0; n8 < kSums / 4; ++n8) {
    if (lane < 16) read(m.wide[self], row_of(b, n8 * 8 + lane / 2, lane % 2));
    emulation::wait_at(emulation::Barrier::kWarp);
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = g + (i >= 2 ? 8U : 0U), column = 2 * t + (i & 1U);
      float sum = sums[n8 * 4 + i];
      for (unsigned k = 0; k < 16; ++k) {
        sum += m.a[warp + row * 2 + k / 8][k % 8] * m.wide[warp + column * 2 + k / 8][k % 8];
      }
      sums[n8 * 4 + i] = sum;
    }
    emulation::wait_at(emulation::Barrier::kWarp);
  }
}

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline unsigned nearest_tf32(unsigned bits) {
  return (bits & 0x7F800000U) == 0x7F800000U ? bits : (bits + 0x1000U) & 0xFFFFE000U;
}

inline void multiply_add_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  constexpr unsigned kSeen = 0xFFFFE000U;
  auto& m = emulation::machine();
  const unsigned self = emulation::thread_index().x;
  const unsigned warp = self & ~31U, lane = self & 31U, g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) m.a[self][i] = __uint_as_float(a[i] & kSeen);
  m.b[self][0] = __uint_as_float(b0 & kSeen);
  m.b[self][1] = __uint_as_float(b1 & kSeen);
  emulation::wait_at(emulation::Barrier::kWarp);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned column = 2 * t + (i & 1U);
    float sum = c[i];
    for (unsigned k = 0; k < 8; ++k) {
      const unsigned a_register = (i >= 2 ? 1U : 0U) + (k >= 4 ? 2U : 0U);
      sum += m.a[warp + g * 4 + k % 4][a_register] * m.b[warp + column * 4 + k % 4][k / 4];
    }
    c[i] = sum;
  }
  emulation::wait_at(emulation::Barrier::kWarp);
}

inline float quick_exp2(float x) { return exp2f(x); }
inline float quick_reciprocal(float x) { return 1.0F / x; }

}  // namespace camd::infer::cuda
