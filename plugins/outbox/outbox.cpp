#include "plugins/outbox/outbox.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "plugins/outbox/slots.hpp"
#include "plugins/outbox/spool.hpp"
#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// While messages come, the thread looks for them by itself: waking it costs put() a system call, more than all else
// that it does. After so long without one it sleeps, and the next put() wakes it.
constexpr auto kWatch = milliseconds(100);
constexpr auto kLookEvery = milliseconds(4);

// Which outboxes of this process run, by identity.
struct Running {
  std::mutex mutex;
  std::condition_variable changed;
  std::multiset<std::string> identities;
};
Running& running() {
  static Running all;
  return all;
}

// Frames come first where processors are scarce: a message may wait. On Linux a priority is a thread's own (nice(2)).
void stand_behind() noexcept {
  constexpr int kBehind = 10;
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + kBehind));
}

}  // namespace

OutboxOptions read_outbox(JsonObject& config) {
  OutboxOptions options;
  JsonObject keys = config.object("outbox");
  options.capacity = static_cast<std::size_t>(keys.integer("capacity", 1, 1'000'000).value_or(1000));
  if (const auto memory = keys.bytes("memory", std::int64_t{64} << 10U, std::int64_t{4} << 30U)) {
    options.memory_bytes = static_cast<std::uint64_t>(*memory);
  }
  if (keys.one_of("full", {"newest", "oldest"}) == "oldest") options.full = OutboxOptions::Full::kOldest;
  options.spool = keys.text("spool").value_or("");
  if (const auto most = keys.bytes("spool_max", std::int64_t{1} << 20U, std::int64_t{1} << 50U)) {
    options.spool_max_bytes = static_cast<std::uint64_t>(*most);
    if (options.spool.empty()) keys.fail("spool_max", "bounds a spool, and there is none: name its folder in 'spool'");
  }
  if (const auto most = keys.duration("retry_max", milliseconds(100), std::chrono::hours(1))) {
    options.retry_max = *most;
    options.retry_min = std::min(options.retry_min, options.retry_max);
  }
  config.absorb(keys);
  return options;
}

// Guards: `mutex_` guards what put() and the thread share. The connection and the spool are the thread's alone.
class Outbox::Core final : public Connection::Answers, public std::enable_shared_from_this<Core> {
 public:
  Core(OutboxOptions options, std::unique_ptr<Connection> connection, std::string identity, Log log)
      : options_(std::move(options)),
        identity_(std::move(identity)),
        log_(std::move(log)),
        connection_(std::move(connection)),
        // With a spool half of the places are for what waits: it has to get to disk while others are on their way.
        window_(options_.spool.empty() ? connection_->window()
                                       : std::clamp<std::size_t>(options_.capacity / 2, 1, connection_->window())),
        slots_(options_.capacity, options_.memory_bytes) {
    in_flight_.reserve(window_);
    row_of("");
  }

  void add_camera(std::string_view camera) {
    const std::lock_guard lock(mutex_);
    rows_[row_of(camera)].there = true;
  }
  void remove_camera(std::string_view camera) {
    const std::lock_guard lock(mutex_);
    const std::size_t row = row_of(camera);
    rows_[row].there = false;
    fold(row);
  }

  void put(std::string_view camera, std::string_view topic, std::string_view payload, bool retain) {
    bool wake = false, full = false;
    {
      const std::lock_guard lock(mutex_);
      const auto row = static_cast<std::uint32_t>(row_of(camera));
      OutboxTotals& totals = rows_[row].totals;
      ++totals.taken;
      if (topic.size() + payload.size() > options_.memory_bytes / 4) {
        ++totals.dropped_for(OutboxDrop::kTooBig);
        return;
      }
      if (stopped_) {
        ++totals.dropped_for(OutboxDrop::kShutdown);
        return;
      }
      while (!slots_.add(row, topic, payload, retain)) {
        if (options_.full == OutboxOptions::Full::kOldest || !drop_oldest()) {
          ++totals.dropped_for(OutboxDrop::kFull);
          return;
        }
      }
      ++totals.waiting;
      wake = std::exchange(idle_, false);
      full = !options_.spool.empty() && is_filling();
    }
    if (wake) connection_->wake();
    if (full) changed_.notify_one();
  }

  void start() {
    if (thread_.joinable() || stopped_) return;
    std::packaged_task<void()> task([self = shared_from_this()] { self->run(); });
    ended_ = task.get_future();
    thread_ = std::thread(std::move(task));
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(stopping_, true)) return;
      deadline_ = steady_clock::now() + options_.linger;
      changed_.notify_all();
    }
    connection_->wake();
    running().changed.notify_all();
    if (thread_.joinable()) {
      // What the thread does at its end is short; a name server that does not answer is not.
      if (ended_.wait_for(options_.linger + milliseconds(300)) == std::future_status::ready) {
        thread_.join();
      } else {
        log_(CAMD_LOG_WARN, connection_->name() + ": hangs while it connects: left behind");
        thread_.detach();
      }
      ended_ = {};  // what it shares with the task holds this object
    }
    const std::lock_guard lock(mutex_);
    drop_all(OutboxDrop::kShutdown);
    stopped_ = true;
  }

  [[nodiscard]] std::vector<OutboxRow> totals() const {
    const std::lock_guard lock(mutex_);
    std::vector<OutboxRow> rows;
    rows.reserve(rows_.size());
    for (const Row& row : rows_) {
      if (row.name.empty() ? row.totals.taken > 0 : row.used) rows.push_back({row.name, row.totals});
    }
    return rows;
  }
  [[nodiscard]] bool connected() const {
    const std::lock_guard lock(mutex_);
    return connected_;
  }
  [[nodiscard]] std::uint64_t waiting() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const Row& row : rows_) sum += row.totals.waiting + row.totals.spooled;
    return sum;
  }

  // ---- Connection::Answers, in work(): the outbox's thread, without the lock
  void acknowledged(std::uint64_t id) override {
    settle(id, [](OutboxTotals& totals) { ++totals.acknowledged; });
  }
  void refused(std::uint64_t id, const std::string& why) override {
    if (!std::exchange(refusal_told_, true)) {
      log_(CAMD_LOG_WARN,
           fmt::format("{}: a message was refused: {} (further ones are only counted)", connection_->name(), why));
    }
    settle(id, [](OutboxTotals& totals) { ++totals.dropped_for(OutboxDrop::kRefused); });
  }

 private:
  struct Row {
    std::string name;
    OutboxTotals totals;
    bool there = false;  // the camera runs
    bool used = false;   // the row belongs to a name
  };
  // A message that is on its way.
  struct Sent {
    std::uint64_t id = 0;
    std::uint32_t row = 0;
    std::uint32_t slot = Slots::kNone;  // where it lies in memory; kNone: in the spool
    std::uint64_t record = 0;           // its number in the spool
  };

  // ---- Rows, under the lock
  std::size_t row_of(std::string_view name) {
    // Almost always the one of the call before, or near it.
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::size_t at = (last_row_ + i) % rows_.size();
      if (rows_[at].used && rows_[at].name == name) return last_row_ = at;
    }
    const auto unused = std::find_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.used; });
    if (unused == rows_.end()) {
      rows_.push_back({std::string(name), {}, false, true});
      return last_row_ = rows_.size() - 1;
    }
    *unused = {std::string(name), {}, false, true};
    return last_row_ = static_cast<std::size_t>(unused - rows_.begin());
  }
  // The row of a camera that has gone, and has nothing left, becomes a part of the row "".
  void fold(std::size_t index) {
    Row& row = rows_[index];
    if (index == 0 || row.there || row.totals.waiting + row.totals.spooled > 0) return;
    OutboxTotals& gone = rows_.front().totals;
    gone.taken += row.totals.taken;
    gone.acknowledged += row.totals.acknowledged;
    for (std::size_t i = 0; i < kOutboxDrops; ++i) gone.dropped[i] += row.totals.dropped[i];
    row = {};
  }

  // ---- Under the lock
  bool drop_oldest() {
    const std::uint32_t slot = slots_.pop();
    if (slot == Slots::kNone) return false;
    forget_waiting(slot, OutboxDrop::kFull);
    return true;
  }
  void forget_waiting(std::uint32_t slot, OutboxDrop why) {
    const std::uint32_t row = slots_[slot].row;
    --rows_[row].totals.waiting;
    ++rows_[row].totals.dropped_for(why);
    slots_.release(slot);
    fold(row);
  }
  void drop_all(OutboxDrop why) {
    for (const Sent& sent : std::exchange(in_flight_, {})) {
      if (sent.slot != Slots::kNone) forget_waiting(sent.slot, why);
    }
    while (true) {
      const std::uint32_t slot = slots_.pop();
      if (slot == Slots::kNone) return;
      forget_waiting(slot, why);
    }
  }

  // ---- The thread
  void run() {
    stand_behind();
    if (!take_identity()) return;
    open_spool();
    auto pause = options_.retry_min;
    auto next_try = steady_clock::now();
    auto lost_at = steady_clock::now();
    auto ready_since = lost_at;
    bool open = false;
    while (go_on()) {
      try {
        if (must_spill(lost_at)) spill();
        if (!open) {
          if (!wait_until(next_try)) continue;
          connection_->open();
          open = true;
        }
        if (connection_->ready()) {
          if (!set_connected(true)) {
            ready_since = steady_clock::now();
            failed_ = false;
            // After a failure an answer has to come first: some take every connection and fail every message.
            if (told_.empty()) log_(CAMD_LOG_INFO, connection_->name() + ": connected");
          }
          send_what_fits();
        }
        connection_->work(*this, begin_idle());
        end_idle();
      } catch (const std::exception& problem) {
        end_idle();
        connection_->close(false);
        open = false;
        send_again();
        if (set_connected(false)) {
          lost_at = steady_clock::now();
          if (told_.empty() || lost_at - ready_since >= options_.retry_max) pause = options_.retry_min;
        }
        failed_ = true;
        // Each reason once: a broker that is away, and then refuses, says both.
        if (std::string reason = problem.what(); reason != std::exchange(told_, reason)) {
          log_(CAMD_LOG_WARN, fmt::format("{}: {}; tried again until it is back", connection_->name(), reason));
        }
        next_try = steady_clock::now() + jittered(pause);
        pause = std::min(pause * 2, options_.retry_max);
      }
      if (spool_) spool_->save();
    }
    connection_->close(true);
    set_connected(false);
    send_again();
    spill();
    spool_.reset();
    give_identity();
  }

  // Whether there is more to do.
  bool go_on() {
    const std::lock_guard lock(mutex_);
    if (!stopping_) return true;
    const bool empty = slots_.waiting() == 0 && in_flight_.empty() && (spool_ == nullptr || !spool_->has_unread());
    // What is there is worth one try, also where none was made yet.
    return !empty && !failed_ && steady_clock::now() < deadline_;
  }
  // [blocks] Whether the time has come; earlier when it shall stop, or a second has passed.
  bool wait_until(steady_clock::time_point when) {
    std::unique_lock lock(mutex_);
    const auto until = std::min(when, steady_clock::now() + std::chrono::seconds(1));
    changed_.wait_until(lock, until, [this] { return stopping_ || (spool_ != nullptr && is_filling()); });
    return (!stopping_ || !failed_) && steady_clock::now() >= when;
  }
  // How long work() may wait. Where that is long, put() wakes it.
  milliseconds begin_idle() {
    const auto now = steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (in_flight_.size() < window_ && slots_.waiting() > 0 && connected_) return milliseconds(0);
    if (now < watch_until_ && connected_) return kLookEvery;
    idle_ = true;
    return stopping_ ? milliseconds(20) : milliseconds(1000);
  }
  void end_idle() {
    const std::lock_guard lock(mutex_);
    idle_ = false;
  }
  bool set_connected(bool now) {
    const std::lock_guard lock(mutex_);
    return std::exchange(connected_, now);
  }
  milliseconds jittered(milliseconds pause) {
    std::uniform_int_distribution<std::int64_t> around(pause.count() / 2, pause.count() + pause.count() / 2);
    return milliseconds(around(random_));
  }

  void send_what_fits() {
    while (in_flight_.size() < window_) {
      if (spool_ != nullptr && spool_->has_unread()) {
        send_from_spool();
      } else if (!send_from_memory()) {
        return;
      }
    }
  }
  // Under the lock.
  [[nodiscard]] bool is_filling() const noexcept {
    return slots_.waiting() * 4 > options_.capacity || slots_.waiting_bytes() * 4 > options_.memory_bytes;
  }
  // Whether what is waiting in memory has to go to disk: because others are there already, or it waits for too long.
  [[nodiscard]] bool must_spill(steady_clock::time_point lost_at) {
    if (spool_ == nullptr) return false;
    const std::lock_guard lock(mutex_);
    if (slots_.waiting() == 0) return false;
    return spool_->has_unread() || is_filling() ||
           (!connected_ && steady_clock::now() - lost_at >= options_.spool_after);
  }
  bool send_from_memory() {
    std::uint32_t slot = Slots::kNone;
    {
      const std::lock_guard lock(mutex_);
      slot = slots_.pop();
      if (slot == Slots::kNone) return false;
      in_flight_.push_back({next_id_, slots_[slot].row, slot, 0});
    }
    watch_until_ = steady_clock::now() + kWatch;
    // put() does not touch a slot that is not waiting.
    connection_->send(next_id_++, slots_[slot].message);
    return true;
  }
  void send_from_spool() {
    Sent sent{next_id_, 0, Slots::kNone, 0};
    const Spool::Read what = spool_->read(record_, sent.record, sent.row);
    if (what == Spool::Read::kNothing) return;
    if (what == Spool::Read::kDamaged) {
      spool_->confirm(sent.record);
      const std::lock_guard lock(mutex_);
      --rows_[sent.row].totals.spooled;
      ++rows_[sent.row].totals.dropped_for(OutboxDrop::kDamaged);
      fold(sent.row);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      in_flight_.push_back(sent);
    }
    connection_->send(next_id_++, record_.message);
  }

  template <class Count>
  void settle(std::uint64_t id, Count&& count) {
    const auto found =
        std::find_if(in_flight_.begin(), in_flight_.end(), [id](const Sent& sent) { return sent.id == id; });
    if (found == in_flight_.end()) return;  // of a connection that is gone
    if (!told_.empty()) {
      log_(CAMD_LOG_INFO, connection_->name() + ": connected");
      told_.clear();
    }
    const Sent sent = *found;
    if (sent.slot == Slots::kNone) spool_->confirm(sent.record);
    const std::lock_guard lock(mutex_);
    in_flight_.erase(found);
    OutboxTotals& totals = rows_[sent.row].totals;
    --(sent.slot == Slots::kNone ? totals.spooled : totals.waiting);
    count(totals);
    if (sent.slot != Slots::kNone) slots_.release(sent.slot);
    fold(sent.row);
  }

  // What was on its way goes back to where it came from, in its order.
  void send_again() {
    if (spool_ != nullptr) spool_->rewind();
    const std::lock_guard lock(mutex_);
    for (std::size_t i = in_flight_.size(); i-- > 0;) {
      if (in_flight_[i].slot != Slots::kNone) slots_.put_back(in_flight_[i].slot);
    }
    in_flight_.clear();
  }

  // Moves what is waiting in memory to the spool's end. What does not fit stays in memory.
  void spill() {
    if (spool_ == nullptr) return;
    for (;;) {
      std::uint32_t slot = Slots::kNone;
      {
        const std::lock_guard lock(mutex_);
        slot = slots_.pop();
        if (slot == Slots::kNone) return;
        record_.camera = rows_[slots_[slot].row].name;
      }
      Slots::Slot& moved = slots_[slot];
      std::swap(record_.message, moved.message);
      bool written = false;
      try {
        while (!spool_->fits(record_) && options_.full == OutboxOptions::Full::kNewest) {
          const bool dropped = spool_->drop_oldest([this](std::uint32_t row) {
            const std::lock_guard lock(mutex_);
            --rows_[row].totals.spooled;
            ++rows_[row].totals.dropped_for(OutboxDrop::kFull);
            fold(row);
          });
          if (!dropped) break;
        }
        if (spool_->fits(record_)) {
          spool_->append(record_, moved.row);
          written = true;
          spool_told_ = false;
        }
      } catch (const std::exception& problem) {
        if (!std::exchange(spool_told_, true)) {
          log_(CAMD_LOG_WARN, fmt::format("the spool cannot be written: {}; messages wait in memory", problem.what()));
        }
      }
      std::swap(record_.message, moved.message);
      const std::lock_guard lock(mutex_);
      if (!written) {
        slots_.put_back(slot);
        return;
      }
      --rows_[moved.row].totals.waiting;
      ++rows_[moved.row].totals.spooled;
      slots_.release(slot);
    }
  }

  void open_spool() {
    if (options_.spool.empty()) return;
    bool told = false;
    do {
      try {
        spool_ = std::make_unique<Spool>(options_.spool, options_.spool_max_bytes, [this](const std::string& camera) {
          const std::lock_guard lock(mutex_);
          const std::size_t row = row_of(camera);
          ++rows_[row].totals.taken;
          ++rows_[row].totals.spooled;
          return static_cast<std::uint32_t>(row);
        });
        return;
      } catch (const std::exception& problem) {
        if (!std::exchange(told, true)) {
          log_(CAMD_LOG_WARN, fmt::format("the spool cannot be used: {}; tried again", problem.what()));
        }
      }
      static_cast<void>(wait_until(steady_clock::now() + std::chrono::seconds(1)));
    } while (go_on());
  }

  // [blocks] until no other outbox of this identity runs. False: it shall stop.
  bool take_identity() {
    Running& all = running();
    std::unique_lock lock(all.mutex);
    const auto may = [&] { return all.identities.count(identity_) == 0; };
    bool told = false;
    while (!may()) {
      if (all.changed.wait_for(lock, std::chrono::seconds(2)) == std::cv_status::timeout &&
          !std::exchange(told, true)) {
        log_(CAMD_LOG_WARN, connection_->name() + ": waits for another outlet to the same place to end");
      }
      const std::lock_guard mine(mutex_);
      if (stopping_) return false;
    }
    all.identities.insert(identity_);
    return true;
  }
  void give_identity() {
    Running& all = running();
    const std::lock_guard lock(all.mutex);
    const auto found = all.identities.find(identity_);
    if (found != all.identities.end()) all.identities.erase(found);
    all.changed.notify_all();
  }

  const OutboxOptions options_;
  const std::string identity_;
  const Log log_;
  const std::unique_ptr<Connection> connection_;
  std::thread thread_;
  std::future<void> ended_;

  const std::size_t window_;  // messages that may be on their way
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Slots slots_;  // a slot that is not waiting belongs to the thread
  std::deque<Row> rows_;
  std::size_t last_row_ = 0;
  bool connected_ = false;
  bool idle_ = false;  // the thread may wait in work() for long, and nobody has woken it yet
  bool stopping_ = false;
  bool stopped_ = false;
  steady_clock::time_point deadline_;

  // The thread's, but for in_flight_, which changes under the lock as well.
  std::vector<Sent> in_flight_;
  std::unique_ptr<Spool> spool_;
  SpoolRecord record_;
  std::uint64_t next_id_ = 1;
  steady_clock::time_point watch_until_;
  bool failed_ = false;  // the last try has failed
  std::string told_;     // why it did; until the other side has answered again
  bool refusal_told_ = false;
  bool spool_told_ = false;
  std::minstd_rand random_{std::random_device{}()};
};

Outbox::Outbox(OutboxOptions options, std::unique_ptr<Connection> connection, std::string identity, Log log) {
  if (!options.spool.empty()) create_parents(options.spool + "/lock");
  core_ = std::make_shared<Core>(std::move(options), std::move(connection), std::move(identity), std::move(log));
}
Outbox::~Outbox() { core_->stop(); }
void Outbox::add_camera(std::string_view camera) { core_->add_camera(camera); }
void Outbox::remove_camera(std::string_view camera) { core_->remove_camera(camera); }
void Outbox::start() { core_->start(); }
void Outbox::put(std::string_view camera, std::string_view topic, std::string_view payload, bool retain) {
  core_->put(camera, topic, payload, retain);
}
void Outbox::stop() { core_->stop(); }
std::vector<OutboxRow> Outbox::totals() const { return core_->totals(); }
bool Outbox::connected() const { return core_->connected(); }
std::uint64_t Outbox::waiting() const { return core_->waiting(); }

}  // namespace camd::plugins
