// Pairs rows with columns so that the sum of their costs is least.
//
// Threads: one caller at a time.
// Invariants: solve() [no-alloc]; the same costs give the same pairs.
#pragma once

#include <vector>

namespace camd::plugins::track {

class Assignment {
 public:
  // Room for `size` rows and `size` columns.
  explicit Assignment(int size);

  // `cost`: rows x columns, row-major, finite, at most as many as there is room for. Pairs as many as the shorter side
  // has. Afterwards column_of(row) is the row's column, or -1. Shortest augmenting paths with potentials (Jonker and
  // Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment problems", 1987), O(n^3).
  void solve(const float* cost, int rows, int columns);
  [[nodiscard]] int column_of(int row) const { return column_of_[static_cast<std::size_t>(row)]; }

 private:
  std::vector<int> column_of_;
  // By column from 1; 0 stands for the row that is being added.
  std::vector<int> row_at_, way_;
  std::vector<float> row_potential_, column_potential_, least_;
  std::vector<char> done_;
};

}  // namespace camd::plugins::track
