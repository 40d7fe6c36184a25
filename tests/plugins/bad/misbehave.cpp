// A plug-in that does wrong what its configuration names: {"how": "..."}.
//   throw_create, throw_outputs, throw_process, throw_destroy   exceptions, through the adaptor
//   undeclared_output      asks for an output that the model has not got
//   fail_every_other       every other frame fails
//   over_capacity, negative_count, nan_score, inf_box, nan_keypoint, bad_keypoint_count, unended_name
//                          results that must not reach the next plug-in
//   sleep                  every frame takes {"ms": N}
//   gate                   every frame waits until the test opens the gate (functions below), without sleeping
// The gate is shared by all instances of one loaded library. Threads: gate functions [any].
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
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
  Misbehave(camd::plugin::Host, std::string_view config_json) {
    const auto config = nlohmann::json::parse(config_json);
    how_ = config.value("how", "");
    ms_ = config.value("ms", 0);
    if (how_ == "throw_create") throw std::runtime_error("thrown in create");
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    if (how_ == "throw_outputs") throw std::runtime_error("thrown in outputs");
    if (how_ == "undeclared_output") needs.output(model.output_count, CAMD_NEED_HOST);
  }

  void process(const camd_frame&, const camd::plugin::Tensors&, camd::plugin::Results& results) override {
    ++frames_;
    if (how_ == "throw_process") throw std::runtime_error("thrown in process");
    if (how_ == "fail_every_other" && frames_ % 2 == 0) throw std::runtime_error("every other frame fails");
    if (how_ == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(ms_));
    if (how_ == "gate") wait_at_gate();
    if (camd_detection* d = results.add()) spoil(*d);
  }

  void finish() override {
    if (how_ == "throw_destroy") throw std::runtime_error("thrown in destroy");
  }

  [[nodiscard]] const std::string& how() const { return how_; }

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
    if (how_ == "unended_name") std::memset(d.class_name, 'x', sizeof(d.class_name));
  }

  std::string how_;
  int ms_ = 0;
  std::int64_t frames_ = 0;
};

// The adaptor's list cannot be made to lie about its length: that takes the C side.
std::int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                     camd_error* error) {
  static constexpr camd_plugin kBase = camd::plugin::make_table<Misbehave>("misbehave", "1.0.0", "does wrong");
  const std::int32_t code = kBase.process(instance, frame, tensors, results, error);
  const auto& how = static_cast<Misbehave*>(static_cast<camd::plugin::Postprocessor*>(instance))->how();
  if (how == "over_capacity") results->count = results->capacity + 1;
  if (how == "negative_count") results->count = -1;
  return code;
}

}  // namespace

extern "C" {
CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void);
CAMD_PLUGIN_EXPORT void misbehave_set_gate(int open);
CAMD_PLUGIN_EXPORT void misbehave_wait_entered(std::int64_t frames);

CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) {
  static const camd_plugin table = [] {
    camd_plugin made = camd::plugin::make_table<Misbehave>("misbehave", "1.0.0", "does wrong what its config names");
    made.process = &process;
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
