// A plug-in that does wrong what its configuration names: {"how": "..."}.
//   throw_create, throw_outputs, throw_process, throw_destroy   exceptions, through the adaptor
//   raw_throw_create, raw_throw_process, raw_throw_destroy      exceptions that the adaptor does not see
//   undeclared_output      asks for an output that the model has not got
//   throw_sample           its gauge cannot be found out
//   fail_every_other       every other frame fails
//   too_many_detections    asks for room for more than there can be
//   over_capacity, negative_count, nan_score, inf_box, nan_keypoint, bad_keypoint_count, unended_name, unended_text
//                          results that must not reach the next plug-in
//   null_items, moved_items, huge_capacity                      a list that is not camd's
//   no_utf8                texts, an event and a log line that are no UTF-8
//   sleep                  every frame takes {"ms": N}
//   gate                   every frame waits until the test opens the gate (functions below), without sleeping
//   gate_create, gate_outputs, gate_check, gate_destroy         that function waits there
//   throw_check            check() throws past the adaptor
//   abort_check            check() aborts
// The gate is shared by all instances of one loaded library. Threads: gate functions [any].
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "plugins/camd_plugin.hpp"

namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;         // guarded by mutex
  std::int64_t entered = 0;  // frames that have arrived at the gate
};

Gate& gate() {
  static Gate the_gate;
  return the_gate;
}

class Misbehave final : public camd::plugin::Postprocessor {
 public:
  Misbehave(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    const auto config = nlohmann::json::parse(config_json);
    how_ = config.value("how", "");
    ms_ = config.value("ms", 0);
    if (how_ == "gate_create") wait_at_gate();
    if (how_ == "throw_create") throw std::runtime_error("thrown in create");
    if (how_ == "no_utf8") host_.log(CAMD_LOG_WARN, "log \xFF\xC3(\x1B[31m\n<0>forged");
    if (how_ == "raw_throw_destroy") throws_at_the_end() = true;
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    if (how_ == "gate_outputs") wait_at_gate();
    if (how_ == "throw_outputs") throw std::runtime_error("thrown in outputs");
    if (how_ == "too_many_detections") needs.detections(CAMD_MAX_DETECTIONS + 1);
    if (how_ == "undeclared_output") needs.output(model.output_count, CAMD_NEED_HOST);
  }

  void process(const camd_frame&, const camd::plugin::Tensors&, camd::plugin::Results& results) override {
    ++frames_;
    if (how_ == "throw_process") throw std::runtime_error("thrown in process");
    if (how_ == "fail_every_other" && frames_ % 2 == 0) throw std::runtime_error("every other frame fails");
    if (how_ == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(ms_));
    if (how_ == "gate") wait_at_gate();
    if (camd_detection* d = results.add()) spoil(*d);
    if (how_ == "no_utf8") static_cast<void>(events_.add(camd::plugin::Event(kNoUtf8)));
  }

  void sample() override {
    if (how_ == "throw_sample") throw std::runtime_error("thrown in sample");
  }

  void finish() override {
    if (how_ == "gate_destroy") wait_at_gate();
    if (how_ == "throw_destroy") throw std::runtime_error("thrown in destroy");
  }

  static void check(const camd::plugin::Check& check) {
    const std::string_view config = check.config_json();
    if (config.find("abort_check") != std::string_view::npos) std::abort();
    if (config.find("gate_check") != std::string_view::npos) wait_at_gate();
    if (config.find("bad_keys") != std::string_view::npos) {
      check.mistake("", "all of it\nin two lines \xFF");
      check.mistake(std::string(1000, 'k'), std::string(10'000, 'm'));
      check.unknown_key("zones.0.pionts", {"points", "name"});
      for (int i = 0; i < 1000; ++i) check.mistake("many", "too many");
    }
  }

  [[nodiscard]] const std::string& how() const { return how_; }
  // The last thing that its destroy() does.
  [[nodiscard]] static bool& throws_at_the_end() {
    static bool throws = false;
    return throws;
  }

 private:
  static void wait_at_gate() {
    Gate& g = gate();
    std::unique_lock lock(g.mutex);
    ++g.entered;
    g.changed.notify_all();
    g.changed.wait(lock, [&] { return g.open; });
  }

  void spoil(camd_detection& d) const {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    d.score = how_ == "nan_score" ? kNan : 0.5F;
    d.box[2] = how_ == "inf_box" ? std::numeric_limits<float>::infinity() : 1.0F;
    d.box[3] = 1.0F;
    if (how_ == "bad_keypoint_count") d.keypoint_count = CAMD_MAX_KEYPOINTS + 1;
    if (how_ == "nan_keypoint") {
      d.keypoint_count = 1;
      d.keypoints[0][0] = kNan;
      d.keypoints[0][1] = 0.0F;
    }
    if (how_ == "no_utf8") {
      std::strcpy(d.class_name, kNoUtf8);
      std::strcpy(d.text, kNoUtf8);
    }
    if (how_ == "unended_name") std::memset(d.class_name, 'x', sizeof(d.class_name));
    if (how_ == "unended_text") std::memset(d.text, 'x', sizeof(d.text));
  }

  static constexpr const char* kNoUtf8 = "\xFF \xC3( \xED\xA0\x80 \xF8\"";

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  std::string how_;
  int ms_ = 0;
  std::int64_t frames_ = 0;
};

const camd_plugin& base_table() {
  static constexpr camd_plugin kBase =
      camd::plugin::make_table<Misbehave>("misbehave", "1.0.0", "does wrong what its config names");
  return kBase;
}

// What the adaptor would not let happen: that takes the C side.

std::int32_t create(const camd_host* host, const char* config_json, void** instance, camd_error* error) {
  if (std::strstr(config_json, "raw_throw_create") != nullptr) throw std::runtime_error("thrown past the adaptor");
  return base_table().create(host, config_json, instance, error);
}

std::int32_t check(const camd_check* check, camd_error* error) {
  if (std::strstr(check->config_json, "throw_check") != nullptr) throw std::runtime_error("thrown past the adaptor");
  const auto* const own = static_cast<const camd_plugin_check*>(base_table().get_extension(CAMD_EXTENSION_CHECK));
  return own->check(check, error);
}

const void* get_extension(const char* id) {
  static constexpr camd_plugin_check kCheck{sizeof(camd_plugin_check), &check};
  return std::strcmp(id, CAMD_EXTENSION_CHECK) == 0 ? &kCheck : base_table().get_extension(id);
}

std::int32_t destroy(void* instance, camd_error* error) {
  const std::int32_t code = base_table().destroy(instance, error);
  if (Misbehave::throws_at_the_end()) throw std::runtime_error("thrown past the adaptor");
  return code;
}

std::int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                     camd_error* error) {
  const std::int32_t code = base_table().process(instance, frame, tensors, results, error);
  const auto& how = static_cast<Misbehave*>(static_cast<camd::plugin::Postprocessor*>(instance))->how();
  if (how == "over_capacity") results->count = results->capacity + 1;
  if (how == "negative_count") results->count = -1;
  if (how == "null_items") results->items = nullptr;
  if (how == "moved_items") results->items += 1;
  if (how == "huge_capacity") results->capacity = results->count = 1 << 30;
  if (how == "raw_throw_process") throw std::runtime_error("thrown past the adaptor");
  return code;
}

}  // namespace

extern "C" {
CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void);
CAMD_PLUGIN_EXPORT void misbehave_set_gate(int open);
CAMD_PLUGIN_EXPORT void misbehave_wait_entered(std::int64_t frames);

CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) {
  static const camd_plugin table = [] {
    camd_plugin made = base_table();
    made.create = &create;
    made.process = &process;
    made.destroy = &destroy;
    made.get_extension = &get_extension;
    return made;
  }();
  return &table;
}

CAMD_PLUGIN_EXPORT void misbehave_set_gate(int open) {
  Gate& g = gate();
  const std::lock_guard lock(g.mutex);
  g.open = open != 0;
  if (!g.open) g.entered = 0;
  g.changed.notify_all();
}

// Blocks until so many frames have arrived at the gate since it was closed.
CAMD_PLUGIN_EXPORT void misbehave_wait_entered(std::int64_t frames) {
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  g.changed.wait(lock, [&] { return g.entered >= frames; });
}
}
