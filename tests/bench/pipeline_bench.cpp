// Google Benchmark: what the pipeline itself costs a frame, on the host device with a network and a plug-in that do
// nothing and pictures of eight bytes: hand-overs, streams, events, ledger and histograms, on all threads together.
//
// BM_Pipeline/FPS/FRAMES: a source of FPS frames a second (0: lossless, as fast as they are taken).
//   cpu_us       CPU time of the process a frame, the source's own included
//   pipeline_us  the same without what the source's thread takes outside of publishing: sleeping until a frame is due,
//                waking up for it. Not where the source has no pace: it sleeps in publishing there.
//   switches     times a thread went to sleep, a frame
//   p50_us ...   from the moment at which a worker hands the frame to the device until it has it back ("overhead": the
//                device has nothing to do), and from publish() to the plug-in ("arrival")
// BM_PaceAlone/FPS/FRAMES: the same thread of a source, which sleeps until each frame is due and publishes nothing.
// BM_HandOverAlone/FPS/FRAMES: it wakes another thread for each frame, which does nothing.
//   handover_us  counted as pipeline_us is. What the system takes for that: no pipeline that computes on another thread
//                takes less on that machine.
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/semaphore.hpp"
#include "tests/pipeline/support.hpp"

namespace {

using camd::base::TimePoint;
namespace base = camd::base;
namespace capture = camd::capture;
namespace infer = camd::infer;
namespace pipeline = camd::pipeline;
namespace test = camd::test;

double cpu_seconds(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

rusage now_used() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  return usage;
}

// CPU time so far of the calling thread. Asks the kernel, so not for every frame.
double thread_cpu_us() {
  timespec t{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

double percentile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

constexpr int kWarmup = 50;

// What a source's thread takes outside of publishing, from one moment on. [source]; outside_us() when that has ended.
class SourceTime {
 public:
  void begin() {
    began_us_ = thread_cpu_us();
    publishing_us_ = 0;
  }
  // Elapsed time is CPU time here: publishing does not sleep, but for a lossless source's. A worker that takes the core
  // meanwhile counts twice, against the pipeline.
  template <typename Publish>
  void publish(const Publish& publish) {
    const TimePoint before = base::system_clock().now();
    publish(before);
    publishing_us_ += static_cast<double>((base::system_clock().now() - before).count()) * 1e-3;
  }
  void end() { thread_us_ = thread_cpu_us() - began_us_; }
  [[nodiscard]] double outside_us() const { return thread_us_ - publishing_us_; }

 private:
  double began_us_ = 0, publishing_us_ = 0, thread_us_ = 0;
};

// Calls `make_frame` for each frame when it is due.
template <typename MakeFrame>
void pace(double fps, int frames, const MakeFrame& make_frame) {
  TimePoint next = base::system_clock().now();
  for (int i = 0; i < kWarmup + frames; ++i) {
    if (fps > 0) std::this_thread::sleep_until(next += base::Duration(static_cast<std::int64_t>(1e9 / fps)));
    make_frame(i);
  }
}

void BM_PaceAlone(benchmark::State& state) {
  const auto frames = static_cast<int>(state.range(1));
  double cpu = 0;
  for (auto _ : state) {
    rusage begin{};
    std::thread source([&] {
      pace(static_cast<double>(state.range(0)), frames, [&](int i) {
        if (i == kWarmup) begin = now_used();
      });
    });
    source.join();
    cpu = (cpu_seconds(now_used()) - cpu_seconds(begin)) * 1e6 / frames;
  }
  state.counters["cpu_us"] = cpu;
}
BENCHMARK(BM_PaceAlone)
    ->Args({30, 600})
    ->ArgNames({"fps", "frames"})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_HandOverAlone(benchmark::State& state) {
  const auto frames = static_cast<int>(state.range(1));
  double handover = 0;
  for (auto _ : state) {
    base::Semaphore published;
    rusage begin{};
    SourceTime time;
    std::thread worker([&] {
      for (int i = 0; i < kWarmup + frames; ++i) published.acquire();
    });
    std::thread source([&] {
      pace(static_cast<double>(state.range(0)), frames, [&](int i) {
        if (i == kWarmup) {
          begin = now_used();
          time.begin();
        }
        time.publish([&](TimePoint) { published.release(); });
        if (i == kWarmup + frames - 1) time.end();
      });
    });
    source.join();
    worker.join();
    const double cpu = (cpu_seconds(now_used()) - cpu_seconds(begin)) * 1e6;
    handover = (cpu - time.outside_us()) / frames;
  }
  state.counters["handover_us"] = handover;
}
BENCHMARK(BM_HandOverAlone)
    ->Args({30, 600})
    ->ArgNames({"fps", "frames"})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_Pipeline(benchmark::State& state) {
  const auto fps = static_cast<double>(state.range(0));
  const int frames = static_cast<int>(state.range(1));
  const base::Clock& clock = base::system_clock();
  std::vector<double> arrival_us;
  arrival_us.reserve(static_cast<std::size_t>(frames));
  double cpu = 0;
  double own = 0;
  double switches = 0;
  std::vector<base::Duration> on_device;
  on_device.reserve(static_cast<std::size_t>(kWarmup) + static_cast<std::size_t>(frames));
  for (auto _ : state) {
    const auto device = camd::device::make_host_device(clock);
    test::FakeEngine engine(*device, [](const infer::PictureView&) -> base::Status { return {}; });
    pipeline::PluginHost plugins({}, clock);
    on_device.clear();
    rusage begin{};
    int seen = 0;
    test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
      if (++seen == kWarmup) begin = now_used();
      if (seen > kWarmup) {
        arrival_us.push_back(static_cast<double>(base::to_ns(clock.now()) - frame.arrived_mono_ns) / 1000);
      }
      return static_cast<int>(CAMD_OK);
    });
    plugin.add_to(plugins);
    test::declare(plugins, engine);
    engine.record_time_on_device(on_device);
    pipeline::FramePathOptions path;
    path.transfer = camd::pipeline::Transfer::kMapped;
    SourceTime time;
    const auto body = [&](capture::FrameRing& ring, const std::atomic<bool>&) {
      pace(fps, frames, [&](int i) {
        if (i == kWarmup) time.begin();
        time.publish([&](TimePoint now) { (void)test::publish_frame(ring, now); });
        if (i == kWarmup + frames - 1) time.end();
      });
    };
    pipeline::Pipeline pipe({{"host", *device, engine, path}}, plugins, clock,
                            {test::fake_camera("bench", body, fps <= 0)}, {}, nullptr);
    pipe.start();
    (void)pipe.wait_for_end(TimePoint::max());
    const rusage end = now_used();
    pipe.stop(true);
    const double counted = std::max(1, seen - kWarmup);
    cpu = (cpu_seconds(end) - cpu_seconds(begin)) * 1e6 / counted;
    own = cpu - time.outside_us() / counted;
    switches = static_cast<double>(end.ru_nvcsw - begin.ru_nvcsw) / counted;
  }
  state.counters["cpu_us"] = cpu;
  if (fps > 0) state.counters["pipeline_us"] = own;
  state.counters["switches"] = switches;
  std::vector<double> overhead_us(on_device.size());
  std::transform(on_device.begin(), on_device.end(), overhead_us.begin(),
                 [](base::Duration time) { return static_cast<double>(time.count()) * 1e-3; });
  state.counters["overhead_p50_us"] = percentile(overhead_us, 0.50);
  state.counters["overhead_p99_us"] = percentile(overhead_us, 0.99);
  state.counters["arrival_p50_us"] = percentile(arrival_us, 0.50);
  state.counters["arrival_p99_us"] = percentile(arrival_us, 0.99);
}
BENCHMARK(BM_Pipeline)
    ->Args({30, 600})
    ->Args({0, 100})
    ->Args({0, 2100})
    ->Args({0, 100'000})
    ->ArgNames({"fps", "frames"})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
