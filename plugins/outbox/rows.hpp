// Rows: the ledger of an outbox, a row for each camera, found by its name.
//
// Threads: whoever guards it.
// Invariants: row 0 belongs to "", the cameras that have gone. A row keeps its number for as long as a message of its
//   camera is waiting or spooled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/outbox/totals.hpp"

namespace camd::plugins {

class Rows {
 public:
  Rows() { rows_.push_back({"", {}, false, true}); }

  // The number of the camera's row, which is there from now on.
  std::size_t of(std::string_view name) {
    // Almost always the one of the call before, or near it.
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::size_t at = (last_ + i) % rows_.size();
      if (rows_[at].used && rows_[at].name == name) return last_ = at;
    }
    const auto unused = std::find_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.used; });
    if (unused == rows_.end()) {
      rows_.push_back({std::string(name), {}, false, true});
      return last_ = rows_.size() - 1;
    }
    *unused = {std::string(name), {}, false, true};
    return last_ = static_cast<std::size_t>(unused - rows_.begin());
  }
  [[nodiscard]] OutboxTotals& operator[](std::size_t index) { return rows_[index].totals; }
  [[nodiscard]] const std::string& name(std::size_t index) const { return rows_[index].name; }
  // Whether the camera runs.
  void set_there(std::size_t index, bool there) { rows_[index].there = there; }
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
  // Those that have something to tell.
  [[nodiscard]] std::vector<OutboxRow> all() const {
    std::vector<OutboxRow> told;
    told.reserve(rows_.size());
    for (const Row& row : rows_) {
      if (row.name.empty() ? row.totals.taken > 0 : row.used) told.push_back({row.name, row.totals});
    }
    return told;
  }
  [[nodiscard]] std::uint64_t waiting() const noexcept {  // of all cameras, spooled ones too
    std::uint64_t sum = 0;
    for (const Row& row : rows_) sum += row.totals.waiting + row.totals.spooled;
    return sum;
  }

 private:
  struct Row {
    std::string name;
    OutboxTotals totals;
    bool there = false;
    bool used = false;  // the row belongs to a name
  };
  std::deque<Row> rows_;
  std::size_t last_ = 0;
};

}  // namespace camd::plugins
