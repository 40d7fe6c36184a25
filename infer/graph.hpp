// Graph: a model lowered to a small set of operators that engines run. Every engine of camd's own (infer/cuda,
// infer/cpu_engine) starts from here; nothing of ONNX is left but names for messages.
//
// Threads: lower_model() is a function of its arguments, [any]; a Graph is a plain value.
// Invariants of a Graph that came from lower_model():
//  - ops are in execution order, each has exactly one output, and every value is made once (by an op, as the graph's
//    input, or as a constant).
//  - every shape is known and was computed here; the file's declarations are not trusted. Shapes are the model's:
//    pictures are [N,C,H,W] whatever order an engine stores them in.
//  - values that ops make at run time are floating point. Integers exist as constants only, and no op reads one:
//    shapes, indices, axes, pads and scales are folded into the ops' attributes.
//  - an op with constant inputs only does not exist: it was folded into a constant.
//  - Conv, ConvTranspose, Pool and Resize have a batch of one, N = 1.
//  - graph outputs are values of ops; a model that hands out its input or a constant gets a Reshape to its own shape.
// Operators follow onnx.ai/onnx/operators in f32 unless a comment here says otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "infer/tensor.hpp"

namespace camd::infer {

struct OnnxFile;

// Bounds that keep a hostile model from taking all memory: of one value, and of one folded constant.
inline constexpr std::int64_t kMaxValueElements = std::int64_t{1} << 27;
inline constexpr std::int64_t kMaxFoldedElements = std::int64_t{1} << 24;
// And of what they come to: all constants while a model is lowered, all outputs, and the steps that folding may take
// (about a nanosecond to ten each).
inline constexpr std::int64_t kMaxConstantElements = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxOutputElements = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxFoldingSteps = std::int64_t{1} << 27;
// Nodes of a model; engines compare each with each. The largest detectors have some thousands.
inline constexpr int kMaxNodes = 10'000;
// Of one side of a resized picture: each has a table.
inline constexpr std::int64_t kMaxResizedSide = std::int64_t{1} << 16;

// A tensor that is known before the first frame. f32 and i64 only: other float types were widened, other integers and
// booleans too.
struct Constant {
  DataType type = DataType::kF32;  // kF32 or kI64
  Shape shape;
  std::vector<float> f32;         // element_count(shape) values when type is kF32
  std::vector<std::int64_t> i64;  // the same when type is kI64
};

using ValueId = int;
inline constexpr ValueId kNoValue = -1;

struct Value {
  std::string name;  // of the model, for messages; made-up values have a made-up name
  Shape shape;
  std::shared_ptr<const Constant> constant;  // null: made at run time
};

enum class Function : std::uint8_t {
  kNone,         // x
  kRelu,         // max(x, 0)
  kLeakyRelu,    // x < 0 ? a*x : x
  kClip,         // min(max(x, a), b); either may be infinite
  kSigmoid,      // 1 / (1 + exp(-x))
  kSilu,         // x * sigmoid(x)
  kHardSigmoid,  // min(max(a*x + b, 0), 1)
  kHardSwish,    // x * min(max(x/6 + 1/2, 0), 1)
  kTanh,
  kElu,       // x < 0 ? a*(exp(x) - 1) : x
  kSelu,      // b * (x <= 0 ? a*(exp(x) - 1) : x)
  kSoftplus,  // log(1 + exp(x))
  kSoftsign,  // x / (1 + |x|)
  kMish,      // x * tanh(softplus(x))
  kGelu,      // x/2 * (1 + erf(x / sqrt(2)))
  kErf,
  kExp,
  kLog,
  kSqrt,
  kReciprocal,
  kAbs,
  kNegate,
  kFloor,
  kCeil,
  kRound,  // halves to even
  kSign,
  kSin,
  kCos,
};

struct Activation {
  Function function = Function::kNone;
  float a = 0.0F;
  float b = 0.0F;
  friend bool operator==(const Activation&, const Activation&) = default;
};

// Two spatial numbers, rows first.
struct Pair2 {
  int y = 0;
  int x = 0;
  friend bool operator==(const Pair2&, const Pair2&) = default;
};
struct Pads {
  int top = 0, left = 0, bottom = 0, right = 0;
  friend bool operator==(const Pads&, const Pads&) = default;
};

// ---- Operators. `inputs` names what Op::inputs holds; [c]: always a constant.

// inputs: x [N,C,H,W], weight [M,C/groups,kh,kw] [c], bias [M] [c], residual like the output or kNoValue.
// y = activation(conv(x) + bias + residual), or activation(conv(x) + bias) + residual when activation_first.
// Depthwise: groups == C. A 1-D convolution arrives as H = 1 between two Reshapes.
struct Conv {
  Pair2 kernel, stride{1, 1}, dilation{1, 1};
  Pads pads;  // zeros, may differ on each side
  int groups = 1;
  bool activation_first = false;
};

// inputs: x [N,C,H,W], weight [C,M/groups,kh,kw] [c], bias [M] [c]. `pads` are cut from the full output, so
// H' = (H-1)*stride.y + (kh-1)*dilation.y + 1 - top - bottom; bottom and right may be negative (output_padding:
// rows beyond the full output hold the bias alone).
struct ConvTranspose {
  Pair2 kernel, stride{1, 1}, dilation{1, 1};
  Pads pads;
  int groups = 1;
};

// inputs: a [...,M,K], b [...,K,N] (leading dimensions broadcast), bias (broadcasts to the output) or kNoValue.
// Both have rank 2 at least.
struct MatMul {};

// inputs: x [N,C,H,W]. The output's size is in its shape (ceil_mode is resolved); windows are cut to the input.
struct Pool {
  enum class Kind : std::uint8_t { kMax, kAverage } kind = Kind::kMax;
  Pair2 kernel, stride{1, 1}, dilation{1, 1};
  Pads pads;  // with ceil_mode a window may reach further than bottom and right: that part counts for nothing
  bool count_pads = false;  // average: pads count in the divisor (but not what ceil_mode adds beyond them)
};

// Along one axis every output is a weighted sum of `taps` input positions: nearest has one, linear two, cubic four.
struct ResizeAxis {
  int taps = 1;
  std::vector<int> index;     // output_size * taps, inside the input
  std::vector<float> weight;  // likewise
  // The factor f when output i is input i / f exactly (nearest, whole enlargement), else 0.
  int repeat = 0;
};
// inputs: x [N,C,H,W]. Separable; all of ONNX's coordinate and rounding modes are resolved into the tables.
struct Resize {
  ResizeAxis y, x;
};

// inputs: two or more of equal shape but for `axis`.
struct Concat {
  int axis = 0;
};

// inputs: x. Over one axis (opsets before 13 are resolved by Reshapes).
struct Softmax {
  int axis = 0;
  bool log = false;
};

// inputs: x.
struct Unary {
  Activation function;
};

// inputs: a, b, with numpy's broadcasting; one of them may be a constant.
struct Binary {
  enum class Kind : std::uint8_t { kAdd, kSub, kMul, kDiv, kMin, kMax, kPow, kPrelu } kind = Kind::kAdd;
  // kPrelu: a < 0 ? a*b : a
};

// inputs: x. Output dimension i is input dimension permutation[i].
struct Transpose {
  std::vector<int> permutation;
};

// inputs: x. The same elements in the same order (of the model's dimensions) under another shape.
struct Reshape {};

// inputs: x. Per dimension: output index i reads start + i*step; step may be negative.
struct Slice {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> step;
};

// inputs: x. Along `axis`, output i is input indices[i] (all inside); other dimensions as they are.
// A permutation of channels (channel shuffle) arrives as this with axis 1.
struct Gather {
  int axis = 0;
  std::vector<std::int64_t> indices;
};

// inputs: x. Per dimension, how much is added before and after (never negative).
struct Pad {
  enum class Mode : std::uint8_t { kConstant, kReflect, kEdge } mode = Mode::kConstant;
  std::vector<std::int64_t> before, after;
  float value = 0.0F;
};

// inputs: x. The reduced axes stay, with size 1.
struct Reduce {
  enum class Kind : std::uint8_t {
    kMean,
    kSum,
    kMax,
    kMin,
    kProduct,
    kL1,
    kL2,
    kSumSquare,
    kLogSumExp
  } kind = Kind::kMean;
  std::vector<int> axes;  // ascending
};

using Operation = std::variant<Conv, ConvTranspose, MatMul, Pool, Resize, Concat, Softmax, Unary, Binary, Transpose,
                               Reshape, Slice, Gather, Pad, Reduce>;

struct Op {
  Operation operation;
  std::vector<ValueId> inputs;
  ValueId output = kNoValue;
  // Applied to the result; other than kNone only for Conv, ConvTranspose, MatMul and Binary.
  Activation activation;
  std::string origin;  // "Conv (node 'conv1')": where it came from, for messages
};

// "Conv", "Binary", ...
[[nodiscard]] std::string_view kind_name(const Operation& operation) noexcept;

struct Graph {
  std::vector<Value> values;  // ValueId is the index
  std::vector<Op> ops;
  ValueId input = kNoValue;
  std::vector<ValueId> outputs;  // in the model's order; a value may appear twice

  [[nodiscard]] const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Shape& shape(ValueId id) const { return value(id).shape; }
  [[nodiscard]] bool is_constant(ValueId id) const { return value(id).constant != nullptr; }
};

// Which fusions the engine that asks can run. Everything else is always done.
struct LowerOptions {
  bool optimize = true;         // false: no passes but folding of constants (to test the passes against)
  bool fuse_activation = true;  // Op::activation of Conv, ConvTranspose, MatMul, Binary
  bool fuse_residual = true;    // Conv's residual
};

// [setup] Lowers the model for the input shape `input` [1,3,H,W] and runs the passes: constants and shapes folded,
// batch normalisation and other per-channel arithmetic folded into convolutions, padding folded into convolutions,
// activations and residuals fused, no-ops removed, chains of data movement that only permute channels made one Gather.
// Throws Error(kModel) in one line: file, operator and node that the set above cannot express, and why.
// Memory: the weights once, plus what folding makes; folding refuses results over kMaxFoldedElements.
[[nodiscard]] Graph lower_model(const OnnxFile& file, const TensorSpec& input, const LowerOptions& options = {});

struct OperatorSupport {
  std::string_view type;
  std::string_view limits;  // what of it is not there, in words; empty: nothing
};
// ONNX operators that lower_model() takes, sorted; the manual's table is made from this.
[[nodiscard]] std::vector<OperatorSupport> supported_operators();
[[nodiscard]] bool is_supported_operator(std::string_view type);

// Multiplications and additions of one run, for reports.
[[nodiscard]] std::int64_t multiply_adds(const Graph& graph) noexcept;

// Number of ops that read each value, plus one for each time that it is a graph output.
[[nodiscard]] std::vector<int> use_counts(const Graph& graph);

}  // namespace camd::infer
