// Measures the ways to move the data with a few frames and takes the fastest.
#include "pipeline/run/path_choice.hpp"

#include <fmt/format.h>

#include "base/log.hpp"
#include "pipeline/run/path_probe.hpp"

namespace camd::pipeline {
namespace {

// What most decoders deliver; the true size is known only with the first frame.
constexpr int kWidth = 1280;
constexpr int kHeight = 720;
constexpr int kFrames = 12;
constexpr int kWarmup = 3;
constexpr int kFramesInFlight = 64;

}  // namespace

PathChoice choose_path(const base::Clock& clock, device::Device& device, infer::Engine& engine,
                       PostprocessorChain& postprocessors, StreamStrategy streams, std::optional<Transfer> transfer) {
  PathChoice choice;
  choice.options.streams = streams;
  if (device.info().works_in_host_memory) {
    choice.options.transfer = transfer.value_or(Transfer::kMapped);
    choice.figures = "the host device reads and writes host memory in place";
    return choice;
  }
  if (streams == StreamStrategy::kSplit && device.supports_graphs()) {
    // Every frame in flight launches its own graph on its own stream, so that one uploads while another computes.
    choice.options.graph = true;
    choice.options.streams = StreamStrategy::kPerFrame;
  }
  if (transfer) {
    choice.options.transfer = *transfer;
    choice.figures = fmt::format("{}, as configured", to_string(*transfer));
    return choice;
  }
  if (device.info().integrated && device.info().coherent) {
    choice.options.transfer = Transfer::kMapped;
    choice.figures = "the device shares the CPU's memory, and nothing is copied there";
    return choice;
  }
  const base::TimePoint start = clock.now();
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kNv12, kWidth, kHeight);
  const auto pictures = make_probe_pictures(layout);
  double best = 0;
  for (const Transfer candidate : {Transfer::kPinned, Transfer::kDirect, Transfer::kMapped}) {
    FramePathOptions options = choice.options;
    options.transfer = candidate;
    PathProbe probe(clock, device, engine, postprocessors, options, layout, pictures, 1);
    const double p50 = probe.measure(kFrames, kWarmup, 0).e2e.p50;
    choice.figures += fmt::format("{}{} {:.0f} us", choice.figures.empty() ? "" : ", ", to_string(candidate), p50);
    if (candidate == Transfer::kPinned || p50 < best) {
      choice.options.transfer = candidate;
      best = p50;
    }
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock.now() - start);
  choice.figures += fmt::format(" host to host (p50 of {} frames, {}x{} NV12; measured in {} ms)", kFrames, kWidth,
                                kHeight, took.count());
  base::log().info("transfer: {}, because of {}", to_string(choice.options.transfer), choice.figures);
  return choice;
}

void choose_in_flight(const base::Clock& clock, device::Device& device, infer::Engine& engine,
                      PostprocessorChain& postprocessors, PathChoice& choice) {
  if (!device.info().asynchronous || device.info().works_in_host_memory) return;
  const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kNv12, kWidth, kHeight);
  const auto pictures = make_probe_pictures(layout);
  PathProbe probe(clock, device, engine, postprocessors, choice.options, layout, pictures, 1);
  std::string figures;
  for (int count = 1; count <= PathProbe::kMostInFlight; ++count) {
    try {
      if (count > 1) probe.add_in_flight();
      (void)probe.throughput(kWarmup * count);  // graphs are captured
      const double now = probe.throughput(kFramesInFlight);
      figures += fmt::format("{}{} {:.0f}", figures.empty() ? "" : ", ", count, now);
      if (now < choice.frames_per_second * (1 + kWorthIt)) break;
      choice.in_flight = count;
      choice.frames_per_second = now;
    } catch (const base::Error& error) {
      if (count == 1 || error.kind() != base::ErrorKind::kDevice) throw;
      break;
    }
  }
  base::log().info("frames in flight: {}, because of {} frames a second", choice.in_flight, figures);
}

}  // namespace camd::pipeline
