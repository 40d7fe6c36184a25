// A stand-in for camd's plug-in host: models, tensors and frames made by hand, one plug-in run through its C table.
//
// Threads: as the plug-in under test; the log is guarded.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins::testing {

class FakeHost {
 public:
  FakeHost() {
    host.struct_size = sizeof(camd_host);
    host.camd_version = "0.1.0-test";
    host.log = [](const camd_host* self, camd_log_level level, const char* message) {
      auto* me = reinterpret_cast<const FakeHost*>(self);
      const std::lock_guard lock(me->mutex);
      me->lines.push_back(std::to_string(static_cast<int>(level)) + " " + message);
    };
    host.now_mono_ns = [](const camd_host* self) { return reinterpret_cast<const FakeHost*>(self)->now_ns; };
    host.get_extension = &get_extension;
  }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  // A counter or a gauge that the plug-in has made; the plug-in's camd_counter is one.
  struct Number {
    camd_counter_kind kind;
    std::string name;
    double value;
  };
  // "detections 9", in the order in which they were made.
  [[nodiscard]] std::vector<std::string> number_lines() const {
    std::vector<std::string> texts;
    for (const Number& number : numbers) {
      std::ostringstream text;
      text << number.name << ' ' << number.value;
      texts.push_back(text.str());
    }
    return texts;
  }

  camd_host host{};  // first: the C callbacks find their FakeHost by its address
  std::int64_t now_ns = 0;
  mutable std::mutex mutex;
  mutable std::vector<std::string> lines;
  // What the extensions work on. `has_extensions` false: a camd that knows none.
  bool has_extensions = true;
  mutable std::deque<Number> numbers;
  mutable std::vector<camd_event> events;  // of the frame; at most CAMD_MAX_EVENTS

 private:
  static const FakeHost& me(const camd_host* self) { return *reinterpret_cast<const FakeHost*>(self); }
  static const void* get_extension(const camd_host* self, const char* id) {
    if (!me(self).has_extensions) return nullptr;
    static const camd_counters kCounters = {
        sizeof(camd_counters),
        [](const camd_host* camd, camd_counter_kind kind, const char* name, camd_counter** counter,
           camd_error* error) -> std::int32_t {
          if (std::string(name).find(' ') != std::string::npos) {
            std::snprintf(error->message, sizeof(error->message), "'%s' is no name", name);
            return CAMD_ERROR_INVALID;
          }
          *counter = reinterpret_cast<camd_counter*>(&me(camd).numbers.emplace_back(Number{kind, name, 0.0}));
          return CAMD_OK;
        },
        [](camd_counter* counter, std::uint64_t amount) {
          reinterpret_cast<Number*>(counter)->value += static_cast<double>(amount);
        },
        [](camd_counter* gauge, double value) { reinterpret_cast<Number*>(gauge)->value = value; }};
    static const camd_events kEvents = {
        sizeof(camd_events), [](const camd_host* camd) { return static_cast<std::int32_t>(me(camd).events.size()); },
        [](const camd_host* camd, std::int32_t index) -> const camd_event* {
          return &me(camd).events.at(static_cast<std::size_t>(index));
        },
        [](const camd_host* camd, const camd_event* event) -> std::int32_t {
          if (event->name[0] == '\0') return CAMD_ERROR_INVALID;
          if (me(camd).events.size() == CAMD_MAX_EVENTS) return CAMD_ERROR_FULL;
          me(camd).events.push_back(*event);
          return CAMD_OK;
        }};
    if (std::string(id) == CAMD_EXTENSION_COUNTERS) return &kCounters;
    if (std::string(id) == CAMD_EXTENSION_EVENTS) return &kEvents;
    return nullptr;
  }
};

struct FakeTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
  DLTensor tensor{};
};

class FakeModel {
 public:
  FakeModel(std::int64_t height, std::int64_t width) : input_shape{1, 3, height, width} {}

  // Values not given are zero.
  FakeTensor& output(std::string name, std::vector<std::int64_t> shape, std::vector<float> values = {}) {
    std::size_t size = 1;
    for (const std::int64_t dim : shape) size *= static_cast<std::size_t>(dim);
    values.resize(size, 0.0F);
    outputs.push_back({std::move(name), std::move(shape), std::move(values), {}});
    return outputs.back();
  }

  const camd_model& model() {
    specs.clear();
    for (FakeTensor& output : outputs) {
      specs.push_back({output.name.c_str(), static_cast<std::int32_t>(output.shape.size()), output.shape.data(),
                       DLDataType{kDLFloat, 32, 1}});
    }
    names.clear();
    for (const std::string& camera : cameras) names.push_back(camera.c_str());
    described = camd_model{};
    described.struct_size = sizeof(described);
    described.path = "models/fake.onnx";
    described.input = {"input", 4, input_shape.data(), DLDataType{kDLFloat, 32, 1}};
    described.output_count = static_cast<std::int32_t>(specs.size());
    described.outputs = specs.data();
    described.card_json = card.c_str();
    described.camera_count = static_cast<std::int32_t>(names.size());
    described.camera_names = names.data();
    described.channels_last = channels_last ? 1 : 0;
    return described;
  }

  std::vector<std::int64_t> input_shape;
  std::deque<FakeTensor> outputs;
  std::string card = "{}";
  std::vector<std::string> cameras = {"door"};
  bool channels_last = false;
  std::vector<camd_tensor_spec> specs;
  std::vector<const char*> names;
  camd_model described{};
};

inline std::string_view bytes_of(const camd_detection& d) { return {reinterpret_cast<const char*>(&d), sizeof(d)}; }

// One instance of a plug-in. error() holds the last message.
class Instance {
 public:
  explicit Instance(const camd_plugin* plugin) : table(plugin) {
    results.struct_size = sizeof(results);
    results.capacity = 16;
    frame.struct_size = sizeof(frame);
    frame.camera = "door";
    frame.width = 640;
    frame.height = 480;
    frame.scale_x = frame.scale_y = 1.0F;
  }
  ~Instance() {
    if (instance != nullptr) static_cast<void>(destroy());
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // A second call takes the place of what the first one made.
  std::int32_t create(const std::string& config) {
    if (instance != nullptr) static_cast<void>(destroy());
    problem = {};
    return table->create(&host.host, config.c_str(), &instance, &problem);
  }
  std::int32_t outputs(FakeModel& model) {
    problem = {};
    const camd_model& described = model.model();
    needs.assign(static_cast<std::size_t>(described.output_count), CAMD_NEED_NONE);
    need = {sizeof(camd_needs), needs.data(), CAMD_NEED_NONE, CAMD_NEED_NONE, CAMD_DEFAULT_DETECTIONS, nullptr, 0};
    return table->outputs(instance, &described, &need, &problem);
  }
  // Hands over those outputs that the plug-in asked for, and the detections of `found`. A plug-in that filters its
  // outputs gets the frame twice: filtered, as a GPU does it, and as a whole. Both must come to the same.
  std::int32_t process(FakeModel& model, std::vector<camd_detection> found = {}) {
    if (need.filter_count == 0) return process_whole(model, std::move(found));
    const auto numbers = host.numbers;
    const std::int32_t filtered_code = process_filtered(model, found);
    const std::vector<camd_detection> filtered = this->found();
    host.numbers = numbers;
    const std::int32_t code = process_whole(model, std::move(found));
    EXPECT_EQ(filtered_code, code);
    EXPECT_EQ(filtered.size(), this->found().size()) << "filtered";
    for (std::size_t i = 0; i < std::min(filtered.size(), this->found().size()); ++i) {
      EXPECT_TRUE(bytes_of(filtered[i]) == bytes_of(items[i])) << "filtered, detection " << i;
    }
    return code;
  }
  std::int32_t process_whole(FakeModel& model, std::vector<camd_detection> found) {
    problem = {};
    pointers.clear();
    for (std::size_t i = 0; i < model.outputs.size(); ++i) {
      FakeTensor& output = model.outputs[i];
      output.tensor = DLTensor{output.values.data(),
                               {kDLCPU, 0},
                               static_cast<std::int32_t>(output.shape.size()),
                               {kDLFloat, 32, 1},
                               output.shape.data(),
                               nullptr,
                               0};
      pointers.push_back(needs[i] == CAMD_NEED_NONE ? nullptr : &output.tensor);
    }
    tensors = camd_tensors{};
    tensors.struct_size = sizeof(tensors);
    tensors.output_count = static_cast<std::int32_t>(pointers.size());
    tensors.outputs = pointers.data();
    tensors.passed = passed.empty() ? nullptr : passed.data();
    tensors.input = input;
    items = std::move(found);
    results.count = static_cast<std::int32_t>(items.size());
    items.resize(static_cast<std::size_t>(results.capacity));
    results.items = items.data();
    return table->process(instance, &frame, &tensors, &results, &problem);
  }
  // What does not pass is left from an earlier frame: here all of it looks like objects.
  std::int32_t process_filtered(FakeModel& model, const std::vector<camd_detection>& found) {
    constexpr float kStale = 0.9F;
    std::deque<FakeTensor> whole = model.outputs;
    std::vector<std::vector<std::int32_t>> places;
    places.reserve(static_cast<std::size_t>(need.filter_count));
    for (std::int32_t f = 0; f < need.filter_count; ++f) {
      for (std::int32_t v = 0; v < need.filters[f].value_count; ++v) {
        std::vector<float>& values =
            model.outputs.at(static_cast<std::size_t>(need.filters[f].values[v].output)).values;
        values.assign(values.size(), kStale);
      }
    }
    for (std::int32_t f = 0; f < need.filter_count; ++f)
      places.push_back(filter(need.filters[f], whole, model.outputs));
    for (const std::vector<std::int32_t>& list : places) passed.push_back(list.data());
    const std::int32_t code = process_whole(model, found);
    passed.clear();
    model.outputs = std::move(whole);
    return code;
  }
  // Copies what passes, and lists it as camd_tensors.passed has it. at() throws where the filter leaves its output.
  static std::vector<std::int32_t> filter(const camd_filter& filter, const std::deque<FakeTensor>& from,
                                          std::deque<FakeTensor>& to) {
    const auto index = [](const camd_elements& e, std::int64_t cell, std::int64_t anchor, std::int64_t channel) {
      return static_cast<std::size_t>(e.first + cell * e.cell_step + anchor * e.anchor_step + channel * e.channel_step);
    };
    std::vector<std::int32_t> list{0};
    for (std::int64_t place = filter.cells * filter.anchors - 1; place >= 0; --place) {
      const std::int64_t cell = place / filter.anchors, anchor = place % filter.anchors;
      bool passes = false;
      for (std::int64_t c = 0; c < filter.scores.channels; ++c) {
        const std::vector<float>& scores = from.at(static_cast<std::size_t>(filter.scores.output)).values;
        passes = passes || scores.at(index(filter.scores, cell, anchor, c)) >= filter.floor;
      }
      if (!passes) continue;
      list.push_back(static_cast<std::int32_t>(place));
      for (std::int32_t v = 0; v < filter.value_count; ++v) {
        const camd_elements& e = filter.values[v];
        const auto output = static_cast<std::size_t>(e.output);
        for (std::int64_t c = 0; c < e.channels; ++c) {
          const std::size_t i = index(e, cell, anchor, c);
          to.at(output).values.at(i) = from.at(output).values.at(i);
        }
      }
    }
    list.front() = static_cast<std::int32_t>(list.size()) - 1;
    return list;
  }
  // What the plug-in offers by that name; the test fails where it offers nothing.
  template <class T>
  const T& offered(const char* id) const {
    const auto* found = static_cast<const T*>(table->get_extension(id));
    if (found == nullptr) throw std::runtime_error(std::string("the plug-in offers no ") + id);
    return *found;
  }
  std::int32_t reopen() {
    problem = {};
    return offered<camd_plugin_reopen>(CAMD_EXTENSION_REOPEN).reopen(instance, &problem);
  }
  // A camera comes, or, without a name, goes.
  std::int32_t change_camera(std::int32_t index, const char* name) {
    const auto& cameras = offered<camd_plugin_cameras>(CAMD_EXTENSION_CAMERAS);
    problem = {};
    void* camera = nullptr;
    if (name != nullptr) {
      const std::int32_t code = cameras.open(instance, index, name, &camera, &problem);
      if (code != CAMD_OK) return code;
    }
    return cameras.close(instance, cameras.exchange(instance, index, camera), &problem);
  }
  std::int32_t destroy() {
    problem = {};
    void* gone = instance;
    instance = nullptr;
    return table->destroy(gone, &problem);
  }
  [[nodiscard]] std::string error() const { return problem.message; }
  [[nodiscard]] std::vector<camd_detection> found() const { return {items.begin(), items.begin() + results.count}; }

  const camd_plugin* table;
  FakeHost host;
  void* instance = nullptr;
  camd_error problem{};
  camd_needs need{};
  std::vector<camd_need> needs;
  camd_frame frame{};
  camd_tensors tensors{};
  const DLTensor* input = nullptr;
  std::vector<const DLTensor*> pointers;
  std::vector<const std::int32_t*> passed;
  camd_results results{};
  std::vector<camd_detection> items;
};

// A folder of its own for every test, gone afterwards.
class InFolder : public ::testing::Test {
 protected:
  InFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("camd_" + std::string(info->test_suite_name()) + "_" + info->name() + "_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~InFolder() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // Names of what lies in the folder, sorted.
  [[nodiscard]] std::vector<std::string> listing(const std::string& below = ".") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / below))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::filesystem::path folder_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace camd::plugins::testing
