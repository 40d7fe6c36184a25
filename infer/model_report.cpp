#include "infer/model_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/batch.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/cut.hpp"
#include "infer/onnx/file.hpp"
#include "infer/onnx/input.hpp"
#include "infer/opencv/opencv_engine.hpp"
#include "infer/tail/tail_engine.hpp"

namespace camd::infer {
namespace {

std::string mebibytes(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

// The file's name begins every error; a report says it once.
std::string without_path(const std::string& path, const std::string& text) {
  const std::string prefix = path + ": ";
  return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
}

std::size_t bytes_of(const Graph& graph) {
  std::int64_t elements = element_count(graph.shape(graph.input));
  for (const ValueId id : graph.outputs) elements += element_count(graph.shape(id));
  return static_cast<std::size_t>(elements) * sizeof(float);
}

// What half precision that is asked for comes to on this processor.
std::string half_words(const std::optional<HalfType>& half) {
  if (!half) return "";
  if (cpu::half_kernels(*half) != nullptr) return fmt::format(" in f32 and {}", to_string(*half));
  return fmt::format(" in f32 (this processor does not compute with {})", to_string(*half));
}

std::string on_cpu(const Graph& graph, const EngineOptions& options, const std::string& path, EngineMemory& memory) {
  constexpr int kThreads = 1;  // decides how operators are cut, not what they need
  const auto program = cpu::build_program(graph, cpu::kernels(), kThreads, path);
  memory.weight_bytes = program->weight_bytes;
  memory.frame_bytes = (program->arena_floats + program->scratch_floats) * sizeof(float) + bytes_of(graph);
  return fmt::format("{} steps{}, {} for each frame in flight, {} of weights", program->steps.size(),
                     half_words(options.host_half), mebibytes(memory.frame_bytes), mebibytes(memory.weight_bytes));
}

std::string on_cuda(const Graph& graph, const EngineOptions& options, const std::string& path, EngineMemory& memory) {
  cuda::PlanOptions wanted;
  wanted.type = options.compute_type;
  wanted.output_type = options.output_type;
  const cuda::Plan plan = cuda::make_plan(graph, wanted, path);
  memory = {plan.constants.size(), plan.arena_bytes + plan.output_bytes + plan.buffers[cuda::kInputBuffer].size_bytes,
            plan.output_bytes};
  return fmt::format("{} kernels in {}, {} for each frame in flight, {} of weights", plan.steps.size(),
                     to_string(options.compute_type), mebibytes(memory.frame_bytes), mebibytes(memory.weight_bytes));
}

// Runs `prepare`, which says what the engine takes; what it throws is why it cannot.
template <typename Prepare>
EngineReport ask(std::string engine, const std::string& path, Prepare prepare) {
  EngineReport report{std::move(engine), false, {}, {}};
  try {
    report.detail = prepare(report.memory);
    report.runs = true;
  } catch (const base::Error& error) {
    report.detail = without_path(path, error.what());
  }
  return report;
}

}  // namespace

ModelReport report_model(const std::string& path, const EngineOptions& options, device::Device& host,
                         ReportDepth depth) {
  OnnxFile file = read_onnx_file(path, options.cut_at);
  ModelReport report;
  report.model = describe_model(file);
  take_camera_pictures(file, options.input);
  const ModelDescription single = describe_model(file);
  report.outputs = report.model.outputs;
  InputOptions input = options.input;
  report.input = resolve_input(single, input);
  for (const OperatorUse& use : report.model.operators) {
    if (!is_supported_operator(use.type)) report.foreign.push_back(use.type);
  }
  std::optional<Graph> graph;
  std::string refused;
  try {
    graph = lower_model(file, report.input);
    report.multiply_adds = multiply_adds(*graph);
    for (std::size_t i = 0; i < graph->outputs.size(); ++i) {
      report.outputs[i].shape = graph->shape(graph->outputs[i]);
      report.outputs[i].type = DataType::kF32;
    }
  } catch (const base::Error& error) {
    refused = error.what();
  }
  if (!graph) {
    if (const auto split = split_model(file, report.input)) {
      graph = lower_model(split->head, report.input);
      report.multiply_adds = multiply_adds(*graph);
      report.tail = describe_tail(*split);
    }
  }
  const auto lowered = [&]() -> const Graph& {
    if (!graph) throw base::Error(base::ErrorKind::kModel, refused);
    return *graph;
  };
  report.engines.push_back(
      ask("cpu", path, [&](EngineMemory& memory) { return on_cpu(lowered(), options, path, memory); }));
  const bool on_host = report.engines.back().runs;
  report.engines.push_back(
      ask("cuda", path, [&](EngineMemory& memory) { return on_cuda(lowered(), options, path, memory); }));
  if (depth == ReportDepth::kOwnEngines && on_host) return report;
  report.engines.push_back(ask("opencv", path, [&](EngineMemory& /*memory*/) {
    const auto engine = make_opencv_engine(std::move(file), options, host);
    if (!graph) report.outputs = engine->outputs();
    return std::string("twice as slow as engine cpu or more");
  }));
  return report;
}

CutCandidates cut_candidates(const std::string& path, const EngineOptions& options) {
  OnnxFile file = read_onnx_file(path, options.cut_at);
  take_camera_pictures(file, options.input);
  InputOptions input = options.input;
  CutCandidates candidates{resolve_input(describe_model(file), input), {}, {}};
  const LoweredShapes lowered = lowered_shapes(file, candidates.input);
  const auto offer = [&](const std::string& name) {
    const auto made = lowered.shapes.find(name);
    const auto same = [&](const TensorSpec& spec) { return spec.name == name; };
    auto& tensors = candidates.tensors;
    if (made == lowered.shapes.end() || std::any_of(tensors.begin(), tensors.end(), same)) return;
    tensors.push_back({name, made->second, DataType::kF32});
  };
  const onnx::GraphProto& graph = file.proto.graph();
  for (const int i : lowered.lost) {
    const onnx::NodeProto& node = graph.node(i);
    for_each_read(node, offer);
    const bool chooses = node.op_type().find("NMS") != std::string::npos && node.input_size() >= 2;
    if (!chooses || !candidates.chosen_from.empty()) continue;
    if (lowered.shapes.count(node.input(0)) == 0 || lowered.shapes.count(node.input(1)) == 0) continue;
    candidates.chosen_from = {node.input(0), node.input(1)};
  }
  if (lowered.lost.empty()) return candidates;
  for (const auto& output : graph.output()) offer(output.name());
  return candidates;
}

}  // namespace camd::infer
