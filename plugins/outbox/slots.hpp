// Slots: the messages of an outbox that are in memory. A fixed number of places, and a bound on their bytes; a place
// keeps the memory of the messages that it has had, so that nothing is allocated once messages have had their size.
//
// Threads: whoever guards it. A place that was popped belongs to who popped it until put_back() or release().
// Invariants: a place is free, waiting (in order) or popped. bytes() never exceeds the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/outbox/connection.hpp"

namespace camd::plugins {

class Slots {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Slot {
    Message message;
    std::uint32_t row = 0;      // whose it is
    std::uint64_t counted = 0;  // what the bound counts of it
  };

  Slots(std::size_t capacity, std::uint64_t most_bytes) : slots_(capacity), ring_(capacity), most_bytes_(most_bytes) {
    free_.reserve(capacity);
    for (std::size_t i = capacity; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
  }

  // Copies the message behind those that wait. False: there is no room.
  [[nodiscard]] bool add(std::uint32_t row, std::string_view topic, std::string_view payload, bool retain) {
    if (free_.empty()) return false;
    const std::uint32_t index = free_.back();
    Slot& slot = slots_[index];
    if (!make_room(slot, topic.size(), payload.size())) return false;
    free_.pop_back();
    slot.message.topic.assign(topic);
    slot.message.payload.assign(payload);
    slot.message.retain = retain;
    slot.row = row;
    count(slot);
    waiting_bytes_ += topic.size() + payload.size();
    ring_[(first_ + waiting_++) % ring_.size()] = index;
    return true;
  }
  // The oldest that waits, or kNone.
  [[nodiscard]] std::uint32_t pop() noexcept {
    if (waiting_ == 0) return kNone;
    const std::uint32_t index = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --waiting_;
    waiting_bytes_ -= size_of(slots_[index].message);
    return index;
  }
  // It waits again, in front of the others.
  void put_back(std::uint32_t index) noexcept {
    first_ = (first_ + ring_.size() - 1) % ring_.size();
    ring_[first_] = index;
    ++waiting_;
    waiting_bytes_ += size_of(slots_[index].message);
  }
  void release(std::uint32_t index) {
    count(slots_[index]);
    free_.push_back(index);
  }
  [[nodiscard]] Slot& operator[](std::uint32_t index) noexcept { return slots_[index]; }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept { return waiting_bytes_; }  // of messages that wait

 private:
  static std::uint64_t size_of(const Message& message) noexcept {
    return message.topic.size() + message.payload.size();
  }
  static std::uint64_t held(const Slot& slot) noexcept {
    return slot.message.topic.capacity() + slot.message.payload.capacity();
  }
  void count(Slot& slot) noexcept {
    bytes_ = bytes_ - slot.counted + held(slot);
    slot.counted = held(slot);
  }
  // Frees what places keep that have no message, where the message would not fit otherwise.
  bool make_room(Slot& slot, std::size_t topic, std::size_t payload) {
    // std::string may double its memory when it grows.
    const auto grown = [](const std::string& text, std::size_t size) {
      return size > text.capacity() ? 2 * size + 1 : text.capacity();
    };
    const std::uint64_t needed = grown(slot.message.topic, topic) + grown(slot.message.payload, payload);
    const auto fits = [&] { return bytes_ - slot.counted + needed <= most_bytes_; };
    for (auto index = free_.begin(); !fits() && index != free_.end(); ++index) {
      Slot& spare = slots_[*index];
      if (&spare == &slot) continue;
      spare.message = {};
      count(spare);
    }
    return fits();
  }

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> ring_;  // of those that wait
  std::size_t first_ = 0;
  std::size_t waiting_ = 0;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t bytes_ = 0;  // held by all places
  const std::uint64_t most_bytes_;
};

}  // namespace camd::plugins
