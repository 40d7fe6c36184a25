// The steps of the CPU engine's programs: each runs one operator on known storage. Built by infer/cpu/builder.cpp.
//
// Threads: as Step. Private to infer/cpu/.
#pragma once

#include <algorithm>
#include <array>

#include "infer/cpu/chains.hpp"
#include "infer/cpu/program.hpp"
#include "infer/graph/selection.hpp"

namespace camd::infer::cpu {

// Into how many bands of rows a picture is cut when `parallel` other parts of it run at the same time: enough that all
// threads have work, and few enough that weights are not read too often.
[[nodiscard]] inline int bands_for(int rows, int parallel, int threads) noexcept {
  if (threads == 1) return 1;
  const int wanted = (4 * threads + parallel - 1) / parallel;
  return std::clamp(wanted, 1, std::max(1, rows / 2));
}
struct Band {
  int begin, end;
};
[[nodiscard]] inline Band band(int rows, int bands, int i) noexcept {
  return {static_cast<int>(std::int64_t{rows} * i / bands), static_cast<int>(std::int64_t{rows} * (i + 1) / bands)};
}

// Writes zeros to the halo beside rows [y0, y1) of a block, and to the halo above the first and below the last row.
void clear_halo(const Blocked& picture, const Pads& halo, int block, int y0, int y1) noexcept;

enum class ConvForm : std::uint8_t { kDense, kPlanar, kWinograd, kDepthwise, kTransposed, kTransposedDepthwise };

// A convolution of any form. One with groups of whole blocks becomes one step per group.
class ConvStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  ConvForm form = ConvForm::kDense;
  ConvArguments arguments;                      // without memory
  BlockedPlace in, out, residual;               // residual: none where there is none
  Place plain_in;                               // kPlanar
  int first_in_block = 0, first_out_block = 0;  // of a group
  int out_blocks = 0;
  int bands = 1;
  int tiles = 1;  // kWinograd: that an item makes
  void run(int item, const Memory& memory) const noexcept override;
};

class PoolStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Pool pool;
  BlockedPlace in, out;
  int bands = 1;
  void run(int item, const Memory& memory) const noexcept override;
};

class ResizeStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Resize resize;
  BlockedPlace in, out;
  int bands = 1;
  void run(int item, const Memory& memory) const noexcept override;
};

// Rows and columns of one number around the picture.
class PadStep final : public Step {
 public:
  BlockedPlace in, out;
  int top = 0, left = 0;
  float value = 0.0F;
  int bands = 1;
  void run(int item, const Memory& memory) const noexcept override;
};

// Mean and variance over groups of channels of the picture, taken out; an item is a run of blocks with whole groups.
class NormalizeStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  NormalizeArguments arguments;  // without memory
  BlockedPlace in, out;
  int blocks_each = 1;  // of an item
  void run(int item, const Memory& memory) const noexcept override;
};

// Plain [C][H][W] to blocked and back; an item is a block.
class ToBlockedStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Place in;
  BlockedPlace out;
  void run(int item, const Memory& memory) const noexcept override;
};
class ToPlainStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  BlockedPlace in;
  Place out;
  void run(int item, const Memory& memory) const noexcept override;
};
// Blocked [C,H,W] to plain [H,W,C], what a transposition by (0,2,3,1) asks for.
class ToPixelsStep final : public Step {
 public:
  BlockedPlace in;
  Place out;
  void run(int item, const Memory& memory) const noexcept override;
};

// Concat, Slice and Gather over channels: output channel c is channel from[c].channel of source from[c].source.
class ChannelsStep final : public Step {
 public:
  struct From {
    int source = 0, channel = 0;
  };
  std::vector<BlockedPlace> sources;
  std::vector<From> from;
  BlockedPlace out;
  void run(int item, const Memory& memory) const noexcept override;
};

// Elementwise on blocked pictures of one shape, or with one number per channel.
class BlockedElementwiseStep final : public Step {
 public:
  enum class Kind : std::uint8_t { kUnary, kBinary, kPerChannel } kind = Kind::kUnary;
  const Kernels* kernels = nullptr;
  Binary::Kind operation = Binary::Kind::kAdd;
  Activation function;
  Requantize requantize;
  BlockedPlace a, b, out;
  const float* per_channel = nullptr;  // kPerChannel: padded to blocks; null: `b` has one pixel with the numbers
  bool swapped = false;
  void run(int item, const Memory& memory) const noexcept override;
};

// ---- Plain storage

// out[i] = f(a op b) with numpy's broadcasting by strides; an item is a part of the outermost dimension.
class PlainBinaryStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Binary::Kind operation = Binary::Kind::kAdd;
  Activation function;
  Requantize requantize;
  Place a, b, out;
  Shape shape;  // of the output, with neighbouring dimensions merged
  std::vector<std::int64_t> a_strides, b_strides;
  void run(int item, const Memory& memory) const noexcept override;
};

class PlainUnaryStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Activation function;
  Requantize requantize;
  Place in, out;
  std::size_t count = 0;
  void run(int item, const Memory& memory) const noexcept override;
};

// Elementwise ops of one shape, on some numbers at a time; an item is a part of those. What only the next ops read lies
// in scratch memory.
class ChainStep final : public Step {
 public:
  static constexpr std::size_t kTogether = 1024;  // numbers at a time
  // `a`, `b` and `out` are positions among the operands: `tensors` first, then places in scratch memory.
  struct Part {
    bool is_unary = false;
    Binary::Kind kind = Binary::Kind::kAdd;
    Activation function;
    int a = 0, b = 0, out = 0;
  };
  const Kernels* kernels = nullptr;
  std::vector<Part> parts;
  std::vector<Place> tensors;                      // that are read, and that are written
  Shape shape;                                     // with neighbouring dimensions merged; the last one is a line
  std::vector<std::vector<std::int64_t>> strides;  // of each tensor, in each dimension of `shape`
  void run(int item, const Memory& memory) const noexcept override;
};

// Of a CopyStep's shape.
inline constexpr std::size_t kMostDimensions = 8;

// out[where] = in[base + sum(where * strides)] for a box of the output: Transpose, Slice, Concat, Reshape. An item is a
// part of the outermost dimension.
class CopyStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Place in, out;
  std::int64_t in_base = 0, out_base = 0;
  Shape shape;
  std::vector<std::int64_t> in_strides, out_strides;
  void run(int item, const Memory& memory) const noexcept override;
};

// Over one dimension of [outer][size][inner]. An item is a part of the outer dimension or, where that is too short, of
// the inner one.
class SoftmaxStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Place in, out;
  std::int64_t outer = 1, size = 1, inner = 1;
  bool log = false;
  bool by_columns = false;  // items are parts of the inner dimension
  void run(int item, const Memory& memory) const noexcept override;
};

// Over the middle of [outer][size][inner]; an item is a part of the outer dimension.
class ReduceStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Reduce::Kind kind = Reduce::Kind::kMean;
  Place in, out;
  std::int64_t outer = 1, size = 1, inner = 1;
  void run(int item, const Memory& memory) const noexcept override;
};

// Rows that no kernel cuts a product of matrices between.
inline constexpr int kProductTile = 8;

class MatMulStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Place a, b, bias, out;
  Activation function;
  Requantize requantize;
  int m = 0, k = 0, n = 0, batch = 1, bands = 1;
  std::int64_t a_batch = 0, b_batch = 0;  // floats from one batch to the next; 0: shared
  std::size_t bias_row = 0;
  int bias_step = 1;
  void run(int item, const Memory& memory) const noexcept override;
};

// softmax(q * k * scale) * v. The scores of some queries at a time lie in scratch memory; an item is a band of the
// queries of one part of the batch. turned: v is [batch,columns,keys] and the result [batch,columns,queries]; behind
// the scores then lie the values the other way around, and the results of those queries.
class AttentionStep final : public Step {
 public:
  static constexpr std::size_t kMostQueries = 64;  // at a time
  const Kernels* kernels = nullptr;
  Place q, k, v, out;  // [batch,queries,inner], [batch,inner,keys], [batch,keys,columns], [batch,queries,columns]
  float scale = 1.0F;
  bool turned = false;
  int queries = 0, inner = 0, keys = 0, columns = 0, bands = 1;
  int together = 1;                       // queries at a time, at most kMostQueries
  std::int64_t k_batch = 0, v_batch = 0;  // floats from one part of the batch to the next; 0: shared
  void run(int item, const Memory& memory) const noexcept override;
};

// TopK, Pick, Scatter, CumSum, GridSample and Select; an item is a part of the independent lines, planes or rows.
class SelectionStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Operation operation;
  std::vector<Place> in;
  Place out;
  Shape shape;  // of in[0]
  Shape out_shape;
  std::int64_t stride = 1, length = 1;  // along the axis of TopK and CumSum
  PickShape picks;
  SelectShape selects;
  int parts = 1;  // lines, planes or rows
  void run(int item, const Memory& memory) const noexcept override;

 private:
  void work(const TopK& o, const Band& part, const Memory& memory) const noexcept;
  void work(const CumSum& o, const Band& part, const Memory& memory) const noexcept;
  void work(const Pick& o, const Band& part, const Memory& memory) const noexcept;
  void work(const Scatter& o, const Band& part, const Memory& memory) const noexcept;
  void work(const GridSample& o, const Band& part, const Memory& memory) const noexcept;
  void work(const Select& o, const Band& part, const Memory& memory) const noexcept;
};

// Any other operator, by the reference evaluator: slow, and it allocates. build_program() uses it for operators that no
// detector runs on large tensors.
class ReferenceStep final : public Step {
 public:
  const Kernels* kernels = nullptr;
  Op op;
  Requantize requantize;
  std::vector<Place> in;
  std::vector<Shape> in_shapes;
  Place out;
  Shape out_shape;
  void run(int item, const Memory& memory) const noexcept override;
};

}  // namespace camd::infer::cpu
