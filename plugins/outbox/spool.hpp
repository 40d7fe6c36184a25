// Spool: messages on disk, in order, until the other side has them. A first in, first out queue of files.
//
// Threads: [any], one at a time.
// Invariants: a record is there whole or not at all: each has a checksum, and a torn last one is cut off. What was not
//   confirmed is there after a crash; a few confirmed ones may be there again. The folder belongs to one process
//   (flock). At most `max_bytes` on disk, and kMostRecords records: of each some bytes are kept in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "plugins/outbox/connection.hpp"

namespace camd::plugins {

struct SpoolRecord {
  std::string camera;
  Message message;
};

class Spool {
 public:
  static constexpr std::uint64_t kMostRecords = 1'000'000;
  enum class Read : std::uint8_t { kNothing, kRecord, kDamaged };

  // What an earlier run left is told to `found` by its camera; what it returns is the record's tag from then on.
  // Throws std::runtime_error: the folder cannot be made, read or written, or another camd has it.
  Spool(std::string folder, std::uint64_t max_bytes, const std::function<std::uint32_t(const std::string&)>& found);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  [[nodiscard]] bool fits(const SpoolRecord& record) const noexcept;
  // Returns the record's number. `on_its_way`: it counts as read; nothing before it may be unread. Throws
  // std::runtime_error; the spool is as it was then.
  std::uint64_t append(const SpoolRecord& record, std::uint32_t tag, bool on_its_way = false);
  // The next record that was not read yet, and its number for confirm(). kDamaged: it cannot be read any more; number
  // and tag are told all the same.
  [[nodiscard]] Read read(SpoolRecord& record, std::uint64_t& number, std::uint32_t& tag);
  // The record is not needed any more.
  void confirm(std::uint64_t number);
  // What was read and not confirmed is to be read again.
  void rewind() noexcept;
  // Removes the oldest file; `dropped` is told the tags of its records that were not confirmed. False: there is only
  // the one that is written, or something was read and is not confirmed.
  bool drop_oldest(const std::function<void(std::uint32_t)>& dropped);

  [[nodiscard]] bool has_unread() const noexcept { return next_ < end_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  // Writes down what was confirmed, if that changed.
  void save() noexcept;

 private:
  struct Entry {
    std::uint32_t tag = 0;
    std::uint32_t bytes = 0;
    bool confirmed = false;
  };
  struct File {
    std::uint64_t name = 0;   // its number on disk
    std::uint64_t first = 0;  // the number of its first entry
    std::uint64_t begin = 0;  // where that stands in the file
    std::uint64_t bytes = 0;  // of the file
    std::vector<Entry> entries;
  };
  [[nodiscard]] std::string path_of(std::uint64_t name) const;
  void open_folder(const std::function<std::uint32_t(const std::string&)>& found);
  void scan(std::uint64_t name, std::uint64_t begin, const std::function<std::uint32_t(const std::string&)>& found);
  [[nodiscard]] File& file_of(std::uint64_t number) noexcept;
  void remove_front() noexcept;
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t number) noexcept;
  void begin_file();

  const std::string folder_;
  const std::uint64_t max_bytes_;
  int lock_ = -1;
  std::deque<File> files_;  // oldest first, the last one is written
  std::uint64_t head_ = 0;  // numbers of entries: the oldest that is not confirmed
  std::uint64_t next_ = 0;  // the next one to read
  std::uint64_t end_ = 0;   // one past the last
  std::uint64_t bytes_ = 0;
  int writer_ = -1;
  int reader_ = -1;
  std::uint64_t reader_name_ = 0;
  std::uint64_t saved_ = 0;  // head_ when it was written down
  std::uint64_t next_name_ = 1;
  std::uint64_t next_offset_ = 0;  // of entry next_known_ in the reader's file
  std::uint64_t next_known_ = 0;
  std::string buffer_;
};

}  // namespace camd::plugins
