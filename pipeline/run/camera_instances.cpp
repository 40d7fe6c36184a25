#include "pipeline/run/camera_instances.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <utility>

#include "base/error.hpp"

namespace camd::pipeline {

using base::Error;
using base::ErrorKind;

namespace {

// What open() has made, or exchange() taken out.
struct Passing {
  std::shared_ptr<PluginInstance> plugin;
  std::string camera;
};

// What only grows stays bounded, whatever instances call their numbers.
constexpr std::size_t kMostTexts = 256;

int badness(std::string_view state) noexcept { return state == "failed" ? 2 : state == "restarting" ? 1 : 0; }

void add_health(PluginHealth& sum, const PluginHealth& one) {
  sum.isolated = sum.isolated || one.isolated;
  if (sum.state.empty() || badness(one.state) > badness(sum.state)) sum.state = one.state;
  sum.restarts += one.restarts;
  sum.frames_lost += one.frames_lost;
  sum.deadline_missed += one.deadline_missed;
  sum.bytes_copied += one.bytes_copied;
  if (!one.last_error.empty()) sum.last_error = one.last_error;
  sum.confinement = one.confinement;
}

}  // namespace

// The frame in flight as each camera's instance knows it.
class CameraInstances::Prepared final : public PreparedFrame {
 public:
  Prepared(CameraInstances& owner, const camd_tensors& tensors) : owner_(owner), tensors_(tensors) {}
  ~Prepared() override {
    const base::MutexLock lock(owner_.mutex_);
    std::erase(owner_.prepared_, this);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  struct Of {
    std::shared_ptr<PluginInstance> plugin;  // outlives what it has prepared
    std::unique_ptr<PreparedFrame> frame;
  };
  // [post] One frame at a time has this. Throws Error(kPlugin).
  PreparedFrame* of(std::size_t index, const std::shared_ptr<PluginInstance>& plugin) {
    {
      const base::MutexLock lock(owner_.mutex_);
      if (index < by_camera_.size() && by_camera_[index].plugin == plugin) return by_camera_[index].frame.get();
    }
    Of made{plugin, plugin->prepare(tensors_)};
    PreparedFrame* const frame = made.frame.get();
    const base::MutexLock lock(owner_.mutex_);
    if (index >= by_camera_.size()) by_camera_.resize(index + 1);
    std::swap(by_camera_[index], made);
    return frame;
  }
  // What the instance of a camera that has gone left. The caller has the owner's lock, and lets it end without.
  [[nodiscard]] Of take(std::size_t index) {
    return index < by_camera_.size() ? std::exchange(by_camera_[index], {}) : Of{};
  }

 private:
  CameraInstances& owner_;
  const camd_tensors& tensors_;
  std::vector<Of> by_camera_;  // under the owner's lock
};

CameraInstances::CameraInstances(PluginSpec spec, Make make) : spec_(std::move(spec)), make_(std::move(make)) {}

CameraInstances::Seats CameraInstances::seats() const {
  const base::MutexLock lock(mutex_);
  Seats taken;
  std::copy_if(seats_.begin(), seats_.end(), std::back_inserter(taken),
               [](const auto& seat) { return seat != nullptr; });
  return taken;
}

std::shared_ptr<PluginInstance> CameraInstances::make(std::int32_t index, const std::string& name, bool late) {
  std::shared_ptr<PluginInstance> made = make_(name, late);
  const auto place = static_cast<std::size_t>(index);
  std::vector<const char*> names(std::max(place + 1, names_.size()), "");
  names[place] = name.c_str();
  camd_model model = model_->model();
  model.camera_count = static_cast<std::int32_t>(names.size());
  model.camera_names = names.data();
  made->declare(model);
  const PluginNeeds& wanted = made->needs();
  if (!std::exchange(asked_, true)) {
    needs_ = wanted;
  } else if (wanted.outputs != needs_.outputs || wanted.input != needs_.input || wanted.picture != needs_.picture ||
             wanted.detections != needs_.detections) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("{}: camera {}: outputs() asks for something else than for the first camera",
                            spec_.prefix(), name));
  }
  return made;
}

void CameraInstances::declare(const camd_model& model) {
  names_ = camera_names_of(model);
  model_ = std::make_unique<OwnedModel>(model);
  needs_.outputs.assign(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
  Seats made(names_.size());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!names_[i].empty()) made[i] = make(static_cast<std::int32_t>(i), names_[i], false);
  }
  const base::MutexLock lock(mutex_);
  seats_ = std::move(made);
  cameras_ = names_;
}

std::unique_ptr<PreparedFrame> CameraInstances::prepare(const camd_tensors& tensors) {
  auto made = std::make_unique<Prepared>(*this, tensors);
  const base::MutexLock lock(mutex_);
  prepared_.push_back(made.get());
  return made;
}

CallResult CameraInstances::call(PreparedFrame* prepared, const camd_frame& frame, const camd_tensors& tensors,
                                 camd_results& results, FrameEvents& events, camd_error& error, bool& moved) noexcept {
  const auto index = static_cast<std::size_t>(frame.camera_index);
  std::shared_ptr<PluginInstance> plugin;
  {
    const base::MutexLock lock(mutex_);
    if (frame.camera_index >= 0 && index < seats_.size()) plugin = seats_[index];
  }
  try {
    if (plugin == nullptr) throw Error(ErrorKind::kPlugin, "has no instance for this camera");
    PreparedFrame* const own = static_cast<Prepared&>(*prepared).of(index, plugin);
    return plugin->call(own, frame, tensors, results, events, error, moved);
  } catch (const std::exception& failure) {
    std::snprintf(error.message, sizeof(error.message), "%s", failure.what());
    return CallResult::kFailed;
  }
}

void CameraInstances::sample() {
  for (const auto& plugin : seats()) plugin->sample();
}

std::string CameraInstances::reopen() {
  std::vector<std::string> problems;
  for (const auto& plugin : seats()) problems.push_back(plugin->reopen());
  std::erase(problems, "");
  return fmt::format("{}", fmt::join(problems, "; "));
}

std::string_view CameraInstances::keep(std::string_view text) const {
  const base::MutexLock lock(mutex_);
  const auto at = texts_.find(text);
  if (at != texts_.end()) return *at;
  return texts_.size() < kMostTexts ? std::string_view(*texts_.emplace(text).first) : std::string_view();
}

void CameraInstances::add(std::vector<CounterValue>& sum, const std::vector<CounterValue>& more) const {
  for (const CounterValue& one : more) {
    const auto same = [&one](const CounterValue& value) { return value.name == one.name; };
    const auto at = std::find_if(sum.begin(), sum.end(), same);
    if (at != sum.end()) {
      at->count += one.count;
      at->level = std::max(at->level, one.level);
      continue;
    }
    const std::string_view name = keep(one.name);
    if (!name.empty() && sum.size() < CAMD_MAX_COUNTERS) sum.push_back({name, one.kind, one.count, one.level});
  }
}

PluginNumbers CameraInstances::numbers() const {
  PluginNumbers sum;
  Seats all;
  std::vector<std::string> cameras;
  {
    const base::MutexLock lock(mutex_);
    all = seats_;
    cameras = cameras_;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == nullptr) continue;
    PluginNumbers one = all[i]->numbers();
    if (sum.name.empty()) sum.name = keep(one.name);
    add(sum.counters, one.counters);
    add_rows(sum.outlet, one.outlet);
    add_health(sum.health, one.health);
    if (one.health.isolated) sum.cameras.push_back({std::move(cameras[i]), std::move(one.health)});
  }
  return sum;
}

void CameraInstances::rename(std::vector<std::string> names) {
  names_ = std::move(names);
  Seats all;
  {
    const base::MutexLock lock(mutex_);
    all = seats_;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == nullptr) continue;
    std::vector<std::string> own(std::max(names_.size(), i + 1));
    if (i < names_.size()) own[i] = names_[i];
    all[i]->rename(std::move(own));
  }
}

void* CameraInstances::open(std::int32_t index, const std::string& name) {
  return std::make_unique<Passing>(Passing{make(index, name, true), name}).release();
}

void* CameraInstances::exchange(std::int32_t index, void* camera) noexcept {
  std::unique_ptr<Passing> passing(static_cast<Passing*>(camera));
  if (passing == nullptr) passing = std::make_unique<Passing>();
  const auto place = static_cast<std::size_t>(index);
  std::vector<Prepared::Of> left;
  {
    const base::MutexLock lock(mutex_);
    if (place >= seats_.size()) seats_.resize(place + 1);
    cameras_.resize(seats_.size());
    seats_[place].swap(passing->plugin);
    cameras_[place].swap(passing->camera);
    for (Prepared* prepared : prepared_) left.push_back(prepared->take(place));
  }
  return passing->plugin == nullptr ? nullptr : passing.release();
}

std::string CameraInstances::close(void* camera) {
  const std::unique_ptr<Passing> passing(static_cast<Passing*>(camera));
  return passing == nullptr ? std::string() : passing->plugin->destroy();
}

std::string CameraInstances::destroy() noexcept {
  std::vector<std::string> problems;
  for (const auto& plugin : seats()) problems.push_back(plugin->destroy());
  std::erase(problems, "");
  return fmt::format("{}", fmt::join(problems, "; "));
}

bool CameraInstances::works_on(const FrameEvents& events) const noexcept {
  const base::MutexLock lock(mutex_);
  return std::any_of(seats_.begin(), seats_.end(),
                     [&events](const auto& seat) { return seat != nullptr && seat->works_on(events); });
}

bool CameraInstances::works() const noexcept {
  const base::MutexLock lock(mutex_);
  return std::any_of(seats_.begin(), seats_.end(), [](const auto& seat) { return seat != nullptr && seat->works(); });
}

bool CameraInstances::is_current() const {
  const Seats all = seats();
  return std::all_of(all.begin(), all.end(), [](const auto& plugin) { return plugin->is_current(); });
}

}  // namespace camd::pipeline
