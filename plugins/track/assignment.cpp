#include "plugins/track/assignment.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace camd::plugins::track {

Assignment::Assignment(int size)
    : column_of_(static_cast<std::size_t>(size)),
      row_at_(static_cast<std::size_t>(size) + 1),
      way_(static_cast<std::size_t>(size) + 1),
      row_potential_(static_cast<std::size_t>(size) + 1),
      column_potential_(static_cast<std::size_t>(size) + 1),
      least_(static_cast<std::size_t>(size) + 1),
      done_(static_cast<std::size_t>(size) + 1) {}

void Assignment::solve(const float* cost, int rows, int columns) {
  // The method wants no more lines than places: the shorter side is added line by line.
  const bool turned = rows > columns;
  const int lines = turned ? columns : rows, places = turned ? rows : columns;
  const auto at = [&](int line, int place) {
    const int row = turned ? place : line, column = turned ? line : place;
    return cost[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column)];
  };
  const auto zero = [](auto& values, int count) { std::fill_n(values.begin(), count, 0); };
  zero(row_at_, places + 1);
  zero(row_potential_, lines + 1);
  zero(column_potential_, places + 1);
  std::fill_n(column_of_.begin(), rows, -1);
  constexpr float kFar = std::numeric_limits<float>::max();
  for (int line = 1; line <= lines; ++line) {
    row_at_[0] = line;
    std::fill_n(least_.begin(), places + 1, kFar);
    zero(done_, places + 1);
    std::size_t place = 0;
    do {
      done_[place] = 1;
      const int from = row_at_[place];
      float step = kFar;
      std::size_t next = 0;
      for (std::size_t p = 1; p <= static_cast<std::size_t>(places); ++p) {
        if (done_[p] != 0) continue;
        const float reduced = at(from - 1, static_cast<int>(p) - 1) - row_potential_[static_cast<std::size_t>(from)] -
                              column_potential_[p];
        if (reduced < least_[p]) {
          least_[p] = reduced;
          way_[p] = static_cast<int>(place);
        }
        if (least_[p] < step) {
          step = least_[p];
          next = p;
        }
      }
      for (std::size_t p = 0; p <= static_cast<std::size_t>(places); ++p) {
        if (done_[p] != 0) {
          row_potential_[static_cast<std::size_t>(row_at_[p])] += step;
          column_potential_[p] -= step;
        } else {
          least_[p] -= step;
        }
      }
      place = next;
    } while (row_at_[place] != 0);
    while (place != 0) {
      const auto before = static_cast<std::size_t>(way_[place]);
      row_at_[place] = row_at_[before];
      place = before;
    }
  }
  for (int p = 1; p <= places; ++p) {
    const int line = row_at_[static_cast<std::size_t>(p)];
    if (line == 0) continue;
    const int row = turned ? p : line, column = turned ? line : p;
    column_of_[static_cast<std::size_t>(row) - 1] = column - 1;
  }
}

}  // namespace camd::plugins::track
