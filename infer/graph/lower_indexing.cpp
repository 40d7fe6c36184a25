// Handlers of the node types that pick elements by indices: Gather, GatherElements, GatherND, ScatterElements,
// ScatterND and Where. The indices, or the condition, are known beforehand; what they pick from need not
// be, and then one Gather over rows does it all.
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
  l.require(index >= -size && index < size, fmt::format("its index {} is outside {}", index, size));
  return index < 0 ? index + size : index;
}

// Row i of the result, of `width` elements, is row rows[i] of x; the result has the shape `to`.
ValueId pick_rows(Lowering& l, ValueId x, std::int64_t width, Integers rows, const Shape& to) {
  const std::int64_t count = element_count(l.shape(x)) / width;
  const Shape picked = {static_cast<std::int64_t>(rows.size()), width};
  return l.reshape(l.emit(Gather{0, std::move(rows)}, {l.reshape(x, {count, width})}, picked), to);
}

void gather(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  const auto at = static_cast<std::size_t>(axis);
  const Shape of_indices = l.shape(l.input(1));
  Integers indices = l.integers_input(1, "indices");
  for (std::int64_t& i : indices) i = inside(l, i, in[at]);
  l.require(!indices.empty(), "it gathers nothing");
  Shape to(in.begin(), in.begin() + axis);
  to.insert(to.end(), of_indices.begin(), of_indices.end());
  to.insert(to.end(), in.begin() + axis + 1, in.end());
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
  Integers places = places_along(l, l.integers_input(1, "indices"), to, l.shape(x), axis);
  l.require(!places.empty(), "it gathers nothing");
  l.set_output(0, pick_rows(l, x, 1, std::move(places), to));
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
  Rows named = rows_named(l, in, static_cast<std::size_t>(batch));
  Shape to = l.shape(l.input(1));
  to.pop_back();
  to.insert(to.end(), in.begin() + static_cast<std::ptrdiff_t>(named.depth), in.end());
  l.set_output(0, pick_rows(l, x, named.width, std::move(named.rows), to));
}

// x with its rows `rows` replaced by those of `updates`; of two for one row the later counts.
ValueId replace_rows(Lowering& l, ValueId x, ValueId updates, std::int64_t width, const Integers& rows) {
  l.require(l.text("reduction", "none") == "none", "its reduction is not supported");
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

void scatter_elements(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape of_indices = l.shape(l.input(1));
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  l.require(l.shape(l.input(2)) == of_indices, "its updates do not fit its indices");
  const Integers places = places_along(l, l.integers_input(1, "indices"), of_indices, l.shape(x), axis);
  l.set_output(0, replace_rows(l, x, l.input(2), 1, places));
}

void scatter_nd(Lowering& l) {
  const ValueId x = l.input(0);
  const Rows named = rows_named(l, l.shape(x), 0);
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
  const Integers& chosen = l.integers_input(0, "condition");
  const ValueId a = l.input(1);
  const ValueId b = l.input(2);
  const Shape to = broadcast(l, broadcast(l, l.shape(condition), l.shape(a)), l.shape(b));
  std::int64_t count = 1;
  for (const std::int64_t d : to) {
    l.require(d > 0 && count <= kMaxFoldedElements / d, fmt::format("its output {} is out of bounds", to_string(to)));
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

const std::vector<HandlerEntry>& indexing_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"Gather", gather, "indices known beforehand"},
      {"GatherElements", gather_elements, "indices known beforehand"},
      {"GatherND", gather_nd, "indices known beforehand"},
      {"ScatterElements", scatter_elements, "indices known beforehand, no reduction"},
      {"ScatterND", scatter_nd, "indices known beforehand, no reduction"},
      {"Where", where, "condition known beforehand"},
  };
  return kTable;
}

}  // namespace camd::infer
