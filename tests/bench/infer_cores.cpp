// bench_infer_cores MODEL [WIDTHxHEIGHT [RUNS]]: what slow cores beside fast ones do to a network of the engine `cpu`.
// Each item of each step is timed alone on one thread, the least of RUNS (10). Then it is computed when which thread
// would take which item, in the order of ThreadPool, if some threads took longer for all items. Printed: the time with
// all cores as a share of that with the fast ones alone, where slow ones have 0.2 to 0.5 of their speed. Once as camd
// divides the items, once in equal shares for all threads. What it costs to begin a stage, and what cores share
// (memory, caches), is left out.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "prepared.hpp"

namespace {

using Times = std::vector<std::vector<double>>;  // microseconds of each item of each stage

struct Cores {
  int fast, slow;
};

Times measure(const std::string& path, const camd::infer::InputOptions& options, int threads, int runs) {
  const camd::bench::Prepared prepared(path, options, threads);
  const auto& steps = prepared.program->steps;
  Times times;
  for (const auto& step : steps) times.emplace_back(static_cast<std::size_t>(step->items), 1e9);
  for (int run = 0; run < runs; ++run) {
    for (std::size_t s = 0; s < steps.size(); ++s) {
      for (int i = 0; i < steps[s]->items; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        steps[s]->run(i, prepared.memory);
        const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
        double& least = times[s][static_cast<std::size_t>(i)];
        least = std::min(least, took.count());
      }
    }
  }
  return times;
}

// Of one stage. Threads take items as in ThreadPool::run_one: first of their own part, then of the others in turn; with
// `equal`, of their own part alone. The fast ones come first.
double stage_us(const std::vector<double>& items, Cores cores, double speed, bool equal) {
  const std::size_t size = static_cast<std::size_t>(cores.fast + cores.slow);
  std::vector<std::size_t> next(size), end(size);
  for (std::size_t part = 0; part < size; ++part) {
    next[part] = items.size() * part / size;
    end[part] = items.size() * (part + 1) / size;
  }
  std::vector<double> free_at(size, 0.0);
  std::vector<bool> idle(size, false);
  double last = 0;
  for (std::size_t at_work = size; at_work > 0;) {
    std::size_t worker = size;
    for (std::size_t i = 0; i < size; ++i) {
      if (!idle[i] && (worker == size || free_at[i] < free_at[worker])) worker = i;
    }
    std::size_t part = worker, tried = 0;
    while (tried < (equal ? 1 : size) && next[part] == end[part]) part = (worker + ++tried) % size;
    if (next[part] == end[part] || (equal && part != worker)) {
      idle[worker] = true;
      --at_work;
      continue;
    }
    const double factor = worker < static_cast<std::size_t>(cores.fast) ? 1.0 : 1.0 / speed;
    free_at[worker] += items[next[part]++] * factor;
    last = std::max(last, free_at[worker]);
  }
  return last;
}

double network_us(const Times& times, Cores cores, double speed, bool equal) {
  double sum = 0;
  for (const std::vector<double>& stage : times) sum += stage_us(stage, cores, speed, equal);
  return sum;
}

void compare(const std::string& path, const camd::infer::InputOptions& options, int runs) {
  constexpr std::array kCores{Cores{4, 4}, Cores{2, 4}, Cores{2, 6}, Cores{1, 3}};
  constexpr std::array kSpeeds{0.2, 0.25, 0.3, 0.4, 0.5};
  fmt::print("{}\n{:22}", path, "fast and slow cores");
  for (const double speed : kSpeeds) fmt::print(" {:>12}", fmt::format("{} (equal)", speed));
  fmt::print("\n");
  for (const Cores cores : kCores) {
    const Times of_all = measure(path, options, cores.fast + cores.slow, runs);
    const double fast = network_us(measure(path, options, cores.fast, runs), {cores.fast, 0}, 1.0, false);
    fmt::print("{:22}", fmt::format("{} and {}, {:.0f} us", cores.fast, cores.slow, fast));
    for (const double speed : kSpeeds) {
      fmt::print(" {:>12}", fmt::format("{:.2f} ({:.2f})", network_us(of_all, cores, speed, false) / fast,
                                        network_us(of_all, cores, speed, true) / fast));
    }
    fmt::print("\n");
  }
}

}  // namespace

int main(int count, char** words) {
  if (count < 2) {
    fmt::print(stderr, "usage: bench_infer_cores MODEL [WIDTHxHEIGHT [RUNS]]\n");
    return 2;
  }
  try {
    compare(words[1], camd::bench::input_of(count > 2 ? words[2] : ""), count > 3 ? std::atoi(words[3]) : 10);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
