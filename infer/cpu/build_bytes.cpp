#include "infer/cpu/build_bytes.hpp"

#include <algorithm>
#include <numeric>

namespace camd::infer::cpu {
namespace {

// A table of levels as one of bytes.
const std::uint8_t* keep_table(Builder& builder, const LevelTable& levels) {
  const std::uint8_t flip = builder.kernels().bytes->flip;
  std::vector<std::uint8_t> table(levels.size());
  for (std::size_t level = 0; level < levels.size(); ++level) {
    table[level ^ flip] = static_cast<std::uint8_t>(levels[level] ^ flip);
  }
  return builder.keep(std::move(table));
}

void build_byte_conv(Builder& builder, const Op& op, const Conv& conv) {
  const ByteConv& planned = builder.bytes().convs.at(op.output);
  auto step = std::make_unique<ByteConvStep>();
  step->kernels = builder.kernels().bytes;
  step->in = builder.read_bytes(op.inputs[0]);
  step->out = builder.write_bytes(op.output);
  step->depthwise = conv.groups > 1;
  ByteConvArguments& a = step->arguments;
  a.kernel = conv.kernel;
  a.stride = conv.stride;
  a.dilation = conv.dilation;
  a.top = conv.pads.top;
  a.left = conv.pads.left;
  a.to = builder.byte_scale(planned.to);
  const Shape& shape = builder.shape(op.inputs[1]);
  // Products have the input's zero in them: what it adds is known.
  const std::size_t each = planned.weights.size() / planned.bias.size();
  std::vector<std::int32_t> start(at(blocks(number(shape[0]))) * kLanes, 0);
  for (std::size_t m = 0; m < planned.bias.size(); ++m) {
    const auto row = planned.weights.begin() + static_cast<std::ptrdiff_t>(m * each);
    start[m] =
        planned.start[m] - step->in.scale.zero * std::accumulate(row, row + static_cast<std::ptrdiff_t>(each), 0);
  }
  a.start = builder.keep(std::move(start));
  a.scale = builder.keep(pad_to_blocks(planned.scale));
  a.bias = builder.keep(pad_to_blocks(planned.bias));
  a.weights = builder.keep(step->depthwise ? pack_bytes_depthwise(planned.weights, shape)
                                           : pack_bytes(planned.weights, shape, step->kernels->packing));
  if (planned.table) a.table = keep_table(builder, *planned.table);
  const int out_blocks = blocks(step->out.form.channels);
  const int parallel = step->depthwise ? out_blocks : (out_blocks + kConvBlocks - 1) / kConvBlocks;
  step->bands = bands_for(step->out.form.height, parallel, builder.threads());
  step->items = parallel * step->bands;
  builder.add(std::move(step), &op, step->in, step->out);
}

// from: (input, channel) for each channel of the output.
void build_byte_channels(Builder& builder, const Op& op, std::vector<ChannelsStep::From> from) {
  auto step = std::make_unique<ByteChannelsStep>();
  step->kernels = builder.kernels().bytes;
  for (const ValueId id : op.inputs) step->sources.push_back(builder.read_bytes(id));
  step->tables.assign(op.inputs.size(), nullptr);
  if (const auto planned = builder.bytes().tables.find(op.output); planned != builder.bytes().tables.end()) {
    for (std::size_t i = 0; i < step->tables.size(); ++i) {
      if (planned->second[i]) step->tables[i] = keep_table(builder, *planned->second[i]);
    }
  }
  step->from = std::move(from);
  step->out = builder.write_bytes(op.output);
  step->items = blocks(step->out.form.channels);
  builder.add(std::move(step), &op, step->sources, step->out);
}

struct BuildBytes {
  Builder& builder;
  const Op& op;

  void operator()(const Conv& o) const { build_byte_conv(builder, op, o); }
  void operator()(const Pool& o) const {
    auto step = std::make_unique<ByteMaxPoolStep>();
    step->kernels = builder.kernels().bytes;
    step->pool = o;
    add(std::move(step));
  }
  void operator()(const Resize& o) const {
    auto step = std::make_unique<ByteResizeStep>();
    step->rows = o.y.index;
    step->columns = o.x.index;
    add(std::move(step));
  }
  // A table.
  void operator()(const Unary&) const {
    std::vector<ChannelsStep::From> from(at(builder.shape(op.output)[1]));
    for (std::size_t c = 0; c < from.size(); ++c) from[c].channel = static_cast<int>(c);
    build_byte_channels(builder, op, std::move(from));
  }
  void operator()(const Concat&) const {
    std::vector<ChannelsStep::From> from;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      for (int c = 0; c < number(builder.shape(op.inputs[i])[1]); ++c) from.push_back({static_cast<int>(i), c});
    }
    build_byte_channels(builder, op, std::move(from));
  }
  void operator()(const Slice& o) const {
    std::vector<ChannelsStep::From> from;
    for (std::int64_t c = 0; c < builder.shape(op.output)[1]; ++c) {
      from.push_back({0, number(o.start[1] + c * o.step[1])});
    }
    build_byte_channels(builder, op, std::move(from));
  }
  void operator()(const Gather& o) const {
    std::vector<ChannelsStep::From> from;
    for (const std::int64_t c : o.indices) from.push_back({0, number(c)});
    build_byte_channels(builder, op, std::move(from));
  }
  void operator()(const Binary& o) const {
    if (o.kind == Binary::Kind::kDiv) return round_numbers();
    auto step = std::make_unique<ByteBinaryStep>();
    step->kernels = builder.kernels().bytes;
    step->a = builder.read_bytes(op.inputs[0]);
    step->b = builder.read_bytes(op.inputs[1]);
    step->out = builder.write_bytes(op.output);
    const float a = step->a.scale.scale, b = step->b.scale.scale;
    const float divisor = builder.requantize_of(op).divisor, to = divisor == 0 ? 1.0F : divisor;
    ByteBinary& operation = step->operation;
    operation.product = o.kind == Binary::Kind::kMul;
    operation.a_zero = step->a.scale.zero;
    operation.b_zero = step->b.scale.zero;
    operation.a_scale = operation.product ? a * b / to : a / to;
    operation.b_scale = o.kind == Binary::Kind::kSub ? -b / to : b / to;
    operation.to = step->out.scale;
    step->items = blocks(step->out.form.channels);
    builder.add(std::move(step), &op, step->a, step->b, step->out);
  }
  template <typename O>
  void operator()(const O&) const {
    builder.refuse(op, "it makes no bytes");  // the plan names none of these
  }

 private:
  // What is no bytes yet.
  void round_numbers() const {
    const ValueId in = op.inputs[0];
    if (builder.prefers_blocked(in)) {
      auto step = std::make_unique<FromFloatsStep>();
      step->kernels = builder.kernels().bytes;
      step->in = builder.read_blocked(in);
      step->out = builder.write_bytes(op.output);
      step->items = blocks(step->out.form.channels);
      builder.add(std::move(step), &op, step->in, step->out);
      return;
    }
    auto step = std::make_unique<FromPlanesStep>();
    step->kernels = builder.kernels().bytes;
    step->in = builder.read_plain(in);
    step->out = builder.write_bytes(op.output);
    const int count = blocks(step->out.form.channels);
    step->bands = bands_for(step->out.form.height, count, builder.threads());
    step->items = count * step->bands;
    builder.add(std::move(step), &op, step->in, step->out);
  }
  template <typename S>
  void add(std::unique_ptr<S> step) const {
    step->in = builder.read_bytes(op.inputs[0]);
    step->out = builder.write_bytes(op.output);
    step->items = blocks(step->out.form.channels);
    builder.add(std::move(step), &op, step->in, step->out);
  }
};

}  // namespace

void build_bytes(Builder& builder, const Op& op) { std::visit(BuildBytes{builder, op}, op.operation); }

}  // namespace camd::infer::cpu
