// Outbox: what every outlet sends through. A bounded queue behind the plug-in's call, a thread that sends, a ledger.
//
//   put() ─► slots in memory ─┬───────────────► connection ─► acknowledged
//                             └─► spool (disk) ─┘
//
// A message leaves memory or spool when the other side has acknowledged it. Where the connection is lost, what was on
// its way is sent again, in order: at least once. With a spool, what cannot be sent for a second, or fills a quarter of
// the memory, goes to disk, and everything that comes later goes behind it.
//
// While messages come, the thread looks for them every few milliseconds; put() wakes it only where it sleeps. What goes
// to disk is moved by a second thread, since a connection may hold the first for seconds (a host that does not answer).
//
// Threads: constructor, stop(), destructor [setup]; add_camera(), remove_camera() [setup] or [post]; put(), start()
// [post],
//   one at a time; totals() [any]. The connection belongs to a thread of the outbox's own, the spool to that and
//   another.
// Invariants: put() copies its message and returns: it never waits for the network or the disk, and allocates nothing
//   once messages have had their size. Memory is bounded by OutboxOptions. The ledger balances whenever it is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.h"
#include "plugins/json_object.hpp"
#include "plugins/outbox/connection.hpp"
#include "plugins/outbox/totals.hpp"

namespace camd::plugins {

struct OutboxOptions {
  // Who goes on where there is no room: the new message, for which the oldest that is not on its way is dropped, or
  // those that are there, and the new one is dropped.
  enum class Full : std::uint8_t { kNewest, kOldest };

  std::size_t capacity = 1000;  // messages in memory
  std::uint64_t memory_bytes = std::uint64_t{16} << 20U;
  Full full = Full::kNewest;
  std::string spool;  // folder; "": none
  std::uint64_t spool_max_bytes = std::uint64_t{1} << 30U;
  std::chrono::milliseconds retry_min{200};  // after the first failure; doubled after each further one
  std::chrono::milliseconds retry_max{30'000};
  std::chrono::milliseconds linger{1000};       // stop() sends for so long what is waiting
  std::chrono::milliseconds spool_after{1000};  // without a connection, until memory goes to disk
};
// Reads the mapping `outbox` of a plug-in's configuration; absent: all defaults. Problems are noted in `config`.
[[nodiscard]] OutboxOptions read_outbox(JsonObject& config);

class Outbox {
 public:
  using Log = std::function<void(camd_log_level, const std::string&)>;

  // `log` is [any]. Two outboxes of one `identity` in a process do not run at the same time: the second waits until the
  // first has stopped (a reload makes the second beside the first). Throws std::invalid_argument for a spool's folder
  // that cannot be made.
  Outbox(OutboxOptions options, std::unique_ptr<Connection> connection, std::string identity, Log log);
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Its row is there from now on. The same name may be added again.
  void add_camera(std::string_view camera);
  // Its row goes into that of "" once none of its messages is left.
  void remove_camera(std::string_view camera);
  // Starts to connect; later calls do nothing. Messages may come before.
  void start();
  // Copies the message. [no-alloc] in the steady state.
  void put(std::string_view camera, std::string_view topic, std::string_view payload, bool retain);
  // Sends what is waiting for at most OutboxOptions::linger, writes what is left into the spool or drops it, and ends
  // the connection. A thread that hangs in a name server's answer is left behind after that. Idempotent.
  void stop();

  [[nodiscard]] std::vector<OutboxRow> totals() const;
  [[nodiscard]] bool connected() const;
  [[nodiscard]] std::uint64_t waiting() const;  // of all cameras, spooled ones too

 private:
  class Core;
  std::shared_ptr<Core> core_;  // shared with the thread, which may have to be left behind
};

}  // namespace camd::plugins
