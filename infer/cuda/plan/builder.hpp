// PlanBuilder: makes the steps of a plan, operator by operator. Private to the planner.
//
// builder.cpp has the order of the steps, values and memory. builder_operators.cpp has emit(), which makes the step of
// an operator. Before, find_fusions() decides which operators share a kernel; afterwards schedule() gives the steps
// lanes and the buffers memory.
//
// Threads: used by one thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/cuda/plan/form.hpp"
#include "infer/cuda/plan/fusion.hpp"
#include "infer/cuda/plan/packing.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/cuda/plan/tile_layout.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// The weights of a tile program's layer, for all its output channels.
struct TileWeights {
  std::vector<Half> packed;
  std::vector<float> bias;
};

// Where a value is made inside of the Concat that reads it.
struct ConcatSlice {
  ValueId whole = kNoValue;
  int axis = 0;
  std::int64_t first = 0;  // index along `axis`
  bool image = false;      // the whole is an image; else a tensor
};

class PlanBuilder {
 public:
  // `path` is for messages.
  PlanBuilder(Graph graph, PlanOptions options, std::string path);
  // Once. Throws Error(kModel) for what no kernel takes.
  [[nodiscard]] Plan build();

 private:
  void assign_concat_slices();
  void assign_image_slices(const Op& concat, DataType type, const std::map<ValueId, DataType>& made_as_image);
  void assign_tensor_slices(const Op& concat);
  [[nodiscard]] bool can_be_written_anywhere(ValueId id) const;
  // A Concat of heads that write lines, each pixel beside the one before: it cannot be laid out for a transposition.
  [[nodiscard]] bool joins_heads(ValueId id) const;
  [[nodiscard]] bool may_be_slice(ValueId id, const Op& concat) const;
  void emit(const Op& op, int index);
  void emit(const Op& op, const Conv& conv, int index);
  void emit(const Op& op, const ConvTranspose& conv, int index);
  void emit(const Op& op, const Pool& pool, int index);
  void emit(const Op& op, const Resize& resize, int index);
  void emit(const Op& op, const Concat& concat, int index);
  void emit(const Op& op, const Softmax& softmax, int index);
  void emit(const Op& op, const Unary& unary, int index);
  void emit(const Op& op, const Binary& binary, int index);
  void emit(const Op& op, const Transpose& transpose, int index);
  void emit(const Op& op, const Reshape& reshape, int index);
  void emit(const Op& op, const Slice& slice, int index);
  void emit(const Op& op, const Gather& gather, int index);
  void emit(const Op& op, const Pad& pad, int index);
  void emit(const Op& op, const Reduce& reduce, int index);
  void emit(const Op& op, const MatMul& matmul, int index);
  void emit(const Op& op, const TopK& top, int index);
  void emit(const Op& op, const Pick& pick, int index);
  void emit(const Op& op, const Scatter& scatter, int index);
  void emit(const Op& op, const CumSum& sum, int index);
  void emit(const Op& op, const GridSample& sample, int index);
  void emit(const Op& op, const Select& select, int index);

  void emit_stem(const Op& op);
  void emit_stem_block(const Op& first, const Op& depthwise, const Op& pointwise);
  // The arguments for the first convolution, without `y`.
  [[nodiscard]] StemArguments stem_arguments(const Op& op);
  void add_stem(const StemArguments& arguments, const std::string& origin);
  void emit_separable(const Op& depthwise, const Op& pointwise);
  void emit_bottleneck(const Op& pointwise, const Bottleneck& block);
  void emit_program(const TileProgramPlan& program);
  // Completes stage `at` of `stages` and its part of `a`. Returns the layer's weights.
  [[nodiscard]] TileWeights emit_layer(const TileProgramPlan& program, std::size_t at, std::vector<TileStage>& stages,
                                       TileProgramArguments& a);
  // planes_conv() can compute it.
  [[nodiscard]] bool reads_planes(const Op& op, const Conv& conv) const;
  void emit_planes_conv(const Op& op, const Conv& conv);
  void emit_tensor_core_conv(const std::vector<int>& members);
  void emit_generic_conv(const Op& op, const GenericConvArguments& geometry);
  // Lets a depthwise convolution add its pixels.
  void add_pixel_sums(GenericConvArguments& a, const PixelSums& sums);
  void emit_expectation(const Op& softmax, const Op& product);
  void emit_max_pools(const MaxPools& pools);
  // Of the op's input, to `y`; `added` may be kNoValue.
  void emit_resize(const Op& op, ValueId added, ValueId y, const std::string& origin);
  void emit_layer_norm(const Op& op, const LayerNorm& norm);
  void emit_deformable(const Op& op, const Deformable& deformable);
  // `product`: of the pool's image and what `second` makes; null where that alone is made.
  void emit_squeeze(const Op& pool, const Op& first, const Op& second, const Op* product);
  void emit_attention(const Op& op, const Attention& attention);
  // A Binary or a Unary.
  void emit_elementwise(const Op& op);
  [[nodiscard]] PickArguments pick_arguments(const Op& op);
  // The arguments for a Softmax, without `y`.
  [[nodiscard]] SoftmaxArguments softmax_arguments(const Op& op);
  void finish_outputs();

  // ---- Values
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.shape(id); }
  [[nodiscard]] bool is_picture(ValueId id) const;  // [1,C,H,W]: may have the form of an image
  [[nodiscard]] bool has_image(ValueId id) const;
  // The value as an image of type_; a step converts it where it has no such form yet.
  [[nodiscard]] Image image(ValueId id);
  // Memory for a value that an op is to make, as an image; inside of the Concat that reads it, if there is one.
  [[nodiscard]] Image make_image(ValueId id, bool kernel_writes_padding);
  // The value as row-major f32; a step converts it where it has no such form yet.
  [[nodiscard]] Form tensor(ValueId id);
  // Memory for a value that an op is to make, row-major; a network output is made in the output's own memory.
  [[nodiscard]] Form make_tensor(ValueId id, bool any_type);
  // The value as row-major f32, also a constant; and memory for such a value that an op is to make.
  [[nodiscard]] const float* plain(ValueId id);
  [[nodiscard]] float* make_plain(ValueId id);
  // The value in the form that it has, with a stride for each of its dimensions. Constants have one too.
  [[nodiscard]] Strided strided(ValueId id);
  [[nodiscard]] Strided strided(ValueId id, const Form& form) const;
  // Another form of a value that exists.
  void add_view(ValueId id, const Form& form) { forms_[static_cast<std::size_t>(id)].push_back(form); }
  // Also of a constant.
  [[nodiscard]] Form first_form(ValueId id);
  // Memory for a value that an op is to make, as an image where that is wanted and possible; inside of the Concat that
  // reads it, if there is one.
  [[nodiscard]] Strided make_strided(ValueId id, bool as_image);
  // Memory for a value that an op is to make, laid out as the last of the reshapes and transpositions that alone read
  // it shall have it: then none of them copies.
  [[nodiscard]] Strided make_for_movements(ValueId id);
  // The same, where that is inside of a Concat or an output of the network; else make_strided().
  [[nodiscard]] Strided make_result(ValueId id, bool as_image);
  [[nodiscard]] std::vector<const Op*> movements_of(ValueId id) const;
  [[nodiscard]] std::optional<Form> moved(Form form, const std::vector<int>& movements) const;
  // The value broadcast to shape `to`, as numpy does.
  [[nodiscard]] Strided broadcast(ValueId id, const Shape& to);

  // ---- Memory and steps
  [[nodiscard]] int new_buffer(BufferKind kind, std::size_t size_bytes);
  template <typename T>
  [[nodiscard]] const T* constant(const std::vector<T>& values);
  [[nodiscard]] const float* constant_floats(ValueId id);
  [[nodiscard]] const float* padded_bias(const std::vector<float>& bias, int multiple);
  void add_step(const Arguments& arguments, const std::string& origin);
  void add_move(const Strided& x, const Strided& y, const Shape& to, const Shape& from, const std::string& origin);
  [[nodiscard]] std::vector<float> floats(ValueId id) const;
  void require_rank(const Op& op, const Shape& shape) const;

  [[nodiscard]] DataType type_of_op(int index) const;

  Graph graph_;
  const PlanOptions options_;
  const std::string path_;
  DataType type_ = DataType::kF32;  // of the images that the op being made reads and writes
  Fusion fusion_;
  Plan plan_;
  std::vector<std::vector<Form>> forms_;  // of each value
  std::map<ValueId, ConcatSlice> slices_;
  std::map<ValueId, int> output_buffers_;  // value -> output buffer that it may be made in
  struct SumsOfPixels {
    int buffer = -1;
    std::int64_t channels = 0;  // that convolutions add
  };
  std::map<ValueId, SumsOfPixels> pixel_sums_;  // of the images of Fusion::pixel_sums
  std::map<ValueId, const float*> constants_;   // constants that lie in the plan already
};

}  // namespace camd::infer::cuda
