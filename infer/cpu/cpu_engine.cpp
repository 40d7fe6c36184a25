#include "infer/cpu/cpu_engine.hpp"

#include <algorithm>
#include <cstdint>

#include "base/log.hpp"
#include "infer/cpu/build_program.hpp"
#include "infer/cpu/half_trial.hpp"
#include "infer/cpu/run.hpp"
#include "infer/cpu/thread_pool.hpp"
#include "infer/frame_memory.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/host_execution.hpp"
#include "infer/onnx/input.hpp"

namespace camd::infer {
namespace {

void check_memory(const cpu::Program& program, const TensorSpec& input, const std::vector<TensorSpec>& outputs,
                  int threads, const std::string& path) {
  std::uint64_t tensors = input.size_bytes();
  for (const TensorSpec& output : outputs) tensors += output.size_bytes();
  check_frame_memory(
      path, tensors,
      (program.arena_floats + program.scratch_floats * static_cast<std::size_t>(threads)) * sizeof(float));
}

class CpuExecution final : public HostExecution {
 public:
  CpuExecution(const Engine& engine, device::Device& device, std::shared_ptr<const cpu::Program> program,
               cpu::ThreadPool& threads)
      : HostExecution(engine, device), run_(std::move(program), threads) {
    outputs_.resize(engine.outputs().size());
    std::fill_n(input_data(), element_count(engine.input().shape), 0.0F);
    run_network();  // touches all memory once, so that the first frame is as fast as the others
  }

 private:
  void run_network() override {
    for (std::size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = reinterpret_cast<float*>(output_data(i));
    run_(input_data(), outputs_);
  }

  cpu::Run run_;
  std::vector<float*> outputs_;
};

class CpuEngine final : public Engine {
 public:
  CpuEngine(const OnnxFile& file, const EngineOptions& options, device::Device& device)
      : device_(device), model_(describe_model(file)), options_(options.input), threads_(options.threads) {
    input_ = resolve_input(model_, options_);
    Graph graph = lower_model(file, input_);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      outputs_.push_back({model_.outputs[i].name, graph.shape(graph.outputs[i]), DataType::kF32});
    }
    const cpu::Kernels* const half = options.host_half ? cpu::half_kernels(*options.host_half) : nullptr;
    if (options.host_half && half == nullptr) {
      base::log().info("engine cpu: {}: computed in f32, as this processor does not compute with {}", model_.path,
                       to_string(*options.host_half));
    }
    program_ = half != nullptr ? cpu::make_half_program(graph, options_, cpu::kernels(), *half, threads_, model_.path)
                               : cpu::build_program(std::move(graph), cpu::kernels(), threads_.size(), model_.path);
    check_memory(*program_, input_, outputs_, threads_.size(), model_.path);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cpu"; }
  [[nodiscard]] const ModelDescription& model() const noexcept override { return model_; }
  [[nodiscard]] const InputOptions& input_options() const noexcept override { return options_; }
  [[nodiscard]] const TensorSpec& input() const noexcept override { return input_; }
  [[nodiscard]] const std::vector<TensorSpec>& outputs() const noexcept override { return outputs_; }
  [[nodiscard]] std::unique_ptr<Execution> make_execution() override {
    return std::make_unique<CpuExecution>(*this, device_, program_, threads_);
  }

 private:
  device::Device& device_;
  ModelDescription model_;
  InputOptions options_;
  TensorSpec input_;
  std::vector<TensorSpec> outputs_;
  cpu::ThreadPool threads_;
  std::shared_ptr<const cpu::Program> program_;
};

}  // namespace

namespace cpu {

void multiply(const Product& p) {
  // So many rows of b at a time stay in the cache, for all rows of a.
  constexpr int kTogether = 1024;
  std::vector<float> scratch(matmul_scratch(std::min(p.k, kTogether)));
  if (p.k <= kTogether) {
    kernels().matmul(p.a, p.b, p.bias, p.bias_of_rows ? 1 : 0, p.bias_of_rows ? 0 : 1, p.out, 0, p.m, p.k, p.n, {},
                     scratch.data());
    return;
  }
  std::vector<float> part(at(p.m) * kTogether);
  for (int from = 0; from < p.k; from += kTogether) {
    const int some = std::min(kTogether, p.k - from);
    for (int row = 0; row < p.m; ++row)
      std::copy_n(p.a + at(row) * at(p.k) + at(from), some, part.data() + at(row) * at(some));
    // What the parts before came to is added as a bias is.
    const bool first = from == 0;
    const std::size_t row = first ? (p.bias_of_rows ? 1 : 0) : at(p.n);
    kernels().matmul(part.data(), p.b + at(from) * at(p.n), first ? p.bias : p.out, row,
                     first && p.bias_of_rows ? 0 : 1, p.out, 0, p.m, some, p.n, {}, scratch.data());
  }
}

}  // namespace cpu

std::unique_ptr<Engine> make_cpu_engine(const OnnxFile& file, const EngineOptions& options, device::Device& device) {
  return std::make_unique<CpuEngine>(file, options, device);
}

}  // namespace camd::infer
