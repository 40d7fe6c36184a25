// CameraInstances: one entry of `postprocess:` that has an instance for each camera (`instances: camera`). To the
// plug-in host it is one instance. A frame goes to its camera's; so does a fault.
//
// Threads: as PluginInstance. Calls for different cameras run side by side.
// Invariants: an instance sees the name of its own camera alone, at the camera's index; the others are "". All of them
// read the same of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/run/plain_model.hpp"

namespace camd::pipeline {

class CameraInstances final : public PluginInstance {
 public:
  // Makes a camera's instance. `late`: others have had frames already. Throws Error(kPlugin).
  using Make = std::function<std::shared_ptr<PluginInstance>(const std::string& camera, bool late)>;

  CameraInstances(PluginSpec spec, Make make);
  ~CameraInstances() override { (void)destroy(); }
  CameraInstances(const CameraInstances&) = delete;
  CameraInstances& operator=(const CameraInstances&) = delete;

  // Makes the instances, too.
  void declare(const camd_model& model) override;
  [[nodiscard]] const PluginNeeds& needs() const noexcept override { return needs_; }
  // A camera's instance learns of the frame in flight with the first of its frames that comes in it.
  [[nodiscard]] std::unique_ptr<PreparedFrame> prepare(const camd_tensors& tensors) override;
  [[nodiscard]] CallResult call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& tensors,
                                camd_results& results, FrameEvents& events, camd_error& error,
                                bool& moved) noexcept override;
  void sample() override;
  [[nodiscard]] std::string reopen() override;
  // Counters and frames add up; of gauges the largest, of states the worst, of errors the last camera's is told.
  [[nodiscard]] PluginNumbers numbers() const override;
  [[nodiscard]] bool knows_cameras() const noexcept override { return true; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept override { return names_; }
  void rename(std::vector<std::string> names) override;
  [[nodiscard]] void* open(std::int32_t index, const std::string& name) override;
  [[nodiscard]] void* exchange(std::int32_t index, void* camera) noexcept override;
  [[nodiscard]] std::string close(void* camera) override;
  std::string destroy() noexcept override;
  [[nodiscard]] bool works_on(const FrameEvents& events) const noexcept override;
  [[nodiscard]] bool works() const noexcept override;
  [[nodiscard]] bool bounded() const noexcept override { return spec_.isolation.isolation == Isolation::kProcess; }
  [[nodiscard]] bool is(const PluginSpec& spec) const override { return spec_.is(spec) && is_current(); }
  [[nodiscard]] bool is_current() const override;

 private:
  class Prepared;
  using Seats = std::vector<std::shared_ptr<PluginInstance>>;
  [[nodiscard]] std::shared_ptr<PluginInstance> make(std::int32_t index, const std::string& name, bool late);
  [[nodiscard]] Seats seats() const;  // those that are taken
  // A text that stays where it is as long as this, because instances go with their cameras; "": there are too many.
  [[nodiscard]] std::string_view keep(std::string_view text) const;
  void add(std::vector<CounterValue>& sum, const std::vector<CounterValue>& more) const;

  const PluginSpec spec_;
  const Make make_;
  std::unique_ptr<OwnedModel> model_;                         // [setup]
  PluginNeeds needs_;                                         // [setup]
  bool asked_ = false;                                        // [setup] whether `needs_` are those of an instance
  std::vector<std::string> names_;                            // [setup]
  mutable base::Mutex mutex_;                                 // held to look up, never while an instance is called
  Seats seats_ CAMD_GUARDED_BY(mutex_);                       // by the camera's index; null: no such camera
  std::vector<std::string> cameras_ CAMD_GUARDED_BY(mutex_);  // who sits there
  std::vector<Prepared*> prepared_ CAMD_GUARDED_BY(mutex_);
  mutable std::set<std::string, std::less<>> texts_ CAMD_GUARDED_BY(mutex_);
};

}  // namespace camd::pipeline
