// Measures the ways to move the data with a few frames.
#include "pipeline/run/path_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "pipeline/run/path_probe.hpp"

namespace camd::pipeline {
namespace {

// What most decoders deliver; the true size is known only with the first frame.
constexpr int kWidth = 1280;
constexpr int kHeight = 720;
constexpr int kFrames = 12;
constexpr int kWarmup = 3;

// A round of the rate: so many frames, or more where they take less than so long.
constexpr int kFewestFrames = 24;
constexpr int kMostFrames = 64;
constexpr double kRoundSeconds = 0.006;
// The best of several rounds counts, as one that something else delayed by a millisecond says too little. A device that
// takes fewer frames a second than this does not notice a millisecond, and several rounds would take long.
constexpr int kRounds = 3;
constexpr double kFastRate = 2000;
// So many counts in a row that bring nothing are the end. One or two can be bad luck: 11,000 frames a second with
// three, 10,700 with four and 13,700 with seven were seen.
constexpr std::ptrdiff_t kPatience = 3;

constexpr double kWorthIt = 0.03;

class Measuring {
 public:
  Measuring(const base::Clock& clock, device::Device& device, infer::Engine& engine, PostprocessorChain& postprocessors)
      : clock_(clock), device_(device), engine_(engine), postprocessors_(postprocessors) {}

  [[nodiscard]] ProbeResult alone(const FramePathOptions& options) {
    return probe(options).measure(kFrames, kWarmup, 0);
  }

  // Fills in what PathChoice says of frames in flight. Returns the figures.
  [[nodiscard]] std::string choose_in_flight(PathChoice& choice) {
    PathProbe of_choice = probe(choice.options);
    std::vector<double> rates;  // with one, two, ... in flight
    while (more_may_pay(rates)) {
      try {
        if (!rates.empty()) of_choice.add_in_flight();
        rates.push_back(rate(of_choice));
      } catch (const base::Error& error) {
        if (rates.empty() || error.kind() != base::ErrorKind::kDevice) throw;
        break;
      }
    }
    choice.in_flight = frames_in_flight(rates, choice.options.goal);
    choice.frames_per_second = rates[static_cast<std::size_t>(choice.in_flight) - 1];
    std::string figures;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      figures += fmt::format("{}{} {:.0f}", i == 0 ? "" : ", ", i + 1, rates[i]);
    }
    return figures;
  }

 private:
  // Frames a second.
  [[nodiscard]] static double rate(PathProbe& probe) {
    (void)probe.throughput(1);  // graphs are captured
    double best = probe.throughput(kFewestFrames);
    if (best < kFastRate || std::isinf(best)) return best;  // infinite: by a clock that stands still
    const int frames = static_cast<int>(std::clamp<double>(best * kRoundSeconds, kFewestFrames, kMostFrames));
    for (int round = 0; round < kRounds; ++round) best = std::max(best, probe.throughput(frames));
    return best;
  }

  [[nodiscard]] PathProbe probe(const FramePathOptions& options) {
    return {clock_, device_, engine_, postprocessors_, options, layout_, pictures_, 1};
  }

  const base::Clock& clock_;
  device::Device& device_;
  infer::Engine& engine_;
  PostprocessorChain& postprocessors_;
  const base::PictureLayout layout_ = base::tight_layout(base::PixelFormat::kNv12, kWidth, kHeight);
  const std::vector<std::vector<std::byte>> pictures_ = make_probe_pictures(layout_);
};

// `choice` gets the best way and its frames in flight. These are measured of the quickest way first, and then of those
// alone that are quicker when nothing waits than that one will be: the others cannot win.
void choose_way(const base::Clock& clock, Measuring& measuring, std::vector<Way> ways, PathChoice& choice,
                double demand) {
  const base::TimePoint start = clock.now();
  const auto options_of = [&choice](const Way& way) {
    FramePathOptions options = choice.options;
    options.transfer = way.transfer;
    options.goal = way.goal;
    return options;
  };
  std::string latencies, rates;
  for (auto way = ways.begin(); way != ways.end(); ++way) {
    const ProbeResult alone = measuring.alone(options_of(*way));
    way->p50_us = alone.e2e.p50;
    latencies += fmt::format("{}{} {:.0f} us", latencies.empty() ? "" : ", ", to_string(*way), way->p50_us);
    // Where nothing is copied back, kDirect is the same.
    if (way->transfer == Transfer::kPinned && alone.d2h_bytes == 0) {
      ways.erase(std::remove_if(way + 1, ways.end(), [](const Way& w) { return w.transfer == Transfer::kDirect; }),
                 ways.end());
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.p50_us < b.p50_us; });
  std::vector<Way> measured;
  std::vector<std::pair<PathChoice, std::string>> choices;
  for (Way& way : ways) {
    if (!measured.empty() && way.p50_us >= expected_us(best_way(measured, demand), demand)) break;
    PathChoice& one = choices.emplace_back(choice, "").first;
    one.options = options_of(way);
    choices.back().second = measuring.choose_in_flight(one);
    way.frames_per_second = one.frames_per_second;
    measured.push_back(way);
    rates += fmt::format("{}{} {:.0f}", rates.empty() ? "" : ", ", to_string(way), way.frames_per_second);
  }
  const Way best = best_way(measured, demand);
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [&](const auto& one) { return one.first.options == options_of(best); });
  choice = found->first;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock.now() - start);
  const std::string wanted = std::isfinite(demand) ? fmt::format("some {:.0f}", demand) : "as many as it takes";
  choice.figures = fmt::format(
      "{} host to host (p50 of {} frames, {}x{} NV12), {} frames a second, where {} come; measured in {} ms", latencies,
      kFrames, kWidth, kHeight, rates, wanted, took.count());
  base::log().info("transfer: {}, because of {}", to_string(best), choice.figures);
  base::log().info("frames in flight: {}, because of {} frames a second", choice.in_flight, found->second);
}

// The transfers, and the first of them for throughput where the engine serves that.
std::vector<Way> ways_of(const infer::Engine& engine, std::initializer_list<Transfer> transfers) {
  std::vector<Way> ways;
  for (const Transfer transfer : transfers) ways.push_back({transfer});
  if (engine.serves(infer::Goal::kThroughput)) ways.push_back({*transfers.begin(), 0, 0, infer::Goal::kThroughput});
  return ways;
}

}  // namespace

bool more_may_pay(std::span<const double> rates) noexcept {
  if (rates.size() >= PathProbe::kMostInFlight) return false;
  const auto best = std::max_element(rates.begin(), rates.end());
  return rates.end() - best <= kPatience;
}

int fewest_that_pay(std::span<const double> rates) noexcept {
  const double best = *std::max_element(rates.begin(), rates.end());
  const auto enough =
      std::find_if(rates.begin(), rates.end(), [best](double rate) { return rate * (1 + kWorthIt) >= best; });
  return static_cast<int>(enough - rates.begin()) + 1;
}

int frames_in_flight(std::span<const double> rates, infer::Goal goal) noexcept {
  constexpr int kBesideDecoders = 2;
  const int fewest = fewest_that_pay(rates);
  if (goal != infer::Goal::kThroughput) return fewest;
  return std::min(fewest + kBesideDecoders, static_cast<int>(rates.size()));
}

std::string to_string(const Way& way) {
  return fmt::format("{}{}", to_string(way.transfer), way.goal == infer::Goal::kThroughput ? " for throughput" : "");
}

double expected_us(const Way& way, double demand) noexcept {
  if (demand >= way.frames_per_second) return std::numeric_limits<double>::infinity();
  const double load = demand / way.frames_per_second;
  return way.p50_us + load / (2 * (1 - load)) * 1e6 / way.frames_per_second;
}

Way best_way(std::span<const Way> all, double demand) noexcept {
  const Way& quickest = *std::min_element(all.begin(), all.end(), [demand](const Way& a, const Way& b) {
    return expected_us(a, demand) < expected_us(b, demand);
  });
  if (std::isfinite(expected_us(quickest, demand))) return quickest;
  return *std::max_element(all.begin(), all.end(),
                           [](const Way& a, const Way& b) { return a.frames_per_second < b.frames_per_second; });
}

std::string too_many_frames(const std::string& device, const Way& way, double demand, bool kept) {
  if (way.frames_per_second == 0 || !std::isfinite(demand) || demand <= way.frames_per_second) return "";
  return fmt::format(
      "the cameras bring some {:.0f} frames a second, of which {} takes {:.0f} with pipeline.transfer: {}; "
      "the others will be dropped as superseded{}",
      demand, device, way.frames_per_second, to_string(way.transfer),
      kept ? "; another transfer may take more, and camd measures that when it starts" : "");
}

PathChoice choose_path(const base::Clock& clock, device::Device& device, infer::Engine& engine,
                       PostprocessorChain& postprocessors, StreamStrategy streams, std::optional<Transfer> transfer,
                       double demand) {
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
  Measuring measuring(clock, device, engine, postprocessors);
  if (!transfer && !(device.info().integrated && device.info().coherent)) {
    // The one that takes the most frames first.
    choose_way(clock, measuring, ways_of(engine, {Transfer::kPinned, Transfer::kDirect, Transfer::kMapped}), choice,
               demand);
    return choice;
  }
  choice.options.transfer = transfer.value_or(Transfer::kMapped);
  const std::vector<Way> ways = ways_of(engine, {choice.options.transfer});
  if (device.info().asynchronous && ways.size() > 1) choose_way(clock, measuring, ways, choice, demand);
  choice.figures = transfer ? fmt::format("{}, as configured", to_string(*transfer))
                            : "the device shares the CPU's memory, and nothing is copied there";
  if (!device.info().asynchronous || ways.size() > 1) return choice;
  const std::string figures = measuring.choose_in_flight(choice);
  base::log().info("frames in flight: {}, because of {} frames a second", choice.in_flight, figures);
  return choice;
}

}  // namespace camd::pipeline
