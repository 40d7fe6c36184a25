#include "plugins/record/recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

namespace camd::plugins {
namespace {

static_assert(std::endian::native == std::endian::little, "recordings are little-endian");

constexpr std::string_view kMagic = "camdrec\n";
constexpr std::uint32_t kModel = 1, kFrame = 2;
constexpr std::uint64_t kChunkHead = sizeof(std::uint32_t) + sizeof(std::uint64_t);
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;  // of a tensor, of a plane, of a chunk
constexpr std::uint64_t kMostOutputs = 1024, kMostDimensions = 8, kMostCameras = 4096, kMostPlanes = 3;
constexpr std::int32_t kLargestSide = 1 << 16;
constexpr std::int32_t kLastFormat = CAMD_PIXEL_GRAY8;

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* bytes = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(value));
  }
  template <class Elements>  // of plain values: their number, and they
  void list(const Elements& elements) {
    put(static_cast<std::uint64_t>(std::size(elements)));
    const auto* bytes = reinterpret_cast<const char*>(std::data(elements));
    bytes_.insert(bytes_.end(), bytes, bytes + std::size(elements) * sizeof(*std::data(elements)));
  }
  std::vector<char> bytes_;
};

// Throws std::runtime_error: what is asked for is not there.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    std::memcpy(&value, take(sizeof(value)), sizeof(value));
    return value;
  }
  bool flag() { return get<std::uint8_t>() != 0; }
  std::uint64_t count(std::uint64_t most, const char* what) {
    const auto number = get<std::uint64_t>();
    if (number > most) throw std::runtime_error(fmt::format("{} {}, {} at most", number, what, most));
    return number;
  }
  template <class T>
  std::vector<T> list(std::uint64_t most, const char* what) {
    const std::uint64_t number = count(std::min<std::uint64_t>(most, bytes_.size() / sizeof(T)), what);
    std::vector<T> elements(static_cast<std::size_t>(number));
    const char* from = take(number * sizeof(T));
    if (number > 0) std::memcpy(elements.data(), from, static_cast<std::size_t>(number) * sizeof(T));
    return elements;
  }
  std::string text() {
    const std::vector<char> read = list<char>(kMostBytes, "bytes of a text");
    return {read.begin(), read.end()};
  }
  void end() const {
    if (!bytes_.empty()) throw std::runtime_error(fmt::format("{} bytes too many", bytes_.size()));
  }

 private:
  const char* take(std::uint64_t size) {
    if (size > bytes_.size()) throw std::runtime_error("it is too short");
    const char* at = bytes_.data();
    bytes_ = bytes_.subspan(static_cast<std::size_t>(size));
    return at;
  }
  std::span<const char> bytes_;
};

void put(Writer& writer, const RecordedSpec& spec) {
  writer.list(spec.name);
  writer.put(spec.dtype);
  writer.list(spec.shape);
}

RecordedSpec get_spec(Reader& reader) {
  RecordedSpec spec;
  spec.name = reader.text();
  spec.dtype = reader.get<DLDataType>();
  spec.shape = reader.list<std::int64_t>(kMostDimensions, "dimensions");
  if (!tensor_bytes(spec)) throw std::runtime_error(fmt::format("tensor '{}' is none that there can be", spec.name));
  return spec;
}

std::vector<char> bytes_of_model(const RecordedModel& model) {
  Writer writer;
  writer.list(model.path);
  writer.list(model.card_json);
  writer.put(static_cast<std::uint64_t>(model.cameras.size()));
  for (const std::string& camera : model.cameras) writer.list(camera);
  for (const bool flag : {model.channels_last, model.has_input, model.has_pictures}) {
    writer.put(static_cast<std::uint8_t>(flag));
  }
  put(writer, model.input);
  writer.put(static_cast<std::uint64_t>(model.outputs.size()));
  for (const RecordedSpec& spec : model.outputs) put(writer, spec);
  return std::move(writer.bytes_);
}

RecordedModel read_model(std::span<const char> bytes) {
  Reader reader(bytes);
  RecordedModel model;
  model.path = reader.text();
  model.card_json = reader.text();
  for (std::uint64_t left = reader.count(kMostCameras, "cameras"); left > 0; --left) {
    model.cameras.push_back(reader.text());
  }
  model.channels_last = reader.flag();
  model.has_input = reader.flag();
  model.has_pictures = reader.flag();
  model.input = get_spec(reader);
  for (std::uint64_t left = reader.count(kMostOutputs, "outputs"); left > 0; --left) {
    model.outputs.push_back(get_spec(reader));
  }
  reader.end();
  return model;
}

std::vector<char> bytes_of_frame(const RecordedFrame& frame) {
  Writer writer;
  writer.put(frame.camera);
  writer.put(frame.width);
  writer.put(frame.height);
  writer.put(frame.sequence);
  for (const std::int64_t ns : {frame.captured_mono_ns, frame.arrived_mono_ns, frame.captured_unix_ns,
                                frame.captured_uncertainty_ns, frame.now_mono_ns}) {
    writer.put(ns);
  }
  for (const float value : {frame.scale_x, frame.scale_y, frame.offset_x, frame.offset_y}) writer.put(value);
  writer.put(frame.flags);
  for (const std::int32_t value : {frame.format, frame.bt709, frame.full_range}) writer.put(value);
  writer.put(static_cast<std::uint64_t>(frame.planes.size()));
  for (const RecordedPlane& plane : frame.planes) {
    for (const std::int32_t value : {plane.stride_bytes, plane.width, plane.height}) writer.put(value);
    writer.list(plane.bytes);
  }
  for (const std::vector<std::uint8_t>& tensor : frame.tensors) writer.list(tensor);
  writer.put(frame.capacity);
  writer.list(frame.detections);
  writer.list(frame.events);
  return std::move(writer.bytes_);
}

// Bytes of a row that a plug-in may read.
std::int64_t row_bytes(std::int32_t format, std::size_t plane, std::int32_t width) {
  std::int64_t samples = 1;
  if (format == CAMD_PIXEL_BGR || format == CAMD_PIXEL_RGB) samples = 3;
  if (format == CAMD_PIXEL_YUY2 || (format == CAMD_PIXEL_NV12 && plane == 1)) samples = 2;
  return samples * width;
}

std::size_t planes_of(std::int32_t format) { return format == CAMD_PIXEL_NV12 ? 2 : format == CAMD_PIXEL_I420 ? 3 : 1; }

void read_picture(Reader& reader, RecordedFrame& frame) {
  frame.format = reader.get<std::int32_t>();
  frame.bt709 = reader.get<std::int32_t>();
  frame.full_range = reader.get<std::int32_t>();
  const std::uint64_t count = reader.count(kMostPlanes, "planes");
  if (count == 0) return;
  if (frame.format < 0 || frame.format > kLastFormat || count != planes_of(frame.format)) {
    throw std::runtime_error(fmt::format("a picture of format {} with {} planes", frame.format, count));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    RecordedPlane plane;
    plane.stride_bytes = reader.get<std::int32_t>();
    plane.width = reader.get<std::int32_t>();
    plane.height = reader.get<std::int32_t>();
    plane.bytes = reader.list<std::uint8_t>(kMostBytes, "bytes of a plane");
    // What the picture's size lets a plug-in read.
    const bool chroma = i > 0;
    const std::int32_t least_width = chroma ? (frame.width + 1) / 2 : frame.width;
    const std::int32_t least_height = chroma ? (frame.height + 1) / 2 : frame.height;
    if (plane.width < least_width || plane.width > kLargestSide || plane.height < least_height ||
        plane.height > kLargestSide ||
        plane.stride_bytes < row_bytes(frame.format, static_cast<std::size_t>(i), plane.width) ||
        plane.bytes.size() != std::uint64_t(plane.stride_bytes) * std::uint64_t(plane.height)) {
      throw std::runtime_error("a picture whose planes are not as large as it");
    }
    frame.planes.push_back(std::move(plane));
  }
}

RecordedFrame read_frame(const RecordedModel& model, std::span<const char> bytes) {
  Reader reader(bytes);
  RecordedFrame frame;
  frame.camera = reader.get<std::int32_t>();
  frame.width = reader.get<std::int32_t>();
  frame.height = reader.get<std::int32_t>();
  if (frame.camera < 0 || static_cast<std::size_t>(frame.camera) >= model.cameras.size() || frame.width < 0 ||
      frame.height < 0 || frame.width > kLargestSide || frame.height > kLargestSide) {
    throw std::runtime_error("a frame of no camera, or of no size");
  }
  frame.sequence = reader.get<std::uint64_t>();
  for (std::int64_t* ns : {&frame.captured_mono_ns, &frame.arrived_mono_ns, &frame.captured_unix_ns,
                           &frame.captured_uncertainty_ns, &frame.now_mono_ns}) {
    *ns = reader.get<std::int64_t>();
  }
  for (float* value : {&frame.scale_x, &frame.scale_y, &frame.offset_x, &frame.offset_y}) {
    *value = reader.get<float>();
    if (!std::isfinite(*value)) throw std::runtime_error("a scale that is not finite");
  }
  frame.flags = reader.get<std::uint32_t>();
  read_picture(reader, frame);
  for (std::size_t i = 0; i <= model.outputs.size(); ++i) {
    const RecordedSpec& spec = i < model.outputs.size() ? model.outputs[i] : model.input;
    const bool there = i < model.outputs.size() || model.has_input;
    frame.tensors.push_back(reader.list<std::uint8_t>(kMostBytes, "bytes of a tensor"));
    if (frame.tensors.back().size() != (there ? *tensor_bytes(spec) : 0)) {
      throw std::runtime_error(fmt::format("tensor '{}' has {} bytes", spec.name, frame.tensors.back().size()));
    }
  }
  frame.capacity = reader.get<std::int32_t>();
  frame.detections = reader.list<camd_detection>(CAMD_MAX_DETECTIONS, "detections");
  frame.events = reader.list<camd_event>(CAMD_MAX_EVENTS, "events");
  if (frame.capacity < 0 || frame.capacity > CAMD_MAX_DETECTIONS ||
      frame.detections.size() > static_cast<std::size_t>(frame.capacity)) {
    throw std::runtime_error("more detections than there is room for");
  }
  reader.end();
  return frame;
}

}  // namespace

std::optional<std::uint64_t> tensor_bytes(const RecordedSpec& spec) noexcept {
  if (spec.shape.size() > kMostDimensions || spec.dtype.bits == 0 || spec.dtype.bits > 64 || spec.dtype.lanes != 1) {
    return std::nullopt;
  }
  std::uint64_t bytes = (std::uint64_t{spec.dtype.bits} + 7) / 8;
  for (const std::int64_t side : spec.shape) {
    if (side < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(side), &bytes) || bytes > kMostBytes) {
      return std::nullopt;
    }
  }
  return bytes;
}

// ---- Writing

RecordingWriter::RecordingWriter(std::string path, const RecordedModel& model) : path_(std::move(path)) {
  file_.open(path_, std::ios::binary | std::ios::trunc);
  file_.write(kMagic.data(), static_cast<std::streamsize>(kMagic.size()));
  file_.write(reinterpret_cast<const char*>(&kRecordingVersion), sizeof(kRecordingVersion));
  bytes_ = kMagic.size() + sizeof(kRecordingVersion);
  write(kModel, bytes_of_model(model));
}

void RecordingWriter::write(std::uint32_t kind, const std::vector<char>& payload) {
  const std::uint64_t size = payload.size();
  file_.write(reinterpret_cast<const char*>(&kind), sizeof(kind));
  file_.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file_.write(payload.data(), static_cast<std::streamsize>(payload.size()));
  file_.flush();
  if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written", path_));
  bytes_ += kChunkHead + size;
}

void RecordingWriter::add(const RecordedFrame& frame) { write(kFrame, bytes_of_frame(frame)); }

std::uint64_t RecordingWriter::bytes_of(const RecordedFrame& frame) {
  std::uint64_t bytes = kChunkHead + 256;
  for (const RecordedPlane& plane : frame.planes) bytes += plane.bytes.size() + 32;
  for (const std::vector<std::uint8_t>& tensor : frame.tensors) bytes += tensor.size() + 8;
  return bytes + frame.detections.size() * sizeof(camd_detection) + frame.events.size() * sizeof(camd_event);
}

// ---- Reading

RecordingReader::RecordingReader(std::string path) : path_(std::move(path)) {
  file_.open(path_, std::ios::binary | std::ios::ate);
  if (!file_) throw std::runtime_error(fmt::format("{}: cannot be read", path_));
  const std::streamoff size = file_.tellg();
  left_ = size > 0 ? static_cast<std::uint64_t>(size) : 0;
  file_.seekg(0);
  char magic[8] = {};
  std::uint32_t version = 0;
  file_.read(magic, sizeof(magic));
  file_.read(reinterpret_cast<char*>(&version), sizeof(version));
  if (!file_ || std::string_view(magic, sizeof(magic)) != kMagic) {
    refuse("is no recording of camd (the plug-in `record` makes them, or camd plugin --record)");
  }
  if (version != kRecordingVersion) {
    refuse(fmt::format("is a recording of version {}, this camd reads {}: record it anew", version, kRecordingVersion));
  }
  left_ -= sizeof(magic) + sizeof(version);
  const std::optional<std::vector<char>> model = chunk(kModel);
  if (!model) refuse("has no model");
  try {
    model_ = read_model(*model);
  } catch (const std::exception& problem) {
    refuse(fmt::format("its model: {}", problem.what()));
  }
}

std::optional<RecordedFrame> RecordingReader::next() {
  const std::optional<std::vector<char>> bytes = chunk(kFrame);
  if (!bytes) return std::nullopt;
  try {
    return read_frame(model_, *bytes);
  } catch (const std::exception& problem) {
    refuse(fmt::format("a frame: {}", problem.what()));
  }
}

std::optional<std::vector<char>> RecordingReader::chunk(std::uint32_t kind) {
  if (left_ < kChunkHead) return std::nullopt;
  std::uint32_t found = 0;
  std::uint64_t size = 0;
  file_.read(reinterpret_cast<char*>(&found), sizeof(found));
  file_.read(reinterpret_cast<char*>(&size), sizeof(size));
  left_ -= kChunkHead;
  if (!file_ || found != kind) refuse(fmt::format("a chunk of kind {} where one of {} belongs", found, kind));
  if (size > left_) return std::nullopt;  // it is cut off
  if (size > kMostBytes) refuse("a frame that is larger than there can be");
  std::vector<char> bytes(static_cast<std::size_t>(size));
  file_.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!file_) refuse("cannot be read to its end");
  left_ -= size;
  return bytes;
}

void RecordingReader::refuse(const std::string& why) const {
  throw std::runtime_error(fmt::format("{}: {}", path_, why));
}

}  // namespace camd::plugins
