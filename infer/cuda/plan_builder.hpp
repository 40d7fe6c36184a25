// The inside of make_plan(): what was decided so far about values, buffers and steps. Private to the planner's files.
//
// plan_fusion.cpp looks at the graph and finds what operators can share a kernel, plan_groups.cpp decides which layers
// share a tile program; plan_builder.cpp makes the steps, operator by operator; plan_schedule.cpp then gives lanes and
// memory.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "infer/cuda/packing.hpp"
#include "infer/cuda/plan.hpp"
#include "infer/cuda/tile_layout.hpp"

namespace camd::infer::cuda {

// What a convolution adds to its sums, or kNoValue.
[[nodiscard]] inline ValueId residual_of(const Op& op) noexcept {
  return op.inputs.size() > 3 ? op.inputs[3] : kNoValue;
}

// Layers that share a tile program.
struct TileProgramPlan {
  std::vector<int> ops;  // ascending, absorbed ones included
  TileGroup group;
  std::vector<ValueId> image_values;        // of the group's images
  std::vector<ValueId> part_values;         // of the group's parts
  std::vector<ValueId> image_sums;          // what is added to each when it is loaded, enlarged, or kNoValue
  std::vector<std::vector<int>> layer_ops;  // of each layer: its convolutions, more than one for heads
  TileLayout layout;
};

// Of a program's layer, for all its output channels.
struct TileWeights {
  std::vector<Half> packed;
  std::vector<float> bias;
};

// Operators that share a kernel. An op's index is its place in Graph::ops.
struct Fusion {
  int exact_ops = 0;                            // ops before this one are computed in f32, whatever the plan's type
  int stem = -1;                                // the convolution that reads the picture
  int stem_block = -1;                          // pointwise op of the block that shares its kernel
  std::map<int, int> depthwise_of;              // pointwise op -> its depthwise op
  std::set<int> absorbed;                       // ops that another op's kernel computes
  std::set<ValueId> pairs;                      // images of pairs of f16 (SeparableArguments)
  std::map<int, std::vector<int>> siblings;     // first op -> all convolutions of its conv(), itself included
  std::map<int, std::vector<int>> head_groups;  // first op -> 1x1 convolutions of one input that make network outputs
  std::map<int, int> head_of;                   // each of them -> the first
  std::map<int, ValueId> enlarged_residual;     // convolution -> the small image that its residual repeats
  // Sum -> the two that it is of, the second enlarged to the first. It is made where it is read.
  std::map<ValueId, std::pair<ValueId, ValueId>> sums;
  std::vector<TileProgramPlan> programs;
  std::map<int, int> program_at;  // op at which a program is made -> its number
  std::vector<int> order;         // in which ops are made; empty: as they are
};

// `graph` may be changed: activations move from behind a Concat in front of it.
[[nodiscard]] Fusion find_fusions(Graph& graph, const PlanOptions& options);

// Makes programs of the layers in `seeds`, each of which may be one, and joins them; what cannot be one stays.
void group_layers(const Graph& graph, const PlanOptions& options, const std::vector<std::vector<int>>& seeds,
                  Fusion& fusion);

// Gives every step its lane, waits, signals and overlap, and every arena buffer its offset.
void schedule(Plan& plan, int lanes);

// Where a scheduled plan's arena buffers lie: none of `apart` shares bytes with another of them.
[[nodiscard]] ArenaLayout lay_out_arena(const Plan& plan, const std::vector<int>& apart = {});

// How a value lies in memory. A value may lie in several forms.
struct Form {
  int buffer = -1;
  std::size_t offset_bytes = 0;
  DataType type = DataType::kF32;
  bool image = false;  // channels-last with `pitch`, else row-major
  int pitch = 0;
};

class PlanBuilder {
 public:
  PlanBuilder(Graph graph, const PlanOptions& options, std::string path);
  [[nodiscard]] Plan build();

 private:
  void place_concats();
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

  void emit_stem(const Op& op);
  void emit_stem_block(const Op& first, const Op& depthwise, const Op& pointwise);
  // Of the first convolution; `y` is left open.
  [[nodiscard]] StemArguments stem_arguments(const Op& op);
  void add_stem(const StemArguments& arguments, const std::string& origin);
  void emit_separable(const Op& depthwise, const Op& pointwise);
  void emit_program(const TileProgramPlan& program);
  // Completes stage `at` of `stages`.
  [[nodiscard]] TileWeights emit_layer(const TileProgramPlan& program, std::size_t at, std::vector<TileStage>& stages,
                                       TileProgramArguments& a);
  void emit_tensor_core_conv(const std::vector<int>& members);
  void emit_plain_conv(const Op& op, const PlainConvArguments& geometry);
  void finish_outputs();

  // ---- Values
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.shape(id); }
  [[nodiscard]] bool is_picture(ValueId id) const;  // [1,C,H,W]: can lie as an image
  [[nodiscard]] bool has_image(ValueId id) const;
  // The value as an image of the type of the op that is being made; converted first where it only lies otherwise.
  [[nodiscard]] Image image(ValueId id);
  // Memory for the value that an op makes, as an image (where a Concat wants it, if one does).
  [[nodiscard]] Image make_image(ValueId id, bool kernel_writes_padding);
  // The value as row-major f32.
  [[nodiscard]] Form tensor(ValueId id);
  // Memory for the value that an op makes, row-major; straight into the network's output where it is one.
  [[nodiscard]] Form make_tensor(ValueId id, bool any_type);
  // The value in whatever form it lies, constants too, with the strides of its own dimensions.
  [[nodiscard]] Strided strided(ValueId id);
  [[nodiscard]] Strided strided(ValueId id, const Form& form) const;
  // Memory for the value that an op makes, in the form that suits those who read it.
  [[nodiscard]] Strided make_strided(ValueId id, bool as_image);
  // Strides of `id` seen in the dimensions of `to` (numpy's broadcasting).
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
  std::vector<std::vector<Form>> forms_;               // of each value
  std::map<ValueId, std::pair<ValueId, int>> slices_;  // value -> (concatenated value, first channel)
  std::map<ValueId, int> output_buffers_;              // value -> output buffer that it may be made in
  std::map<ValueId, const float*> constants_;          // constants that lie in the plan already
};

[[nodiscard]] inline std::size_t element_size(DataType type) noexcept { return size_of(type); }

}  // namespace camd::infer::cuda
