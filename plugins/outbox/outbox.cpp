#include "plugins/outbox/outbox.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>

#include "plugins/outbox/identity.hpp"
#include "plugins/outbox/rows.hpp"
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

// Frames come first where processors are scarce: a message may wait. On Linux a priority is a thread's own (nice(2)).
void stand_behind() noexcept {
  constexpr int kBehind = 10;
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + kBehind));
}

}  // namespace

// Two threads: the sender, which the connection may hold for seconds, and, with a spool, the spooler, which moves to
// disk what cannot be sent meanwhile.
//
// Guards: `mutex_` guards what put() and the threads share. `order_` is taken before it by whoever takes messages out
// of memory or touches the spool, so that they leave in their order; put() never waits for it. The connection is the
// sender's alone.
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
  }

  void add_camera(std::string_view camera) {
    const std::lock_guard lock(mutex_);
    rows_.set_there(rows_.of(camera), true);
  }
  void remove_camera(std::string_view camera) {
    const std::lock_guard lock(mutex_);
    const std::size_t row = rows_.of(camera);
    rows_.set_there(row, false);
    rows_.fold(row);
  }

  void put(std::string_view camera, std::string_view topic, std::string_view payload, bool retain) {
    bool wake = false, full = false;
    {
      const std::lock_guard lock(mutex_);
      const auto row = static_cast<std::uint32_t>(rows_.of(camera));
      OutboxTotals& totals = rows_[row];
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
    if (full) filling_.notify_one();
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
    wake_identities();
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
    end_spool();  // of a thread that was left behind
    const std::lock_guard order(order_);
    const std::lock_guard lock(mutex_);
    drop_all(OutboxDrop::kShutdown);
    stopped_ = true;
  }

  [[nodiscard]] std::vector<OutboxRow> totals() const {
    const std::lock_guard lock(mutex_);
    return rows_.all();
  }
  [[nodiscard]] bool connected() const {
    const std::lock_guard lock(mutex_);
    return connected_;
  }
  [[nodiscard]] std::uint64_t waiting() const {
    const std::lock_guard lock(mutex_);
    return rows_.waiting();
  }

  // ---- Connection::Answers, in work(): the sender, without a lock
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
  // A message that is on its way.
  struct Sent {
    std::uint64_t id = 0;
    std::uint32_t row = 0;
    std::uint32_t slot = Slots::kNone;  // where it lies in memory; kNone: in the spool
    std::uint64_t record = 0;           // its number in the spool
  };

  // ---- Under mutex_
  bool drop_oldest() {
    const std::uint32_t slot = slots_.pop();
    if (slot == Slots::kNone) return false;
    forget_waiting(slot, OutboxDrop::kFull);
    return true;
  }
  void forget_waiting(std::uint32_t slot, OutboxDrop why) {
    const std::uint32_t row = slots_[slot].row;
    --rows_[row].waiting;
    ++rows_[row].dropped_for(why);
    slots_.release(slot);
    rows_.fold(row);
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
  [[nodiscard]] bool is_filling() const noexcept {
    return slots_.waiting() * 4 > options_.capacity || slots_.waiting_bytes() * 4 > options_.memory_bytes;
  }

  // ---- The sender
  void run() {
    // Before this thread stands behind the others: what the spooler does is short, and messages are lost without it.
    std::thread spooler;
    if (!options_.spool.empty()) spooler = std::thread([this] { spool_what_waits(); });
    stand_behind();
    const auto stopping = [this] {
      const std::lock_guard lock(mutex_);
      return stopping_;
    };
    const auto waits = [this] {
      log_(CAMD_LOG_WARN, connection_->name() + ": waits for another outlet to the same place to end");
    };
    const bool taken = take_identity(identity_, stopping, waits);
    if (taken) {
      open_spool();
      send();
      connection_->close(true);
      set_connected(false);
    }
    end_spool();
    if (spooler.joinable()) spooler.join();
    if (taken) give_identity(identity_);
  }

  void send() {
    auto pause = options_.retry_min;
    auto next_try = steady_clock::now();
    auto ready_since = next_try;
    bool open = false;
    while (go_on()) {
      try {
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
          while (send_one()) continue;
        }
        connection_->work(*this, begin_idle());
        end_idle();
      } catch (const std::exception& problem) {
        end_idle();
        connection_->close(false);
        open = false;
        send_again();
        if (set_connected(false)) {
          if (told_.empty() || steady_clock::now() - ready_since >= options_.retry_max) pause = options_.retry_min;
        }
        failed_ = true;
        // Each reason once: a broker that is away, and then refuses, says both.
        if (std::string reason = problem.what(); reason != std::exchange(told_, reason)) {
          log_(CAMD_LOG_WARN, fmt::format("{}: {}; tried again until it is back", connection_->name(), reason));
        }
        next_try = steady_clock::now() + jittered(pause);
        pause = std::min(pause * 2, options_.retry_max);
      }
      const std::lock_guard order(order_);
      if (spool_) spool_->save();
    }
  }

  // Whether there is more to do.
  bool go_on() {
    const std::lock_guard order(order_);
    const std::lock_guard lock(mutex_);
    if (!stopping_) return true;
    const bool empty = slots_.waiting() == 0 && in_flight_.empty() && (spool_ == nullptr || !spool_->has_unread());
    // What is there is worth one try, also where none was made yet.
    return !empty && !failed_ && steady_clock::now() < deadline_;
  }
  // [blocks] Whether the time has come; earlier when it shall stop.
  bool wait_until(steady_clock::time_point when) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, when, [this] { return stopping_; });
    return (!stopping_ || !failed_) && steady_clock::now() >= when;
  }
  // How long work() may wait. Where that is long, put() wakes it.
  milliseconds begin_idle() {
    const auto now = steady_clock::now();
    const std::lock_guard order(order_);
    const bool unread = spool_ != nullptr && spool_->has_unread();
    const std::lock_guard lock(mutex_);
    if (in_flight_.size() < window_ && (unread || slots_.waiting() > 0) && connected_) return milliseconds(0);
    if (now < watch_until_ && connected_) return kLookEvery;
    idle_ = true;
    return stopping_ ? milliseconds(20) : milliseconds(1000);
  }
  void end_idle() {
    const std::lock_guard lock(mutex_);
    idle_ = false;
  }
  // Returns what was before.
  bool set_connected(bool now) {
    const std::lock_guard lock(mutex_);
    const bool before = std::exchange(connected_, now);
    if (before && !now) lost_at_ = steady_clock::now();
    return before;
  }
  milliseconds jittered(milliseconds pause) {
    std::uniform_int_distribution<std::int64_t> around(pause.count() / 2, pause.count() + pause.count() / 2);
    return milliseconds(around(random_));
  }

  // Sends the oldest message that is not on its way. False: there is none, or too many are on their way.
  bool send_one() {
    const std::lock_guard order(order_);
    if (in_flight_.size() >= window_) return false;
    return spool_ != nullptr && spool_->has_unread() ? send_from_spool() : send_from_memory();
  }
  // Under order_.
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
  // Under order_.
  bool send_from_spool() {
    Sent sent{next_id_, 0, Slots::kNone, 0};
    const Spool::Read what = spool_->read(record_, sent.record, sent.row);
    if (what == Spool::Read::kNothing) return true;  // what is in memory comes next
    if (what == Spool::Read::kDamaged) {
      spool_->confirm(sent.record);
      const std::lock_guard lock(mutex_);
      --rows_[sent.row].spooled;
      ++rows_[sent.row].dropped_for(OutboxDrop::kDamaged);
      rows_.fold(sent.row);
      return true;
    }
    {
      const std::lock_guard lock(mutex_);
      in_flight_.push_back(sent);
    }
    connection_->send(next_id_++, record_.message);
    return true;
  }

  template <class Count>
  void settle(std::uint64_t id, Count&& count) {
    const std::lock_guard order(order_);
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
    OutboxTotals& totals = rows_[sent.row];
    --(sent.slot == Slots::kNone ? totals.spooled : totals.waiting);
    count(totals);
    if (sent.slot != Slots::kNone) slots_.release(sent.slot);
    rows_.fold(sent.row);
  }

  // What was on its way goes back to where it came from, in its order.
  void send_again() {
    const std::lock_guard order(order_);
    if (spool_ != nullptr) spool_->rewind();
    const std::lock_guard lock(mutex_);
    for (std::size_t i = in_flight_.size(); i-- > 0;) {
      if (in_flight_[i].slot != Slots::kNone) slots_.put_back(in_flight_[i].slot);
    }
    in_flight_.clear();
  }

  // ---- The spooler
  void spool_what_waits() {
    const milliseconds look_every =
        std::clamp<milliseconds>(options_.spool_after / 5, milliseconds(1), milliseconds(200));
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        filling_.wait_for(lock, look_every, [this] { return spool_ended_ || is_filling(); });
        if (spool_ended_) return;
      }
      const std::lock_guard order(order_);
      if (must_spill()) spill();
    }
  }
  // Under order_. Whether what is waiting in memory has to go to disk: it fills, others are there already, or it has
  // waited for too long.
  [[nodiscard]] bool must_spill() {
    if (spool_ == nullptr) return false;
    const std::lock_guard lock(mutex_);
    if (slots_.waiting() == 0) return false;
    return spool_->has_unread() || is_filling() ||
           (!connected_ && steady_clock::now() - lost_at_ >= options_.spool_after);
  }

  // Under order_. Moves what is in memory to the spool's end, as far as there is room. What is on its way comes first:
  // should its connection be lost, it is sent again before the others.
  void spill() {
    for (Sent& sent : in_flight_) {
      if (sent.slot == Slots::kNone) continue;
      const std::uint32_t slot = sent.slot;
      std::uint64_t number = 0;
      if (!write_down(slot, &number)) return;
      const std::lock_guard lock(mutex_);
      sent.slot = Slots::kNone;
      sent.record = number;
      count_spooled(slot);
    }
    for (;;) {
      std::uint32_t slot = Slots::kNone;
      {
        const std::lock_guard lock(mutex_);
        slot = slots_.pop();
      }
      if (slot == Slots::kNone) return;
      const bool written = write_down(slot, nullptr);
      const std::lock_guard lock(mutex_);
      if (!written) {
        slots_.put_back(slot);
        return;
      }
      count_spooled(slot);
    }
  }
  // Under order_ and mutex_.
  void count_spooled(std::uint32_t slot) {
    const std::uint32_t row = slots_[slot].row;
    --rows_[row].waiting;
    ++rows_[row].spooled;
    slots_.release(slot);
  }
  // Under order_. Writes the message to the spool's end; `on_its_way` gets its number, where it is on its way already.
  // False: it does not fit.
  bool write_down(std::uint32_t slot, std::uint64_t* on_its_way) {
    Slots::Slot& moved = slots_[slot];  // not waiting, so that put() does not touch it
    {
      const std::lock_guard lock(mutex_);
      record_.camera = rows_.name(moved.row);
    }
    std::swap(record_.message, moved.message);
    bool written = false;
    try {
      while (!spool_->fits(record_) && options_.full == OutboxOptions::Full::kNewest) {
        const bool dropped = spool_->drop_oldest([this](std::uint32_t row) {
          const std::lock_guard lock(mutex_);
          --rows_[row].spooled;
          ++rows_[row].dropped_for(OutboxDrop::kFull);
          rows_.fold(row);
        });
        if (!dropped) break;
      }
      if (spool_->fits(record_)) {
        const std::uint64_t number = spool_->append(record_, moved.row, on_its_way != nullptr);
        if (on_its_way != nullptr) *on_its_way = number;
        written = true;
        spool_told_ = false;
      }
    } catch (const std::exception& problem) {
      if (!std::exchange(spool_told_, true)) {
        log_(CAMD_LOG_WARN, fmt::format("the spool cannot be written: {}; messages wait in memory", problem.what()));
      }
    }
    std::swap(record_.message, moved.message);
    return written;
  }

  // [blocks] until the spool can be used, or it shall stop.
  void open_spool() {
    if (options_.spool.empty()) return;
    bool told = false;
    do {
      try {
        auto spool =
            std::make_unique<Spool>(options_.spool, options_.spool_max_bytes, [this](const std::string& camera) {
              const std::lock_guard lock(mutex_);
              const std::size_t row = rows_.of(camera);
              ++rows_[row].taken;
              ++rows_[row].spooled;
              return static_cast<std::uint32_t>(row);
            });
        const std::lock_guard order(order_);
        if (!spool_ended_) spool_ = std::move(spool);
        return;
      } catch (const std::exception& problem) {
        if (!std::exchange(told, true)) {
          log_(CAMD_LOG_WARN, fmt::format("the spool cannot be used: {}; tried again", problem.what()));
        }
      }
      static_cast<void>(wait_until(steady_clock::now() + std::chrono::seconds(1)));
    } while (go_on());
  }
  // What was not acknowledged goes to disk, and the spooler ends. Idempotent.
  void end_spool() {
    send_again();
    const std::lock_guard order(order_);
    if (spool_ != nullptr) spill();
    spool_.reset();
    const std::lock_guard lock(mutex_);
    spool_ended_ = true;
    filling_.notify_all();
  }

  const OutboxOptions options_;
  const std::string identity_;
  const Log log_;
  const std::unique_ptr<Connection> connection_;
  std::thread thread_;
  std::future<void> ended_;

  const std::size_t window_;  // messages that may be on their way
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // the sender's
  std::condition_variable filling_;  // the spooler's
  Slots slots_;                      // a slot that is not waiting is under order_
  Rows rows_;
  bool connected_ = false;
  steady_clock::time_point lost_at_ = steady_clock::now();
  bool idle_ = false;  // the sender may wait in work() for long, and nobody has woken it yet
  bool stopping_ = false;
  bool stopped_ = false;
  bool spool_ended_ = false;
  steady_clock::time_point deadline_;

  std::mutex order_;
  std::vector<Sent> in_flight_;  // changes under mutex_ as well
  std::unique_ptr<Spool> spool_;
  SpoolRecord record_;
  bool spool_told_ = false;

  // The sender's.
  std::uint64_t next_id_ = 1;
  steady_clock::time_point watch_until_;
  bool failed_ = false;  // the last try has failed
  std::string told_;     // why it did; until the other side has answered again
  bool refusal_told_ = false;
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
