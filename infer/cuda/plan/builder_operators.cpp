// PlanBuilder::emit(): the step that computes an operator, one function for each kind.
#include "infer/cuda/plan/builder.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "infer/cuda/kernels/activation.hpp"
#include "infer/cuda/kernels/tiles.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/packing.hpp"
#include "infer/half.hpp"

namespace camd::infer::cuda {
namespace {

// What Conv and ConvTranspose have in common; without tensors.
template <typename C>
GenericConvArguments arguments_of(const C& conv) {
  GenericConvArguments a;
  a.kernel = conv.kernel;
  a.stride = conv.stride;
  a.dilation = conv.dilation;
  a.pad_top = conv.pads.top;
  a.pad_left = conv.pads.left;
  a.groups = conv.groups;
  return a;
}

}  // namespace

void PlanBuilder::emit(const Op& op, int index) {
  const auto program = fusion_.program_at.find(index);
  if (program != fusion_.program_at.end())
    return emit_program(fusion_.programs[static_cast<std::size_t>(program->second)]);
  require_rank(op, shape(op.output));
  std::visit([&](const auto& operation) { emit(op, operation, index); }, op.operation);
}

// ---- Convolutions --------------------------------------------------------------------------------------------------

void PlanBuilder::emit(const Op& op, const Conv& conv, int index) {
  if (fusion_.stem == index) return emit_stem(op);
  if (const auto softmax = fusion_.expectation_of.find(index); softmax != fusion_.expectation_of.end())
    return emit_expectation(graph_.ops[static_cast<std::size_t>(softmax->second)], op);
  if (const auto squeezed = fusion_.squeeze_of.find(index); squeezed != fusion_.squeeze_of.end())
    return emit_squeeze(graph_.ops[static_cast<std::size_t>(squeezed->second.first)],
                        graph_.ops[static_cast<std::size_t>(squeezed->second.second)], op, nullptr);
  const auto deep = fusion_.depthwise_of.find(index);
  if (deep != fusion_.depthwise_of.end()) {
    const Op& depthwise = graph_.ops[static_cast<std::size_t>(deep->second)];
    if (fusion_.stem_block == index) {
      return emit_stem_block(graph_.ops[static_cast<std::size_t>(fusion_.stem)], depthwise, op);
    }
    if (const auto block = fusion_.bottlenecks.find(index); block != fusion_.bottlenecks.end())
      return emit_bottleneck(op, block->second);
    return emit_separable(depthwise, op);
  }
  const auto dense = fusion_.siblings.find(index);
  if (dense != fusion_.siblings.end()) return emit_tensor_core_conv(dense->second);
  if (reads_planes(op, conv)) return emit_planes_conv(op, conv);
  GenericConvArguments a = arguments_of(conv);
  a.activation_first = conv.activation_first;
  if (const auto sums = fusion_.pixel_sums.find(index); sums != fusion_.pixel_sums.end())
    add_pixel_sums(a, sums->second);
  emit_generic_conv(op, a);
}

void PlanBuilder::emit(const Op& op, const ConvTranspose& conv, int) {
  GenericConvArguments a = arguments_of(conv);
  a.transposed = true;
  emit_generic_conv(op, a);
}

void PlanBuilder::emit_generic_conv(const Op& op, const GenericConvArguments& geometry) {
  GenericConvArguments a = geometry;
  a.x = image(op.inputs[0]);
  if (residual_of(op) != kNoValue) a.residual = image(residual_of(op));
  a.type = type_;
  const std::vector<float> w = floats(op.inputs[1]);
  const int n = static_cast<int>(shape(op.output)[1]), taps = a.kernel.y * a.kernel.x;
  const int in_group = a.x.c / a.groups, out_group = n / a.groups;
  const bool dense = generic_conv_kind(a.groups, a.x.c, n, a.transposed) == GenericConvKind::kDense;
  if (dense && type_ == DataType::kF32) a.products = options_.products;
  const auto weight = [&](int channel, int tap, int row) {
    if (row >= in_group) return 0.0F;
    const int filter = a.transposed ? (channel / out_group * in_group + row) * out_group + channel % out_group
                                    : channel * in_group + row;
    const int i = filter * taps + tap;
    return w[static_cast<std::size_t>(i)];
  };
  a.weights = constant(a.products != 0
                           ? pack_tf32(n, in_group, taps, a.products == 1, weight)
                           : pack_generic(n, dense ? round_up(in_group, kGenericConvRows) : in_group, taps, weight));
  a.bias = padded_bias(floats(op.inputs[2]), kGenericConvColumns);
  a.activation = op.activation;
  a.y = make_image(op.output, true);
  add_step(a, op.origin);
}

void PlanBuilder::emit_stem(const Op& op) {
  StemArguments a = stem_arguments(op);
  a.y = make_image(op.output, true);
  add_stem(a, op.origin);
}

void PlanBuilder::emit_stem_block(const Op& first, const Op& depthwise, const Op& pointwise) {
  StemArguments a = stem_arguments(first);
  StemBlock& b = a.block;
  b.c = static_cast<int>(shape(first.output)[1]);
  const int c = b.c;
  const int c8 = round_up(c, 8);
  const std::vector<float> deep = floats(depthwise.inputs[1]);
  std::vector<float> taps(static_cast<std::size_t>(9 * c8), 0.0F);
  for (int i = 0; i < 9 * c; ++i) {
    const int at = i % 9 * c8 + i / 9;
    taps[static_cast<std::size_t>(at)] = deep[static_cast<std::size_t>(i)];
  }
  b.depthwise = constant(taps);
  b.depthwise_bias = padded_bias(floats(depthwise.inputs[2]), 8);
  b.depthwise_activation = depthwise.activation;
  const std::vector<float> point = floats(pointwise.inputs[1]);
  // 16 channels, those of the depthwise results and what rounding took of them; then what rounding took of the weights.
  b.pointwise = constant(pack_right(static_cast<int>(shape(pointwise.output)[1]), 32, [&](int n, int k) {
    if (k % c8 >= c) return 0.0F;
    const int i = n * c + k % c8;
    const float weight = point[static_cast<std::size_t>(i)];
    const float half = half_to_float(float_to_half(weight));
    return k < 16 ? half : weight - half;
  }));
  b.pointwise_bias = padded_bias(floats(pointwise.inputs[2]), 16);
  b.activation = pointwise.activation;
  a.y = make_image(pointwise.output, true);
  add_stem(a, first.origin + " + " + depthwise.origin + " + " + pointwise.origin);
}

StemArguments PlanBuilder::stem_arguments(const Op& op) {
  const auto& conv = std::get<Conv>(op.operation);
  const std::vector<float> w = round_keeping_sums(floats(op.inputs[1]), 9);
  const auto at = [&](int n, int ky, int kx, int c) {
    const int i = ((n * 3 + c) * 3 + ky) * 3 + kx;
    return w[static_cast<std::size_t>(i)];
  };
  const Shape& in = shape(op.inputs[0]);
  StemArguments a;
  a.planes = static_cast<const float*>(make_handle(kInputBuffer, 0));
  a.network_height = static_cast<int>(in[2]);
  a.network_width = static_cast<int>(in[3]);
  a.weights = constant(pack_stem(static_cast<int>(shape(op.output)[1]), at));
  a.bias = padded_bias(floats(op.inputs[2]), 8);
  a.pad_top = conv.pads.top;
  a.pad_left = conv.pads.left;
  a.activation = op.activation;
  return a;
}

void PlanBuilder::add_stem(const StemArguments& arguments, const std::string& origin) {
  plan_.stem = static_cast<int>(plan_.steps.size());
  if (plan_.stem != 0) plan_.stem = -1;  // the picture could not be let go before other steps
  add_step(arguments, origin);
}

void PlanBuilder::emit_separable(const Op& depthwise, const Op& pointwise) {
  const auto& conv = std::get<Conv>(depthwise.operation);
  const std::vector<float> deep = round_keeping_sums(floats(depthwise.inputs[1]), 9);
  const std::vector<float> point = floats(pointwise.inputs[1]);
  SeparableArguments a;
  a.x = image(depthwise.inputs[0]);
  a.x_pairs = fusion_.pairs.count(depthwise.inputs[0]) != 0;
  const int c = a.x.c;
  a.depthwise = constant(pack_depthwise(c, [&](int tap, int ch) {
    const int i = ch * 9 + tap;
    return deep[static_cast<std::size_t>(i)];
  }));
  a.depthwise_bias = padded_bias(floats(depthwise.inputs[2]), 8);
  a.depthwise_activation = depthwise.activation;
  const int n = static_cast<int>(shape(pointwise.output)[1]);
  a.pointwise = constant(pack_right(n, c, [&](int nn, int k) {
    const int i = nn * c + k;
    return point[static_cast<std::size_t>(i)];
  }));
  a.pointwise_bias = padded_bias(floats(pointwise.inputs[2]), 16);
  a.activation = pointwise.activation;
  a.stride = conv.stride.y;
  a.pad_top = conv.pads.top;
  a.pad_left = conv.pads.left;
  a.y = make_image(pointwise.output, true);
  a.y_pairs = fusion_.pairs.count(pointwise.output) != 0;
  a.tile = choose_tile(a, options_.shared_bytes);
  add_step(a, depthwise.origin + " + " + pointwise.origin);
}

namespace {

// A program's stages and weights as each of its columns of blocks shall have them in shared memory.
std::vector<std::byte> program_memory(const TileProgramArguments& a, const std::vector<TileStage>& stages,
                                      const std::vector<TileWeights>& weights) {
  const auto bytes = static_cast<std::size_t>(a.program_bytes);
  std::vector<std::byte> memory(bytes * static_cast<std::size_t>(a.columns));
  for (int column = 0; column < a.columns; ++column) {
    std::byte* const own = memory.data() + static_cast<std::size_t>(column) * bytes;
    std::memcpy(own, stages.data(), stages.size() * sizeof(TileStage));
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const TileStage& stage = stages[i];
      if (stage.kind != TileStageKind::kDense) continue;
      const int part = static_cast<int>(i) == a.split_stage ? column : 0;
      const int steps = stage.kernel * stage.kernel * stage.depth;
      const std::size_t row = static_cast<std::size_t>(stage.n16) * 512,
                        all = static_cast<std::size_t>(stage.n16_total) * 512;
      const auto* const from = reinterpret_cast<const std::byte*>(weights[i].packed.data()) + part * row;
      for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k)
        std::memcpy(own + stage.weights_at + k * row, from + k * all, row);
      std::memcpy(own + stage.bias_at, weights[i].bias.data() + static_cast<std::size_t>(part * stage.n16) * 16,
                  static_cast<std::size_t>(stage.n16) * 16 * sizeof(float));
    }
  }
  return memory;
}

}  // namespace

void PlanBuilder::emit_program(const TileProgramPlan& program) {
  TileProgramArguments a = program.layout.program;
  std::vector<TileStage> stages = program.layout.stages;
  std::vector<TileWeights> weights(stages.size());
  std::string origin;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    TileStage& stage = stages[i];
    const auto load = [&](ValueId id) {
      const Image x = image(id);
      a.read[i] = x.data;
      stage.pitch = x.pitch;
      stage.channels = round_up(x.c, 8);
      stage.source_h = x.h;
      stage.source_w = x.w;
    };
    if (const int loaded = program.layout.stage_image[i]; loaded >= 0) {
      load(program.image_values[static_cast<std::size_t>(loaded)]);
      const ValueId sum = program.image_sums[static_cast<std::size_t>(loaded)];
      if (sum == kNoValue) continue;
      const Image added = image(sum);
      a.added[i] = added.data;
      stage.added_pitch = added.pitch;
      stage.added_h = added.h;
      stage.added_w = added.w;
      continue;
    }
    if (const int part = program.layout.stage_part[i]; part >= 0) {
      load(program.part_values[static_cast<std::size_t>(part)]);
      continue;
    }
    if (stage.kind == TileStageKind::kPlanes) continue;
    weights[i] = emit_layer(program, i, stages, a);
    for (const int op : program.layer_ops[static_cast<std::size_t>(program.layout.stage_layer[i])])
      origin += (origin.empty() ? "" : " + ") + graph_.ops[static_cast<std::size_t>(op)].origin;
  }
  a.program = constant(program_memory(a, stages, weights));
  add_step(a, origin);
  plan_.steps.back().cycles = program.layout.cycles;
}

// Weights and destinations of one layer.
TileWeights PlanBuilder::emit_layer(const TileProgramPlan& program, std::size_t at, std::vector<TileStage>& stages,
                                    TileProgramArguments& a) {
  TileStage& stage = stages[at];
  const auto index = static_cast<std::size_t>(program.layout.stage_layer[at]);
  const TileLayer& layer = program.group.layers[index];
  const std::vector<int>& members = program.layer_ops[index];
  const Op& first = graph_.ops[static_cast<std::size_t>(members[0])];
  const int c = static_cast<int>(shape(first.inputs[0])[1]);
  const int taps = layer.kernel * layer.kernel;
  std::vector<float> weights, bias;
  for (const int m : members) {
    const Op& op = graph_.ops[static_cast<std::size_t>(m)];
    const std::vector<float> w = round_keeping_sums(floats(op.inputs[1]), taps);
    const std::vector<float> b = floats(op.inputs[2]);
    weights.insert(weights.end(), w.begin(), w.end());
    bias.insert(bias.end(), b.begin(), b.end());
  }
  if (!layer.planes) stage.activation = first.activation;  // each output has its own
  const Activation& f = stage.activation;
  stage.special = !bounds_only(f.function);
  a.special = a.special || stage.special;
  constexpr float kNone = std::numeric_limits<float>::infinity();
  stage.low = f.function == Function::kRelu ? 0.0F : f.function == Function::kClip ? f.a : -kNone;
  stage.high = f.function == Function::kClip ? f.b : kNone;
  stage.activation_first = std::get<Conv>(first.operation).activation_first;
  if (layer.planes) {
    int channel = 0;
    for (const int m : members) {
      const Op& op = graph_.ops[static_cast<std::size_t>(m)];
      PlaneSink& sink = a.sinks[a.sink_count++];
      Strided lines;
      if (const auto flat = fusion_.flattened_heads.find(m); flat != fusion_.flattened_heads.end()) {
        lines = make_strided(flat->second, false);
        sink.pitch = static_cast<int>(lines.strides[1]);
      } else {
        const Shape& s = shape(op.output);
        add_view(op.output, row_major_form(output_buffers_.at(op.output), options_.output_type, s));
        lines = strided(op.output);
        sink.pitch = static_cast<int>(s[2] * s[3]);
      }
      a.plane_type = lines.type;
      const std::size_t begin = handle_offset(lines.data) / size_of(lines.type);
      a.planes_aligned = a.planes_aligned && sink.pitch % kPlaneRun == 0 && begin % kPlaneRun == 0;
      sink.data = lines.data;
      sink.first = channel;
      sink.channels = static_cast<int>(shape(op.output)[1]);
      sink.activation = op.activation;
      channel += sink.channels;
    }
  } else if (program.group.images[static_cast<std::size_t>(layer.to)].stored) {
    const Image y = make_image(first.output, true);
    a.written[at] = y.data;
    stage.pitch = y.pitch;
    stage.channels = round_up(layer.channels, 8);
  }
  bias.resize(static_cast<std::size_t>(stage.n16_total) * 16, 0.0F);
  return {pack_taps(layer.channels, c, taps,
                    [&](int n, int tap, int ch) {
                      const int i = (n * c + ch) * taps + tap;
                      return weights[static_cast<std::size_t>(i)];
                    }),
          std::move(bias)};
}

void PlanBuilder::emit_tensor_core_conv(const std::vector<int>& members) {
  const Op& first = graph_.ops[static_cast<std::size_t>(members[0])];
  const auto& conv = std::get<Conv>(first.operation);
  ConvArguments a = conv_sizes(graph_, members, options_);
  a.x = image(first.inputs[0]);
  a.pad_top = conv.pads.top;
  a.pad_left = conv.pads.left;
  a.activation_first = conv.activation_first;
  const int c = a.x.c;
  const int taps = a.kernel * a.kernel;
  std::vector<std::vector<float>> weights;
  std::vector<float> bias;
  std::vector<std::pair<std::size_t, int>> rows;  // output channel -> member and its channel
  std::string origin;
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Op& op = graph_.ops[static_cast<std::size_t>(members[m])];
    const int channels = static_cast<int>(shape(op.output)[1]);
    weights.push_back(round_keeping_sums(floats(op.inputs[1]), taps));
    const std::vector<float> own = floats(op.inputs[2]);
    Sink& sink = a.sinks[a.sink_count++];
    sink.first = static_cast<int>(rows.size());
    sink.stored = round_up(channels, 8);
    sink.activation = op.activation;
    for (int n = 0; n < round_up(channels, 16); ++n) {
      rows.emplace_back(m, n < channels ? n : -1);
      bias.push_back(n < channels ? own[static_cast<std::size_t>(n)] : 0.0F);
    }
    origin += (m == 0 ? "" : " + ") + op.origin;
  }
  const auto at = [&](int n, int tap, int ch) {
    const auto [m, row] = rows[static_cast<std::size_t>(n)];
    const int i = (row * c + ch) * taps + tap;
    return row < 0 ? 0.0F : weights[m][static_cast<std::size_t>(i)];
  };
  a.weights =
      constant(is_warpgroup_shape(a.shape)
                   ? pack_warpgroup_taps(a.n, c, taps, warpgroup_tile(a.shape).channels() / 16, a.shape.slice_steps, at)
                   : pack_taps(a.n, c, taps, at));
  a.bias = constant(bias);
  const ValueId residual = residual_of(first);
  if (residual != kNoValue) {
    const auto small = fusion_.enlarged_residual.find(members[0]);
    a.add = image(small != fusion_.enlarged_residual.end() ? small->second : residual);
  }
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Image y = make_image(graph_.ops[static_cast<std::size_t>(members[m])].output, true);
    a.sinks[m].data = y.data;
    a.sinks[m].pitch = y.pitch;
  }
  add_step(a, origin);
}

// ---- Images --------------------------------------------------------------------------------------------------------

void PlanBuilder::emit(const Op& op, const Concat& concat, int) {
  const bool as_image = concat.axis == 1 && is_picture(op.output) &&
                        std::any_of(op.inputs.begin(), op.inputs.end(),
                                    [&](ValueId in) { return !graph_.is_constant(in) && has_image(in); });
  // Where an input already lies in its slice, the whole exists.
  if (forms_[static_cast<std::size_t>(op.output)].empty()) (void)make_result(op.output, as_image);
  const Strided whole = strided(op.output);
  std::int64_t first = 0;
  for (const ValueId in : op.inputs) {
    Strided y = whole;
    const auto at = static_cast<std::size_t>(first * whole.strides[concat.axis]) * size_of(whole.type);
    y.data = make_handle(handle_buffer(whole.data), handle_offset(whole.data) + at);
    const Strided x = strided(in);
    const bool in_place = x.data == y.data && std::equal(x.strides, x.strides + shape(in).size(), y.strides);
    if (!in_place) add_move(x, y, shape(in), shape(in), op.origin);
    first += shape(in)[static_cast<std::size_t>(concat.axis)];
  }
}

// ---- Tensors of any layout -----------------------------------------------------------------------------------------

void PlanBuilder::emit(const Op& op, const Unary& unary, int) {
  const ValueId x = op.inputs[0];
  if (fusion_.computed_where_read.count(x) != 0) return emit_elementwise(op);
  const Strided from = strided(x);
  const Strided to = make_result(op.output, has_image(x));
  add_move(from, to, shape(op.output), shape(x), op.origin);
  std::get<MoveArguments>(plan_.steps.back().arguments).activation = unary.function;
}

void PlanBuilder::emit(const Op& op, const Binary&, int index) {
  if (const auto norm = fusion_.layer_norm_of.find(index); norm != fusion_.layer_norm_of.end())
    return emit_layer_norm(op, norm->second);
  if (const auto excited = fusion_.excited_by.find(index); excited != fusion_.excited_by.end()) {
    const auto& [pool, first] = fusion_.squeeze_of.at(excited->second);
    return emit_squeeze(graph_.ops[static_cast<std::size_t>(pool)], graph_.ops[static_cast<std::size_t>(first)],
                        graph_.ops[static_cast<std::size_t>(excited->second)], &op);
  }
  if (const auto sum = fusion_.resized_sums.find(index); sum != fusion_.resized_sums.end()) {
    const Op& resize = graph_.ops[static_cast<std::size_t>(sum->second.first)];
    return emit_resize(resize, sum->second.second, op.output, resize.origin + " + " + op.origin);
  }
  emit_elementwise(op);
}

void PlanBuilder::emit(const Op& op, const Transpose& transpose, int) {
  if (!options_.fuse) {
    const Strided x = strided(op.output, transpose_view(first_form(op.inputs[0]), transpose, shape(op.output)));
    add_move(x, make_strided(op.output, false), shape(op.output), shape(op.output), op.origin);
    return;
  }
  add_view(op.output, transpose_view(first_form(op.inputs[0]), transpose, shape(op.output)));
}

// The same memory under another shape. A network output that aliases it is copied by finish_outputs().
void PlanBuilder::emit(const Op& op, const Reshape&, int) {
  const ValueId x = op.inputs[0];
  std::optional<Form> view = reshape_view(first_form(x), shape(x), shape(op.output));
  if (!view) view = reshape_view(tensor(x), shape(x), shape(op.output));
  add_view(op.output, *view);
}

void PlanBuilder::emit(const Op& op, const Slice& slice, int) {
  const ValueId x = op.inputs[0];
  const Form view = slice_view(first_form(x), slice, shape(op.output));
  if (options_.fuse) return add_view(op.output, view);
  const Strided y = make_strided(op.output, has_image(x));
  add_move(strided(op.output, view), y, shape(op.output), shape(op.output), op.origin);
}

void PlanBuilder::emit(const Op& op, const Gather& gather, int) {
  const ValueId x = op.inputs[0];
  if (options_.fuse && shape(x)[static_cast<std::size_t>(gather.axis)] == 1 && !is_picture(x)) {
    // One element again and again, as Tile writes it.
    Form form = first_form(x);
    form.strides[static_cast<std::size_t>(gather.axis)] = 0;
    form.image = form.plain = false;
    return add_view(op.output, form);
  }
  const Strided from = strided(x);
  const Strided y = make_strided(op.output, has_image(x));
  add_move(from, y, shape(op.output), shape(x), op.origin);
  auto& a = std::get<MoveArguments>(plan_.steps.back().arguments);
  a.table_axis = gather.axis;
  a.table = constant(gather.indices);
}

void PlanBuilder::emit(const Op& op, const Pad& pad, int) {
  const ValueId x = op.inputs[0];
  const Strided from = strided(x);
  const Strided y = make_strided(op.output, has_image(x));
  add_move(from, y, shape(op.output), shape(x), op.origin);
  auto& a = std::get<MoveArguments>(plan_.steps.back().arguments);
  for (std::size_t d = 0; d < pad.before.size(); ++d) a.start[d] = -pad.before[d];
  a.pad_mode = pad.mode;
  a.pad_value = pad.value;
}

SoftmaxArguments PlanBuilder::softmax_arguments(const Op& op) {
  const auto& softmax = std::get<Softmax>(op.operation);
  const Shape& s = shape(op.output);
  const auto axis = static_cast<std::size_t>(softmax.axis);
  SoftmaxArguments a;
  a.x = strided(op.inputs[0]);
  a.rank = static_cast<int>(s.size());
  std::copy(s.begin(), s.end(), a.shape);
  a.shape[axis] = 1;
  a.count = s[axis];
  a.x_step = a.x.strides[axis];
  a.log = softmax.log;
  return a;
}

void PlanBuilder::emit(const Op& op, const Softmax& softmax, int) {
  SoftmaxArguments a = softmax_arguments(op);
  a.y = make_strided(op.output, false);
  a.y_step = a.y.strides[softmax.axis];
  add_step(a, op.origin);
}

// The mean of numbers by their probabilities, as detectors with distributions of distances write it.
void PlanBuilder::emit_expectation(const Op& softmax, const Op& product) {
  SoftmaxArguments a = softmax_arguments(softmax);
  a.weights = constant_floats(product.inputs[1]);
  if (product.inputs.size() > 2 && product.inputs[2] != kNoValue) a.bias = constant_floats(product.inputs[2]);
  a.y = make_strided(product.output, false);
  add_step(a, softmax.origin + " + " + product.origin);
}

void PlanBuilder::emit(const Op& op, const Reduce& reduce, int index) {
  if (const auto deformable = fusion_.deformable_of.find(index); deformable != fusion_.deformable_of.end())
    return emit_deformable(op, deformable->second);
  const ValueId x = op.inputs[0];
  ReduceArguments a;
  a.kind = reduce.kind;
  a.x = strided(x);
  a.y = make_strided(op.output, has_image(x));
  const Shape& out = shape(op.output);
  a.rank = static_cast<int>(out.size());
  std::copy(out.begin(), out.end(), a.shape);
  std::fill(std::begin(a.count), std::end(a.count), 1);
  for (const int axis : reduce.axes) a.count[axis] = shape(x)[static_cast<std::size_t>(axis)];
  add_step(a, op.origin);
}

void PlanBuilder::emit(const Op& op, const MatMul&, int index) {
  if (const auto softmax = fusion_.expectation_of.find(index); softmax != fusion_.expectation_of.end())
    return emit_expectation(graph_.ops[static_cast<std::size_t>(softmax->second)], op);
  if (const auto attention = fusion_.attention_of.find(index); attention != fusion_.attention_of.end())
    return emit_attention(op, attention->second);
  const Shape& out = shape(op.output);
  const Shape& left = shape(op.inputs[0]);
  const std::size_t rank = out.size();
  // The summed dimension is left out of both: a repeats over y's columns, b over y's rows.
  Shape a_shape = out, b_shape = out;
  a_shape[rank - 1] = left.back();
  b_shape[rank - 2] = left.back();
  MatMulArguments a;
  a.a = broadcast(op.inputs[0], a_shape);
  a.b = broadcast(op.inputs[1], b_shape);
  a.k = left.back();
  a.a_k_stride = a.a.strides[rank - 1];
  a.b_k_stride = a.b.strides[rank - 2];
  a.a.strides[rank - 1] = 0;
  a.b.strides[rank - 2] = 0;
  if (op.inputs.size() > 2 && op.inputs[2] != kNoValue) a.bias = broadcast(op.inputs[2], out);
  a.y = make_strided(op.output, false);
  a.rank = static_cast<int>(rank);
  std::copy(out.begin(), out.end(), a.shape);
  a.activation = op.activation;
  add_step(a, op.origin);
}

}  // namespace camd::infer::cuda
