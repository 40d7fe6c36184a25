// Handlers of the node types that hold graphs of their own.
#include "infer/graph/lower_control.hpp"

#include <fmt/format.h>

namespace camd::infer {
namespace {

// Exporters write If around what depends on a shape only: shapes are known, and so is the branch.
void conditional(Lowering& l) {
  const Constant* condition = l.constant_input(0);
  l.require(condition != nullptr && condition->i64.size() == 1, "its condition depends on the picture");
  const auto* branch = l.attribute(condition->i64[0] != 0 ? "then_branch" : "else_branch");
  l.require(branch != nullptr && branch->has_g(), "its branch is missing");
  const std::vector<ValueId> results = l.lower_inner(branch->g());
  l.require(results.size() == l.output_count(), "its branch has another number of outputs");
  for (std::size_t i = 0; i < results.size(); ++i) l.set_output(i, results[i]);
}

}  // namespace

const std::vector<HandlerEntry>& control_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"If", conditional, "conditions on the picture: on the host, after what runs on the device"}};
  return kTable;
}

}  // namespace camd::infer
