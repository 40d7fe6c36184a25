#include "infer/onnx/cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "base/error.hpp"

namespace camd::infer {
namespace {

using TensorNames = std::unordered_set<std::string>;

// Removes what `keep` refuses; the order of the rest stays.
template <typename Items, typename Keep>
void filter(Items& items, Keep keep) {
  int kept = 0;
  for (int i = 0; i < items.size(); ++i) {
    if (keep(i)) items.SwapElements(kept++, i);
  }
  items.DeleteSubrange(kept, items.size() - kept);
}

// What the file says about a tensor; lowering finds out about those of which it says nothing.
onnx::ValueInfoProto info_of(const onnx::GraphProto& graph, const std::string& name) {
  for (const auto* infos : {&graph.output(), &graph.value_info()}) {
    const auto found =
        std::find_if(infos->begin(), infos->end(), [&](const auto& info) { return info.name() == name; });
    if (found != infos->end() && found->type().has_tensor_type()) return *found;
  }
  onnx::ValueInfoProto info;
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape();  // OpenCV's importer wants one, whatever it says
  return info;
}

std::string own_outputs(const onnx::GraphProto& graph) {
  constexpr int kShown = 8;
  std::string text;
  for (int i = 0; i < std::min(graph.output_size(), kShown); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(graph.output(i).name()));
  }
  return graph.output_size() > kShown ? text + ", ..." : text;
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): protobuf has refused messages nested deeper than 64
void for_each_read(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit) {
  for (const auto& name : node.input()) visit(name);
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const auto& inner : attribute.g().node()) for_each_read(inner, visit);
    for (const auto& output : attribute.g().output()) visit(output.name());
  }
}

void order_nodes(onnx::GraphProto& graph) {
  std::unordered_map<std::string, int> maker;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const auto& name : graph.node(i).output()) maker.emplace(name, i);
  }
  std::vector<std::vector<int>> readers(static_cast<std::size_t>(graph.node_size()));
  std::vector<int> open(readers.size(), 0);
  bool in_order = true;
  for (int i = 0; i < graph.node_size(); ++i) {
    for_each_read(graph.node(i), [&](const std::string& name) {
      const auto made = maker.find(name);
      if (name.empty() || made == maker.end() || made->second == i) return;
      readers[static_cast<std::size_t>(made->second)].push_back(i);
      ++open[static_cast<std::size_t>(i)];
      in_order = in_order && made->second < i;
    });
  }
  if (in_order) return;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (open[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int reader : readers[static_cast<std::size_t>(order.back())]) {
      if (--open[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (order.size() != open.size()) return;
  onnx::GraphProto sorted;
  for (const int i : order) sorted.add_node()->Swap(graph.mutable_node(i));
  graph.mutable_node()->Swap(sorted.mutable_node());
}

std::vector<bool> needed_nodes(const onnx::GraphProto& graph) {
  TensorNames wanted;
  for (const auto& output : graph.output()) wanted.insert(output.name());
  std::vector<bool> needed(static_cast<std::size_t>(graph.node_size()), false);
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const auto& node = graph.node(i);
    const bool need = std::any_of(node.output().begin(), node.output().end(),
                                  [&](const std::string& name) { return wanted.count(name) > 0; });
    needed[static_cast<std::size_t>(i)] = need;
    if (need) for_each_read(node, [&](const std::string& name) { wanted.insert(name); });
  }
  return needed;
}

void cut_graph(const std::string& path, onnx::GraphProto& graph, const std::vector<std::string>& cut_at) {
  TensorNames made, named;
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  std::vector<onnx::ValueInfoProto> infos;
  for (const std::string& name : cut_at) {
    if (name.empty() || made.count(name) == 0) {
      throw base::Error(base::ErrorKind::kModel,
                        fmt::format("{}: model.cut_at names '{}', a tensor that no node makes; the model's own "
                                    "outputs are {}",
                                    path, printable(name), own_outputs(graph)));
    }
    if (!named.insert(name).second) {
      throw base::Error(base::ErrorKind::kModel,
                        fmt::format("{}: model.cut_at names '{}' twice", path, printable(name)));
    }
    infos.push_back(info_of(graph, name));
  }
  graph.clear_output();
  for (auto& info : infos) graph.add_output()->Swap(&info);
  const std::vector<bool> needed = needed_nodes(graph);
  filter(*graph.mutable_node(), [&](int i) { return needed[static_cast<std::size_t>(i)]; });
  TensorNames read;
  for (const auto& node : graph.node()) for_each_read(node, [&](const std::string& name) { read.insert(name); });
  filter(*graph.mutable_input(), [&](int i) { return read.count(graph.input(i).name()) > 0; });
}

}  // namespace camd::infer
