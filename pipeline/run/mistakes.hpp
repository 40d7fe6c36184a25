// Everything that is wrong with a configuration, from whoever finds it, told at once.
//
// Threads: [setup], one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "config/config.hpp"

namespace camd::pipeline {

class Mistakes {
 public:
  // `file` is the configuration's, as its places have it.
  explicit Mistakes(std::string file) : file_(std::move(file)) {}

  void add(base::ErrorKind kind, const config::Problem& problem) { add(kind, problem.place, problem.line()); }
  // A whole line, which holds its place already.
  void add(base::ErrorKind kind, const config::SourcePlace& place, std::string line) {
    all_.push_back({kind, place, std::move(line)});
  }
  // What the work throws; it belongs to `place`.
  template <class Work>
  void collect(const config::SourcePlace& place, Work&& work) {
    try {
      work();
    } catch (const base::Error& error) {
      add(error.kind(), place, error.what());
    }
  }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  // Throws Error with all lines in the order of the file, if there are any. A mistake in the configuration decides the
  // exit code before what cannot be used.
  void raise() const;

 private:
  struct One {
    base::ErrorKind kind;
    config::SourcePlace place;
    std::string line;
  };
  const std::string file_;
  std::vector<One> all_;
};

}  // namespace camd::pipeline
