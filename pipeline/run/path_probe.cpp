// Frames of made-up pictures, sent through a path one by one or several at once.
#include "pipeline/run/path_probe.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "pipeline/run/throw_if_failed.hpp"

namespace camd::pipeline {
namespace {

constexpr int kPictures = 3;

ProbeTimes summary(std::vector<double>& values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&values](double q) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
    return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
  };
  return {values.front(), at(0.50), at(0.90), at(0.99), at(0.999), values.back()};
}

}  // namespace

std::vector<std::vector<std::byte>> make_probe_pictures(const base::PictureLayout& layout) {
  std::vector<std::vector<std::byte>> pictures;
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same pictures in every run
  for (int p = 0; p < kPictures; ++p) {
    std::vector<std::byte> picture(layout.size_bytes);
    for (std::size_t i = 0; i < picture.size(); ++i) {
      picture[i] = static_cast<std::byte>((i / 64 + static_cast<std::size_t>(p) * 40 + random() % 32) & 0xFF);
    }
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

PathProbe::PathProbe(const base::Clock& clock, device::Device& device, infer::Engine& engine,
                     PostprocessorChain& postprocessors, const FramePathOptions& options,
                     const base::PictureLayout& layout, const std::vector<std::vector<std::byte>>& pictures,
                     int in_flight)
    : clock_(clock),
      device_(device),
      engine_(engine),
      layout_(layout),
      pictures_(pictures),
      path_(device, engine, postprocessors, options),
      ring_(device, observer_,
            {0, kMostInFlight + 1, capture::RingPolicy::kLossless, picture_memory(options.transfer), 0,
             postprocessors.needs().picture_memory}) {
  for (int i = 0; i < in_flight; ++i) in_flights_.push_back(path_.make_in_flight());
}

void PathProbe::add_in_flight() { in_flights_.push_back(path_.make_in_flight()); }

// Puts the next picture into a slot and takes it, as a source and the dispatcher would. Without `fill` the slot keeps
// what it held: a throughput is not that of memcpy.
void PathProbe::load(InFlight& in_flight, bool fill) {
  std::optional<capture::FillLease> lease = ring_.begin();
  const auto picture = static_cast<std::size_t>(lease->sequence()) % pictures_.size();
  std::byte* slot = lease->data(layout_);
  if (fill) {
    const std::byte* const pixels = pictures_[picture].data();
    capture::copy_rows(slot, layout_.size_bytes, pixels, layout_.size_bytes, 1, lease->next_reader());
  }
  const base::TimePoint now = clock_.now();
  lease->publish(now, now);
  in_flight.lease = std::move(*ring_.take());
  in_flight.frame = in_flight.lease.frame();
}

void PathProbe::start(InFlight& in_flight) {
  in_flight.dispatched = clock_.now();
  throw_if_failed(path_.enqueue(in_flight));
}

void PathProbe::finish(InFlight& in_flight) {
  throw_if_failed(device_.synchronize(in_flight.downloaded));
  in_flight.completed = clock_.now();
  throw_if_failed(device_.synchronize(path_.slot_read(in_flight)));  // and all times of the upload are taken
  throw_if_failed(in_flight.execution->result());
  in_flight.lease.release();
}

void PathProbe::postprocess(InFlight& in_flight) {
  camd_frame frame{};
  frame.struct_size = sizeof(frame);
  frame.camera = "bench";
  frame.sequence = in_flight.frame.sequence;
  frame.width = layout_.width;
  frame.height = layout_.height;
  frame.scale_x = frame.scale_y = 1;
  camd_results results{sizeof(results), static_cast<std::int32_t>(in_flight.detections.size()), 0,
                       in_flight.detections.data()};
  throw_if_failed(in_flight.postprocessing->process(frame, results));
}

ProbeResult PathProbe::measure(int frames, int warmup, double pace_fps, bool postprocess) {
  InFlight& frame = *in_flights_.front();
  std::vector<double> e2e, h2d, preprocess, infer, d2h, plugins;
  base::TimePoint next = clock_.now();
  for (int i = -warmup; i < frames; ++i) {
    load(frame, true);
    if (pace_fps > 0) {
      next += base::Duration(static_cast<std::int64_t>(1e9 / pace_fps));
      std::this_thread::sleep_until(next);
    }
    start(frame);
    finish(frame);
    const base::TimePoint begun = clock_.now();
    if (postprocess) this->postprocess(frame);
    const base::TimePoint returned = clock_.now();
    if (i < 0) continue;
    StageTimes times{};
    path_.stage_times(frame, times);
    const auto us = [&times](Stage stage) {
      return static_cast<double>(times[static_cast<std::size_t>(stage)].count()) / 1000;
    };
    e2e.push_back(static_cast<double>((frame.completed - frame.dispatched).count()) / 1000);
    h2d.push_back(us(Stage::kH2d));
    preprocess.push_back(us(Stage::kPreprocess));
    infer.push_back(us(Stage::kInfer));
    d2h.push_back(us(Stage::kD2h));
    if (postprocess) plugins.push_back(static_cast<double>((returned - begun).count()) / 1000);
  }
  return {summary(e2e), summary(h2d),     summary(preprocess), summary(infer),
          summary(d2h), summary(plugins), frame.h2d_bytes,     frame.d2h_bytes};
}

double PathProbe::throughput(int frames) {
  std::size_t next = 0;
  for (const auto& in_flight : in_flights_) {
    load(*in_flight, false);
    start(*in_flight);
  }
  // What the first ones did while the others were started is nobody's rate.
  base::TimePoint begin;
  for (int i = -static_cast<int>(in_flights_.size()); i < frames; ++i) {
    if (i == 0) begin = clock_.now();
    InFlight& frame = *in_flights_[next];
    next = (next + 1) % in_flights_.size();
    finish(frame);
    load(frame, false);
    start(frame);
  }
  const double seconds = std::chrono::duration<double>(clock_.now() - begin).count();
  for (std::size_t i = 0; i < in_flights_.size(); ++i) finish(*in_flights_[(next + i) % in_flights_.size()]);
  return frames / seconds;
}

std::vector<std::vector<std::byte>> PathProbe::outputs() {
  std::vector<std::vector<std::byte>> all(pictures_.size());
  for (std::size_t p = 0; p < pictures_.size(); ++p) {
    InFlight& frame = *in_flights_[p % in_flights_.size()];
    load(frame, true);
    const std::size_t picture = frame.frame.sequence % pictures_.size();
    start(frame);
    finish(frame);
    for (std::size_t i = 0; i < engine_.outputs().size(); ++i) {
      const auto* data = static_cast<const std::byte*>(frame.tensors.host[i].data);
      all[picture].insert(all[picture].end(), data, data + engine_.outputs()[i].size_bytes());
    }
  }
  return all;
}

}  // namespace camd::pipeline
