// A model's program of the engine `cpu` with the memory it runs in, for programs that time its steps.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "infer/cpu/build_program.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/input.hpp"

namespace camd::bench {

// `size`: WIDTHxHEIGHT of the input where the model leaves it open, or nothing.
inline infer::InputOptions input_of(const std::string& size) {
  infer::InputOptions options;
  if (!size.empty()) {
    options.width = std::atoi(size.c_str());
    options.height = std::atoi(size.c_str() + size.find('x') + 1);
  }
  return options;
}

// Cut into items for so many threads; one thread runs them.
class Prepared {
 public:
  Prepared(const std::string& path, const infer::InputOptions& given, int threads) {
    infer::InputOptions options = given;
    const infer::OnnxFile file = infer::read_onnx_file(path);
    const infer::TensorSpec input = resolve_input(describe_model(file), options);
    program = infer::cpu::build_program(lower_model(file, input), infer::cpu::kernels(), threads, path);
    arena_ = allocate(program->arena_floats);
    scratch_ = allocate(program->scratch_floats);
    picture_.assign(static_cast<std::size_t>(infer::element_count(input.shape)), 0.5F);
    for (const infer::ValueId id : program->graph.outputs) {
      results_.emplace_back(static_cast<std::size_t>(infer::element_count(program->graph.shape(id))));
    }
    for (std::vector<float>& result : results_) outputs_.push_back(result.data());
    memory = {arena_.get(), picture_.data(), &outputs_, scratch_.get()};
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  std::shared_ptr<const infer::cpu::Program> program;
  infer::cpu::Memory memory;

 private:
  using Floats = std::unique_ptr<float, decltype(&std::free)>;
  static Floats allocate(std::size_t floats) {
    const std::size_t bytes = (floats * sizeof(float) / 64 + 1) * 64;
    Floats memory(static_cast<float*>(std::aligned_alloc(64, bytes)), &std::free);
    std::fill_n(memory.get(), floats, 0.0F);
    return memory;
  }

  Floats arena_{nullptr, &std::free}, scratch_{nullptr, &std::free};
  std::vector<float> picture_;
  std::vector<std::vector<float>> results_;
  std::vector<float*> outputs_;
};

}  // namespace camd::bench
