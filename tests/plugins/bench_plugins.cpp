// What the built-ins cost a frame. Run: build/bin/bench_plugins (configure with -DCAMD_BUILD_BENCHMARKS=ON).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <opencv2/aruco.hpp>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "harness.hpp"
#include "plugins/annotate/canvas.hpp"
#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"
#include "plugins/outbox/outbox.hpp"
#include "swallow.hpp"

namespace {
thread_local std::uint64_t own_allocations = 0;  // of the thread that asks
}  // namespace

// Not inlined: GCC would see malloc() in one place and delete in another and call it a mismatch.
__attribute__((noinline)) void* operator new(std::size_t size) {
  ++own_allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace camd::plugins::testing {
namespace {

FakeModel marker(std::int64_t height, std::int64_t width) {
  FakeModel model(height, width);
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::int64_t h = (height + stride - 1) / stride, w = (width + stride - 1) / stride;
    model.output("cls_" + std::to_string(stride), {1, 4, h, w});
    model.output("box_" + std::to_string(stride), {1, 8, h, w});
    model.output("kps_" + std::to_string(stride), {1, 20, h, w});
  }
  model.card = R"({"layout":"anchors","classes":["qr","marker"],"strides":[8,16,32],"keypoints":5})";
  return model;
}

// The reference detector's outputs with `range(0)` cells that pass.
void detections(benchmark::State& state) {
  FakeModel model = marker(360, 640);
  Instance run(find_builtin("detections"));
  if (run.create("{}") != CAMD_OK || run.outputs(model) != CAMD_OK) state.SkipWithError(run.error().c_str());
  auto& scores = model.outputs[0].values;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    scores[static_cast<std::size_t>(i) * 7919 % scores.size()] = 0.6F + 0.3F * static_cast<float>(i) / 4096.0F;
  }
  run.results.capacity = 256;
  static_cast<void>(run.process(model));
  for (auto _ : state) {
    run.results.count = 0;
    benchmark::DoNotOptimize(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem));
  }
  state.counters["detections"] = run.results.count;
}
BENCHMARK(detections)->Arg(0)->Arg(10)->Arg(4096)->Unit(benchmark::kMicrosecond);

void jsonl(benchmark::State& state) {
  FakeModel model(4, 4);
  Instance run(find_builtin("jsonl"));
  if (run.create(R"({"path":"/dev/null"})") != CAMD_OK) state.SkipWithError(run.error().c_str());
  std::vector<camd_detection> found(3);
  for (camd_detection& d : found) {
    d.score = 0.87654F;
    d.keypoint_count = 5;
    for (int k = 0; k < 5; ++k) d.keypoints[k][0] = d.keypoints[k][1] = 123.456F;
    for (float& b : d.box) b = 1234.567F;
    camd::plugin::copy_text(d.class_name, "marker");
  }
  static_cast<void>(run.process(model, found));
  for (auto _ : state) {
    benchmark::DoNotOptimize(run.table->process(run.instance, &run.frame, &run.tensors, &run.results, &run.problem));
  }
}
BENCHMARK(jsonl)->Unit(benchmark::kMicrosecond);

// Objects that move through a 1280x720 picture, one frame after the other: `track`, then `zones` with two areas and two
// lines, as in a chain.
void track_and_zones(benchmark::State& state) {
  const int objects = static_cast<int>(state.range(0));
  FakeModel model(4, 4);
  Instance track(find_builtin("track")), zones(find_builtin("zones"));
  const char* const shapes =
      R"({"zones":[{"name":"a","polygon":[[0,0],[0.5,0],[0.5,1],[0,1]]},{"name":"b","polygon":[[0.5,0],[1,0],[1,1]]}],)"
      R"("lines":[{"name":"c","from":[0.5,0],"to":[0.5,1]},{"name":"d","from":[0,0.5],"to":[1,0.5]}]})";
  if (track.create("{}") != CAMD_OK || track.outputs(model) != CAMD_OK || zones.create(shapes) != CAMD_OK ||
      zones.outputs(model) != CAMD_OK) {
    state.SkipWithError("not made");
  }
  std::vector<camd_detection> items(static_cast<std::size_t>(objects));
  camd_results results{sizeof(camd_results), objects, objects, items.data()};
  camd_frame frame = track.frame;
  frame.width = 1280;
  frame.height = 720;
  std::int64_t number = 0;
  for (auto _ : state) {
    ++number;
    frame.captured_mono_ns = 33'333'333 * number;
    for (int i = 0; i < objects; ++i) {
      camd_detection& d = items[static_cast<std::size_t>(i)];
      d.score = 0.95F;
      d.box[0] = static_cast<float>((63 * i + 2 * number) % 1200);
      d.box[1] = static_cast<float>(30 * i % 650);
      d.box[2] = d.box[3] = 60;
    }
    track.host.events.clear();
    zones.host.events.clear();
    benchmark::DoNotOptimize(track.table->process(track.instance, &frame, &track.tensors, &results, &track.problem));
    benchmark::DoNotOptimize(zones.table->process(zones.instance, &frame, &zones.tensors, &results, &zones.problem));
  }
}
BENCHMARK(track_and_zones)->Arg(1)->Arg(20)->Arg(100)->Unit(benchmark::kMicrosecond);

// A plug-in's call into the outbox, each by itself, with a message of range(0) bytes, 1000 a second; the outbox's
// thread sends meanwhile. Every second time a plain copy of the message in its place: copy_p50_us and copy_p99_us are
// what the machine asks for that alone.
void outbox_put(benchmark::State& state) {
  Outbox box({}, std::make_unique<Swallow>(), "swallow", [](camd_log_level, const std::string&) {});
  box.add_camera("door");
  box.start();
  const std::string payload(static_cast<std::size_t>(state.range(0)), 'x');
  std::string copy = payload;
  std::vector<double> times_us, copies_us;
  times_us.reserve(static_cast<std::size_t>(state.max_iterations));
  copies_us.reserve(static_cast<std::size_t>(state.max_iterations));
  // Every place has had a message of this size, as after the first second of an outage.
  for (std::size_t i = 0; i < OutboxOptions{}.capacity; ++i) box.put("door", "camd/door/detections", payload, false);
  while (box.waiting() > 0) ::usleep(1000);
  std::uint64_t allocations = 0;
  const auto since = [](std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  };
  bool puts = false;
  for (auto _ : state) {
    state.PauseTiming();
    ::usleep(1000);
    state.ResumeTiming();
    puts = !puts;
    const std::uint64_t before = own_allocations;
    const auto begin = std::chrono::steady_clock::now();
    if (puts) {
      box.put("door", "camd/door/detections", payload, false);
      allocations += own_allocations - before;
      times_us.push_back(since(begin));
    } else {
      copy.assign(payload);
      benchmark::DoNotOptimize(copy.data());
      copies_us.push_back(since(begin));
    }
  }
  const auto percentile = [](std::vector<double>& times, double part) {
    std::sort(times.begin(), times.end());
    return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
  };
  state.counters["p50_us"] = percentile(times_us, 0.5);
  state.counters["p99_us"] = percentile(times_us, 0.99);
  state.counters["worst_us"] = percentile(times_us, 1);
  state.counters["copy_p50_us"] = percentile(copies_us, 0.5);
  state.counters["copy_p99_us"] = percentile(copies_us, 0.99);
  state.counters["allocations"] = static_cast<double>(allocations);
}
BENCHMARK(outbox_put)->Arg(300)->Arg(3000)->Arg(30000)->Unit(benchmark::kMicrosecond)->Iterations(10000);

// `objects` codes of 60 pixels in a picture of 1280x720, in rows: markers that can be read, or noise.
class Codes {
 public:
  Codes(int objects, bool readable) : image_(720, 1280, CV_8UC1, cv::Scalar(220)) {
    const auto table = cv::aruco::getPredefinedDictionary(cv::aruco::DICT_4X4_50);
    cv::Mat code;
    for (int i = 0; i < objects; ++i) {
      const cv::Rect place(20 + 90 * (i % 14), 20 + 90 * (i / 14), 60, 60);
      cv::aruco::drawMarker(table, i % 50, 60, code);
      if (!readable) cv::randu(code, 0, 255);
      code.copyTo(image_(place));
      camd_detection d{};
      d.score = 0.95F;
      d.class_id = readable ? 1 : 0;
      camd::plugin::copy_text(d.class_name, readable ? "marker" : "qr");
      const float left = static_cast<float>(place.x) - 0.5F, top = static_cast<float>(place.y) - 0.5F;
      d.box[0] = left;
      d.box[1] = top;
      d.box[2] = d.box[3] = 60;
      d.keypoint_count = 5;
      for (int k = 0; k < 4; ++k) {
        d.keypoints[k][0] = left + (k == 1 || k == 2 ? 60.0F : 0.0F);
        d.keypoints[k][1] = top + (k >= 2 ? 60.0F : 0.0F);
      }
      items.push_back(d);
    }
    picture.struct_size = sizeof(picture);
    picture.format = CAMD_PIXEL_GRAY8;
    picture.plane_count = 1;
    picture.planes[0] = {image_.data, 1280, 1280, 720};
  }
  std::vector<camd_detection> items;
  camd_picture picture{};

 private:
  cv::Mat image_;
};

// `track`, `codes` and `zones` in a chain, with `range(0)` objects. range(1) 0: all codes have been read, as they are
// after the first frames; 1: none can be read, so that each frame pays for four attempts at a QR code.
void track_codes_and_zones(benchmark::State& state) {
  const auto objects = static_cast<int>(state.range(0));
  Codes codes_seen(objects, state.range(1) == 0);
  FakeModel model(4, 4);
  Instance track(find_builtin("track")), codes(find_builtin("codes")), zones(find_builtin("zones"));
  const char* const shapes = R"({"zones":[{"name":"a","polygon":[[0,0],[0.5,0],[0.5,1],[0,1]]}],)"
                             R"("lines":[{"name":"c","from":[0.5,0],"to":[0.5,1]}]})";
  if (track.create("{}") != CAMD_OK || track.outputs(model) != CAMD_OK || codes.create("{}") != CAMD_OK ||
      codes.outputs(model) != CAMD_OK || zones.create(shapes) != CAMD_OK || zones.outputs(model) != CAMD_OK) {
    state.SkipWithError("not made");
  }
  std::vector<camd_detection> items;
  camd_frame frame = track.frame;
  frame.width = 1280;
  frame.height = 720;
  frame.picture = &codes_seen.picture;
  const auto one_frame = [&] {
    frame.captured_mono_ns += 33'333'333;
    items = codes_seen.items;
    camd_results results{sizeof(camd_results), objects, objects, items.data()};
    for (Instance* one : {&track, &codes, &zones}) {
      one->host.events.clear();
      benchmark::DoNotOptimize(one->table->process(one->instance, &frame, &one->tensors, &results, &one->problem));
    }
  };
  for (int i = 0; i < 2 * objects; ++i) one_frame();
  for (auto _ : state) one_frame();
  std::int64_t read = 0;
  for (const camd_detection& d : items) read += d.text[0] != '\0' ? 1 : 0;
  state.counters["read"] = static_cast<double>(read);
}
BENCHMARK(track_codes_and_zones)->ArgsProduct({{1, 20, 100}, {0, 1}})->Unit(benchmark::kMicrosecond);

// annotate's share of a frame without the encoder: 720p copied, converted, scaled by range(1) percent.
void canvas_fill(benchmark::State& state) {
  const auto format = static_cast<camd_pixel_format>(state.range(0));
  constexpr int kWidth = 1280, kHeight = 720;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kWidth * kHeight * 3), 99);
  camd_picture picture{};
  picture.format = format;
  const int bytes = format == CAMD_PIXEL_BGR || format == CAMD_PIXEL_RGB ? 3 : format == CAMD_PIXEL_YUY2 ? 2 : 1;
  picture.planes[0] = {pixels.data(), kWidth * bytes, kWidth, kHeight};
  const std::uint8_t* chroma = pixels.data() + kWidth * kHeight;
  if (format == CAMD_PIXEL_NV12) picture.planes[1] = {chroma, kWidth, kWidth / 2, kHeight / 2};
  if (format == CAMD_PIXEL_I420) {
    picture.planes[1] = {chroma, kWidth / 2, kWidth / 2, kHeight / 2};
    picture.planes[2] = {chroma + kWidth * kHeight / 4, kWidth / 2, kWidth / 2, kHeight / 2};
  }
  const Size size = canvas_size(kWidth, kHeight, static_cast<double>(state.range(1)) / 100.0);
  std::vector<std::uint8_t> to(i420_bytes(size));
  Canvas canvas(to.data(), size);
  Canvas::Scratch scratch;
  for (auto _ : state) canvas.fill(picture, scratch);
}
BENCHMARK(canvas_fill)
    ->ArgsProduct({{CAMD_PIXEL_BGR, CAMD_PIXEL_RGB, CAMD_PIXEL_NV12, CAMD_PIXEL_I420, CAMD_PIXEL_YUY2,
                    CAMD_PIXEL_GRAY8},
                   {100, 50}})
    ->Unit(benchmark::kMicrosecond);

void canvas_draw(benchmark::State& state) {
  const Size size{1280, 720};
  std::vector<std::uint8_t> to(i420_bytes(size));
  Canvas canvas(to.data(), size);
  for (auto _ : state) {
    canvas.rectangle(100, 100, 400, 400, class_color(0), canvas.line_thickness());
    for (int i = 0; i < 4; ++i) canvas.line(100 + 50 * i, 100, 300, 400, class_color(1), canvas.line_thickness());
    for (int i = 0; i < 5; ++i) canvas.disc(100 + 50 * i, 100, 3, class_color(1));
    canvas.label(100, 100, "marker 0.98", class_color(0));
  }
}
BENCHMARK(canvas_draw)->Unit(benchmark::kMicrosecond);

// Everything that annotate takes of the postprocess thread for a 720p I420 picture, film included; paced by the
// encoder.
void annotate_film(benchmark::State& state) {
  const std::string film = (std::filesystem::temp_directory_path() / "camd_bench.mp4").string();
  FakeModel model(4, 4);
  Instance run(find_builtin("annotate"));
  if (run.create(R"({"path":")" + film + "\"}") != CAMD_OK || run.outputs(model) != CAMD_OK) {
    state.SkipWithError(run.error().c_str());
  }
  std::vector<std::uint8_t> pixels(1280 * 720 * 3 / 2, 99);
  camd_picture picture{};
  picture.format = CAMD_PIXEL_I420;
  picture.planes[0] = {pixels.data(), 1280, 1280, 720};
  picture.planes[1] = {pixels.data() + 1280 * 720, 640, 640, 360};
  picture.planes[2] = {pixels.data() + 1280 * 720 * 5 / 4, 640, 640, 360};
  run.frame.width = 1280;
  run.frame.height = 720;
  run.frame.picture = &picture;
  camd_detection d{};
  d.box[0] = d.box[1] = 100;
  d.box[2] = d.box[3] = 200;
  camd::plugin::copy_text(d.class_name, "marker");
  for (auto _ : state) {
    run.frame.captured_mono_ns += 33'333'333;
    benchmark::DoNotOptimize(run.process(model, {d}));
    state.PauseTiming();
    ::usleep(33'333);
    state.ResumeTiming();
  }
  static_cast<void>(run.destroy());
  std::filesystem::remove(film);
}
BENCHMARK(annotate_film)->Unit(benchmark::kMicrosecond)->Iterations(90);

}  // namespace
}  // namespace camd::plugins::testing

BENCHMARK_MAIN();
