#include "infer/graph/lower_sequence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace camd::infer {
namespace {

// A file can ask for as many as a value has elements, and each costs memory.
constexpr std::int64_t kMostParts = 4096;

// onnx.ai/onnx/operators/onnx__SplitToSequence.html
void split_to_sequence(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  const auto at = static_cast<std::size_t>(axis);
  std::vector<std::int64_t> sizes;
  const bool single = !l.has_input(1);
  if (!single) sizes = l.integers_input(1, "split");
  if (single || l.rank(l.input(1)) == 0) {  // the size of all but the last, which may be smaller
    const std::int64_t each = single ? 1 : sizes[0];
    l.require(each > 0, "its parts are empty");
    l.require(in[at] / each < kMostParts, fmt::format("it makes more than {} parts", kMostParts));
    sizes.clear();
    for (std::int64_t from = 0; from < in[at]; from += each) sizes.push_back(std::min(each, in[at] - from));
  }
  l.require(static_cast<std::int64_t>(sizes.size()) <= kMostParts,
            fmt::format("it makes more than {} parts", kMostParts));
  std::vector<ValueId> parts;
  std::vector<std::int64_t> start(in.size(), 0);
  const std::vector<std::int64_t> step(in.size(), 1);
  Shape to = in;
  for (const std::int64_t size : sizes) {
    l.require(size >= 0 && size <= in[at] - start[at], "its sizes do not fit its input");
    to[at] = size;
    ValueId part = l.slice(x, start, step, to);
    if (single && l.integer("keepdims", 1) == 0) {
      Shape without = to;
      without.erase(without.begin() + axis);
      part = l.reshape(part, std::move(without));
    }
    parts.push_back(part);
    start[at] += size;
  }
  l.require(start[at] == in[at], "its sizes do not fit its input");
  l.set_sequence(0, std::move(parts));
}

void construct_sequence(Lowering& l) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < l.input_count(); ++i) parts.push_back(l.input(i));
  l.set_sequence(0, std::move(parts));
}

void empty_sequence(Lowering& l) { l.set_sequence(0, {}); }

// A position in front of a part, or behind the last one; negative ones count from the end.
std::size_t position_in(Lowering& l, std::size_t input, std::int64_t count, bool end_too) {
  const std::vector<std::int64_t>& given = l.integers_input(input, "position");
  const std::int64_t last = end_too ? count : count - 1;
  l.require(given.size() == 1 && given[0] >= -count && given[0] <= last, "its position is out of range");
  return static_cast<std::size_t>(given[0] < 0 ? given[0] + count : given[0]);
}

void insert_into_sequence(Lowering& l) {
  std::vector<ValueId> parts = l.sequence(0);
  const auto count = static_cast<std::int64_t>(parts.size());
  l.require(count < kMostParts, fmt::format("it makes more than {} parts", kMostParts));
  const std::size_t at = l.has_input(2) ? position_in(l, 2, count, true) : parts.size();
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), l.input(1));
  l.set_sequence(0, std::move(parts));
}

void erase_of_sequence(Lowering& l) {
  std::vector<ValueId> parts = l.sequence(0);
  const auto count = static_cast<std::int64_t>(parts.size());
  l.require(count > 0, "its sequence is empty");
  const std::size_t at = l.has_input(1) ? position_in(l, 1, count, false) : parts.size() - 1;
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
  l.set_sequence(0, std::move(parts));
}

void length_of_sequence(Lowering& l) { l.set_output(0, l.integer(static_cast<std::int64_t>(l.sequence(0).size()))); }

void take_of_sequence(Lowering& l) {
  const std::vector<ValueId>& parts = l.sequence(0);
  l.set_output(0, parts[position_in(l, 1, static_cast<std::int64_t>(parts.size()), false)]);
}

void concatenate_sequence(Lowering& l) {
  std::vector<ValueId> parts = l.sequence(0);
  l.require(!parts.empty(), "its sequence is empty");
  const bool added = l.integer("new_axis", 0) != 0;
  const int axis = l.axis(l.integer("axis", 0), l.rank(parts[0]) + (added ? 1 : 0));
  for (ValueId& part : parts) {
    if (!added) continue;
    Shape to = l.shape(part);
    l.require(to.size() >= static_cast<std::size_t>(axis), "its parts are of different ranks");
    to.insert(to.begin() + axis, 1);
    part = l.reshape(part, std::move(to));
  }
  l.set_output(0, parts.size() == 1 ? parts[0] : l.concat(parts, axis));
}

}  // namespace

const std::vector<ValueId>& Lowering::sequence(std::size_t i) const {
  const auto known = has_input(i) ? sequences_.find(node_->input(static_cast<int>(i))) : sequences_.end();
  if (known == sequences_.end()) refuse(fmt::format("its input {} is no sequence that is known beforehand", i));
  return known->second;
}

void Lowering::set_sequence(std::size_t i, std::vector<ValueId> parts) {
  if (i < output_count()) sequences_[node_->output(static_cast<int>(i))] = std::move(parts);
}

const std::vector<HandlerEntry>& sequence_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"ConcatFromSequence", concatenate_sequence},
      {"SequenceAt", take_of_sequence, "position known beforehand"},
      {"SequenceConstruct", construct_sequence},
      {"SequenceEmpty", empty_sequence},
      {"SequenceErase", erase_of_sequence, "position known beforehand"},
      {"SequenceInsert", insert_into_sequence, "position known beforehand"},
      {"SequenceLength", length_of_sequence},
      {"SplitToSequence", split_to_sequence, "sizes known beforehand"},
  };
  return kTable;
}

}  // namespace camd::infer
