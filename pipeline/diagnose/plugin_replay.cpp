#include "pipeline/diagnose/plugin_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "pipeline/plugin/frame_events.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/run/plugin_maker.hpp"
#include "plugins/builtin.hpp"
#include "plugins/record/recording.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;
using plugins::RecordedFrame;
using plugins::RecordedModel;
using plugins::RecordedSpec;

template <class Work>
auto as_our_error(Work&& work) {
  try {
    return work();
  } catch (const std::runtime_error& problem) {
    throw Error(ErrorKind::kPlugin, problem.what());
  }
}

// The model as the interface has it. Points into the recorded one.
class ReplayedModel {
 public:
  explicit ReplayedModel(const RecordedModel& model) {
    for (const RecordedSpec& spec : model.outputs) outputs_.push_back(plain(spec));
    for (const std::string& camera : model.cameras) cameras_.push_back(camera.c_str());
    model_.struct_size = sizeof(model_);
    model_.path = model.path.c_str();
    model_.input = plain(model.input);
    model_.output_count = static_cast<std::int32_t>(outputs_.size());
    model_.outputs = outputs_.data();
    model_.card_json = model.card_json.c_str();
    model_.camera_count = static_cast<std::int32_t>(cameras_.size());
    model_.camera_names = cameras_.data();
    model_.channels_last = model.channels_last ? 1 : 0;
  }
  ReplayedModel(const ReplayedModel&) = delete;
  ReplayedModel& operator=(const ReplayedModel&) = delete;
  [[nodiscard]] const camd_model& model() const noexcept { return model_; }

 private:
  static camd_tensor_spec plain(const RecordedSpec& spec) {
    return {spec.name.c_str(), static_cast<std::int32_t>(spec.shape.size()), spec.shape.data(), spec.dtype};
  }
  std::vector<camd_tensor_spec> outputs_;
  std::vector<const char*> cameras_;
  camd_model model_{};
};

constexpr std::size_t kPage = 4096;

// The tensors that the plug-in asked for. Their places stay from frame to frame.
class ReplayedTensors {
 public:
  ReplayedTensors(const RecordedModel& model, const PluginNeeds& needs)
      : host_(model.outputs.size()), device_(model.outputs.size()) {
    if (needs.input == CAMD_NEED_HOST && !model.has_input) {
      throw Error(ErrorKind::kPlugin,
                  "the plug-in reads the network's input, which the recording has not: input: true");
    }
    if (needs.picture && !model.has_pictures) {
      throw Error(ErrorKind::kPlugin, "the plug-in reads pictures, which the recording has not: picture: true");
    }
    tensors_.resize(model.outputs.size() + 1);
    for (std::size_t i = 0; i < model.outputs.size(); ++i) {
      const camd_need need = needs.outputs[i];
      if (need == CAMD_NEED_NONE) continue;
      make(i, model.outputs[i], need != CAMD_NEED_SHAPE);
      (need == CAMD_NEED_DEVICE ? device_ : host_)[i] = &tensors_[i];
    }
    if (needs.input != CAMD_NEED_NONE) make(model.outputs.size(), model.input, needs.input == CAMD_NEED_HOST);
    view_.struct_size = sizeof(view_);
    view_.output_count = static_cast<std::int32_t>(model.outputs.size());
    view_.outputs = host_.data();
    view_.device_outputs = device_.data();
    view_.input = needs.input == CAMD_NEED_NONE ? nullptr : &tensors_.back();
  }
  ReplayedTensors(const ReplayedTensors&) = delete;
  ReplayedTensors& operator=(const ReplayedTensors&) = delete;

  void fill(const RecordedFrame& frame) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].data != nullptr && !frame.tensors[i].empty()) {
        std::memcpy(tensors_[i].data, frame.tensors[i].data(), frame.tensors[i].size());
      }
    }
  }
  [[nodiscard]] const camd_tensors& view() const noexcept { return view_; }

 private:
  void make(std::size_t i, const RecordedSpec& spec, bool values) {
    DLTensor& tensor = tensors_[i];
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<std::int32_t>(spec.shape.size());
    tensor.dtype = spec.dtype;
    tensor.shape = const_cast<std::int64_t*>(spec.shape.data());  // NOLINT(*-const-cast): the interface has it so
    if (!values) return;
    const std::uint64_t bytes = *plugins::tensor_bytes(spec);  // the reader has checked it
    // Aligned as the pipeline's are.
    const std::size_t whole = (static_cast<std::size_t>(bytes) / kPage + 1) * kPage;
    memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)), &std::free);
    if (memory_.back() == nullptr) throw Error(ErrorKind::kPlugin, "there is no memory for the tensors");
    tensor.data = memory_.back().get();
  }

  std::vector<DLTensor> tensors_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory_;
  std::vector<const DLTensor*> host_, device_;
  camd_tensors view_{};
};

camd_frame plain(const RecordedFrame& frame, const RecordedModel& model, camd_picture& picture) {
  camd_frame made{};
  made.struct_size = sizeof(made);
  made.camera = model.cameras[static_cast<std::size_t>(frame.camera)].c_str();
  made.camera_index = frame.camera;
  made.width = frame.width;
  made.height = frame.height;
  made.sequence = frame.sequence;
  made.captured_mono_ns = frame.captured_mono_ns;
  made.arrived_mono_ns = frame.arrived_mono_ns;
  made.captured_unix_ns = frame.captured_unix_ns;
  made.captured_uncertainty_ns = frame.captured_uncertainty_ns;
  made.scale_x = frame.scale_x;
  made.scale_y = frame.scale_y;
  made.offset_x = frame.offset_x;
  made.offset_y = frame.offset_y;
  made.flags = frame.flags;
  if (frame.planes.empty()) return made;
  picture = {};
  picture.struct_size = sizeof(picture);
  picture.format = static_cast<camd_pixel_format>(frame.format);
  picture.bt709 = frame.bt709;
  picture.full_range = frame.full_range;
  picture.plane_count = static_cast<std::int32_t>(frame.planes.size());
  for (std::size_t i = 0; i < frame.planes.size(); ++i) {
    const plugins::RecordedPlane& plane = frame.planes[i];
    picture.planes[i] = {plane.bytes.data(), plane.stride_bytes, plane.width, plane.height};
  }
  made.picture = &picture;
  return made;
}

// What the plug-ins in front left. Empty: it can be used.
std::string begin(const RecordedFrame& frame, camd_results& results, FrameEvents& events) {
  events.clear();
  for (const camd_event& event : frame.events) {
    if (events.add(&event) != CAMD_OK) return "the recording has an event that there cannot be";
  }
  std::copy(frame.detections.begin(), frame.detections.end(), results.items);
  results.count = static_cast<std::int32_t>(frame.detections.size());
  const char* const problem = problem_of(results);
  return problem == nullptr ? std::string() : fmt::format("what the recording has {}", problem);
}

}  // namespace

std::uint64_t replay_plugin(const ReplayOptions& options, const std::function<void(std::string_view)>& line) {
  auto reader = as_our_error([&] { return std::make_unique<plugins::RecordingReader>(options.recording); });
  const RecordedModel& recorded = reader->model();
  PluginSpec spec;
  spec.plugin = options.plugin;
  spec.config_json = options.config_json;
  if (is_python(options.plugin)) {
    spec.isolation.isolation = Isolation::kProcess;
    spec.isolation.python = options.python;
    spec.isolation.deadline = std::chrono::hours(1);  // somebody may stand in a debugger
    spec.isolation.confined = false;
  }
  PluginHostOptions host_options;
  host_options.restart.most_deaths = 0;
  base::ManualClock clock;
  const auto maker = std::make_shared<PluginMaker>(clock, std::move(host_options));
  const std::shared_ptr<PluginInstance> plugin = maker->make(spec);
  const ReplayedModel model(recorded);
  plugin->declare(model.model());
  const PluginNeeds& needs = plugin->needs();
  ReplayedTensors tensors(recorded, needs);
  const std::unique_ptr<PreparedFrame> prepared = plugin->prepare(tensors.view());

  std::vector<camd_detection> items(CAMD_MAX_DETECTIONS);
  FrameEvents events;
  std::uint64_t failed = 0;
  while (const std::optional<RecordedFrame> frame = as_our_error([&] { return reader->next(); })) {
    camd_picture picture{};
    const camd_frame plain_frame = plain(*frame, recorded, picture);
    tensors.fill(*frame);
    if (frame->now_mono_ns > base::to_ns(clock.now())) {
      clock.advance(base::Duration(frame->now_mono_ns - base::to_ns(clock.now())));
    }
    const std::int32_t capacity = std::max(needs.detections, frame->capacity);
    camd_results results{sizeof(results), capacity, 0, items.data()};
    camd_error error = no_error();
    std::string problem = begin(*frame, results, events);
    bool moved = false;
    if (problem.empty() &&
        plugin->call(prepared.get(), plain_frame, tensors.view(), results, events, error, moved) != CallResult::kDone) {
      problem = message_of(error);
    }
    if (problem.empty() && moved) problem = "left a list with an `items` or a `capacity` that camd did not give it";
    if (problem.empty()) {
      if (const char* wrong = problem_of(results)) problem = wrong;
    }
    if (!problem.empty()) {
      base::log().error("camera {}: frame {}: {}: {}", plain_frame.camera, frame->sequence, spec.prefix(), problem);
      ++failed;
      continue;
    }
    std::vector<camd_event> noted;
    noted.reserve(static_cast<std::size_t>(events.count()));
    for (std::int32_t i = 0; i < events.count(); ++i) noted.push_back(*events.get(i));
    line(plugins::frame_line(plain_frame, results, noted, frame->now_mono_ns));
  }
  const std::string unfinished = plugin->destroy();
  if (!unfinished.empty()) throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", spec.prefix(), unfinished));
  return failed;
}

}  // namespace camd::pipeline
