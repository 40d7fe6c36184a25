// bench_infer_steps MODEL [WIDTHxHEIGHT [RUNS]]: where engine `cpu` spends a network's time. Each step of the program
// runs alone on one thread; printed are the least times of RUNS (10) by kind and shape, the longest first, in
// microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "prepared.hpp"

namespace {

using namespace camd::infer;

struct Total {
  double us = 0;
  int steps = 0;
};

void measure(const std::string& path, const InputOptions& options, int runs) {
  const camd::bench::Prepared prepared(path, options, 1);
  const auto& program = prepared.program;
  std::vector<double> least(program->steps.size(), 1e9);
  for (int run = 0; run < runs; ++run) {
    for (std::size_t s = 0; s < least.size(); ++s) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < program->steps[s]->items; ++i) program->steps[s]->run(i, prepared.memory);
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
    measure(words[1], camd::bench::input_of(count > 2 ? words[2] : ""), count > 3 ? std::atoi(words[3]) : 10);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
