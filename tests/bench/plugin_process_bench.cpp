// What a plug-in in a process costs: one call of a process() that reads an output of 2.4 MB, in this process and in a
// worker. `cpu_us` is the time of both processes, for each call. And what a fault costs: each call ends the process,
// and the time is that until a frame comes through again; `descriptors` and `kib` are what that many deaths have left
// behind.
//
//   build/release/bin/bench_plugin_process
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "pipeline/run/plugin_host.hpp"
#include "tests/support/paths.hpp"

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

// A chain of one plug-in, with one frame in flight.
class Chain {
 public:
  Chain(const std::string& plugin, const std::string& config, Isolation isolation, base::Duration deadline)
      : host({spec_of(plugin, config, isolation, deadline)}, base::system_clock(), never_given_up()) {
    const camd_tensor_spec output{"out", 2, shape_.data(), {kDLFloat, 32, 1}};
    camd_model model{};
    model.struct_size = sizeof(model);
    model.path = "fake.onnx";
    model.card_json = "{}";
    model.input = output;
    model.output_count = 1;
    model.outputs = &output;
    host.declare(model);
    constexpr std::size_t kBytes = 2'400'000;
    memory_ = host.shared_memory(kBytes);
    if (memory_ == nullptr) own_.resize(kBytes / sizeof(float));
    DLTensor tensor{};
    tensor.data = memory_ == nullptr ? static_cast<void*>(own_.data()) : memory_.get();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 2;
    tensor.dtype = output.dtype;
    tensor.shape = shape_.data();
    tensors_.host = tensors_.device = {tensor};
    items.resize(static_cast<std::size_t>(host.needs().detections));
    prepared_ = host.prepare(tensors_);
  }
  // What went wrong; ok when nothing has.
  base::Status process(std::uint64_t sequence) {
    camd_frame frame{};
    frame.struct_size = sizeof(frame);
    frame.camera = "door";
    frame.sequence = sequence;
    results = {sizeof(results), static_cast<std::int32_t>(items.size()), 0, items.data()};
    return prepared_->process(frame, results);
  }

  PluginHost host;
  camd_results results{};
  std::vector<camd_detection> items;

 private:
  static PluginSpec spec_of(const std::string& plugin, const std::string& config, Isolation isolation,
                            base::Duration deadline) {
    PluginSpec spec;
    spec.plugin = plugin;
    spec.config_json = config;
    spec.isolation.isolation = isolation;
    spec.isolation.deadline = deadline;
    spec.isolation.memory_bytes = std::uint64_t{256} << 20;
    spec.isolation.python = "/usr/bin/python3";
    return spec;
  }
  static PluginHostOptions never_given_up() {
    PluginHostOptions options;
    options.restart.second = options.restart.longest = base::Duration(0);
    options.restart.most_deaths = 1 << 30;
    return options;
  }

  std::vector<std::int64_t> shape_ = {1, 600'000};
  std::vector<float> own_;
  std::shared_ptr<std::byte> memory_;
  FrameTensors tensors_;
  std::unique_ptr<FramePostprocessing> prepared_;
};

std::string library() { return camd::test::binary_dir() + "/lib/bad/faults.so"; }
std::string script(const char* name) { return camd::test::source_dir() + "/tests/plugins/python/" + name; }

void call(benchmark::State& state, const std::string& plugin, Isolation isolation) {
  Chain chain(plugin, "{}", isolation, std::chrono::seconds(10));
  std::vector<double> times;
  times.reserve(1 << 20);
  double own_before = 0, other_before = 0;
  int pid = 0;
  for (auto _ : state) {
    const auto begun = base::system_clock().now();
    const base::Status status = chain.process(times.size() + 1);
    const std::chrono::duration<double, std::micro> took = base::system_clock().now() - begun;
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    if (times.empty()) {
      pid = chain.results.count > 0 ? chain.items[0].class_id : 0;
      own_before = cpu_us();
      other_before = cpu_us_of(pid);
    }
    times.push_back(took.count());
  }
  const auto calls = static_cast<double>(times.size());
  const double other = isolation == Isolation::kProcess ? cpu_us_of(pid) - other_before : 0;
  std::sort(times.begin(), times.end());
  state.counters["p50_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["cpu_us"] = (cpu_us() - own_before + other) / calls;
  state.counters["bytes_copied"] = static_cast<double>(chain.host.counters().front().health.bytes_copied);
}

// Twenty workers, each with its own plug-in, that are called in turn.
void BM_TwentyWorkers(benchmark::State& state) {
  std::vector<std::unique_ptr<Chain>> chains(20);
  for (auto& chain : chains) {
    chain = std::make_unique<Chain>(library(), "{}", Isolation::kProcess, std::chrono::seconds(10));
  }
  std::vector<double> times;
  times.reserve(1 << 20);
  for (auto _ : state) {
    const auto begun = base::system_clock().now();
    const base::Status status = chains[times.size() % chains.size()]->process(times.size() + 1);
    const std::chrono::duration<double, std::micro> took = base::system_clock().now() - begun;
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  state.counters["p50_us"] = times[times.size() / 2];
  state.counters["p99_us"] = times[times.size() * 99 / 100];
}

void BM_InThisProcess(benchmark::State& state) { call(state, library(), Isolation::kNone); }
void BM_InAWorker(benchmark::State& state) { call(state, library(), Isolation::kProcess); }
void BM_InPython(benchmark::State& state) { call(state, script("empty.py"), Isolation::kProcess); }
BENCHMARK(BM_InThisProcess)->Iterations(20'000)->UseRealTime();
BENCHMARK(BM_InAWorker)->Iterations(20'000)->UseRealTime();
BENCHMARK(BM_InPython)->Iterations(5'000)->UseRealTime();
BENCHMARK(BM_TwentyWorkers)->Iterations(20'000)->UseRealTime();

double descriptors() {
  return static_cast<double>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

double resident_kib() {
  std::ifstream file("/proc/self/statm");
  double whole = 0, resident = 0;
  file >> whole >> resident;
  return resident * 4;
}

void fault(benchmark::State& state, const std::string& plugin, const std::string& how) {
  constexpr std::uint64_t kAt = 1, kGood = 2;
  Chain chain(plugin, fmt::format(R"({{"how":"{}","at":{}}})", how, kAt), Isolation::kProcess,
              std::chrono::milliseconds(100));
  const auto until_back = [&chain] {
    while (!chain.process(kGood).ok()) std::this_thread::yield();
  };
  until_back();
  (void)chain.process(kAt);
  until_back();
  const double descriptors_before = descriptors(), kib_before = resident_kib();
  for (auto _ : state) {
    state.PauseTiming();
    until_back();
    (void)chain.process(kAt);
    state.ResumeTiming();
    until_back();
  }
  state.counters["descriptors"] = descriptors() - descriptors_before;
  state.counters["kib"] = resident_kib() - kib_before;
  state.counters["restarts"] = static_cast<double>(chain.host.counters().front().health.restarts);
}

void BM_BackAfter(benchmark::State& state, const char* how) { fault(state, library(), how); }
void BM_PythonBackAfter(benchmark::State& state, const char* how) { fault(state, script("faults.py"), how); }
constexpr int kFew = 10, kSome = 100, kMany = 1000;
BENCHMARK_CAPTURE(BM_BackAfter, crash, "crash")->Iterations(kMany)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_BackAfter, abort, "abort")->Iterations(kMany)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_BackAfter, kill, "kill")->Iterations(kMany)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_BackAfter, hang, "hang")->Iterations(kFew)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_BackAfter, exit, "exit")->Iterations(kMany)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_PythonBackAfter, crash, "crash")->Iterations(kFew)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_PythonBackAfter, hang, "hang")->Iterations(kFew)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_PythonBackAfter, exit, "os_exit")->Iterations(kSome)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
