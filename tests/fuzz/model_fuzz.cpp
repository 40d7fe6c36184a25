// libFuzzer's target for whatever reads a model: the file, its lowering, and the plans of both engines of our own.
// Nothing is run. Any end but a return or base::Error is a bug: a crash, undefined behaviour, too long, too much
// memory.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/kernels_baseline.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/file.hpp"
#include "infer/onnx/input.hpp"

namespace {

using namespace camd::infer;

void plan(const Graph& graph) {
  try {
    (void)cpu::build_program(graph, cpu::baseline_kernels(), 2, "fuzz.onnx");
  } catch (const camd::base::Error&) {  // what one engine refuses the other may take
  }
  cuda::PlanOptions options;
  options.type = DataType::kF32;
  (void)cuda::make_plan(graph, options, "fuzz.onnx");
  options.type = DataType::kF16;
  (void)cuda::make_plan(graph, options, "fuzz.onnx");
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
    plan(lower_model(file, input));
  } catch (const camd::base::Error&) {
  }
  return 0;
}
