// Google Benchmark: one run of a network on the host engines, without preprocessing.
// Model: CAMD_BENCH_MODEL, or the reference detector when started from the repository's root. CAMD_BENCH_RUNS: so many
// runs an iteration (1), for scripts/peers/onnxruntime_arm64.py, which counts instructions and has no clock.
// CAMD_BENCH_HALF: f16 or bf16, in half precision. CAMD_BENCH_SIZE: WIDTHxHEIGHT of the input of a model that leaves it
// open.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"

namespace {

using camd::infer::EngineKind;

void BM_Network(benchmark::State& state) {
  const char* const given = std::getenv("CAMD_BENCH_MODEL");
  const auto device = camd::device::make_host_device(camd::base::system_clock());
  camd::infer::EngineOptions options;
  options.kind = static_cast<EngineKind>(state.range(0));
  options.threads = static_cast<int>(state.range(1));
  if (const char* const half = std::getenv("CAMD_BENCH_HALF")) {
    options.host_half = half == std::string("bf16") ? camd::infer::HalfType::kBf16 : camd::infer::HalfType::kF16;
  }
  if (const char* const size = std::getenv("CAMD_BENCH_SIZE")) {
    const std::string text = size;
    options.input.width = std::stoi(text);
    options.input.height = std::stoi(text.substr(text.find('x') + 1));
  }
  const auto engine =
      camd::infer::make_engine(given != nullptr ? given : "models/marker-640x360.onnx", options, *device);
  state.SetLabel(std::string(engine->name()) + ", " + std::to_string(options.threads) + " threads");
  const auto execution = engine->make_execution();
  std::memset(execution->input().data, 0, engine->input().size_bytes());
  const auto stream = device->make_stream("compute");
  const char* const runs = std::getenv("CAMD_BENCH_RUNS");
  const int count = runs != nullptr ? std::atoi(runs) : 1;
  for (auto _ : state) {
    for (int i = 0; i < count; ++i) {
      (void)execution->enqueue_network(stream);
      (void)device->synchronize(stream);
    }
  }
}
BENCHMARK(BM_Network)
    ->ArgsProduct({{static_cast<int>(EngineKind::kCpu), static_cast<int>(EngineKind::kOpenCv)}, {1, 2}})
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
