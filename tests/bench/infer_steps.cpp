// bench_infer_steps MODEL [WIDTHxHEIGHT [RUNS]]: where engine `cpu` spends a network's time. Each step of the program
// runs alone on one thread; printed are the least times of RUNS (10) by kind and shape, the longest first, in
// microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "infer/cpu/build_program.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/input.hpp"

namespace {

using namespace camd::infer;

struct Total {
  double us = 0;
  int steps = 0;
};

std::unique_ptr<float, decltype(&std::free)> allocate(std::size_t floats) {
  const std::size_t bytes = (floats * sizeof(float) / 64 + 1) * 64;
  std::unique_ptr<float, decltype(&std::free)> memory(static_cast<float*>(std::aligned_alloc(64, bytes)), &std::free);
  std::fill_n(memory.get(), floats, 0.0F);
  return memory;
}

void measure(const std::string& path, InputOptions options, int runs) {
  const OnnxFile file = read_onnx_file(path);
  const TensorSpec input = resolve_input(describe_model(file), options);
  const auto program = cpu::build_program(lower_model(file, input), cpu::kernels(), 1, path);
  const auto arena = allocate(program->arena_floats);
  const auto scratch = allocate(program->scratch_floats);
  const std::vector<float> picture(static_cast<std::size_t>(element_count(input.shape)), 0.5F);
  std::vector<std::vector<float>> results;
  std::vector<float*> outputs;
  for (const ValueId id : program->graph.outputs) {
    results.emplace_back(static_cast<std::size_t>(element_count(program->graph.shape(id))));
    outputs.push_back(results.back().data());
  }
  const cpu::Memory memory{arena.get(), picture.data(), &outputs, scratch.get()};
  std::vector<double> least(program->steps.size(), 1e9);
  for (int run = 0; run < runs; ++run) {
    for (std::size_t s = 0; s < least.size(); ++s) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < program->steps[s]->items; ++i) program->steps[s]->run(i, memory);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      least[s] = std::min(least[s], took.count());
    }
  }
  std::map<std::string, Total> by_name;
  double sum = 0;
  for (std::size_t s = 0; s < least.size(); ++s) {
    Total& total = by_name[program->steps[s]->name];
    total.us += least[s];
    ++total.steps;
    sum += least[s];
  }
  std::vector<std::pair<std::string, Total>> rows(by_name.begin(), by_name.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  fmt::print("{}: {:.0f} us in {} steps\n", path, sum, least.size());
  for (const auto& [name, total] : rows)
    fmt::print("{:9.1f} {:5.1f} % {:4} {}\n", total.us, total.us * 100 / sum, total.steps, name);
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    fmt::print(stderr, "usage: bench_infer_steps MODEL [WIDTHxHEIGHT [RUNS]]\n");
    return 2;
  }
  try {
    InputOptions options;
    if (count > 2) {
      const std::string size = words[2];
      options.width = std::atoi(size.c_str());
      options.height = std::atoi(size.c_str() + size.find('x') + 1);
    }
    measure(words[1], options, count > 3 ? std::atoi(words[3]) : 10);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
