// make_plan() checks that kernels take all ranks; PlanBuilder does the rest.
#include "infer/cuda/plan/plan.hpp"

#include "base/error.hpp"
#include "infer/cuda/plan/builder.hpp"
#include "infer/cuda/plan/patches.hpp"
#include "infer/cuda/plan/products.hpp"
#include "infer/cuda/plan/windows.hpp"
#include "infer/frame_memory.hpp"

namespace camd::infer::cuda {

Graph rewritten(const Graph& graph, const PlanOptions& options) {
  if (!options.fuse) return graph;
  Graph changed = with_convolved_patches(with_convolved_products(graph));
  return options.type == DataType::kF16 ? with_whole_windows(changed) : changed;
}

Plan make_plan(const Graph& graph, const PlanOptions& options, const std::string& path) {
  for (const Op& op : graph.ops) {
    for (const ValueId in : op.inputs) {
      if (in != kNoValue && !graph.is_constant(in) && graph.shape(in).size() > kMaxRank) {
        throw base::Error(base::ErrorKind::kModel, path + ": " + op.origin + " reads a tensor of " +
                                                       std::to_string(graph.shape(in).size()) +
                                                       " dimensions, engine cuda takes " + std::to_string(kMaxRank) +
                                                       ": engine opencv on device host may run this model");
      }
    }
  }
  Plan plan = PlanBuilder(rewritten(graph, options), options, path).build();
  check_frame_memory(path, plan.output_bytes, plan.arena_bytes);
  return plan;
}

std::string Plan::summary() const {
  int fast = 0, generic_convolutions = 0;
  for (const Step& step : steps) {
    const bool tensor_cores = std::holds_alternative<SeparableArguments>(step.arguments) ||
                              std::holds_alternative<BottleneckArguments>(step.arguments) ||
                              std::holds_alternative<TileProgramArguments>(step.arguments) ||
                              std::holds_alternative<ConvArguments>(step.arguments) ||
                              std::holds_alternative<StemArguments>(step.arguments);
    const auto* generic = std::get_if<GenericConvArguments>(&step.arguments);
    if (tensor_cores || (generic != nullptr && generic->products != 0)) ++fast;
    if (generic != nullptr && generic->products == 0) ++generic_convolutions;
  }
  return std::to_string(steps.size()) + " kernels in " + std::to_string(lane_count) + " lanes (" +
         std::to_string(fast) + " on tensor cores, " + std::to_string(generic_convolutions) +
         " generic convolutions), " + std::to_string((arena_bytes + output_bytes) / 1024) + " KiB a frame, " +
         std::to_string(constants.size() / 1024) + " KiB of weights";
}

}  // namespace camd::infer::cuda
