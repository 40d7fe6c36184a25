// Graph: a model as a short list of operators, which camd's own engines (infer/cpu, infer/cuda) run. Of ONNX only names
// are left, for messages.
//
// Threads: lower_model() is a function of its arguments, [any]; a Graph is a plain value.
// Invariants of a Graph that came from lower_model():
//  - Ops are in execution order. Each has exactly one output. Each value is made once: by an op, as the graph's input,
//    or as a constant.
//  - Every shape is known. Shapes were computed, not read from the file's declarations. They are the model's: a picture
//    is [N,C,H,W] in whatever order an engine stores it.
//  - Ops make f32 values only. Shapes, axes, pads, scales and indices that are known beforehand have become attributes
//  of
//    ops. Whole numbers and truths that depend on the picture are f32 too: truths are 0 and 1, whole numbers are exact
//    up to 2^24.
//  - No op has only constants as inputs: such an op was replaced by its result.
//  - Conv, ConvTranspose, Pool and Resize have a batch of one, N = 1.
//  - Each output of the graph is made by an op. A model whose output is its input gets a Reshape to the same shape.
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

// Elements of one constant that folding makes.
inline constexpr std::int64_t kMaxFoldedElements = std::int64_t{1} << 24;
// Bounds of the sums: elements of all constants while a model is lowered, elements of all outputs, and steps that
// folding takes (one to ten nanoseconds each).
inline constexpr std::int64_t kMaxConstantElements = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxOutputElements = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxFoldingSteps = std::int64_t{1} << 27;
// Nodes of a model. Engines compare each with each, and the largest detectors have some thousands.
inline constexpr int kMaxNodes = 10'000;
// Pixels of one side of a resized picture, for which Resize keeps a table.
inline constexpr std::int64_t kMaxResizedSide = std::int64_t{1} << 16;

// A tensor that is known before the first frame. Its type is f32 or i64: other float types were widened to f32, other
// integers and booleans to i64.
struct Constant {
  DataType type = DataType::kF32;  // kF32 or kI64
  Shape shape;
  std::vector<float> f32;         // element_count(shape) values when type is kF32
  std::vector<std::int64_t> i64;  // the same when type is kI64
};

using ValueId = int;
inline constexpr ValueId kNoValue = -1;

struct Value {
  std::string name;  // the model's, for messages; may be empty
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
  kTruncate,  // towards 0
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
  enum class Kind : std::uint8_t {
    kAdd,
    kSub,
    kMul,
    kDiv,
    kMin,
    kMax,
    kPow,
    kPrelu,        // a < 0 ? a*b : a
    kModulo,       // the remainder with b's sign
    kRemainder,    // the remainder with a's sign, C's fmod()
    kEqual,        // this and the next: 1 or 0
    kLess,         // a < b
    kLessOrEqual,  // a <= b
  } kind = Kind::kAdd;
};
[[nodiscard]] constexpr bool is_comparison(Binary::Kind kind) noexcept { return kind >= Binary::Kind::kEqual; }

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

// inputs: x. The positions of the `count` largest (or smallest) elements along `axis`, the best first; of equal ones
// the earlier first, and NaN is worse than all others. The output has `count` in place of the axis.
struct TopK {
  int axis = 0;
  std::int64_t count = 1;
  bool largest = true;
};

// inputs: x [O,S,I], indices [O or 1,N,I or 1]. Output [O,N,I]: element (o,n,i) is x[o, indices[o,n,i], i]. An index
// below 0 counts from the end; one outside of x becomes the nearest inside.
struct Pick {};

// inputs: x [O,S,I], indices [O or 1,N,I or 1], updates [O,N,I]. Output: x, in which element (o, indices[o,n,i], i) is
// combined with updates[o,n,i], for one n after the other. Indices as with Pick.
struct Scatter {
  enum class Kind : std::uint8_t { kReplace, kAdd, kMul, kMax, kMin } kind = Kind::kReplace;
};

// inputs: x. The sum of all elements up to each one along `axis`; `exclusive`: without itself; `reverse`: from the end.
struct CumSum {
  int axis = 0;
  bool exclusive = false, reverse = false;
};

// inputs: x [N,C,H,W], grid [N,h,w,2] with (x, y) from -1 to 1. Output [N,C,h,w].
struct GridSample {
  enum class Mode : std::uint8_t { kLinear, kNearest, kCubic } mode = Mode::kLinear;
  enum class Padding : std::uint8_t { kZeros, kBorder, kReflection } padding = Padding::kZeros;
  bool align_corners = false;  // -1 and 1 are the centres of the outermost pixels, not their outer edges
};

// inputs: condition, a, b, with numpy's broadcasting. a where the condition is not 0, else b.
struct Select {};

using Operation = std::variant<Conv, ConvTranspose, MatMul, Pool, Resize, Concat, Softmax, Unary, Binary, Transpose,
                               Reshape, Slice, Gather, Pad, Reduce, TopK, Pick, Scatter, CumSum, GridSample, Select>;

struct Op {
  Operation operation;
  std::vector<ValueId> inputs;
  ValueId output = kNoValue;
  // Applied to the result; other than kNone only for Conv, ConvTranspose, MatMul and Binary.
  Activation activation;
  std::string origin;  // the node that it was made from, for messages: "Conv (node 'conv1')"
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

// Multiplications, each with its addition, of convolutions and matrix products in one run.
[[nodiscard]] std::int64_t multiply_adds(const Graph& graph, const Op& op) noexcept;
[[nodiscard]] std::int64_t multiply_adds(const Graph& graph) noexcept;

// Number of ops that read each value, plus one for each time that it is a graph output.
[[nodiscard]] std::vector<int> use_counts(const Graph& graph);

}  // namespace camd::infer
