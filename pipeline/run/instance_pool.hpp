// InstancePool: one entry of `postprocess:` whose plug-in keeps nothing from frame to frame (camd.stateless/1). It has
// several instances in this process, and a frame goes to one that is free. So cameras do not wait for one another's
// calls. To the plug-in host it is one instance.
//
// Threads: as PluginInstance. Calls run side by side, as many as there are instances; the next one waits.
// Invariants: as many instances as cameras, and no more than kMost: each has memory of its own for what it reads. The
// one that was used last is used first, because its memory is most likely still in a cache.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/run/plain_model.hpp"

namespace camd::pipeline {

class InstancePool final : public PluginInstance {
 public:
  static constexpr std::size_t kMost = 8;

  // Makes another instance. Throws Error(kPlugin).
  using Make = std::function<std::shared_ptr<PluginInstance>()>;

  InstancePool(std::shared_ptr<PluginInstance> first, Make make);
  ~InstancePool() override { (void)destroy(); }
  InstancePool(const InstancePool&) = delete;
  InstancePool& operator=(const InstancePool&) = delete;

  // Makes the other instances, too.
  void declare(const camd_model& model) override;
  [[nodiscard]] const PluginNeeds& needs() const noexcept override { return first_->needs(); }
  [[nodiscard]] std::unique_ptr<PreparedFrame> prepare(const camd_tensors& /*tensors*/) override { return nullptr; }
  [[nodiscard]] CallResult call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& tensors,
                                camd_results& results, FrameEvents& events, camd_error& error,
                                bool& moved) noexcept override;
  void sample() override;
  [[nodiscard]] std::string reopen() override;
  // Counters add up; of gauges the largest.
  [[nodiscard]] PluginNumbers numbers() const override;
  // It is not told of them.
  [[nodiscard]] bool knows_cameras() const noexcept override { return true; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept override { return first_->names(); }
  void rename(std::vector<std::string> names) override;
  [[nodiscard]] void* open(std::int32_t index, const std::string& name) override;
  [[nodiscard]] void* exchange(std::int32_t /*index*/, void* /*camera*/) noexcept override { return nullptr; }
  [[nodiscard]] std::string close(void* /*camera*/) override { return {}; }
  std::string destroy() noexcept override;
  [[nodiscard]] bool bounded() const noexcept override { return first_->bounded(); }
  [[nodiscard]] bool works_on(const FrameEvents& events) const noexcept override;
  [[nodiscard]] bool works() const noexcept override;
  [[nodiscard]] bool is(const PluginSpec& spec) const override { return first_->is(spec); }
  [[nodiscard]] bool is_current() const override { return first_->is_current(); }

 private:
  using Instances = std::vector<std::shared_ptr<PluginInstance>>;
  [[nodiscard]] Instances all() const;
  void make_up_to(std::size_t count);  // [setup]

  const std::shared_ptr<PluginInstance> first_;
  const Make make_;
  std::unique_ptr<OwnedModel> model_;  // [setup]
  mutable base::Mutex mutex_;          // never held while an instance is called
  base::CondVar freed_;
  Instances all_ CAMD_GUARDED_BY(mutex_);
  std::vector<PluginInstance*> free_ CAMD_GUARDED_BY(mutex_);  // the last one goes out first
  std::size_t waiting_ CAMD_GUARDED_BY(mutex_) = 0;            // calls that found none
};

}  // namespace camd::pipeline
