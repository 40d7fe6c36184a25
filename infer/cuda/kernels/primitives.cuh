// The machine instructions that the kernels use: asynchronous copies to shared memory, loads and products of matrices
// on the tensor cores, programmatic dependent launch. No other file knows which architecture has which.
//
// It is compiled in three ways. nvcc for sm_80 and later emits the instructions themselves. nvcc for sm_75 emits older
// ones: no asynchronous copies, and matrix products of half the depth. A C++ compiler with CAMD_CUDA_EMULATION takes
// infer/cuda/kernels/emulation.cuh instead, which runs the same kernels on the CPU, so that tests need no GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/cuda/kernels/divider.hpp"

#if defined(CAMD_CUDA_EMULATION)
#include "infer/cuda/kernels/emulation.cuh"
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define CAMD_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
#define CAMD_DEVICE __device__ __forceinline__
#define CAMD_DEVICE_CALL static __device__ __noinline__  // called, so that rare code is not copied to where it is used
#define CAMD_GRID_CONSTANT __grid_constant__
#define CAMD_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

namespace camd::infer::cuda {

CAMD_DEVICE void block_sync() { __syncthreads(); }

// Copies 16 bytes from global to shared memory, or writes zeros when `valid` is false (then `from` is not read).
CAMD_DEVICE void copy16_async(void* to, const void* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from), "r"(bytes));
#else
  *static_cast<uint4*>(to) = valid ? *static_cast<const uint4*>(from) : make_uint4(0, 0, 0, 0);
#endif
}
// Waits until the calling thread's copies so far have arrived; other threads see them after block_sync().
CAMD_DEVICE void copy_wait_all() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;\n" ::: "memory");
#endif
}

// Ends a group of the calling thread's copies. copy_wait_but<n>() waits for all groups except the last n.
CAMD_DEVICE void copy_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}
template <int kGroups>
CAMD_DEVICE void copy_wait_but() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kGroups) : "memory");
#endif
}

// Waits until the kernels before this one in the stream have finished and their writes can be read.
CAMD_DEVICE void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  // Never true, which the compiler does not know. It moves no work across this branch, so what stands before the wait
  // stays before it.
  if (gridDim.z == 0) return;
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// 2^x and 1/x within two units of the last place. What is below 2^-126 counts as 0, as argument and as result.
CAMD_DEVICE float quick_exp2(float x) {
  float y = 0.0F;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
CAMD_DEVICE float quick_reciprocal(float x) {
  float y = 0.0F;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Makes the compiler compute `value` here, before a wait that follows, and not where it is used.
CAMD_DEVICE void compute_here(int& value) { asm volatile("" : "+r"(value)); }
CAMD_DEVICE void compute_here(float& value) { asm volatile("" : "+f"(value)); }
// Lets the next kernel of the stream start as soon as there is room for its blocks.
CAMD_DEVICE void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// An address in shared memory. Bytes can be added to it.
using SharedAddress = unsigned;
CAMD_DEVICE SharedAddress shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies a block's weights to shared memory. From sm_90 on the copy engine does it, with one instruction for each
// piece; before, all threads do.
class BulkCopies {
 public:
  // Called by all threads. `barrier`: 16 bytes of shared memory.
  CAMD_DEVICE explicit BulkCopies(void* barrier) : barrier_(shared_address(barrier)) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(barrier_) : "memory");
      asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    }
    __syncwarp();
#endif
  }
  // Called by all threads. Addresses, pitches and row_bytes are multiples of 16.
  CAMD_DEVICE void copy(void* to, int to_pitch, const void* from, int from_pitch, int rows, int row_bytes) const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x >= 32) return;
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(barrier_), "r"(rows * row_bytes)
                   : "memory");
    }
    if (to_pitch == row_bytes && from_pitch == row_bytes) {
      row_bytes *= rows;
      rows = 1;
    }
    const SharedAddress first = shared_address(to);
#pragma unroll 1
    for (int row = static_cast<int>(threadIdx.x); row < rows; row += 32) {
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(
                       first + row * to_pitch),
                   "l"(static_cast<const unsigned char*>(from) + row * from_pitch), "r"(row_bytes), "r"(barrier_)
                   : "memory");
    }
#else
    for (int row = 0; row < rows; ++row) {
      for (int i = static_cast<int>(threadIdx.x) * 16; i < row_bytes; i += static_cast<int>(blockDim.x) * 16) {
        copy16_async(static_cast<unsigned char*>(to) + row * to_pitch + i,
                     static_cast<const unsigned char*>(from) + row * from_pitch + i, true);
      }
    }
#endif
  }
  CAMD_DEVICE void copy(void* to, const void* from, int bytes) const { copy(to, 0, from, 0, 1, bytes); }
  // Called by all threads, after the last copy().
  CAMD_DEVICE void end() const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier_) : "memory");
#endif
  }
  // Waits until the copies have arrived. Called after end(), then copy_wait_all(), then block_sync().
  CAMD_DEVICE void wait() const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], 0;\n"
        "@!there bra again;\n"
        "}\n" ::"r"(barrier_)
        : "memory");
#endif
  }

 private:
  SharedAddress barrier_;
};

// Fills stages of shared memory by the copy engine, again and again. Only on sm_90 and later.
class StageCopies {
 public:
  // `barriers`: bytes(stages) of shared memory, aligned to 8.
  CAMD_DEVICE explicit StageCopies(void* barriers) : barriers_(shared_address(barriers)) {}
  [[nodiscard]] static constexpr int bytes(int stages) { return stages * 8; }

  // Called by thread 0, first.
  CAMD_DEVICE void begin(int stages) const {
#if __CUDA_ARCH__ >= 900
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(barriers_ + stage * 8) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
  }
  // Called by thread 0, when nobody reads any more what the stage held. Addresses and `bytes` are multiples of 16.
  CAMD_DEVICE void copy(int stage, void* to, const void* from, int bytes) const {
#if __CUDA_ARCH__ >= 900
    const SharedAddress barrier = barriers_ + stage * 8;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
#endif
  }
  // Waits until the stage has been filled `round` + 1 times. Called after a block_sync() that follows begin().
  CAMD_DEVICE void wait(int stage, int round) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n"
        "@!there bra again;\n"
        "}\n" ::"r"(barriers_ + stage * 8),
        "r"(round & 1)
        : "memory");
#endif
  }

 private:
  SharedAddress barriers_;
};

// Orders a warp's accesses to shared memory. All its lanes call it.
CAMD_DEVICE void warp_sync() { __syncwarp(); }
// The value of the lane whose number differs in the bits of `mask`. All lanes of the warp call it.
CAMD_DEVICE float exchange_lanes(float value, int mask) { return __shfl_xor_sync(0xFFFFFFFFU, value, mask); }
CAMD_DEVICE int exchange_lanes(int value, int mask) { return __shfl_xor_sync(0xFFFFFFFFU, value, mask); }

// The value of the warp's first lane, so that the compiler knows that all lanes have the same.
CAMD_DEVICE int of_first_lane(int value) { return __shfl_sync(0xFFFFFFFFU, value, 0); }

// Changes a number in shared memory; count_up() returns what it was before.
CAMD_DEVICE int count_up(int* counter, int value) { return atomicAdd(counter, value); }
CAMD_DEVICE void add_to(int* counter, int value) { atomicAdd(counter, value); }
// What this thread has written so far is there for all other blocks before what it writes from here on.
CAMD_DEVICE void device_fence() { __threadfence(); }
CAMD_DEVICE void raise_to(int* number, int value) { atomicMax(number, value); }
// Loads four 8x8 matrices of halfs. Lane l gives the address of row l % 8 of matrix l / 8. Lane l receives two elements
// of each matrix: row l / 4, columns 2 * (l % 4) and 2 * (l % 4) + 1.
CAMD_DEVICE void load_matrices(unsigned (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}

// The same, with each matrix transposed: lane l receives of each the elements at column l / 4, rows 2 * (l % 4) and
// 2 * (l % 4) + 1.
CAMD_DEVICE void load_matrices_transposed(unsigned (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row));
}

// c += a * b with a 16x16, b 16x8, c 16x8 (f16 in, f32 sums). With g = lane / 4 and t = lane % 4 a lane holds
//   a: {(g, 2t), (g+8, 2t), (g, 2t+8), (g+8, 2t+8)}, each with the element to its right
//   b: {(2t, g), (2t+8, g)}, each with the element below
//   c: {(g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)}
CAMD_DEVICE void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

// A matrix of halfs in shared memory, as the tensor cores read it by themselves. It consists of pieces of 8 rows, each
// of 8 halfs side by side, row behind row. `next_columns`: bytes to the piece with the next 8 columns; `next_rows`: to
// the one with the next 8 rows. All are multiples of 16 below 2^18. Source: PTX ISA, "Asynchronous Warpgroup Level
// Matrix Multiply-Accumulate", shared memory matrix layout, no swizzling.
using MatrixDescriptor = std::uint64_t;
CAMD_DEVICE MatrixDescriptor describe_matrix(SharedAddress first, int next_columns, int next_rows) {
  return static_cast<std::uint64_t>(first >> 4) | static_cast<std::uint64_t>(next_columns >> 4) << 16 |
         static_cast<std::uint64_t>(next_rows >> 4) << 32;
}
CAMD_DEVICE MatrixDescriptor moved(MatrixDescriptor matrix, int bytes) {
  return matrix + static_cast<std::uint64_t>(bytes >> 4);
}
// Lets the tensor cores see what the calling thread has written to shared memory, its finished copies included.
CAMD_DEVICE void publish_to_tensor_cores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Products by a warpgroup: four warps whose first one has a number that is a multiple of 4. All of them call these
// functions together. s += a * b with a 64x16, b as its transpose [n][16], n twice the number of sums. Warp w of the
// group gets rows 16w to 16w + 15 of the sums, as multiply_add() leaves them: four for columns 0 to 7, and so on. Only
// on sm_90.
//   begin_products() ... add_product() ... end_products(): these run while the warps go on. wait_for_products<n>()
//   waits for all but the last n groups of them. Until then nobody may touch the sums.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CAMD_WARPGROUP_ASM(...) asm volatile(__VA_ARGS__)
#else
#define CAMD_WARPGROUP_ASM(...) static_cast<void>(0)
#endif
// Defined while code is made for other GPUs. Kernels of warpgroups are empty there, and nobody starts them.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CAMD_NO_WARPGROUP_PRODUCTS
#endif
#define CAMD_SUMS_4(i) "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3])
#define CAMD_SUMS_16(i) CAMD_SUMS_4(i), CAMD_SUMS_4(i + 4), CAMD_SUMS_4(i + 8), CAMD_SUMS_4(i + 12)
CAMD_DEVICE void begin_products() { CAMD_WARPGROUP_ASM("wgmma.fence.sync.aligned;" ::: "memory"); }
CAMD_DEVICE void end_products() { CAMD_WARPGROUP_ASM("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroups>
CAMD_DEVICE void wait_for_products() {
  CAMD_WARPGROUP_ASM("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
CAMD_DEVICE void add_product(float (&s)[16], MatrixDescriptor a, MatrixDescriptor b) {
  CAMD_WARPGROUP_ASM(
      "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
      "%16, %17, add, 1, 1, 0, 0;\n}"
      : CAMD_SUMS_16(0)
      : "l"(a), "l"(b));
}
CAMD_DEVICE void add_product(float (&s)[32], MatrixDescriptor a, MatrixDescriptor b) {
  CAMD_WARPGROUP_ASM(
      "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
      "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, add, 1, 1, 0, 0;\n}"
      : CAMD_SUMS_16(0), CAMD_SUMS_16(16)
      : "l"(a), "l"(b));
}
CAMD_DEVICE void add_product(float (&s)[64], MatrixDescriptor a, MatrixDescriptor b) {
  CAMD_WARPGROUP_ASM(
      "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,"
      "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,"
      "%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, add, 1, 1, 0, 0;\n}"
      : CAMD_SUMS_16(0), CAMD_SUMS_16(16), CAMD_SUMS_16(32), CAMD_SUMS_16(48)
      : "l"(a), "l"(b));
}
#undef CAMD_SUMS_16
#undef CAMD_SUMS_4
#undef CAMD_WARPGROUP_ASM

// The nearest number of TF32, whose last 13 bits are zero.
CAMD_DEVICE unsigned nearest_tf32(unsigned bits) {
  unsigned nearest = bits;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(nearest) : "f"(__uint_as_float(bits)));
#endif
  return nearest;
}

// c += a * b with a 16x8, b 8x8, c 16x8 (f32 whose last 13 bits do not count; f32 sums). With
// g = lane / 4 and t = lane % 4 a lane holds
//   a: {(g, t), (g+8, t), (g, t+4), (g+8, t+4)}
//   b: {(t, g), (t+4, g)}
//   c: as multiply_add()
// Only on sm_80 and later; the planner asks for it nowhere else.
CAMD_DEVICE void multiply_add_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

}  // namespace camd::infer::cuda
#endif

namespace camd::infer::cuda {

CAMD_DEVICE float quick_exp(float x) { return quick_exp2(x * 1.44269504F); }

CAMD_DEVICE int lane_index() { return static_cast<int>(threadIdx.x) & 31; }
CAMD_DEVICE int warp_index() { return static_cast<int>(threadIdx.x) >> 5; }

// 0 <= value < end.
CAMD_DEVICE bool within(int value, int end) { return static_cast<unsigned>(value) < static_cast<unsigned>(end); }

CAMD_DEVICE int divide(int value, const Divider& by) {
  return by.magic == 0 ? value : static_cast<int>(__umulhi(static_cast<unsigned>(value), by.magic));
}

union Half8 {
  uint4 bits;
  __half2 pair[4];
};

// Adds the 4 halfs that begin at `from`, which is aligned to 8 bytes.
CAMD_DEVICE void add_halfs(float (&v)[4], const void* from) {
  const uint2 bits = *reinterpret_cast<const uint2*>(from);
  const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&bits.x));
  const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&bits.y));
  v[0] += low.x;
  v[1] += low.y;
  v[2] += high.x;
  v[3] += high.y;
}

CAMD_DEVICE unsigned pack_halfs(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

CAMD_DEVICE uint4 pack_halfs(const float (&v)[8]) {
  return make_uint4(pack_halfs(v[0], v[1]), pack_halfs(v[2], v[3]), pack_halfs(v[4], v[5]), pack_halfs(v[6], v[7]));
}

// Two numbers as f16, and the differences that rounding took from them.
struct SplitHalfs {
  unsigned values, rests;
};
CAMD_DEVICE SplitHalfs split_halfs(float low, float high) {
  const unsigned values = pack_halfs(low, high);
  const float2 kept = __half22float2(*reinterpret_cast<const __half2*>(&values));
  return {values, pack_halfs(low - kept.x, high - kept.y)};
}

CAMD_DEVICE uint2 pack_halfs(const float (&v)[4]) { return make_uint2(pack_halfs(v[0], v[1]), pack_halfs(v[2], v[3])); }

CAMD_DEVICE float to_float(float value) { return value; }
CAMD_DEVICE float to_float(__half value) { return __half2float(value); }
template <typename T>
CAMD_DEVICE T from_float(float value);
template <>
CAMD_DEVICE float from_float<float>(float value) {
  return value;
}
template <>
CAMD_DEVICE __half from_float<__half>(float value) {
  return __float2half_rn(value);
}

}  // namespace camd::infer::cuda
