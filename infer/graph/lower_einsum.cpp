// Einsum as sums, transpositions and one matrix product.
#include "infer/graph/lower_einsum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace camd::infer {
namespace {

struct Terms {
  std::vector<std::string> inputs;  // one letter for each dimension
  std::string output;
};

Terms terms_of(const Lowering& l, std::size_t inputs) {
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
  std::map<char, int> uses;
  for (const std::string& term : terms.inputs) {
    for (const char c : term) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      l.require(letter && std::count(term.begin(), term.end(), c) == 1,
                fmt::format("its equation '{}' is not supported: letters only, once in each input", shown));
      ++uses[c];
    }
  }
  if (arrow != std::string::npos) {
    terms.output = equation.substr(arrow + 2);
  } else {
    for (const auto& [c, count] : uses) terms.output += count == 1 ? std::string(1, c) : "";
  }
  for (const char c : terms.output) {
    l.require(uses.count(c) > 0 && std::count(terms.output.begin(), terms.output.end(), c) == 1,
              fmt::format("its equation '{}' puts out what it does not take in", shown));
  }
  l.require(terms.inputs.size() == inputs && inputs <= 2,
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
  const Terms terms = terms_of(l, l.input_count());
  std::map<char, std::int64_t> sizes;
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < terms.inputs.size(); ++i) {
    const Operand operand{l.input(i), terms.inputs[i]};
    const Shape s = l.shape(operand.x);
    l.require(s.size() == operand.term.size(), "its equation does not fit its inputs");
    for (std::size_t d = 0; d < s.size(); ++d) {
      const auto [known, first] = sizes.emplace(operand.term[d], s[d]);
      l.require(first || known->second == s[d], fmt::format("'{}' has two sizes", operand.term[d]));
    }
    operands.push_back(operand);
  }
  if (operands.size() == 1) {
    const Operand x = sum_out(l, operands[0], [&](char c) { return has(terms.output, c); });
    l.set_output(0, in_order(l, x, terms.output));
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
  l.set_output(0, in_order(l, made, terms.output));
}

}  // namespace

const std::vector<HandlerEntry>& einsum_handlers() {
  static const std::vector<HandlerEntry> kTable = {{"Einsum", einsum, "one or two inputs, no ellipsis"}};
  return kTable;
}

}  // namespace camd::infer
