#include "pipeline/run/mistakes.hpp"

#include <algorithm>

#include "config/place_order.hpp"

namespace camd::pipeline {

void Mistakes::raise() const {
  if (all_.empty()) return;
  std::vector<One> sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [this](const One& a, const One& b) { return config::comes_before(file_, a.place, b.place); });
  base::ErrorKind kind = sorted.front().kind;
  std::string text;
  for (const One& one : sorted) {
    if (one.kind == base::ErrorKind::kConfig) kind = one.kind;
    if (!text.empty()) text += '\n';
    text += one.line;
  }
  throw base::Error(kind, text);
}

}  // namespace camd::pipeline
