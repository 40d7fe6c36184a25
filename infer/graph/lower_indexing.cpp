// Handlers of the node types that pick elements by indices: Gather, GatherElements, GatherND, ScatterElements,
// ScatterND and Where. Where the indices, or the condition, are known beforehand, one Gather over rows does it all;
// where the picture decides them, it is a Pick, a Scatter or a Select.
#include "infer/graph/lower_indexing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace camd::infer {
namespace {

using Integers = std::vector<std::int64_t>;

std::int64_t product(const Shape& s, std::size_t from, std::size_t to) {
  return element_count(
      Shape(s.begin() + static_cast<std::ptrdiff_t>(from), s.begin() + static_cast<std::ptrdiff_t>(to)));
}

// An index in [0, size): negative ones count from the end.
std::int64_t inside(const Lowering& l, std::int64_t index, std::int64_t size) {
  // Not by require(), which would make its text for each of millions.
  if (index < -size || index >= size) l.refuse(fmt::format("its index {} is outside {}", index, size));
  return index < 0 ? index + size : index;
}

// Row i of the result, of `width` elements, is row rows[i] of x; the result has the shape `to`.
ValueId pick_rows(Lowering& l, ValueId x, std::int64_t width, Integers rows, const Shape& to) {
  const std::int64_t count = element_count(l.shape(x)) / width;
  const Shape picked = {static_cast<std::int64_t>(rows.size()), width};
  return l.reshape(l.emit(Gather{0, std::move(rows)}, {l.reshape(x, {count, width})}, picked), to);
}

// x as [outer,size,inner]: the dimensions [first, last) are one.
ValueId in_three(Lowering& l, ValueId x, std::size_t first, std::size_t last) {
  const Shape s = l.shape(x);
  return l.reshape(x, {product(s, 0, first), product(s, first, last), product(s, last, s.size())});
}

void gather(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  const auto at = static_cast<std::size_t>(axis);
  const Shape of_indices = l.shape(l.input(1));
  Shape to(in.begin(), in.begin() + axis);
  to.insert(to.end(), of_indices.begin(), of_indices.end());
  to.insert(to.end(), in.begin() + axis + 1, in.end());
  if (l.constant_input(1) == nullptr) {
    const ValueId rows = in_three(l, x, at, at + 1);
    const std::int64_t count = element_count(of_indices);
    const Shape picked = {l.shape(rows)[0], count, l.shape(rows)[2]};
    l.set_output(0, l.reshape(l.emit(Pick{}, {rows, l.reshape(l.input(1), {1, count, 1})}, picked), to));
    return;
  }
  Integers indices = l.integers_input(1, "indices");
  for (std::int64_t& i : indices) i = inside(l, i, in[at]);
  Shape line = in;
  line[at] = static_cast<std::int64_t>(indices.size());
  if (indices.size() == 1) {
    Integers start(in.size(), 0);
    start[at] = indices[0];
    l.set_output(0, l.reshape(l.slice(x, start, Integers(in.size(), 1), line), to));
    return;
  }
  l.set_output(0, l.reshape(l.emit(Gather{axis, std::move(indices)}, {x}, line), to));
}

// x cut to the sizes `to` in all dimensions but `axis`.
ValueId cut_beside(Lowering& l, ValueId x, const Shape& to, int axis) {
  const Shape in = l.shape(x);
  Shape cut = to;
  l.require(cut.size() == in.size(), "its indices differ in rank from its input");
  cut[static_cast<std::size_t>(axis)] = in[static_cast<std::size_t>(axis)];
  for (std::size_t d = 0; d < in.size(); ++d) l.require(cut[d] <= in[d], "its indices reach beyond its input");
  return cut == in ? x : l.slice(x, Integers(in.size(), 0), Integers(in.size(), 1), cut);
}

// For every element of a tensor of indices: the flat place in a tensor of shape `in` that it means along `axis`.
Integers places_along(const Lowering& l, const Integers& indices, const Shape& of_indices, const Shape& in, int axis) {
  l.require(of_indices.size() == in.size(), "its indices differ in rank from its input");
  for (std::size_t d = 0; d < in.size(); ++d) {
    l.require(static_cast<int>(d) == axis || of_indices[d] <= in[d], "its indices reach beyond its input");
  }
  Integers places(indices.size());
  Shape where(in.size(), 0);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < in.size(); ++d) {
      const bool along = static_cast<int>(d) == axis;
      place = place * in[d] + (along ? inside(l, indices[i], in[d]) : where[d]);
    }
    places[i] = place;
    for (std::size_t d = in.size(); d-- > 0;) {
      if (++where[d] < of_indices[d]) break;
      where[d] = 0;
    }
  }
  return places;
}

void gather_elements(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape to = l.shape(l.input(1));
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  if (l.constant_input(1) == nullptr) {
    l.set_output(0, pick_along(l, x, l.input(1), axis));
    return;
  }
  Integers places = places_along(l, l.integers_input(1, "indices"), to, l.shape(x), axis);
  l.set_output(0, pick_rows(l, x, 1, std::move(places), to));
}

// Tuples of indices that the picture decides, [...,depth], as flat positions [batch,count,1] in the dimensions
// [batch, batch + depth) of a tensor of shape `in`.
ValueId flat_positions(Lowering& l, ValueId indices, const Shape& in, std::size_t batch) {
  const Shape s = l.shape(indices);
  l.require(!s.empty() && batch < s.size() && batch < in.size(), "its indices do not fit its input");
  const std::int64_t tuple = s.back();
  l.require(tuple > 0 && tuple <= static_cast<std::int64_t>(in.size() - batch), "its indices do not fit its input");
  for (std::size_t d = 0; d < batch; ++d) l.require(s[d] == in[d], "its batch dimensions differ");
  const std::int64_t batches = product(s, 0, batch), count = product(s, batch, s.size() - 1);
  const ValueId tuples = l.reshape(indices, {batches, count, tuple});
  ValueId position = kNoValue;
  for (std::int64_t k = 0; k < tuple; ++k) {
    const std::int64_t size = in[batch + static_cast<std::size_t>(k)];
    ValueId one = tuple == 1 ? tuples : l.slice(tuples, {0, 0, k}, {1, 1, 1}, {batches, count, 1});
    if (tuple > 1) {
      const ValueId below = l.binary(Binary::Kind::kLess, one, l.integer(0));
      one = l.binary(Binary::Kind::kAdd, one, l.binary(Binary::Kind::kMul, below, l.integer(size)));
    }
    if (position == kNoValue) {
      position = one;
      continue;
    }
    position = l.binary(Binary::Kind::kAdd, l.binary(Binary::Kind::kMul, position, l.integer(size)), one);
  }
  return position;
}

// The rows that tuples of indices name: the last dimension of `indices` holds positions in the first dimensions of
// `in`, after `batch` dimensions that both have.
struct Rows {
  Integers rows;
  std::int64_t width = 1;  // elements
  std::size_t depth = 0;   // dimensions of `in` that are named, the batch ones included
};

Rows rows_named(Lowering& l, const Shape& in, std::size_t batch) {
  const Shape of_indices = l.shape(l.input(1));
  const Integers& indices = l.integers_input(1, "indices");
  l.require(!of_indices.empty() && batch < of_indices.size() && batch < in.size() && !indices.empty(),
            "its indices do not fit its input");
  const std::int64_t tuple = of_indices.back();
  l.require(tuple > 0 && tuple <= static_cast<std::int64_t>(in.size() - batch), "its indices do not fit its input");
  for (std::size_t d = 0; d < batch; ++d) {
    l.require(of_indices[d] == in[d], "its batch dimensions differ");
  }
  Rows result;
  result.depth = batch + static_cast<std::size_t>(tuple);
  result.width = product(in, result.depth, in.size());
  l.require(result.width > 0, "its input has no elements");
  const std::int64_t per_batch = product(of_indices, batch, of_indices.size() - 1);
  const std::size_t count = indices.size() / static_cast<std::size_t>(tuple);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t row = static_cast<std::int64_t>(i) / per_batch;  // the batch, flat
    for (std::size_t k = 0; k < static_cast<std::size_t>(tuple); ++k) {
      row = row * in[batch + k] + inside(l, indices[i * static_cast<std::size_t>(tuple) + k], in[batch + k]);
    }
    result.rows.push_back(row);
  }
  return result;
}

void gather_nd(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const std::int64_t batch = l.integer("batch_dims", 0);
  l.require(batch >= 0 && batch < 16, "its batch_dims is out of range");
  if (l.constant_input(1) == nullptr) {
    const auto first = static_cast<std::size_t>(batch);
    const ValueId position = flat_positions(l, l.input(1), in, first);
    Shape to = l.shape(l.input(1));
    const auto last = first + static_cast<std::size_t>(to.back());
    to.pop_back();
    to.insert(to.end(), in.begin() + static_cast<std::ptrdiff_t>(last), in.end());
    const ValueId rows = in_three(l, x, first, last);
    const Shape picked = {l.shape(rows)[0], l.shape(position)[1], l.shape(rows)[2]};
    l.set_output(0, l.reshape(l.emit(Pick{}, {rows, position}, picked), to));
    return;
  }
  const Shape of_indices = l.shape(l.input(1));
  l.require(!of_indices.empty(), "its indices do not fit its input");
  const std::int64_t depth = batch + of_indices.back();
  l.require(depth > batch && depth <= static_cast<std::int64_t>(in.size()), "its indices do not fit its input");
  Shape to(of_indices.begin(), of_indices.end() - 1);
  to.insert(to.end(), in.begin() + depth, in.end());
  if (element_count(to) == 0) {  // nothing was found
    const bool whole = l.is_whole(x);
    l.set_output(0, l.constant(Constant{whole ? DataType::kI64 : DataType::kF32, to, {}, {}}));
    return;
  }
  Rows named = rows_named(l, in, static_cast<std::size_t>(batch));
  l.set_output(0, pick_rows(l, x, named.width, std::move(named.rows), to));
}

// x with its rows `rows` replaced by those of `updates`; of two for one row the later counts.
ValueId replace_rows(Lowering& l, ValueId x, ValueId updates, std::int64_t width, const Integers& rows) {
  const Shape in = l.shape(x);
  const std::int64_t count = element_count(in) / width;
  l.require(element_count(l.shape(updates)) == static_cast<std::int64_t>(rows.size()) * width,
            "its updates do not fit its indices");
  Integers source(static_cast<std::size_t>(count));
  std::iota(source.begin(), source.end(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    source[static_cast<std::size_t>(rows[i])] = count + static_cast<std::int64_t>(i);
  }
  const ValueId old_rows = l.reshape(x, {count, width});
  const ValueId new_rows = l.reshape(updates, {static_cast<std::int64_t>(rows.size()), width});
  return pick_rows(l, l.concat({old_rows, new_rows}, 0), width, std::move(source), in);
}

Scatter scatter_kind(Lowering& l) {
  using Kind = Scatter::Kind;
  const std::string reduction = l.text("reduction", "none");
  constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"none", Kind::kReplace}, {"add", Kind::kAdd}, {"mul", Kind::kMul}, {"max", Kind::kMax}, {"min", Kind::kMin}};
  for (const auto& [name, kind] : kKinds) {
    if (reduction == name) return {kind};
  }
  l.refuse(fmt::format("its reduction '{}' is not supported", printable(reduction)));
}

// What ScatterElements makes of nothing but constants, as of the boxes of a second stage: millions of them, so no list
// of places is made first.
template <class T>
std::vector<T> scattered(const Lowering& l, const Shape& in, std::size_t axis, std::vector<T> values,
                         const Integers& indices, const std::vector<T>& updates, std::int64_t count) {
  const std::int64_t outer = product(in, 0, axis), size = in[axis], inner = product(in, axis + 1, in.size());
  std::size_t i = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t n = 0; n < count; ++n) {
      for (std::int64_t k = 0; k < inner; ++k, ++i) {
        values[static_cast<std::size_t>((o * size + inside(l, indices[i], size)) * inner + k)] = updates[i];
      }
    }
  }
  return values;
}

void scatter_elements(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const Shape of_indices = l.shape(l.input(1));
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  l.require(l.shape(l.input(2)) == of_indices, "its updates do not fit its indices");
  const Scatter kind = scatter_kind(l);
  if (l.constant_input(1) == nullptr || kind.kind != Scatter::Kind::kReplace) {
    l.require(of_indices.size() == in.size(), "its indices differ in rank from its input");
    const auto first = static_cast<std::size_t>(axis);
    Shape same = of_indices;
    same[first] = in[first];
    l.require(same == in, "its indices do not span the other dimensions of its input");
    const ValueId y = l.emit(kind,
                             {in_three(l, x, first, first + 1), in_three(l, l.input(1), first, first + 1),
                              in_three(l, l.input(2), first, first + 1)},
                             l.shape(in_three(l, x, first, first + 1)));
    l.set_output(0, l.reshape(y, in));
    return;
  }
  const Constant* const from = l.constant_input(0);
  const Constant* const updates = l.constant_input(2);
  const auto first = static_cast<std::size_t>(axis);
  Shape same = of_indices;
  if (same.size() == in.size()) same[first] = in[first];
  if (from != nullptr && updates != nullptr && from->type == updates->type && same == in) {
    l.spend(static_cast<double>(element_count(in) + element_count(of_indices)));
    const Integers& indices = l.integers_input(1, "indices");
    Constant result{from->type, in, {}, {}};
    if (from->type == DataType::kF32)
      result.f32 = scattered(l, in, first, from->f32, indices, updates->f32, of_indices[first]);
    else
      result.i64 = scattered(l, in, first, from->i64, indices, updates->i64, of_indices[first]);
    l.set_output(0, l.constant(std::move(result)));
    return;
  }
  const Integers places = places_along(l, l.integers_input(1, "indices"), of_indices, l.shape(x), axis);
  l.set_output(0, replace_rows(l, x, l.input(2), 1, places));
}

void scatter_nd(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const Scatter kind = scatter_kind(l);
  if (l.constant_input(1) == nullptr || kind.kind != Scatter::Kind::kReplace) {
    const ValueId position = flat_positions(l, l.input(1), in, 0);
    const ValueId rows = in_three(l, x, 0, static_cast<std::size_t>(l.shape(l.input(1)).back()));
    const Shape s = l.shape(rows);
    const std::int64_t count = l.shape(position)[1];
    l.require(element_count(l.shape(l.input(2))) == count * s[2], "its updates do not fit its indices");
    l.set_output(0, l.reshape(l.emit(kind, {rows, position, l.reshape(l.input(2), {1, count, s[2]})}, s), in));
    return;
  }
  if (element_count(l.shape(l.input(1))) == 0) {
    l.set_output(0, x);
    return;
  }
  const Rows named = rows_named(l, in, 0);
  l.set_output(0, replace_rows(l, x, l.input(2), named.width, named.rows));
}

// The value broadcast to `to`, one element after the other. Elements that are picked, not numbers that are added to:
// what is infinite stays it.
ValueId flat(Lowering& l, ValueId x, const Shape& to) {
  const Shape in = l.shape(x);
  if (in == to) return l.reshape(x, {element_count(to), 1});
  Integers places(static_cast<std::size_t>(element_count(to)));
  Shape where(to.size(), 0);
  const std::size_t skip = to.size() - in.size();
  for (std::int64_t& place : places) {
    place = 0;
    for (std::size_t d = 0; d < in.size(); ++d) place = place * in[d] + (in[d] == 1 ? 0 : where[d + skip]);
    for (std::size_t d = to.size(); d-- > 0;) {
      if (++where[d] < to[d]) break;
      where[d] = 0;
    }
  }
  const Shape column = {static_cast<std::int64_t>(places.size()), 1};
  return pick_rows(l, x, 1, std::move(places), column);
}

void where(Lowering& l) {
  const ValueId condition = l.input(0);
  if (l.constant_input(0) == nullptr) {
    const Shape to = broadcast(l, broadcast(l, l.shape(condition), l.shape(l.input(1))), l.shape(l.input(2)));
    l.require(to.size() <= 8, "its output has more than 8 dimensions");
    l.set_output(0, l.emit(Select{}, {condition, l.input(1), l.input(2)}, to));
    return;
  }
  const Integers& chosen = l.integers_input(0, "condition");
  const ValueId a = l.input(1);
  const ValueId b = l.input(2);
  const Shape to = broadcast(l, broadcast(l, l.shape(condition), l.shape(a)), l.shape(b));
  std::int64_t count = 1;
  for (const std::int64_t d : to) {
    l.require(d >= 0 && count <= kMaxFoldedElements / std::max<std::int64_t>(d, 1),
              fmt::format("its output {} is out of bounds", to_string(to)));
    count *= d;
  }
  const bool all = std::all_of(chosen.begin(), chosen.end(), [](std::int64_t v) { return v != 0; });
  const bool none = std::all_of(chosen.begin(), chosen.end(), [](std::int64_t v) { return v == 0; });
  if (all || none) {
    const ValueId only = all ? a : b;
    l.set_output(0, l.shape(only) == to ? only : l.reshape(flat(l, only, to), to));
    return;
  }
  // Both choices one after the other, and from these the right one for each element.
  const ValueId mask = flat(l, condition, to);
  Integers rows = l.constant_of(mask).i64;
  for (std::int64_t i = 0; i < count; ++i) {
    auto& row = rows[static_cast<std::size_t>(i)];
    row = row != 0 ? i : count + i;
  }
  l.set_output(0, pick_rows(l, l.concat({flat(l, a, to), flat(l, b, to)}, 0), 1, std::move(rows), to));
}

}  // namespace

ValueId pick_along(Lowering& l, ValueId x, ValueId indices, int axis) {
  const Shape to = l.shape(indices);
  const auto first = static_cast<std::size_t>(axis);
  const ValueId rows = in_three(l, cut_beside(l, x, to, axis), first, first + 1);
  const ValueId positions = in_three(l, indices, first, first + 1);
  return l.reshape(l.emit(Pick{}, {rows, positions}, l.shape(positions)), to);
}

const std::vector<HandlerEntry>& indexing_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"Gather", gather},        {"GatherElements", gather_elements},
      {"GatherND", gather_nd},   {"ScatterElements", scatter_elements},
      {"ScatterND", scatter_nd}, {"Where", where},
  };
  return kTable;
}

}  // namespace camd::infer
