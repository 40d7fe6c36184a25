// Google Benchmark: one picture of 1280x720 to a network input of 640x360, one thread.
// CAMD_BENCH_RUNS: so many runs an iteration (1), for scripts/peers/onnxruntime_arm64.py, which counts instructions.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <vector>

#include "infer/preprocess.hpp"

namespace {

using camd::base::PixelFormat;

void BM_Preprocess720p(benchmark::State& state) {
  camd::infer::InputOptions options;
  options.width = static_cast<int>(state.range(1));
  options.height = static_cast<int>(state.range(2));
  const auto layout = camd::base::tight_layout(static_cast<PixelFormat>(state.range(0)), 1280, 720);
  state.SetLabel(std::string(camd::base::to_string(layout.format)));
  std::vector<std::byte> picture(layout.size_bytes);
  for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<std::byte>(i * 7);
  std::vector<float> out(static_cast<std::size_t>(3 * options.width * options.height));
  camd::infer::Preprocessor preprocessor(options);
  const char* const runs = std::getenv("CAMD_BENCH_RUNS");
  const int count = runs != nullptr ? std::atoi(runs) : 1;
  for (auto _ : state) {
    for (int i = 0; i < count; ++i) {
      preprocessor.run({picture.data(), layout}, out.data());
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
  }
}
BENCHMARK(BM_Preprocess720p)
    ->ArgsProduct({benchmark::CreateDenseRange(0, 5, 1), {640}, {360}})
    ->Args({0, 1280, 720})
    ->Args({2, 1280, 720})
    ->Args({2, 320, 180})
    ->Args({0, 416, 416})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
