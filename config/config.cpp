#include "config/config.hpp"

#include <fmt/format.h>

namespace camd::config {

std::string to_string(const DeviceChoice& device) {
  switch (device.kind) {
    case DeviceKind::kAuto: return "auto";
    case DeviceKind::kHost: return "host";
    case DeviceKind::kCuda: return device.index < 0 ? "cuda" : fmt::format("cuda:{}", device.index);
  }
  return {};
}

std::string_view to_string(EngineChoice engine) noexcept {
  switch (engine) {
    case EngineChoice::kAuto: return "auto";
    case EngineChoice::kCuda: return "cuda";
    case EngineChoice::kCpu: return "cpu";
    case EngineChoice::kOpencv: return "opencv";
  }
  return {};
}

std::string_view to_string(Precision precision) noexcept {
  switch (precision) {
    case Precision::kAuto: return "auto";
    case Precision::kF16: return "f16";
    case Precision::kBf16: return "bf16";
    case Precision::kTf32: return "tf32";
    case Precision::kF32: return "f32";
  }
  return {};
}

std::string_view to_string(TransferMode mode) noexcept {
  switch (mode) {
    case TransferMode::kAuto: return "auto";
    case TransferMode::kPinned: return "pinned";
    case TransferMode::kDirect: return "direct";
    case TransferMode::kMapped: return "mapped";
    case TransferMode::kPageable: return "pageable";
  }
  return {};
}

std::string_view to_string(StreamMode mode) noexcept {
  switch (mode) {
    case StreamMode::kSplit: return "split";
    case StreamMode::kPerFrame: return "per_frame";
    case StreamMode::kSingle: return "single";
  }
  return {};
}

std::string_view to_string(RtspTransport transport) noexcept {
  return transport == RtspTransport::kTcp ? "tcp" : "udp";
}

std::string_view to_string(DamagedMode mode) noexcept {
  switch (mode) {
    case DamagedMode::kKeep: return "keep";
    case DamagedMode::kDrop: return "drop";
  }
  return "?";
}

std::string_view to_string(Isolation isolation) noexcept {
  return isolation == Isolation::kProcess ? "process" : "none";
}

std::string_view to_string(Instances instances) noexcept {
  return instances == Instances::kCamera ? "camera" : "shared";
}

std::string_view to_string(OnFailure choice) noexcept {
  switch (choice) {
    case OnFailure::kDropFrames: return "drop_frames";
    case OnFailure::kPassThrough: return "pass_through";
    case OnFailure::kStop: return "stop";
  }
  return "?";
}

std::string_view to_string(DecodeMode mode) noexcept {
  switch (mode) {
    case DecodeMode::kAuto: return "auto";
    case DecodeMode::kGpu: return "gpu";
    case DecodeMode::kCpu: return "cpu";
  }
  return {};
}

std::string_view type_name(const Source& source) noexcept {
  struct Name {
    std::string_view operator()(const FileSource&) const { return "file"; }
    std::string_view operator()(const V4l2Source&) const { return "v4l2"; }
    std::string_view operator()(const RtspSource&) const { return "rtsp"; }
    std::string_view operator()(const GStreamerSource&) const { return "gstreamer"; }
    std::string_view operator()(const TestSource&) const { return "test"; }
  };
  return std::visit(Name{}, source);
}

const SourcePlace& Config::place_of(std::string_view key) const {
  while (true) {
    if (const auto it = places.find(key); it != places.end()) return it->second;
    const auto dot = key.rfind('.');
    if (dot == std::string_view::npos) return file;
    key = key.substr(0, dot);
  }
}

std::string Config::at(std::string_view key, std::string_view message) const {
  return located(place_of(key), key, message);
}

base::Error Config::error(base::ErrorKind kind, std::string_view key, std::string_view message) const {
  return {kind, at(key, message)};
}

}  // namespace camd::config
