// What an outbox sends through: one protocol's client. A protocol is one class of this kind.
//
// Threads: all functions are called by the outbox's own thread, one at a time, but wake(), which is [any].
// Invariants: a connection keeps no message that the outbox could not send again: after close() nothing is on its way.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace camd::plugins {

struct Message {
  std::string topic;    // where it goes, in the protocol's own words; may be empty
  std::string payload;  // bytes
  bool retain = false;  // the broker keeps it for those who come later, where the protocol knows that
};

class Connection {
 public:
  // Takes what became of messages, by the number that send() was given. Each is told once.
  class Answers {
   public:
    virtual ~Answers() = default;
    Answers(const Answers&) = delete;
    Answers& operator=(const Answers&) = delete;
    virtual void acknowledged(std::uint64_t id) = 0;
    // The other side has looked at it and will never take it.
    virtual void refused(std::uint64_t id, const std::string& why) = 0;

   protected:
    Answers() = default;
  };

  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // "mqtt broker.local:8883", for messages; never a password.
  [[nodiscard]] virtual std::string name() const = 0;
  // Begins to connect, or throws std::runtime_error with the reason. work() goes on with it.
  virtual void open() = 0;
  // Whether send() may be called.
  [[nodiscard]] virtual bool ready() const = 0;
  // Messages that may be on their way at a time, at least 1.
  [[nodiscard]] virtual std::size_t window() const = 0;
  // Copies the message and begins to send it. Throws std::runtime_error when the connection is lost.
  virtual void send(std::uint64_t id, const Message& message) = 0;
  // [blocks] Moves bytes for at most `most`, less when something happened or somebody calls wake(). Throws
  // std::runtime_error when the connection is lost or could not be made.
  virtual void work(Answers& answers, std::chrono::milliseconds most) = 0;
  // [any] Ends a work() that waits, or the next one. Costs one write(2).
  virtual void wake() noexcept = 0;
  // Ends the connection, also one that is being made. `politely`: says goodbye where the protocol can; bounded.
  virtual void close(bool politely) noexcept = 0;

 protected:
  Connection() = default;
};

}  // namespace camd::plugins
