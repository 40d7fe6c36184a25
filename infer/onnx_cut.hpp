// Which part of an ONNX graph its outputs need, and graphs cut to other outputs than the file names.
//
// Threads: functions of their arguments, [any]. Private to infer/, as onnx_file.hpp is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "infer/onnx_file.hpp"

namespace camd::infer {

// Calls visit(name) for what a node reads: its inputs and what the graphs inside it read from around them.
void for_each_read(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit);

// For each node, whether some output needs it: exporters leave dead ends, and an operator that nobody needs must not
// refuse a model. Nodes in execution order.
[[nodiscard]] std::vector<bool> needed_nodes(const onnx::GraphProto& graph);

// Makes the tensors `cut_at` the graph's outputs, in this order; nodes and inputs that only others need are removed.
// The graph need not have been checked. Throws Error(kModel) with `path` when a name is of no tensor that a node makes,
// or is there twice.
void cut_graph(const std::string& path, onnx::GraphProto& graph, const std::vector<std::string>& cut_at);

}  // namespace camd::infer
