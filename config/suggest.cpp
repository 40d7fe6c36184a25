#include "config/suggest.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace camd::config {
namespace {

std::string folded(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table are enough: a swap looks two rows back.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> previous(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> known) {
  // No key is so long, and the table's cost grows with the length.
  constexpr std::size_t kLongest = 64;
  if (wrong.size() > kLongest) return {};
  const std::string text = folded(wrong);
  std::string_view best;
  std::size_t best_distance = 0;
  for (const std::string_view word : known) {
    const std::size_t distance = edit_distance(text, folded(word));
    const std::size_t limit = std::max<std::size_t>(1, std::max(text.size(), word.size()) / 3);
    if (distance <= limit && (best.empty() || distance < best_distance)) {
      best = word;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace camd::config
