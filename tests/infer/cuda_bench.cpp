// Times the CUDA engine on one GPU: the network alone, host to host, throughput, each kernel alone.
//   bench_infer_cuda MODEL.onnx [frames] [f32|tf32]
// A tool for docs/experiments.md; what users get is `camd bench`.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "device/cuda/cuda_device.hpp"
#include "infer/cuda/cuda_engine.hpp"

namespace {

using namespace camd;
using Clock = std::chrono::steady_clock;
using device::CopyKind;
using device::HostMemory;

void require(const base::Status& status) {
  if (!status) throw base::Error(status.kind(), status.message());
}
double us(base::Duration d) { return static_cast<double>(d.count()) / 1000.0; }

struct Times {
  std::vector<double> values;
  void add(double v) { values.push_back(v); }
  [[nodiscard]] double at(double share) {
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
  }
  void print(const char* name) {
    std::printf("%-44s p50 %8.1f  p90 %8.1f  p99 %8.1f us\n", name, at(0.5), at(0.9), at(0.99));
    std::fflush(stdout);
  }
};

// One frame's way from page-locked host memory to page-locked host memory.
struct Frame {
  Frame(device::CudaDevice& d, infer::Engine& engine, const base::PictureLayout& picture_layout)
      : gpu(d),
        layout(picture_layout),
        execution(engine.make_execution()),
        stream(d.make_urgent_stream("frame")),
        back(d.make_stream("back")),
        done(d.make_event()),
        joined(d.make_event()),
        from(d.allocate_host(HostMemory::kPinned, layout.size_bytes)),
        picture(d.allocate_device(layout.size_bytes)) {
    for (std::size_t i = 0; i < layout.size_bytes; ++i) from.data()[i] = static_cast<std::byte>(i * 2654435761U >> 13);
    const auto* first = static_cast<std::byte*>(execution->output(0).data);
    const std::size_t last = engine.outputs().size() - 1;
    packed = static_cast<std::size_t>(static_cast<std::byte*>(execution->output(last).data) - first) +
             engine.outputs()[last].size_bytes();
    to = d.allocate_host(HostMemory::kPinned, packed);
    outputs = engine.outputs();
  }
  [[nodiscard]] infer::PictureView view() const { return {picture.data(), layout}; }
  void enqueue_upload() {
    require(gpu.copy(picture.data(), from.data(), layout.size_bytes, CopyKind::kHostToDevice, stream));
  }
  void enqueue_network() {
    require(execution->enqueue_preprocess(view(), stream));
    require(execution->enqueue_network(stream));
  }
  void enqueue_packed() {
    require(gpu.copy(to.data(), execution->output(0).data, packed, CopyKind::kDeviceToHost, stream));
  }
  // Outputs that become final together lie together: one copy each, beside what is still computed.
  void enqueue_early() {
    const auto* base = static_cast<std::byte*>(execution->output(0).data);
    for (std::size_t i = 0; i < outputs.size();) {
      std::size_t end = i + 1;
      while (end < outputs.size() && &execution->output_ready(end) == &execution->output_ready(i)) ++end;
      const auto* first = static_cast<std::byte*>(execution->output(i).data);
      const auto* last = static_cast<std::byte*>(execution->output(end - 1).data) + outputs[end - 1].size_bytes();
      require(gpu.wait(execution->output_ready(i), back));
      require(gpu.copy(to.data() + (first - base), first, static_cast<std::size_t>(last - first),
                       CopyKind::kDeviceToHost, back));
      i = end;
    }
    require(gpu.record(joined, back));
    require(gpu.wait(joined, stream));
  }
  void capture() {
    require(gpu.begin_capture(stream));
    enqueue_upload();
    enqueue_network();
    enqueue_early();
    require(gpu.end_capture(stream, graph));
  }
  void mark() { require(gpu.record(done, stream)); }

  device::CudaDevice& gpu;
  base::PictureLayout layout;
  std::vector<infer::TensorSpec> outputs;
  std::unique_ptr<infer::Execution> execution;
  device::Stream stream, back;
  device::Event done, joined;
  device::HostBuffer from, to;
  device::DeviceBuffer picture;
  device::GraphExec graph;
  std::size_t packed = 0;
};

void host_to_host(Frame& f, int frames, const char* name, const std::function<void()>& enqueue) {
  Times times;
  for (int i = 0; i < frames + 50; ++i) {
    const auto start = Clock::now();
    enqueue();
    f.mark();
    require(f.gpu.synchronize(f.done));
    if (i >= 50) times.add(us(Clock::now() - start));
  }
  times.print(name);
}

void measure(device::CudaDevice& gpu, const std::string& model, int frames, infer::DataType compute_type,
             infer::DataType output_type, base::PixelFormat format) {
  infer::EngineOptions options;
  options.kind = infer::EngineKind::kCuda;
  options.output_type = output_type;
  options.compute_type = compute_type;
  const auto engine = infer::make_engine(model, options, gpu);
  const auto& input = engine->input_options();
  const auto layout = base::tight_layout(format, input.width, input.height);
  Frame frame(gpu, *engine, layout);
  std::printf("-- picture %s, outputs %s, %zu + %zu bytes\n", std::string(base::to_string(format)).c_str(),
              std::string(infer::to_string(output_type)).c_str(), layout.size_bytes, frame.packed);
  frame.enqueue_upload();
  require(gpu.synchronize(frame.stream.ref()));

  device::TimedEvent begin = gpu.make_timed_event(), middle = gpu.make_timed_event(), end = gpu.make_timed_event();
  Times stem, network;
  for (int i = 0; i < frames; ++i) {
    require(gpu.record(begin, frame.stream));
    require(frame.execution->enqueue_preprocess(frame.view(), frame.stream));
    require(gpu.record(middle, frame.stream));
    require(frame.execution->enqueue_network(frame.stream));
    require(gpu.record(end, frame.stream));
    require(gpu.synchronize(frame.stream.ref()));
    stem.add(us(gpu.elapsed(begin, middle)));
    network.add(us(gpu.elapsed(middle, end)));
  }
  stem.print("picture + first layer (events)");
  network.print("rest of the network, own graph (events)");

  // Back to back: what the network costs without the gaps of launching.
  {
    device::GraphExec graph;
    constexpr int kRepeats = 20;
    require(gpu.begin_capture(frame.stream));
    for (int i = 0; i < kRepeats; ++i) frame.enqueue_network();
    require(gpu.end_capture(frame.stream, graph));
    Times times;
    for (int i = 0; i < 30; ++i) {
      require(gpu.record(begin, frame.stream));
      require(gpu.launch(graph, frame.stream));
      require(gpu.record(end, frame.stream));
      require(gpu.synchronize(frame.stream.ref()));
      times.add(us(gpu.elapsed(begin, end)) / kRepeats);
    }
    times.print("whole network, 20 in one graph, each");
  }
  host_to_host(frame, frames, "host to host: upload, network, one copy back", [&] {
    frame.enqueue_upload();
    frame.enqueue_network();
    frame.enqueue_packed();
  });
  host_to_host(frame, frames, "host to host: the same, copies back early", [&] {
    frame.enqueue_upload();
    frame.enqueue_network();
    frame.enqueue_early();
  });
  frame.capture();
  host_to_host(frame, frames, "host to host: one graph", [&] { require(gpu.launch(frame.graph, frame.stream)); });

  for (const int depth : {3, 4}) {
    std::vector<std::unique_ptr<Frame>> flight;
    for (int i = 0; i < depth; ++i) {
      flight.push_back(std::make_unique<Frame>(gpu, *engine, layout));
      flight.back()->capture();
    }
    const auto start = Clock::now();
    const int count = frames * 4;
    for (int i = 0; i < count + depth; ++i) {
      Frame& f = *flight[static_cast<std::size_t>(i % depth)];
      if (i >= depth) require(gpu.synchronize(f.done));
      if (i >= count) continue;
      require(gpu.launch(f.graph, f.stream));
      f.mark();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::printf("%d in flight: %.0f frames/s\n", depth, count / seconds);
  }
}

// Frames a second of the network alone, with the plan for throughput, on a picture that lies on the GPU.
double rate(device::CudaDevice& gpu, infer::Engine& engine, int in_flight, int frames) {
  const auto& input = engine.input_options();
  const auto layout = base::tight_layout(base::PixelFormat::kNv12, input.width, input.height);
  const device::DeviceBuffer picture = gpu.allocate_device(layout.size_bytes);
  struct Turn {
    std::unique_ptr<infer::Execution> execution;
    device::Stream stream;
    device::Event done;
    device::GraphExec graph;
  };
  std::vector<Turn> turns;
  for (int i = 0; i < in_flight; ++i) {
    Turn& turn = turns.emplace_back(Turn{
        engine.make_execution_for(infer::Goal::kThroughput), gpu.make_urgent_stream("frame"), gpu.make_event(), {}});
    require(gpu.begin_capture(turn.stream));
    require(turn.execution->enqueue_preprocess({picture.data(), layout}, turn.stream));
    require(turn.execution->enqueue_network(turn.stream));
    require(gpu.end_capture(turn.stream, turn.graph));
  }
  const auto start = Clock::now();
  for (int i = 0; i < frames + in_flight; ++i) {
    Turn& turn = turns[static_cast<std::size_t>(i % in_flight)];
    if (i >= in_flight) require(gpu.synchronize(turn.done));
    if (i >= frames) continue;
    require(gpu.launch(turn.graph, turn.stream));
    require(gpu.record(turn.done, turn.stream));
  }
  return frames / std::chrono::duration<double>(Clock::now() - start).count();
}

void print_rates(device::CudaDevice& gpu, const std::string& model, int frames) {
  infer::EngineOptions options;
  options.kind = infer::EngineKind::kCuda;
  options.many_frames = true;
  const auto engine = infer::make_engine(model, options, gpu);
  std::printf("for throughput, frames/s by frames in flight:");
  for (const int in_flight : {1, 2, 4, 6, 8, 12, 16}) {
    const double best = std::max(rate(gpu, *engine, in_flight, frames), rate(gpu, *engine, in_flight, frames));
    std::printf(" %d: %.0f", in_flight, best);
    std::fflush(stdout);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_infer_cuda MODEL.onnx [frames] [f32|tf32]\n");
    return 2;
  }
  try {
    const auto start = Clock::now();
    const int frames = argc > 2 ? std::stoi(argv[2]) : 1000;
    const auto gpu = device::make_cuda_device(0);
    const auto opened = Clock::now();
    infer::EngineOptions options;
    options.kind = infer::EngineKind::kCuda;
    const std::string precision = argc > 3 ? argv[3] : "f16";
    if (precision != "f16") options.compute_type = infer::DataType::kF32;
    options.tf32 = precision == "tf32";
    const auto engine = infer::make_engine(argv[1], options, *gpu);
    const auto execution = engine->make_execution();
    std::printf("start: context %.0f ms, engine and first run %.0f ms\n", us(opened - start) / 1000,
                us(Clock::now() - opened) / 1000);
    measure(*gpu, argv[1], frames, options.compute_type, infer::DataType::kF32, base::PixelFormat::kBgr);
    measure(*gpu, argv[1], frames, options.compute_type, infer::DataType::kF16, base::PixelFormat::kNv12);
    print_rates(*gpu, argv[1], frames * 4);
    double total = 0;
    for (const infer::StepTime& step : dynamic_cast<infer::CudaEngine&>(*engine).profile(50)) {
      total += us(step.alone);
      std::printf("%7.2f us  %-10s %s\n", us(step.alone), step.kernel.c_str(), step.origin.c_str());
    }
    std::printf("%7.2f us  all steps, each alone\n", total);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
