// Where a value was written. Every message about the configuration starts with it.
//
// Threads: plain values, [any].
// Invariant: line and column count from 1 (column in bytes); line 0 means "a whole file or a command-line option".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace camd::config {

struct SourcePlace {
  std::string file;  // as the user named it; "--set KEY" for a command-line override
  int line = 0;
  int column = 0;

  friend bool operator==(const SourcePlace&, const SourcePlace&) = default;
};

// "FILE:LINE:COL", or "FILE" when line is 0.
[[nodiscard]] std::string to_string(const SourcePlace& place);

// One line for the user: "FILE:LINE:COL: KEY: message". The key is left out when it is empty or when the place,
// being "--set KEY", names it already.
[[nodiscard]] std::string located(const SourcePlace& place, std::string_view key, std::string_view message);

// One thing that is wrong.
struct Problem {
  SourcePlace place;
  std::string key;      // dotted, as --set takes it: "cameras.0.source.path"
  std::string message;  // what is wrong, what is allowed

  [[nodiscard]] std::string line() const { return located(place, key, message); }
};

// Everything that is wrong with a configuration, sorted by place. what() holds one line for each problem.
class ConfigErrors : public base::Error {
 public:
  // `problems` must not be empty.
  explicit ConfigErrors(std::vector<Problem> problems);
  [[nodiscard]] const std::vector<Problem>& problems() const noexcept { return problems_; }

 private:
  std::vector<Problem> problems_;
};

}  // namespace camd::config
