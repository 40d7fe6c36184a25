#include "infer/cpu/build_program.hpp"

#include "infer/cpu/build_bytes.hpp"
#include "infer/cpu/build_conv.hpp"
#include "infer/cpu/build_elementwise.hpp"
#include "infer/cpu/build_movement.hpp"
#include "infer/cpu/build_picture.hpp"
#include "infer/cpu/build_tensor.hpp"
#include "infer/cpu/builder.hpp"
#include "infer/cpu/chains.hpp"
#include "infer/cpu/fusion.hpp"

namespace camd::infer::cpu {
namespace {

// One function per operator, chosen by std::visit().
struct Build {
  Builder& builder;
  const Op& op;
  const Kernels& conv_kernels;

  void operator()(const Conv& o) const { build_conv(builder, op, o, conv_kernels); }
  void operator()(const ConvTranspose& o) const { build_transposed(builder, op, o); }
  void operator()(const MatMul&) const {
    if (const Attention* a = builder.attention_of(op)) return build_attention(builder, op, *a);
    build_matmul(builder, op);
  }
  void operator()(const Pool& o) const { build_pool(builder, op, o); }
  void operator()(const Resize& o) const { build_resize(builder, op, o); }
  void operator()(const Concat& o) const { build_concat(builder, op, o); }
  void operator()(const Softmax& o) const { build_softmax(builder, op, o); }
  void operator()(const Unary& o) const {
    if (const Normalization* n = builder.normalization_of(op)) return build_normalization(builder, op, *n);
    build_unary(builder, op, o.function);
  }
  void operator()(const Binary& o) const { build_binary(builder, op, o); }
  void operator()(const Transpose& o) const { build_transpose(builder, op, o); }
  void operator()(const Reshape&) const { build_reshape(builder, op); }
  void operator()(const Slice& o) const { build_slice(builder, op, o); }
  void operator()(const Gather& o) const { build_gather(builder, op, o); }
  void operator()(const Pad& o) const { build_pad(builder, op, o); }
  void operator()(const Reduce& o) const { build_reduce(builder, op, o); }
  void operator()(const TopK&) const { build_selection(builder, op); }
  void operator()(const Pick&) const { build_selection(builder, op); }
  void operator()(const Scatter&) const { build_selection(builder, op); }
  void operator()(const CumSum&) const { build_selection(builder, op); }
  void operator()(const GridSample&) const { build_selection(builder, op); }
  void operator()(const Select&) const { build_selection(builder, op); }
};

// Elementwise ops with which nothing else is done. Those of pictures have steps for blocked storage.
std::vector<bool> may_be_chained(const Graph& graph, const Fusions& fusions, const BytePlan& bytes) {
  std::vector<bool> may;
  for (const Op& op : graph.ops) {
    const Shape& shape = graph.shape(op.output);
    const bool elementwise =
        std::holds_alternative<Binary>(op.operation) || std::holds_alternative<Unary>(op.operation);
    const bool whole = fusions.normalizations.count(op.output) + fusions.requantizations.count(op.output) == 0;
    const bool in_f32 = bytes.made.empty() || !bytes.made[at(op.output)];
    may.push_back(elementwise && whole && in_f32 && (shape.size() != 4 || shape[0] != 1));
  }
  return may;
}

}  // namespace

std::shared_ptr<const Program> build_program(Graph graph, const Kernels& kernels, int threads, const std::string& model,
                                             const HalfPrecision& half) {
  Fusions fusions = fuse(graph);
  BytePlan bytes = kernels.bytes == nullptr ? BytePlan{} : plan_bytes(graph, fusions);
  auto chains = take_chains(graph, may_be_chained(graph, fusions, bytes));
  Builder builder(std::move(graph), std::move(fusions), std::move(bytes), kernels, threads, model);
  std::size_t convolution = 0;
  const auto conv_kernels = [&](const Op& op) -> const Kernels& {
    if (half.kernels == nullptr || !std::holds_alternative<Conv>(op.operation)) return kernels;
    const std::size_t number = convolution++;
    return number < half.in_f32.size() && half.in_f32[number] ? kernels : *half.kernels;
  };
  for (const Op& op : builder.graph().ops) {
    const Kernels& of_conv = conv_kernels(op);
    if (builder.makes_bytes(op))
      build_bytes(builder, op);
    else if (const auto chain = chains.find(op.output); chain != chains.end())
      build_chain(builder, op, chain->second);
    else
      std::visit(Build{builder, op, of_conv}, op.operation);
  }
  return builder.finish();
}

}  // namespace camd::infer::cpu
