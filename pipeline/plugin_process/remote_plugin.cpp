// Setting up an instance in a worker, and everything about it that is no frame. remote_call.cpp has the frames.
#include "pipeline/plugin_process/remote_plugin.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "pipeline/plugin/bounded_text.hpp"
#include "pipeline/plugin_process/blob.hpp"
#include "pipeline/plugin_process/descriptor_socket.hpp"
#include "pipeline/plugin_process/futex.hpp"
#include "pipeline/plugin_process/remote_prepared.hpp"
#include "pipeline/plugin_process/report.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

constexpr base::Duration kSlice = std::chrono::milliseconds(10);

// A text that a worker wrote: as long as its array at most, one line.
template <std::size_t N>
std::string text_of(const char (&from)[N]) {
  char copy[N];
  std::memcpy(copy, from, N);
  copy[N - 1] = '\0';
  return base::one_line(copy);
}

const char* name_of(wire::Op op) noexcept {
  switch (op) {
    case wire::Op::kCreate: return "create()";
    case wire::Op::kCheck: return "check()";
    case wire::Op::kOutputs: return "outputs()";
    case wire::Op::kProcess: return "process()";
    case wire::Op::kReopen: return "reopen()";
    case wire::Op::kSample: return "sample()";
    case wire::Op::kOpenCamera: return "open()";
    case wire::Op::kExchangeCamera: return "exchange()";
    case wire::Op::kCloseCamera: return "close()";
    case wire::Op::kDestroy: return "destroy()";
    default: return "between two calls";
  }
}

}  // namespace

RemotePlugin::RemotePlugin(std::shared_ptr<Worker> worker, PluginSpec spec, const std::string& file,
                           RemoteReloads reloads, RemotePatience patience, std::function<void()> give_up)
    : worker_(std::move(worker)),
      spec_(std::move(spec)),
      prefix_(spec_.prefix()),
      file_(file.empty() ? spec_.plugin : file),
      loaded_(file_at(file_)),
      reloads_(std::move(reloads)),
      patience_(std::move(patience)),
      give_up_(std::move(give_up)),
      orders_file_("camd-orders", sizeof(wire::Orders)),
      answers_file_("camd-answers", sizeof(wire::Answers)),
      orders_(*new (orders_file_.data()) wire::Orders),
      answers_(*new (answers_file_.data()) wire::Answers) {  // its long arrays are left alone, and take no memory
  orders_file_.seal(true);
  answers_file_.seal(false);
  const base::MutexLock lock(mutex_);
  connect();
}

void RemotePlugin::check(PluginQuestion& question) {
  const base::MutexLock lock(mutex_);
  const wire::CheckOrder order{file_, question.config_json(), question.card_json(), question.cameras()};
  if (request(wire::Op::kCheck, order.bytes(), patience_.set_up, "check()") != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_));
  }
  const std::vector<char> report = wire::copy_report(answers_);
  if (report.empty()) return;
  for (PluginAnswer& answer : wire::read_answers(report)) question.note(std::move(answer));
}

void RemotePlugin::create() {
  const base::MutexLock lock(mutex_);
  ask_create();
  name_ = text_of(answers_.name);
  extensions_ = answers_.extensions;
  confinement_ = text_of(answers_.confinement);
}

RemotePlugin::~RemotePlugin() {
  (void)destroy();
  worker_->leave(*this);
}

RemotePlugin::File RemotePlugin::file_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
          std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

bool RemotePlugin::is_current() const {
  return file_at(file_) == loaded_ && worker_->state() != Worker::State::kFailed;  // a reload makes it anew
}

bool RemotePlugin::is(const PluginSpec& spec) const { return spec.is(spec_) && is_current(); }

// ---- Calls that are no frame

std::uint32_t RemotePlugin::begin(wire::Op op) noexcept {
  doing_ = op;
  orders_.op = static_cast<std::uint32_t>(op);
  if (++number_ == wire::kDead || number_ == 0) number_ = 1;
  orders_.number.store(number_, std::memory_order_release);
  futex_wake(orders_.number);
  return number_;
}

RemotePlugin::Wait RemotePlugin::wait(std::uint32_t number, base::TimePoint deadline) noexcept {
  const std::uint32_t before = number - 1;
  for (;;) {
    const std::uint32_t seen = answers_.number.load(std::memory_order_acquire);
    if (seen == number) return Wait::kDone;
    // died() has written it, after `ready_`; by now the next process may run.
    if (seen == wire::kDead) return ready_ ? Wait::kNonsense : Wait::kDied;
    // The numbers begin again at 1 in a new process.
    if (seen != before && seen != 0) return Wait::kNonsense;
    if (!futex_wait(answers_.number, seen, &deadline)) return Wait::kLate;
  }
}

std::int32_t RemotePlugin::request(wire::Op op, base::Duration patience, const std::string& what) {
  const base::Clock& clock = base::system_clock();
  answers_.report_bytes = 0;  // what another call told
  const std::uint32_t number = begin(op);
  base::TimePoint deadline = clock.now() + patience;
  bool asked = false;
  const auto fail = [&](const std::string& why) {
    doing_ = wire::Op::kNone;
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {} {}", prefix_, why, what));
  };
  for (;;) {
    const base::TimePoint at = clock.now();
    // destroy() has its time when camd is stopped, too.
    const bool hurried = op != wire::Op::kDestroy && (leaving_ || (patience_.stop_asked && patience_.stop_asked()));
    if (!asked && hurried) {
      asked = true;
      deadline = std::min(deadline, leaving_ ? at : at + patience_.others);
    }
    switch (wait(number, std::min(deadline, at + kSlice))) {
      case Wait::kDone:
        doing_ = wire::Op::kNone;
        message_ = text_of(answers_.message);
        return answers_.code;
      case Wait::kDied: fail(worker_->how_it_ended() + place_of_crash() + " in"); break;
      case Wait::kNonsense:
        worker_->kill("wrote what no worker writes");
        fail("its process wrote what no worker writes in");
        break;
      case Wait::kLate: break;
    }
    if (worker_->ended()) {
      if (answers_.number.load(std::memory_order_acquire) == number) continue;  // its last word
      fail(worker_->how_it_ended() + place_of_crash() + " in");
    }
    if (clock.now() < deadline) continue;
    const std::string why =
        fmt::format("did not return from {} within {} ms", what,
                    std::chrono::duration_cast<std::chrono::milliseconds>(asked ? patience_.others : patience).count());
    worker_->kill(why);
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {}, and its process was ended", prefix_, why));
  }
}

std::int32_t RemotePlugin::request(wire::Op op, const std::vector<char>& blob, base::Duration patience,
                                   const std::string& what) {
  const MemoryFile file = sealed_bytes(blob);
  const std::uint64_t size = blob.size();
  if (!send_descriptors(socket_.get(), std::as_bytes(std::span(&size, 1)), {file.fd()})) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: its process ended before {}", prefix_, what));
  }
  return request(op, patience, what);
}

// Makes the process know this instance. Throws Error(kPlugin).
void RemotePlugin::connect() {
  auto [mine, theirs] = socket_pair();
  number_ = 0;
  orders_.number = 0;
  answers_.number = 0;
  answers_.crash.signal = 0;
  answers_.counters.count = 0;
  for (camd_counter& counter : answers_.counters.counters) {
    counter.count = 0;
    counter.level = 0;
  }
  if (!worker_->hand_over(theirs.get(), orders_file_.fd(), answers_file_.fd())) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: its process ended before it was set up", prefix_));
  }
  socket_ = std::move(mine);
}

void RemotePlugin::ask_create() {
  wire::CreateOrder order;
  order.plugin = file_;
  order.config_json = spec_.config_json;
  // What an earlier process wrote is not emptied, as after a reload.
  order.reloads = reloads_.first;
  if (request(wire::Op::kCreate, order.bytes(), patience_.set_up, "create()") != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_));
  }
}

PluginNeeds RemotePlugin::ask_needs() {
  if (request(wire::Op::kOutputs, model_, patience_.set_up, "outputs()") != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: {}", prefix_, message_));
  }
  const std::vector<int> outputs(answers_.need_outputs, answers_.need_outputs + needs_.outputs.size());
  return checked_needs(outputs, answers_.need_input, answers_.need_picture, answers_.detections, prefix_);
}

void RemotePlugin::declare(const camd_model& model) {
  if (model.output_count > wire::kMostOutputs) {
    throw Error(ErrorKind::kPlugin,
                fmt::format("{}: the model has {} outputs, a plug-in in a process can have {}: isolation: none",
                            prefix_, model.output_count, wire::kMostOutputs));
  }
  {
    const base::MutexLock lock(mutex_);
    names_ = camera_names_of(model);
    model_ = wire::ModelOrder::bytes(model, names_);
    needs_.outputs.assign(static_cast<std::size_t>(model.output_count), CAMD_NEED_NONE);
    needs_ = ask_needs();
    ready_ = true;
  }
  worker_->enter(*this);
}

void RemotePlugin::sample() {
  if ((extensions_ & wire::kOffersSample) == 0 || !ready_) return;
  if (!mutex_.try_lock()) return;
  std::string problem;
  try {
    if (ready_ && !destroyed_ && request(wire::Op::kSample, spec_.isolation.deadline, "sample()") != CAMD_OK) {
      problem = message_;
    }
    read_outlet();
  } catch (const Error&) {  // its end is told by the worker
  }
  mutex_.unlock();
  if (!problem.empty()) note_error("sample(): " + problem);
}

std::string RemotePlugin::reopen() {
  if ((extensions_ & wire::kOffersReopen) == 0) return {};
  const base::MutexLock lock(mutex_);
  if (!ready_) return "is being started anew, and opens its files anew by that";
  try {
    return request(wire::Op::kReopen, patience_.others, "reopen()") == CAMD_OK ? std::string() : message_;
  } catch (const Error& error) {
    return error.what();
  }
}

void RemotePlugin::rename(std::vector<std::string> names) {
  const base::MutexLock lock(mutex_);
  names_ = std::move(names);
  if (model_.empty()) return;
  // A process that is started later is told of these.
  const wire::ModelOrder before(model_);
  model_ = wire::ModelOrder::bytes(before.model(), names_);
}

void* RemotePlugin::open(std::int32_t index, const std::string& name) {
  const base::MutexLock lock(mutex_);
  if (!ready_) throw Error(ErrorKind::kPlugin, fmt::format("camera '{}': the plug-in is being started anew", name));
  orders_.index = index;
  std::snprintf(orders_.frame.camera, sizeof(orders_.frame.camera), "%s", name.c_str());
  if (request(wire::Op::kOpenCamera, patience_.set_up, "open()") != CAMD_OK) {
    throw Error(ErrorKind::kPlugin, fmt::format("camera '{}': {}", name, message_));
  }
  // A number of the worker's, never followed here.
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(answers_.handle));  // NOLINT(performance-no-int-to-ptr)
}

void* RemotePlugin::exchange(std::int32_t index, void* camera) noexcept {
  const base::MutexLock lock(mutex_);
  if (!ready_) return nullptr;
  orders_.index = index;
  orders_.argument = reinterpret_cast<std::uintptr_t>(camera);
  try {
    (void)request(wire::Op::kExchangeCamera, patience_.others, "exchange()");
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(answers_.handle));  // NOLINT(performance-no-int-to-ptr)
  } catch (const Error& error) {
    base::log().error("{}", error.what());
    return nullptr;
  }
}

std::string RemotePlugin::close(void* camera) {
  if (camera == nullptr) return {};
  const base::MutexLock lock(mutex_);
  if (!ready_) return {};
  orders_.argument = reinterpret_cast<std::uintptr_t>(camera);
  try {
    return request(wire::Op::kCloseCamera, patience_.others, "close()") == CAMD_OK ? std::string() : message_;
  } catch (const Error& error) {
    return error.what();
  }
}

std::string RemotePlugin::destroy() noexcept {
  leaving_ = true;
  if (events_.load() != nullptr) {
    worker_->kill("did not return from process() before the end");
    const base::MutexLock lock(mutex_);  // the call comes back
  }
  worker_->leave(*this);
  const base::MutexLock lock(mutex_);
  if (std::exchange(destroyed_, true)) return {};
  ready_ = false;
  {
    const base::MutexLock error_lock(error_mutex_);
    if (worker_->state() == Worker::State::kFailed && !model_.empty()) return "was given up: " + last_error_;
  }
  if (worker_->ended()) return {};
  try {
    const bool good = request(wire::Op::kDestroy, patience_.others, "destroy()") == CAMD_OK;
    std::string problem = good ? std::string() : message_;
    read_outlet();
    return problem;
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.starts_with(prefix_ + ": ") ? text.substr(prefix_.size() + 2) : text;
  }
}

// ---- The worker's thread

std::string RemotePlugin::place_of_crash() const {
  std::string place;
  const std::int32_t count = std::clamp<std::int32_t>(answers_.crash.count, 0, wire::kMostPlaces);
  for (std::int32_t i = 0; i < count; ++i) {
    const std::string one = text_of(answers_.crash.places[i]);
    if (!one.empty()) place += (place.empty() ? " at " : ", called from ") + one;
  }
  return place;
}

std::string RemotePlugin::died(const std::string& why) noexcept {
  ready_ = false;
  note_error(why);
  const wire::Op doing = doing_;
  crash_place_ = answers_.crash.signal != 0 && answers_.crash.count > 0 ? text_of(answers_.crash.places[0]) : "";
  answers_.number.store(wire::kDead, std::memory_order_release);
  futex_wake(answers_.number);
  {
    const base::MutexLock lock(counters_mutex_);
    keep_counters();
  }
  if (doing == wire::Op::kNone && answers_.crash.signal == 0) return {};
  return fmt::format("{}: {}{}{}{}", prefix_, why, doing == wire::Op::kNone ? "" : " in ",
                     doing == wire::Op::kNone ? "" : name_of(doing), place_of_crash());
}

void RemotePlugin::revive() {
  const base::MutexLock lock(mutex_);
  if (destroyed_) return;
  connect();
  reloads_.first = ++*reloads_.latest;
  ask_create();
  // What it is was told at its first start and is read by others meanwhile.
  if (answers_.extensions != extensions_) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: offers other extensions than at its first start", prefix_));
  }
  const PluginNeeds needs = ask_needs();
  if (needs.outputs != needs_.outputs || needs.input != needs_.input || needs.picture != needs_.picture ||
      needs.detections > needs_.detections) {
    throw Error(ErrorKind::kPlugin, fmt::format("{}: outputs() asks for more than at its first start", prefix_));
  }
  for (const auto& [id, mapped] : regions_) send_region(*mapped.region);
  for (const Prepared* prepared : prepared_) send_prepared(*prepared);
  ready_ = true;
  base::log().info("{}: runs again", prefix_);
}

void RemotePlugin::given_up(const std::string& why) noexcept {
  note_error(why);
  if (spec_.isolation.on_failure == OnFailure::kStop && give_up_) give_up_();
}

// ---- Numbers

void RemotePlugin::note_error(const std::string& why) const {
  const base::MutexLock lock(error_mutex_);
  last_error_ = why;
}

// What the worker's table says now: names and kinds may be anything.
void RemotePlugin::read_counters() const {
  const std::uint32_t count = std::min<std::uint32_t>(answers_.counters.count, CAMD_MAX_COUNTERS);
  for (std::uint32_t i = 0; i < count; ++i) {
    const camd_counter& from = answers_.counters.counters[i];
    std::array<char, CAMD_COUNTER_NAME_BYTES> name = from.name;
    name.back() = '\0';
    if (!good_counter_name(name.data())) continue;
    int kind = 0;
    std::memcpy(&kind, &from.kind, sizeof(kind));
    auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& one) { return one->name == name.data(); });
    if (found == known_.end()) {
      if (known_.size() == CAMD_MAX_COUNTERS) continue;
      known_.push_back(
          std::make_unique<Known>(Known{name.data(), kind == CAMD_GAUGE ? CAMD_GAUGE : CAMD_COUNTER, 0, 0, 0}));
      found = std::prev(known_.end());
    }
    // It only grows, whatever is written there.
    (*found)->latest = std::max((*found)->latest, from.count.load(std::memory_order_relaxed));
    const double level = from.level.load(std::memory_order_relaxed);
    if (std::isfinite(level)) (*found)->level = level;
  }
}

// What came with the answer that was waited for.
void RemotePlugin::read_outlet() {
  const std::vector<char> report = wire::copy_report(answers_);
  if (!report.empty()) wire::read_outlet(report, outlet_);
}

void RemotePlugin::keep_counters() {
  read_counters();
  for (const auto& one : known_) one->before += std::exchange(one->latest, 0);
  std::vector<OutletRow> last = outlet_.rows();
  for (OutletRow& row : last) row.end("process_ended");
  add_rows(outlet_before_, last);
  (void)outlet_.report(nullptr, 0, nullptr);
}

PluginNumbers RemotePlugin::numbers() const {
  PluginNumbers numbers;
  numbers.name = name_;
  const base::MutexLock lock(counters_mutex_);
  if (ready_) read_counters();
  for (const auto& one : known_) {
    numbers.counters.push_back({one->name, one->kind, one->before + one->latest, one->level});
  }
  numbers.outlet = outlet_before_;
  add_rows(numbers.outlet, outlet_.rows());
  PluginHealth& health = numbers.health;
  health.isolated = true;
  switch (worker_->state()) {
    case Worker::State::kRunning: health.state = "running"; break;
    case Worker::State::kRestarting: health.state = "restarting"; break;
    case Worker::State::kFailed: health.state = "failed"; break;
  }
  health.restarts = worker_->restarts();
  health.frames_lost = frames_lost_;
  health.deadline_missed = deadline_missed_;
  health.bytes_copied = bytes_copied_;
  health.confinement = confinement_;
  const base::MutexLock error_lock(error_mutex_);
  health.last_error = last_error_;
  return numbers;
}

}  // namespace camd::pipeline
