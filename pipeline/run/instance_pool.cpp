#include "pipeline/run/instance_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace camd::pipeline {

namespace {

std::size_t count_of(const std::vector<std::string>& names) {
  return static_cast<std::size_t>(std::count_if(names.begin(), names.end(), [](const auto& n) { return !n.empty(); }));
}

// What each of several instances says, once.
std::string once_each(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::erase(texts, "");
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace

InstancePool::InstancePool(std::shared_ptr<PluginInstance> first, Make make)
    : first_(std::move(first)), make_(std::move(make)), all_{first_}, free_{first_.get()} {}

InstancePool::Instances InstancePool::all() const {
  const base::MutexLock lock(mutex_);
  return all_;
}

void InstancePool::declare(const camd_model& model) {
  first_->declare(model);
  model_ = std::make_unique<OwnedModel>(model);
  make_up_to(count_of(first_->names()));
}

void InstancePool::make_up_to(std::size_t count) {
  for (std::size_t have = all().size(); have < std::min(count, kMost); ++have) {
    std::shared_ptr<PluginInstance> made = make_();
    made->declare(model_->model());
    const base::MutexLock lock(mutex_);
    // So that what is free never allocates where a call gives its instance back.
    free_.reserve(kMost);
    free_.insert(free_.begin(), made.get());
    all_.push_back(std::move(made));
  }
}

CallResult InstancePool::call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& tensors,
                              camd_results& results, FrameEvents& events, camd_error& error, bool& moved) noexcept {
  PluginInstance* plugin = nullptr;
  {
    const base::MutexLock lock(mutex_);
    ++waiting_;
    while (free_.empty()) freed_.wait(mutex_);
    --waiting_;
    plugin = free_.back();
    free_.pop_back();
  }
  const CallResult result = plugin->call(prepared, frame, tensors, results, events, error, moved);
  bool wanted = false;
  {
    const base::MutexLock lock(mutex_);
    free_.push_back(plugin);
    wanted = waiting_ > 0;
  }
  if (wanted) freed_.notify_one();
  return result;
}

void InstancePool::sample() {
  for (const auto& plugin : all()) plugin->sample();
}

std::string InstancePool::reopen() {
  std::vector<std::string> problems;
  for (const auto& plugin : all()) problems.push_back(plugin->reopen());
  return once_each(std::move(problems));
}

PluginNumbers InstancePool::numbers() const {
  const Instances plugins = all();
  PluginNumbers sum = plugins.front()->numbers();
  for (std::size_t i = 1; i < plugins.size(); ++i) {
    const PluginNumbers one = plugins[i]->numbers();
    for (CounterValue& value : sum.counters) {
      const auto same = [&value](const CounterValue& other) { return other.name == value.name; };
      const auto at = std::find_if(one.counters.begin(), one.counters.end(), same);
      if (at == one.counters.end()) continue;
      value.count += at->count;
      value.level = std::max(value.level, at->level);
    }
    add_rows(sum.outlet, one.outlet);
  }
  return sum;
}

void InstancePool::rename(std::vector<std::string> names) {
  for (const auto& plugin : all()) plugin->rename(names);
}

void* InstancePool::open(std::int32_t /*index*/, const std::string& /*name*/) {
  make_up_to(all().size() + 1);
  return nullptr;
}

std::string InstancePool::destroy() noexcept {
  std::vector<std::string> problems;
  for (const auto& plugin : all()) problems.push_back(plugin->destroy());
  return once_each(std::move(problems));
}

bool InstancePool::works_on(const FrameEvents& events) const noexcept {
  const base::MutexLock lock(mutex_);
  return std::any_of(all_.begin(), all_.end(), [&events](const auto& plugin) { return plugin->works_on(events); });
}

bool InstancePool::works() const noexcept {
  const base::MutexLock lock(mutex_);
  return std::any_of(all_.begin(), all_.end(), [](const auto& plugin) { return plugin->works(); });
}

}  // namespace camd::pipeline
