// Which nodes of an ONNX graph its outputs need, and cutting a graph at other outputs than the file's own.
//
// Threads: functions of their arguments, [any]. Private to infer/, as onnx/file.hpp is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "infer/onnx/file.hpp"

namespace camd::infer {

// Calls visit(name) for what a node reads: its inputs and what the graphs inside it read from around them.
void for_each_read(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit);

// Puts the nodes in an order in which each is made before it is read: some converters append theirs at the end. Nodes
// that are in order stay where they are, and so do all where a cycle leaves no order.
void order_nodes(onnx::GraphProto& graph);

// For each node, in execution order, whether an output needs it. Exporters leave nodes that none needs, and a model
// must not be refused for the operator of such a node.
[[nodiscard]] std::vector<bool> needed_nodes(const onnx::GraphProto& graph);

// Makes the tensors `cut_at` the graph's outputs, in this order, and removes nodes and inputs that these do not need.
// The graph need not have been checked. Throws Error(kModel) with `path` when a name is of no tensor that a node makes,
// or is there twice.
void cut_graph(const std::string& path, onnx::GraphProto& graph, const std::vector<std::string>& cut_at);

}  // namespace camd::infer
