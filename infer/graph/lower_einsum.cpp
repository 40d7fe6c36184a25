// Einsum as sums, transpositions and one matrix product.
#include "infer/graph/lower_einsum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace camd::infer {
namespace {

struct Terms {
  std::vector<std::string> inputs;  // one letter for each dimension; digits for those that "..." stands for
  std::string output;
};

constexpr std::string_view kDots = "...";

// Puts digits in place of "...": the last of as many as the input has most dimensions for which it stands, since these
// are aligned at their ends. `ranks` are the inputs'.
void expand_dots(const Lowering& l, Terms& terms, const std::vector<int>& ranks, const std::string& shown) {
  constexpr int kMost = 8;
  const auto stands_for = [&](std::size_t i) {
    const std::string& term = terms.inputs[i];
    if (term.find(kDots) == std::string::npos) return 0;
    return i < ranks.size() ? ranks[i] - static_cast<int>(term.size() - kDots.size()) : 0;
  };
  int most = 0;
  for (std::size_t i = 0; i < terms.inputs.size(); ++i) most = std::max(most, stands_for(i));
  l.require(most <= kMost, fmt::format("its equation '{}' has too many dimensions", shown));
  const auto digits = [&](int count) {
    std::string text;
    for (int d = most - count; d < most; ++d) text += static_cast<char>('0' + d);
    return text;
  };
  for (std::size_t i = 0; i < terms.inputs.size(); ++i) {
    const int count = stands_for(i);
    l.require(count >= 0, "its equation does not fit its inputs");
    const std::size_t at = terms.inputs[i].find(kDots);
    if (at != std::string::npos) terms.inputs[i].replace(at, kDots.size(), digits(count));
  }
  const std::size_t at = terms.output.find(kDots);
  if (at != std::string::npos) terms.output.replace(at, kDots.size(), digits(most));
}

Terms terms_of(const Lowering& l, const std::vector<int>& ranks) {
  Terms terms;
  std::string equation = l.text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const std::string shown = printable(equation);
  const std::size_t arrow = equation.find("->");
  terms.inputs.emplace_back();
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.inputs.emplace_back();
    else
      terms.inputs.back() += c;
  }
  const std::string given = arrow == std::string::npos ? "" : equation.substr(arrow + 2);
  l.require(std::none_of(equation.begin(), equation.end(), [](char c) { return c >= '0' && c <= '9'; }),
            fmt::format("its equation '{}' holds a digit", shown));
  terms.output = given;
  expand_dots(l, terms, ranks, shown);
  std::map<char, int> uses;
  for (const std::string& term : terms.inputs) {
    for (const char c : term) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      l.require(letter && std::count(term.begin(), term.end(), c) == 1,
                fmt::format("its equation '{}' is not supported: letters only, once in each input", shown));
      ++uses[c];
    }
  }
  if (arrow == std::string::npos) {
    for (const auto& [c, count] : uses) terms.output += count == 1 || c <= '9' ? std::string(1, c) : "";
  }
  for (const char c : terms.output) {
    l.require(uses.count(c) > 0 && std::count(terms.output.begin(), terms.output.end(), c) == 1,
              fmt::format("its equation '{}' puts out what it does not take in", shown));
  }
  l.require(terms.inputs.size() == ranks.size() && ranks.size() <= 2,
            fmt::format("its equation '{}' does not fit its inputs, of which it may have two", shown));
  return terms;
}

bool has(const std::string& term, char c) { return term.find(c) != std::string::npos; }

struct Operand {
  ValueId x;
  std::string term;
};

// Sums over the letters that `keep` refuses.
template <typename Keep>
Operand sum_out(Lowering& l, const Operand& from, Keep keep) {
  std::vector<int> axes;
  Operand to{from.x, ""};
  Shape shape;
  for (std::size_t d = 0; d < from.term.size(); ++d) {
    if (keep(from.term[d])) {
      to.term += from.term[d];
      shape.push_back(l.shape(from.x)[d]);
    } else {
      axes.push_back(static_cast<int>(d));
    }
  }
  if (!axes.empty()) to.x = l.reshape(l.reduce(Reduce::Kind::kSum, from.x, axes), shape);
  return to;
}

ValueId in_order(Lowering& l, const Operand& from, const std::string& order) {
  std::vector<int> permutation;
  for (const char c : order) permutation.push_back(static_cast<int>(from.term.find(c)));
  return std::is_sorted(permutation.begin(), permutation.end()) ? from.x : l.transpose(from.x, permutation);
}

void einsum(Lowering& l) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < l.input_count(); ++i) ranks.push_back(l.rank(l.input(i)));
  const Terms terms = terms_of(l, ranks);
  std::map<char, std::int64_t> sizes;
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < terms.inputs.size(); ++i) {
    const Operand operand{l.input(i), terms.inputs[i]};
    const Shape s = l.shape(operand.x);
    l.require(s.size() == operand.term.size(), "its equation does not fit its inputs");
    // Of what "..." stands for, a size of 1 does for every size: the operand does without that dimension.
    Operand without{operand.x, ""};
    Shape to;
    for (std::size_t d = 0; d < s.size(); ++d) {
      const char c = operand.term[d];
      if (c <= '9' && s[d] == 1) {
        sizes.emplace(c, 1);
        continue;
      }
      without.term += c;
      to.push_back(s[d]);
      const auto [known, first] = sizes.emplace(c, s[d]);
      if (c <= '9' && known->second == 1) known->second = s[d];
      l.require(first || known->second == s[d], fmt::format("'{}' has two sizes", c));
    }
    without.x = l.reshape(operand.x, std::move(to));
    operands.push_back(without);
  }
  // What is of size 1 everywhere stands in the result alone.
  std::string order;
  Shape result;
  for (const char c : terms.output) {
    result.push_back(sizes[c]);
    const bool held = std::any_of(operands.begin(), operands.end(), [&](const Operand& o) { return has(o.term, c); });
    if (held) order += c;
  }
  if (operands.size() == 1) {
    const Operand x = sum_out(l, operands[0], [&](char c) { return has(terms.output, c); });
    l.set_output(0, l.reshape(in_order(l, x, order), result));
    return;
  }
  const Operand a = sum_out(l, operands[0], [&](char c) { return has(terms.output, c) || has(operands[1].term, c); });
  const Operand b = sum_out(l, operands[1], [&](char c) { return has(terms.output, c) || has(operands[0].term, c); });
  std::string both, rows, columns, summed;
  for (const char c : a.term) (!has(b.term, c) ? rows : has(terms.output, c) ? both : summed) += c;
  for (const char c : b.term) columns += has(a.term, c) ? "" : std::string(1, c);
  const auto product = [&](const std::string& letters) {
    std::int64_t p = 1;
    for (const char c : letters) p *= sizes[c];
    return p;
  };
  const ValueId left = l.reshape(in_order(l, a, both + rows + summed), {product(both), product(rows), product(summed)});
  const ValueId right =
      l.reshape(in_order(l, b, both + summed + columns), {product(both), product(summed), product(columns)});
  const ValueId y = l.emit(MatMul{}, {left, right, kNoValue}, {product(both), product(rows), product(columns)});
  Operand made{kNoValue, both + rows + columns};
  Shape shape;
  for (const char c : made.term) shape.push_back(sizes[c]);
  made.x = l.reshape(y, shape);
  l.set_output(0, l.reshape(in_order(l, made, order), result));
}

}  // namespace

const std::vector<HandlerEntry>& einsum_handlers() {
  static const std::vector<HandlerEntry> kTable = {{"Einsum", einsum, "one or two inputs, each letter once in each"}};
  return kTable;
}

}  // namespace camd::infer
