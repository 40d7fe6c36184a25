// The built-in `record`: frames as the plug-ins behind it see them, in a file for `camd plugin --replay`.
//
// Threads: as every plug-in (camd_plugin.h). process() copies and writes a frame: a tool for authors, not for every
// day. Invariants: the file never has more than `frames` frames or `max` bytes; frames go on when it is full.
#include <cstdint>
#include <ctime>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/paths.hpp"
#include "plugins/record/recording.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

struct RecordOptions {
  std::string path;
  std::uint64_t frames = 100, every = 1, max_bytes = std::uint64_t{1} << 30;
  bool input = false, picture = true;
};

RecordOptions read_options(JsonObject& config) {
  RecordOptions options;
  const auto path = config.text("path");
  if (!config.has("path") || (path && path->empty())) config.fail("path", "is needed: the file to write");
  options.path = path.value_or("");
  if (const std::string problem = time_problem(options.path); !problem.empty()) config.fail("path", problem);
  options.frames = static_cast<std::uint64_t>(config.integer("frames", 1, 1'000'000).value_or(100));
  options.every = static_cast<std::uint64_t>(config.integer("every", 1, 1'000'000'000).value_or(1));
  options.max_bytes = static_cast<std::uint64_t>(
      config.bytes("max", std::int64_t{1} << 20, std::int64_t{1} << 40).value_or(std::int64_t{1} << 30));
  options.input = config.boolean("input").value_or(false);
  options.picture = config.boolean("picture").value_or(true);
  return options;
}

RecordedSpec spec_of(const camd_tensor_spec& spec) {
  return {spec.name, spec.dtype, {spec.shape, spec.shape + spec.ndim}};
}

class Record final : public camd::plugin::Postprocessor {
 public:
  Record(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    JsonObject config("config", config_json);
    options_ = read_options(config);
    config.finish();
    recorded_ = host.counter("recorded");
  }

  static void check(const camd::plugin::Check& check) {
    JsonObject config("config", check.config_json());
    const std::string path = read_options(config).path;
    config.report(check);
    if (path.empty() || !time_problem(path).empty()) return;
    const std::string now = at_time(path, std::time(nullptr));
    const std::size_t slash = now.rfind('/');
    const std::string problem = folder_problem(slash == std::string::npos ? "" : now.substr(0, slash));
    if (!problem.empty()) check.mistake("path", problem);
    check.claim("path", now);
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    for (int i = 0; i < model.output_count; ++i) {
      needs.output(i, CAMD_NEED_HOST);
      model_.outputs.push_back(spec_of(model.outputs[i]));
    }
    if (options_.input) needs.input(CAMD_NEED_HOST);
    if (options_.picture) needs.picture(CAMD_NEED_HOST);
    model_.path = model.path;
    model_.card_json = model.card_json;
    model_.cameras.assign(model.camera_names, model.camera_names + model.camera_count);
    model_.channels_last = CAMD_HAS_MEMBER(camd_model, &model, channels_last) && model.channels_last != 0;
    model_.has_input = options_.input;
    model_.has_pictures = options_.picture;
    model_.input = spec_of(model.input);
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    if (full_ || frame.sequence % options_.every != 0) return;
    // One that came later has no place in the model that is written.
    if (static_cast<std::size_t>(frame.camera_index) >= model_.cameras.size()) return;
    if (writer_ == nullptr) begin();
    const RecordedFrame copy = copy_of(frame, tensors, results);
    if (writer_->bytes() + RecordingWriter::bytes_of(copy) > options_.max_bytes) {
      end("no further frame fits into max");
      return;
    }
    try {
      writer_->add(copy);
    } catch (const std::exception& problem) {
      end(problem.what());  // the frame goes on
      return;
    }
    recorded_.add();
    if (++count_ == options_.frames) end("that was asked for");
  }

  std::unique_ptr<Camera> open_camera(int /*index*/, const char* /*name*/) override { return nullptr; }
  std::unique_ptr<Camera> exchange_camera(int /*index*/, std::unique_ptr<Camera> camera) noexcept override {
    return camera;
  }

 private:
  void begin() {
    const std::string path = first_free(at_time(options_.path, std::time(nullptr)), is_there);
    create_parents(path);
    writer_ = std::make_unique<RecordingWriter>(path, model_);
  }
  void end(const char* why) {
    full_ = true;
    host_.log(CAMD_LOG_INFO, "record: " + writer_->path() + " has " + std::to_string(count_) + " frames: " + why);
    writer_ = nullptr;
  }

  static std::vector<std::uint8_t> bytes_of(const DLTensor* tensor, const RecordedSpec& spec) {
    if (tensor == nullptr || tensor->data == nullptr)
      throw std::runtime_error("tensor '" + spec.name + "' is not there");
    const std::vector<std::int64_t> shape(tensor->shape, tensor->shape + tensor->ndim);
    const auto size = tensor_bytes(spec);
    const DLDataType type = tensor->dtype;
    if (!size || shape != spec.shape || type.code != spec.dtype.code || type.bits != spec.dtype.bits ||
        type.lanes != spec.dtype.lanes) {
      throw std::runtime_error("tensor '" + spec.name + "' is not as the model says");
    }
    const auto* data = static_cast<const std::uint8_t*>(tensor->data) + tensor->byte_offset;
    return {data, data + *size};
  }

  RecordedFrame copy_of(const camd_frame& frame, const camd::plugin::Tensors& tensors,
                        camd::plugin::Results& results) const {
    RecordedFrame copy;
    copy.camera = frame.camera_index;
    copy.width = frame.width;
    copy.height = frame.height;
    copy.sequence = frame.sequence;
    copy.captured_mono_ns = frame.captured_mono_ns;
    copy.arrived_mono_ns = frame.arrived_mono_ns;
    copy.captured_unix_ns = frame.captured_unix_ns;
    copy.captured_uncertainty_ns = frame.captured_uncertainty_ns;
    copy.now_mono_ns = host_.now_mono_ns();
    copy.scale_x = frame.scale_x;
    copy.scale_y = frame.scale_y;
    copy.offset_x = frame.offset_x;
    copy.offset_y = frame.offset_y;
    copy.flags = frame.flags;
    if (options_.picture && frame.picture != nullptr) {
      const camd_picture& picture = *frame.picture;
      copy.format = static_cast<std::int32_t>(picture.format);
      copy.bt709 = picture.bt709;
      copy.full_range = picture.full_range;
      for (std::int32_t i = 0; i < picture.plane_count; ++i) {
        const camd_plane& plane = picture.planes[i];
        const auto size = static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height);
        copy.planes.push_back({plane.stride_bytes, plane.width, plane.height, {plane.data, plane.data + size}});
      }
    }
    for (std::size_t i = 0; i < model_.outputs.size(); ++i) {
      copy.tensors.push_back(bytes_of(tensors.output(static_cast<int>(i)), model_.outputs[i]));
    }
    copy.tensors.emplace_back();
    if (options_.input) copy.tensors.back() = bytes_of(tensors.input(), model_.input);
    copy.capacity = results.capacity();
    copy.detections.assign(results.begin(), results.end());
    copy.events.assign(events_.begin(), events_.end());
    return copy;
  }

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  camd::plugin::Counter recorded_;
  RecordOptions options_;
  RecordedModel model_;
  std::unique_ptr<RecordingWriter> writer_;
  std::uint64_t count_ = 0;
  bool full_ = false;
};

}  // namespace

const camd_plugin* record_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Record>("record", "1.0.0", "writes frames as plug-ins see them, to be replayed");
  return &kTable;
}

}  // namespace camd::plugins
