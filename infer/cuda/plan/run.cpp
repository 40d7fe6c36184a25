// Which launch function is for which arguments.
#include "infer/cuda/plan/run.hpp"

namespace camd::infer::cuda {
namespace {

struct Runner {
  const LaunchContext& context;
  int operator()(const SeparableArguments& a) const { return separable(a, context); }
  int operator()(const BottleneckArguments& a) const { return bottleneck(a, context); }
  int operator()(const TileProgramArguments& a) const { return tile_program(a, context); }
  int operator()(const ConvArguments& a) const { return conv(a, context); }
  int operator()(const StemArguments& a) const { return stem(a, context); }
  int operator()(const GenericConvArguments& a) const { return generic_conv(a, context); }
  int operator()(const PlanesConvArguments& a) const { return planes_conv(a, context); }
  int operator()(const PoolArguments& a) const { return pool(a, context); }
  int operator()(const MaxPoolsArguments& a) const { return max_pools(a, context); }
  int operator()(const ResizeArguments& a) const { return resize(a, context); }
  int operator()(const MoveArguments& a) const { return move(a, context); }
  int operator()(const MovesArguments& a) const { return moves(a, context); }
  int operator()(const ElementwiseArguments& a) const { return elementwise(a, context); }
  int operator()(const ElementwisesArguments& a) const { return elementwises(a, context); }
  int operator()(const SoftmaxArguments& a) const { return softmax(a, context); }
  int operator()(const ReduceArguments& a) const { return reduce(a, context); }
  int operator()(const MatMulArguments& a) const { return matmul(a, context); }
  int operator()(const AttentionArguments& a) const { return attention(a, context); }
  int operator()(const TopKArguments& a) const { return top_k(a, context); }
  int operator()(const PickArguments& a) const { return pick(a, context); }
  int operator()(const CumSumArguments& a) const { return cumulative_sum(a, context); }
  int operator()(const GridSampleArguments& a) const { return grid_sample(a, context); }
  int operator()(const SelectArguments& a) const { return select(a, context); }
  int operator()(const LayerNormArguments& a) const { return layer_norm(a, context); }
  int operator()(const SqueezeArguments& a) const { return squeeze(a, context); }
  int operator()(const DeformableArguments& a) const { return deformable_attention(a, context); }
};

struct Namer {
  const char* operator()(const SeparableArguments&) const { return "separable"; }
  const char* operator()(const BottleneckArguments&) const { return "bottleneck"; }
  const char* operator()(const TileProgramArguments&) const { return "tiles"; }
  const char* operator()(const ConvArguments&) const { return "conv"; }
  const char* operator()(const StemArguments&) const { return "stem"; }
  const char* operator()(const GenericConvArguments&) const { return "generic_conv"; }
  const char* operator()(const PlanesConvArguments&) const { return "planes_conv"; }
  const char* operator()(const PoolArguments&) const { return "pool"; }
  const char* operator()(const MaxPoolsArguments&) const { return "max_pools"; }
  const char* operator()(const ResizeArguments&) const { return "resize"; }
  const char* operator()(const MoveArguments&) const { return "move"; }
  const char* operator()(const MovesArguments&) const { return "moves"; }
  const char* operator()(const ElementwiseArguments&) const { return "elementwise"; }
  const char* operator()(const ElementwisesArguments&) const { return "elementwises"; }
  const char* operator()(const SoftmaxArguments&) const { return "softmax"; }
  const char* operator()(const ReduceArguments&) const { return "reduce"; }
  const char* operator()(const MatMulArguments&) const { return "matmul"; }
  const char* operator()(const AttentionArguments&) const { return "attention"; }
  const char* operator()(const TopKArguments&) const { return "top_k"; }
  const char* operator()(const PickArguments&) const { return "pick"; }
  const char* operator()(const CumSumArguments&) const { return "cumsum"; }
  const char* operator()(const GridSampleArguments&) const { return "grid_sample"; }
  const char* operator()(const SelectArguments&) const { return "select"; }
  const char* operator()(const LayerNormArguments&) const { return "layer_norm"; }
  const char* operator()(const SqueezeArguments&) const { return "squeeze"; }
  const char* operator()(const DeformableArguments&) const { return "deformable"; }
};

}  // namespace

int run(const Arguments& arguments, const LaunchContext& context) { return std::visit(Runner{context}, arguments); }

std::string_view kernel_name(const Arguments& arguments) noexcept { return std::visit(Namer{}, arguments); }

}  // namespace camd::infer::cuda
