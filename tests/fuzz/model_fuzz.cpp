// libFuzzer's target for whatever reads a model: the file, its lowering, the plans of both engines of our own, and the
// tail of a model whose sizes the picture decides. Small models also run, on numbers that no picture has: the program
// of engine cpu, and the tail. Any end but a return or base::Error is a bug: a crash, undefined behaviour, too long,
// too much memory.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/kernels_baseline.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/graph/tail.hpp"
#include "infer/onnx/file.hpp"
#include "infer/onnx/input.hpp"

namespace {

using namespace camd::infer;

// Numbers that a run may read, at most: some tenths of a second under the sanitizers.
constexpr std::int64_t kMostWork = std::int64_t{1} << 24;

// Numbers that a network may make and few expect, over and over.
std::vector<float> hostile(std::int64_t count) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::array kNumbers = {0.0F,       1.0F,    -1.0F, 0.5F, std::numeric_limits<float>::quiet_NaN(),
                                   3.0F,       -2.0F,   1e30F, 7.0F, kInfinity,
                                   -kInfinity, -1e-38F, 255.0F};
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = kNumbers[i % kNumbers.size()];
  return numbers;
}

// How many numbers the op reads for one that it makes, about; the rest reads each once.
std::int64_t reads_each(const Graph& graph, const Op& op) {
  const auto weight = [&] { return element_count(graph.shape(op.inputs[1])); };
  if (std::holds_alternative<Conv>(op.operation))
    return weight() / std::max<std::int64_t>(graph.shape(op.inputs[1])[0], 1);
  if (std::holds_alternative<ConvTranspose>(op.operation)) return weight();
  if (std::holds_alternative<MatMul>(op.operation)) return graph.shape(op.inputs[0]).back();
  if (const auto* pool = std::get_if<Pool>(&op.operation)) return std::int64_t{pool->kernel.x} * pool->kernel.y;
  return 1;
}

bool is_small(const Graph& graph) {
  std::int64_t work = 0;
  for (const Op& op : graph.ops) {
    const std::int64_t each = std::max<std::int64_t>(reads_each(graph, op), 1);
    const std::int64_t out = element_count(graph.shape(op.output));
    if (each > kMostWork || out > kMostWork / each) return false;
    work += each * out;
    for (const ValueId id : op.inputs) work += id == kNoValue ? 0 : element_count(graph.shape(id));
    if (work > kMostWork) return false;
  }
  return true;
}

void run(const cpu::Program& program) {
  std::vector<float> arena(program.arena_floats), scratch(program.scratch_floats);
  const std::vector<float> input = hostile(element_count(program.graph.shape(program.graph.input)));
  std::vector<std::vector<float>> results;
  for (const ValueId id : program.graph.outputs) {
    results.emplace_back(static_cast<std::size_t>(element_count(program.graph.shape(id))));
  }
  std::vector<float*> outputs;
  for (std::vector<float>& result : results) outputs.push_back(result.data());
  const cpu::Memory memory{arena.data(), input.data(), &outputs, scratch.data()};
  for (const auto& step : program.steps) {
    for (int item = 0; item < step->items; ++item) step->run(item, memory);
  }
}

void plan(const Graph& graph) {
  try {
    const auto program = cpu::build_program(graph, cpu::baseline_kernels(), 2, "fuzz.onnx");
    if (is_small(graph)) run(*program);
  } catch (const camd::base::Error&) {  // what one engine refuses the other may take
  }
  cuda::PlanOptions options;
  options.type = DataType::kF32;
  (void)cuda::make_plan(graph, options, "fuzz.onnx");
  options.type = DataType::kF16;
  (void)cuda::make_plan(graph, options, "fuzz.onnx");
}

void run_tail(const SplitModel& split, const TensorSpec& input) {
  const Graph head = lower_model(split.head, input);
  const auto& outputs = split.head.proto.graph().output();
  std::vector<Constant> values;
  for (const std::string& name : split.tail.reads()) {
    for (int i = 0; i < outputs.size(); ++i) {
      if (outputs[i].name() != name) continue;
      const Shape& shape = head.shape(head.outputs[static_cast<std::size_t>(i)]);
      if (element_count(shape) > kMostWork / 64) return;
      values.push_back({DataType::kF32, shape, hostile(element_count(shape)), {}});
      break;
    }
  }
  (void)split.tail.run(values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const OnnxFile file = parse_onnx({reinterpret_cast<const char*>(data), size}, "fuzz.onnx");
    const ModelDescription model = describe_model(file);
    TensorSpec input = model.inputs[0];
    try {
      InputOptions options;
      options.width = options.height = 32;
      options.scale = {1, 1, 1};
      input = resolve_input(model, options);
    } catch (const camd::base::Error&) {
      // ONNX's own cases, which are the corpus, have inputs that are no pictures: most of them are lowered as they are.
      for (auto& dimension : input.shape) dimension = dimension > 0 && dimension < 512 ? dimension : 1;
    }
    if (const auto split = split_model(file, input)) {
      run_tail(*split, input);
      plan(lower_model(split->head, input));
      return 0;
    }
    plan(lower_model(file, input));
  } catch (const camd::base::Error&) {
  }
  return 0;
}
