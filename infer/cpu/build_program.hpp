// build_program(): from a Graph to the Program that the CPU engine runs.
//
// Threads: a function of its arguments, [setup].
#pragma once

#include <memory>
#include <string>

#include "infer/cpu/program.hpp"

namespace camd::infer::cpu {

// Half precision (f16 or bf16) for a network's dense convolutions.
struct HalfPrecision {
  const Kernels* kernels = nullptr;  // null: all is computed in f32
  std::vector<bool> in_f32{};        // for each Conv of the graph, in their order: computed in f32 in spite of that
};

// `graph`: as lower_model() makes it. `threads` decides into how many parts operators are cut; `model` is the file's
// name for messages. Throws Error(kModel) naming the operator and node that cannot run here.
[[nodiscard]] std::shared_ptr<const Program> build_program(Graph graph, const Kernels& kernels, int threads,
                                                           const std::string& model, const HalfPrecision& half = {});

}  // namespace camd::infer::cpu
