// InProcessPlugin: an instance in this process, and what it sees as its host. A worker process holds its instances by
// the same class.
//
// Threads: as PluginInstance; the functions behind camd_host [any].
// Invariants: the library outlives the instance.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "pipeline/plugin/plugin_instance.hpp"
#include "pipeline/plugin/plugin_library.hpp"
#include "pipeline/plugin/plugin_outlet.hpp"

namespace camd::pipeline {

class InProcessPlugin final : public PluginInstance {
 public:
  // Checks the table and creates the instance. `numbers` is where its counters lie; null: in here. Throws
  // Error(kPlugin).
  InProcessPlugin(const camd_plugin& table, std::unique_ptr<PluginLibrary> library, PluginSpec spec,
                  const base::Clock& clock, std::uint32_t reloads, CounterTable* numbers = nullptr);
  ~InProcessPlugin() override { (void)destroy(); }
  InProcessPlugin(const InProcessPlugin&) = delete;
  InProcessPlugin& operator=(const InProcessPlugin&) = delete;

  void declare(const camd_model& model) override;
  [[nodiscard]] const PluginNeeds& needs() const noexcept override { return needs_; }
  [[nodiscard]] std::unique_ptr<PreparedFrame> prepare(const camd_tensors& /*tensors*/) override { return nullptr; }
  [[nodiscard]] CallResult call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& tensors,
                                camd_results& results, FrameEvents& events, camd_error& error,
                                bool& moved) noexcept override;
  void sample() override;
  [[nodiscard]] std::string reopen() override;
  [[nodiscard]] PluginNumbers numbers() const override;
  [[nodiscard]] bool knows_cameras() const noexcept override { return cameras_ != nullptr; }
  [[nodiscard]] const std::vector<std::string>& names() const noexcept override { return names_; }
  void rename(std::vector<std::string> names) override { names_ = std::move(names); }
  [[nodiscard]] void* open(std::int32_t index, const std::string& name) override;
  [[nodiscard]] void* exchange(std::int32_t index, void* camera) noexcept override;
  [[nodiscard]] std::string close(void* camera) override;
  std::string destroy() noexcept override;
  [[nodiscard]] bool stateless() const noexcept override { return stateless_; }
  [[nodiscard]] bool bounded() const noexcept override { return false; }
  [[nodiscard]] bool works_on(const FrameEvents& events) const noexcept override {
    return events_.load(std::memory_order_relaxed) == &events;
  }
  [[nodiscard]] bool works() const noexcept override { return events_.load(std::memory_order_relaxed) != nullptr; }
  [[nodiscard]] bool is(const PluginSpec& spec) const override { return spec_.is(spec) && is_current(); }
  [[nodiscard]] bool is_current() const override { return library_ == nullptr || library_->is_current(spec_.plugin); }

  [[nodiscard]] bool reopens() const noexcept { return reopener_ != nullptr; }
  [[nodiscard]] const camd_plugin& table() const noexcept { return table_; }

 private:
  // `table` is the first member, so the address of one is the address of the other.
  struct HostTable {
    camd_host table;
    InProcessPlugin* plugin;
  };
  static std::int32_t gone(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                           camd_error* error);
  static const camd_counters kCounters;
  static const camd_events kEvents;
  static const camd_outlet kOutlet;

  // The functions behind these tables.
  static InProcessPlugin& plugin_of(const camd_host* host) noexcept {
    return *reinterpret_cast<const HostTable*>(host)->plugin;
  }
  static void log_line(const camd_host* host, camd_log_level level, const char* message);
  static std::int64_t now(const camd_host* host) { return base::to_ns(plugin_of(host).clock_.now()); }
  static const void* get_extension(const camd_host* host, const char* id);
  static std::int32_t make_counter(const camd_host* host, camd_counter_kind kind, const char* name,
                                   camd_counter** counter, camd_error* error);
  static std::int32_t report_outlet(const camd_host* host, const camd_outlet_row* rows, std::int32_t count,
                                    camd_error* error);
  static std::int32_t count_events(const camd_host* host);
  static const camd_event* get_event(const camd_host* host, std::int32_t index);
  static std::int32_t add_event(const camd_host* host, const camd_event* event);

  std::unique_ptr<PluginLibrary> library_;  // first member: outlives the instance
  const camd_plugin& table_;
  const PluginSpec spec_;
  std::string prefix_;              // of what the constructor and declare() say, and sample()
  std::vector<std::string> names_;  // [setup] of the cameras, by index
  const base::Clock& clock_;
  const HostTable host_;
  std::unique_ptr<CounterTable> own_numbers_;
  PluginCounters counters_;
  PluginOutlet outlet_;
  const camd_plugin_counters* sampler_ = nullptr;
  const camd_plugin_cameras* cameras_ = nullptr;
  const camd_plugin_reopen* reopener_ = nullptr;
  bool stateless_ = false;
  bool sample_failing_ = false;                 // [metrics]
  std::atomic<FrameEvents*> events_ = nullptr;  // of the frame that process() is working on
  base::Mutex mutex_;
  void* instance_ CAMD_GUARDED_BY(mutex_) = nullptr;
  decltype(camd_plugin::process) process_ CAMD_GUARDED_BY(mutex_) = nullptr;
  void* instance_for_setup_ = nullptr;  // the same, for calls that may run beside process()
  bool destroyed_ CAMD_GUARDED_BY(mutex_) = false;
  PluginNeeds needs_;
};

}  // namespace camd::pipeline
