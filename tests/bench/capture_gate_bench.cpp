// Google Benchmark: looks of `gate: motion` at a picture in which nothing moves, by format, size and number. `look_us`
// is the time of one. scripts/instructions.sh --gate counts its instructions.
#include <benchmark/benchmark.h>

#include <vector>

#include "capture/motion_gate.hpp"

namespace {

using camd::base::PixelFormat;

void BM_MotionGate(benchmark::State& state) {
  const auto layout = camd::base::tight_layout(static_cast<PixelFormat>(state.range(0)),
                                               static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  state.SetLabel(std::string(camd::base::to_string(layout.format)));
  std::vector<std::byte> picture(layout.size_bytes);
  for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<std::byte>(i * 7);
  camd::capture::MotionGate gate(camd::config::MotionGate{});
  camd::capture::Frame frame;
  frame.layout = layout;
  frame.pixels = picture;
  const std::int64_t looks = state.range(3);
  for (auto _ : state) {
    for (std::int64_t i = 0; i < looks; ++i) {
      ++frame.sequence;
      frame.captured += std::chrono::milliseconds(40);
      benchmark::DoNotOptimize(gate.passes(frame));
    }
  }
  state.counters["look_us"] = benchmark::Counter(1e-6 * static_cast<double>(looks * state.iterations()),
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
// Formats as in base/picture.hpp: 0 BGR, 2 NV12, 4 YUY2.
void sizes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t looks : {20, 220}) {
    bench->Args({2, 640, 360, looks})->Args({2, 1280, 720, looks})->Args({2, 1920, 1080, looks});
    bench->Args({2, 3840, 2160, looks})->Args({4, 1280, 720, looks})->Args({0, 1280, 720, looks});
  }
}
BENCHMARK(BM_MotionGate)->ArgNames({"format", "width", "height", "looks"})->Apply(sizes)->Iterations(1);

}  // namespace
