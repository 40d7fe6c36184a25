// Recordings: frames as a plug-in sees them, in a file: what `record` writes and `camd plugin --replay` reads.
//
// The file begins with "camdrec\n" and the version as 4 bytes. Chunks follow: a kind (4 bytes), the payload's length
// (8 bytes), the payload. The first chunk is the model, every other one a frame. A text or a list has its length in
// front (8 bytes). Numbers are little-endian, in the order of the structs below; a tensor is its values, row-major.
//
// Threads: one at a time for each object.
// Invariants: who reads believes nothing: each length is compared with what is left of the file, each count and shape
// with its bound, each tensor and plane with its size. A last chunk that is cut off, as a killed run leaves it, is as
// the end.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

inline constexpr std::uint32_t kRecordingVersion = 1;

struct RecordedSpec {
  std::string name;
  DLDataType dtype{};
  std::vector<std::int64_t> shape;
};

struct RecordedModel {
  std::string path, card_json;
  std::vector<std::string> cameras;
  bool channels_last = false;
  bool has_input = false, has_pictures = false;  // whether frames have them
  RecordedSpec input;
  std::vector<RecordedSpec> outputs;
};

struct RecordedPlane {
  std::int32_t stride_bytes = 0, width = 0, height = 0;
  std::vector<std::uint8_t> bytes;  // stride_bytes * height
};

struct RecordedFrame {
  std::int32_t camera = 0;  // by index
  std::int32_t width = 0, height = 0;
  std::uint64_t sequence = 0;
  std::int64_t captured_mono_ns = 0, arrived_mono_ns = 0, captured_unix_ns = 0, captured_uncertainty_ns = 0;
  std::int64_t now_mono_ns = 0;  // when it was recorded
  float scale_x = 1, scale_y = 1, offset_x = 0, offset_y = 0;
  std::uint32_t flags = 0;
  std::int32_t format = 0, bt709 = 0, full_range = 0;
  std::vector<RecordedPlane> planes;               // none: no picture
  std::vector<std::vector<std::uint8_t>> tensors;  // the outputs, and behind them the input or nothing
  std::int32_t capacity = 0;                       // of the list of detections
  std::vector<camd_detection> detections;          // of the plug-ins in front
  std::vector<camd_event> events;
};

// Bytes of a tensor of this shape and type; nothing where that is no tensor, or more than there can be.
[[nodiscard]] std::optional<std::uint64_t> tensor_bytes(const RecordedSpec& spec) noexcept;

class RecordingWriter {
 public:
  // Makes the file, which is not there yet. Throws std::runtime_error, as do the others.
  RecordingWriter(std::string path, const RecordedModel& model);
  // [blocks] The frame is in the file whole, or it throws.
  void add(const RecordedFrame& frame);
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Bytes that a frame would take.
  [[nodiscard]] static std::uint64_t bytes_of(const RecordedFrame& frame);

 private:
  void write(std::uint32_t kind, const std::vector<char>& payload);
  const std::string path_;
  std::ofstream file_;
  std::uint64_t bytes_ = 0;
};

class RecordingReader {
 public:
  // Reads the model. Throws std::runtime_error with the path and what is wrong, as does next().
  explicit RecordingReader(std::string path);
  [[nodiscard]] const RecordedModel& model() const noexcept { return model_; }
  // Nothing at the end.
  [[nodiscard]] std::optional<RecordedFrame> next();

 private:
  // The payload of a chunk of this kind; nothing at the end.
  [[nodiscard]] std::optional<std::vector<char>> chunk(std::uint32_t kind);
  [[noreturn]] void refuse(const std::string& why) const;

  const std::string path_;
  std::ifstream file_;
  std::uint64_t left_ = 0;  // bytes of the file
  RecordedModel model_;
};

}  // namespace camd::plugins
