// What a plug-in in a process costs: one call of a process() that reads an output of 2.4 MB, in this process and in a
// worker. `cpu_us` is the time of both processes, for each call. And what a fault costs: each call ends the process,
// and the time is that until a frame comes through again; `descriptors`, `threads` and `kib` are what that many deaths
// have left behind. BM_Waking* are the bare ways to wake another process. CAMD_BENCH_PYTHON names another interpreter
// than /usr/bin/python3.
//
//   cmake --preset release -DCAMD_BUILD_TESTS=ON && cmake --build --preset release --target bench_plugin_process
//   build/release/bin/bench_plugin_process --benchmark_filter=-Deaths
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "pipeline/plugin_process/futex.hpp"
#include "pipeline/plugin_process/shared_memory.hpp"
#include "tests/pipeline/plugin_chain.hpp"

namespace {

using namespace camd::pipeline;
namespace base = camd::base;

// Of this process, all threads.
double cpu_us() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto us = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return us(use.ru_utime) + us(use.ru_stime);
}

// Of the process that has the plug-in, all threads: the first detection's class_id is its id.
double cpu_us_of(int pid) {
  double us = 0;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), ignored)) {
    double ns = 0;
    std::ifstream(task.path() / "schedstat") >> ns;
    us += ns / 1e3;
  }
  return us;
}

// A chain of one plug-in that reads an output of 2.4 MB.
std::unique_ptr<Chain> chain_of(const std::string& plugin, Isolation isolation, const std::string& config = "{}",
                                base::Duration deadline = std::chrono::seconds(10)) {
  constexpr std::int64_t kValues = 600'000;
  PluginSpec spec;
  spec.plugin = plugin;
  spec.config_json = config;
  spec.isolation.isolation = isolation;
  spec.isolation.deadline = deadline;
  spec.isolation.memory_bytes = std::uint64_t{128} << 20;
  const char* const python = std::getenv("CAMD_BENCH_PYTHON");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  spec.isolation.python = python == nullptr ? "/usr/bin/python3" : python;
  auto made = std::make_unique<Chain>(std::vector{spec}, never_given_up(), std::vector{"door"}, kValues);
  made->sequence = 1;
  return made;
}

std::string script(const char* name) { return camd::test::source_dir() + "/tests/plugins/python/" + name; }

struct Times {
  std::vector<double> us;
  // Does one call, and says whether it was well.
  bool add(benchmark::State& state, Chain& chain) {
    const auto begun = base::system_clock().now();
    const std::string problem = chain.process();
    const std::chrono::duration<double, std::micro> took = base::system_clock().now() - begun;
    us.push_back(took.count());
    if (!problem.empty()) state.SkipWithError(problem.c_str());
    return problem.empty();
  }
  void tell(benchmark::State& state) {
    std::sort(us.begin(), us.end());
    state.counters["p50_us"] = us[us.size() / 2];
    state.counters["p99_us"] = us[us.size() * 99 / 100];
  }
};

void call(benchmark::State& state, const std::string& plugin, Isolation isolation) {
  const auto chain = chain_of(plugin, isolation);
  Times times;
  times.us.reserve(1 << 20);
  (void)chain->process();
  const int pid = chain->results.count > 0 ? chain->items[0].class_id : 0;
  const double own_before = cpu_us(), other_before = cpu_us_of(pid);
  for (auto _ : state) {
    if (!times.add(state, *chain)) return;
  }
  const double other = isolation == Isolation::kProcess ? cpu_us_of(pid) - other_before : 0;
  state.counters["cpu_us"] = (cpu_us() - own_before + other) / static_cast<double>(times.us.size());
  state.counters["bytes_copied"] = static_cast<double>(chain->health().bytes_copied);
  times.tell(state);
}

std::vector<std::unique_ptr<Chain>> twenty_chains() {
  std::vector<std::unique_ptr<Chain>> chains(20);
  for (auto& chain : chains) chain = chain_of(library("faults"), Isolation::kProcess);
  return chains;
}

// Twenty workers, each with its own plug-in, that are called in turn.
void BM_TwentyWorkersInTurn(benchmark::State& state) {
  const auto chains = twenty_chains();
  Times times;
  times.us.reserve(1 << 20);
  for (auto _ : state) {
    if (!times.add(state, *chains[times.us.size() % chains.size()])) return;
  }
  times.tell(state);
}

// Twenty workers at once: each is called by a thread of its own, 30 times a second as a camera does. An iteration is a
// second of that.
void BM_TwentyWorkersAtOnce(benchmark::State& state) {
  constexpr int kCalls = 30;
  const auto chains = twenty_chains();
  std::vector<Times> times(chains.size());
  for (auto _ : state) {
    const auto begun = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < chains.size(); ++i) {
      threads.emplace_back([&, i] {
        for (int call = 0; call < kCalls; ++call) {
          std::this_thread::sleep_until(begun + std::chrono::microseconds(1'000'000) * call / kCalls);
          if (!times[i].add(state, *chains[i])) return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Times all;
  for (const Times& one : times) all.us.insert(all.us.end(), one.us.begin(), one.us.end());
  all.tell(state);
}

void BM_InThisProcess(benchmark::State& state) { call(state, library("faults"), Isolation::kNone); }
void BM_InAWorker(benchmark::State& state) { call(state, library("faults"), Isolation::kProcess); }
void BM_InPython(benchmark::State& state) { call(state, script("empty.py"), Isolation::kProcess); }
BENCHMARK(BM_InThisProcess)->Iterations(20'000)->UseRealTime();
BENCHMARK(BM_InAWorker)->Iterations(20'000)->UseRealTime();
BENCHMARK(BM_InPython)->Iterations(5'000)->UseRealTime();
BENCHMARK(BM_TwentyWorkersInTurn)->Iterations(20'000)->UseRealTime();
BENCHMARK(BM_TwentyWorkersAtOnce)->Iterations(10)->Unit(benchmark::kSecond)->UseRealTime();

// ---- Ways to wake a process and to be woken by it: a number goes there and back, 30 times a second where that is
// said. What camd does is the futex.

struct Futexes {
  struct Words {
    std::atomic<std::uint32_t> there{0}, back{0};
  };
  MemoryFile file{"bench-words", sizeof(Words)};
  Words& words = *new (file.data()) Words;
  static void raise(std::atomic<std::uint32_t>& word) {
    word.fetch_add(1, std::memory_order_release);
    futex_wake(word);
  }
  static void await(const std::atomic<std::uint32_t>& word, std::uint32_t number) {
    for (std::uint32_t seen = word.load(std::memory_order_acquire); seen < number; seen = word.load()) {
      (void)futex_wait(word, seen, nullptr);
    }
  }
  void call(std::uint32_t number) {
    raise(words.there);
    await(words.back, number);
  }
  void serve(std::uint32_t number) {
    await(words.there, number);
    raise(words.back);
  }
};

struct Eventfds {
  Descriptor there{eventfd(0, 0)}, back{eventfd(0, 0)};
  static void raise(const Descriptor& fd) {
    if (eventfd_write(fd.get(), 1) != 0) std::abort();
  }
  static void await(const Descriptor& fd) {
    eventfd_t value = 0;
    if (eventfd_read(fd.get(), &value) != 0) std::abort();
  }
  void call(std::uint32_t /*number*/) {
    raise(there);
    await(back);
  }
  void serve(std::uint32_t /*number*/) {
    await(there);
    raise(back);
  }
};

template <class Way>
void waking(benchmark::State& state) {
  const auto fps = state.range(0);
  Way way;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::uint32_t number = 1;; ++number) way.serve(number);
  }
  std::uint32_t number = 0;
  Times times;
  times.us.reserve(1 << 20);
  auto next = std::chrono::steady_clock::now();
  for (auto _ : state) {
    if (fps > 0) {
      next += std::chrono::nanoseconds(1'000'000'000 / fps);
      std::this_thread::sleep_until(next);
    }
    const auto begun = base::system_clock().now();
    way.call(++number);
    times.us.push_back(std::chrono::duration<double, std::micro>(base::system_clock().now() - begun).count());
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  times.tell(state);
}
void BM_WakingByFutex(benchmark::State& state) { waking<Futexes>(state); }
void BM_WakingByEventfd(benchmark::State& state) { waking<Eventfds>(state); }
BENCHMARK(BM_WakingByFutex)->ArgName("fps")->Arg(0)->Iterations(20'000)->UseRealTime();
BENCHMARK(BM_WakingByEventfd)->ArgName("fps")->Arg(0)->Iterations(20'000)->UseRealTime();
BENCHMARK(BM_WakingByFutex)->ArgName("fps")->Arg(30)->Iterations(200)->UseRealTime();
BENCHMARK(BM_WakingByEventfd)->ArgName("fps")->Arg(30)->Iterations(200)->UseRealTime();

double descriptors() {
  return static_cast<double>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

double resident_kib() {
  std::ifstream file("/proc/self/statm");
  double whole = 0, resident = 0;
  file >> whole >> resident;
  return resident * 4;
}

double threads() {
  return static_cast<double>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

void fault(benchmark::State& state, const std::string& plugin, const std::string& how) {
  constexpr std::uint64_t kAt = 1, kGood = 2;
  const auto chain = chain_of(plugin, Isolation::kProcess, fmt::format(R"({{"how":"{}","at":{}}})", how, kAt),
                              std::chrono::milliseconds(how == "hang" || how == "threads" ? 100 : 2000));
  const auto until_back = [&chain] {
    for (chain->sequence = kGood; !chain->process().empty(); chain->sequence = kGood) std::this_thread::yield();
  };
  const auto die = [&chain] {
    chain->sequence = kAt;
    (void)chain->process();
  };
  // What is made once, such as looking up the line of a crash, comes first.
  for (int i = 0; i < 10; ++i) {
    until_back();
    die();
  }
  until_back();
  std::vector<double> ms(1 << 12);  // its pages are no part of what deaths leave behind
  ms.clear();
  const double descriptors_before = descriptors(), kib_before = resident_kib(), threads_before = threads();
  for (auto _ : state) {
    state.PauseTiming();
    until_back();
    die();
    state.ResumeTiming();
    const auto begun = base::system_clock().now();
    until_back();
    ms.push_back(std::chrono::duration<double, std::milli>(base::system_clock().now() - begun).count());
  }
  state.counters["descriptors"] = descriptors() - descriptors_before;
  state.counters["kib"] = resident_kib() - kib_before;
  state.counters["threads"] = threads() - threads_before;
  state.counters["restarts"] = static_cast<double>(chain->health().restarts);
  std::sort(ms.begin(), ms.end());
  state.counters["p99_ms"] = ms[ms.size() * 99 / 100];
  state.counters["longest_ms"] = ms.back();
}

void BM_DeathsC(benchmark::State& state, const char* how) { fault(state, library("faults"), how); }
void BM_DeathsCpp(benchmark::State& state, const char* how) { fault(state, library("faults_cpp"), how); }
void BM_DeathsPython(benchmark::State& state, const char* how) { fault(state, script("faults.py"), how); }
void many(benchmark::internal::Benchmark* deaths) {
  deaths->Iterations(1000)->Unit(benchmark::kMillisecond)->UseRealTime();
}
BENCHMARK_CAPTURE(BM_DeathsC, crash, "crash")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsC, abort, "abort")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsC, exit, "exit")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsC, kill, "kill")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsC, hang, "hang")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsC, memory, "memory")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsC, threads, "threads")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsCpp, crash, "crash")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsCpp, abort, "abort")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsCpp, exit, "exit")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsCpp, kill, "kill")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsCpp, hang, "hang")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsCpp, memory, "memory")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsCpp, threads, "threads")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsPython, crash, "crash")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsPython, abort, "abort")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsPython, exit, "os_exit")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsPython, kill, "kill")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsPython, hang, "hang")->Apply(many);
BENCHMARK_CAPTURE(BM_DeathsPython, memory, "memory")->Apply(many);

}  // namespace
