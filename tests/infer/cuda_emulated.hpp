// Runs a plan of the CUDA engine on the CPU (infer/cuda/kernels/emulation.cuh), on memory full of NaNs.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/cuda/plan/run.hpp"

namespace camd::infer::test {

// `change`, where there is one, sees the arguments of each step before it runs.
inline std::vector<std::vector<float>> run_emulated(const cuda::Plan& plan, const std::vector<float>& input,
                                                    const std::function<void(cuda::Arguments&)>& change = {}) {
  using cuda::BufferKind;
  const auto filled = [](std::size_t bytes) {
    return std::vector<std::uint64_t>(bytes / 8 + 32, 0x7FFF7FFF7FFF7FFFULL);
  };
  std::vector<std::uint64_t> arena = filled(plan.arena_bytes), outputs = filled(plan.output_bytes);
  std::vector<std::uint64_t> constants = filled(plan.constants.size()), planes = filled(input.size() * 4);
  const auto bytes = [](std::vector<std::uint64_t>& memory) {
    void* first = memory.data();
    std::size_t room = memory.size() * sizeof(std::uint64_t);
    return static_cast<std::byte*>(std::align(16, 1, first, room));
  };
  std::memcpy(bytes(constants), plan.constants.data(), plan.constants.size());
  std::memcpy(bytes(planes), input.data(), input.size() * sizeof(float));
  std::vector<std::byte*> bases;
  for (const cuda::Buffer& buffer : plan.buffers) {
    switch (buffer.kind) {
      case BufferKind::kConstants: bases.push_back(bytes(constants)); break;
      case BufferKind::kInput: bases.push_back(bytes(planes)); break;
      case BufferKind::kArena: bases.push_back(bytes(arena) + buffer.offset_bytes); break;
      case BufferKind::kOutput: bases.push_back(bytes(outputs) + buffer.offset_bytes); break;
    }
    if (buffer.exclusive) std::memset(bases.back(), 0, buffer.size_bytes);
  }
  for (const cuda::Step& step : plan.steps) {
    cuda::Arguments arguments = step.arguments;
    cuda::bind(arguments, bases);
    if (change) change(arguments);
    if (cuda::run(arguments, {}) != 0) throw std::runtime_error("a launch failed: " + step.origin);
  }
  std::vector<std::vector<float>> results;
  for (const cuda::PlannedOutput& output : plan.outputs) {
    results.push_back(to_floats(bases[static_cast<std::size_t>(output.buffer)],
                                static_cast<std::size_t>(element_count(output.spec.shape)), output.spec.type));
  }
  return results;
}

}  // namespace camd::infer::test
