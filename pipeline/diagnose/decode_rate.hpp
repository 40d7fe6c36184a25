// How fast a clip is decoded: what `camd doctor --clip` says of a device's decoders, and of the CPU's.
//
// Threads: all [any], [blocks] for seconds: the clip's sources have threads of their own meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/clock.hpp"
#include "config/config.hpp"
#include "device/device.hpp"

namespace camd::pipeline {

struct DecodeRate {
  std::string decoder;  // "NVDEC H.264"
  std::string device;   // "cuda:0", "cpu"
  int width = 0;        // pixels
  int height = 0;
  int streams = 0;               // at once
  double frames_per_second = 0;  // of all of them
};

struct DecodeTrial {
  config::DecodeMode mode = config::DecodeMode::kCpu;  // kCpu or kGpu
  int streams = 1;
  std::uint64_t frames = 1;  // of all streams together, counted once each has shown its first picture
  base::Duration patience = std::chrono::seconds(3);  // for them; what has come by then counts
};

// Plays `clip` again and again in so many streams at once, as fast as they are decoded, into slots that `device` reads.
// Throws Error(kSource) with the reason where one of them cannot be decoded.
[[nodiscard]] DecodeRate measure_decoding(device::Device& device, const std::filesystem::path& clip,
                                          const DecodeTrial& trial);

// One line: the decoder, the rate, and how many cameras of 30 frames a second that is.
[[nodiscard]] std::string decode_rate_text(const DecodeRate& rate);

}  // namespace camd::pipeline
