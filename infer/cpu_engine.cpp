#include "infer/cpu_engine.hpp"

#include "infer/cpu/program.hpp"
#include "infer/cpu/team.hpp"
#include "infer/engine_setup.hpp"
#include "infer/host_execution.hpp"

namespace camd::infer {
namespace {

class CpuExecution final : public HostExecution {
 public:
  CpuExecution(const Engine& engine, device::Device& device, std::shared_ptr<const cpu::Program> program,
               cpu::Team& team)
      : HostExecution(engine, device), run_(std::move(program), team) {
    for (std::size_t i = 0; i < engine.outputs().size(); ++i) {
      outputs_.push_back(reinterpret_cast<float*>(output_data(i)));
    }
    std::fill_n(input_data(), element_count(engine.input().shape), 0.0F);
    run_network();  // touches all memory once, so that the first frame is as fast as the others
  }

 private:
  void run_network() override { run_(input_data(), outputs_); }

  cpu::Run run_;
  std::vector<float*> outputs_;
};

class CpuEngine final : public Engine {
 public:
  CpuEngine(const OnnxFile& file, const EngineOptions& options, device::Device& device)
      : device_(device), model_(describe_onnx(file)), options_(options.input), team_(options.threads) {
    input_ = resolve_input(model_, options_);
    Graph graph = lower_model(file, input_);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      outputs_.push_back({model_.outputs[i].name, graph.shape(graph.outputs[i]), DataType::kF32});
    }
    program_ = cpu::build_program(std::move(graph), cpu::kernels(), team_.size(), model_.path);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cpu"; }
  [[nodiscard]] const ModelDescription& model() const noexcept override { return model_; }
  [[nodiscard]] const InputOptions& input_options() const noexcept override { return options_; }
  [[nodiscard]] const TensorSpec& input() const noexcept override { return input_; }
  [[nodiscard]] const std::vector<TensorSpec>& outputs() const noexcept override { return outputs_; }
  [[nodiscard]] std::unique_ptr<Execution> make_execution() override {
    return std::make_unique<CpuExecution>(*this, device_, program_, team_);
  }

 private:
  device::Device& device_;
  ModelDescription model_;
  InputOptions options_;
  TensorSpec input_;
  std::vector<TensorSpec> outputs_;
  cpu::Team team_;
  std::shared_ptr<const cpu::Program> program_;
};

}  // namespace

std::unique_ptr<Engine> make_cpu_engine(const OnnxFile& file, const EngineOptions& options, device::Device& device) {
  return std::make_unique<CpuEngine>(file, options, device);
}

}  // namespace camd::infer
