// Handlers of the node types that move data or compute shapes.
#include "infer/graph/lower_movement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "infer/graph/read_tensor.hpp"

namespace camd::infer {
namespace {

using Integers = std::vector<std::int64_t>;

Constant integer_constant(Shape shape, Integers values) {
  return {DataType::kI64, std::move(shape), {}, std::move(values)};
}

void identity(Lowering& l) { l.hold(0, l.held(0)); }

// `to`: the element type that the file asks for.
void cast_to(Lowering& l, std::int64_t to) {
  using T = onnx::TensorProto;
  const bool floating = to == T::FLOAT || to == T::FLOAT16 || to == T::DOUBLE || to == T::BFLOAT16;
  const ValueId x = l.input(0);
  if (to == T::BOOL) {
    const Constant* c = l.constant_input(0);
    const ValueId zero = c != nullptr && c->type == DataType::kF32 ? l.constant(0.0F) : l.integer(0);
    l.set_output(0, l.binary(Binary::Kind::kEqual, l.binary(Binary::Kind::kEqual, x, zero), l.integer(0)));
  } else {
    l.set_output(0, floating ? l.as_number(x) : l.as_whole(x));
  }
}

void cast(Lowering& l) { cast_to(l, l.integer("to", onnx::TensorProto::FLOAT)); }

void cast_like(Lowering& l) {
  using T = onnx::TensorProto;
  const ValueId like = l.input(1);
  cast_to(l, l.is_whole(like) ? l.element_type(like, T::INT64) : T::FLOAT);
}

void constant(Lowering& l) {
  if (const auto* a = l.attribute("value"); a != nullptr && a->has_t()) {
    l.set_output(0, l.constant(a->t()));
  } else if (const auto* f = l.attribute("value_float"); f != nullptr) {
    l.set_output(0, l.constant(f->f()));
  } else if (const auto* i = l.attribute("value_int"); i != nullptr) {
    l.set_output(0, l.constant(integer_constant({}, {i->i()})));
  } else if (const auto* is = l.attribute("value_ints"); is != nullptr) {
    l.set_output(0, l.constant(integer_constant({is->ints_size()}, {is->ints().begin(), is->ints().end()})));
  } else if (const auto* fs = l.attribute("value_floats"); fs != nullptr) {
    l.set_output(
        0, l.constant(Constant{DataType::kF32, {fs->floats_size()}, {fs->floats().begin(), fs->floats().end()}, {}}));
  } else {
    l.refuse("its value is of a kind that is not supported");
  }
}

void constant_of_shape(Lowering& l) {
  Constant value{DataType::kF32, {1}, {0.0F}, {}};
  if (const auto* a = l.attribute("value"); a != nullptr && a->has_t()) value = read_tensor(l, a->t());
  l.require(element_count(value.shape) == 1, "its value is not one element");
  const Shape shape = l.integers_input(0, "shape");
  std::int64_t count = 1;
  for (const std::int64_t d : shape) {
    l.require(d >= 0 && (d == 0 || count <= l.most_elements() / d),
              fmt::format("its shape {} is out of bounds", to_string(shape)));
    count *= d;
  }
  value.shape = shape;
  if (value.type == DataType::kF32)
    value.f32.assign(static_cast<std::size_t>(count), value.f32.at(0));
  else
    value.i64.assign(static_cast<std::size_t>(count), value.i64.at(0));
  l.set_output(0, l.constant(std::move(value)));
}

void shape_of(Lowering& l) {
  const Shape shape = l.shape(l.input(0));
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto bound = [&](std::string_view name, std::int64_t otherwise) {
    const std::int64_t given = l.integer(name, otherwise);
    return std::clamp<std::int64_t>(given < 0 ? given + rank : given, 0, rank);
  };
  const std::int64_t start = bound("start", 0);
  const std::int64_t end = std::max(bound("end", rank), start);
  l.set_output(0, l.constant(integer_constant({end - start}, Integers(shape.begin() + start, shape.begin() + end))));
}

void size_of_tensor(Lowering& l) {
  l.set_output(0, l.constant(integer_constant({}, {element_count(l.shape(l.input(0)))})));
}

void range(Lowering& l) {
  double bounds[3];
  bool integer = true;
  for (std::size_t i = 0; i < 3; ++i) {
    const Constant* c = l.constant_input(i);
    if (c == nullptr || element_count(c->shape) != 1) l.refuse("its bounds must be known beforehand");
    integer = integer && c->type == DataType::kI64;
    bounds[i] = c->type == DataType::kI64 ? static_cast<double>(c->i64[0]) : static_cast<double>(c->f32[0]);
  }
  const double count = std::max(std::ceil((bounds[1] - bounds[0]) / bounds[2]), 0.0);
  l.require(bounds[2] != 0 && count <= static_cast<double>(kMaxFoldedElements) && std::abs(bounds[0]) < 4e18 &&
                std::abs(bounds[1]) < 4e18 && std::abs(bounds[2]) < 4e18,
            "its range is out of bounds");
  Constant result{integer ? DataType::kI64 : DataType::kF32, {static_cast<std::int64_t>(count)}, {}, {}};
  for (std::int64_t i = 0; i < result.shape[0]; ++i) {
    const double v = bounds[0] + static_cast<double>(i) * bounds[2];
    if (integer)
      result.i64.push_back(static_cast<std::int64_t>(v));
    else
      result.f32.push_back(static_cast<float>(v));
  }
  l.set_output(0, l.constant(std::move(result)));
}

void reshape(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  Shape to = l.opset() >= 5 ? l.integers_input(1, "shape") : l.integers("shape").value_or(Integers{});
  const bool allow_zero = l.integer("allowzero", 0) != 0;
  std::int64_t known = 1;
  int open = -1;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == 0 && !allow_zero) {
      l.require(d < in.size(), "a 0 of its shape copies a dimension that is not there");
      to[d] = in[d];
    }
    if (to[d] == -1) {
      l.require(open < 0, "its shape leaves two dimensions open");
      open = static_cast<int>(d);
      continue;
    }
    l.require(to[d] >= 0 && known <= kMaxValueElements / std::max<std::int64_t>(to[d], 1),
              fmt::format("its shape {} is out of bounds", to_string(to)));
    known *= to[d];
  }
  if (open >= 0) {
    l.require(known != 0 && element_count(in) % known == 0,
              fmt::format("{} cannot take the shape {}", to_string(in), to_string(to)));
    to[static_cast<std::size_t>(open)] = element_count(in) / known;
  }
  l.set_output(0, l.reshape(x, to));
}

void flatten(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const auto rank = static_cast<std::int64_t>(in.size());
  std::int64_t axis = l.integer("axis", 1);
  if (axis < 0) axis += rank;
  l.require(axis >= 0 && axis <= rank, "its axis is out of range");
  l.set_output(0, l.reshape(x, {element_count(Shape(in.begin(), in.begin() + axis)),
                                element_count(Shape(in.begin() + axis, in.end()))}));
}

Integers axes_argument(Lowering& l, std::string_view what) {
  if (l.opset() >= 13) return l.has_input(1) ? l.integers_input(1, what) : Integers{};
  return l.integers("axes").value_or(Integers{});
}

void squeeze(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  const Integers given = axes_argument(l, "axes");
  const std::vector<int> axes = l.axes(given, l.rank(x));
  Shape to;
  for (int d = 0; d < l.rank(x); ++d) {
    const std::int64_t size = in[static_cast<std::size_t>(d)];
    const bool drop = given.empty() ? size == 1 : std::find(axes.begin(), axes.end(), d) != axes.end();
    l.require(!drop || size == 1, fmt::format("it squeezes a dimension of {}", size));
    if (!drop) to.push_back(size);
  }
  l.set_output(0, l.reshape(x, to));
}

void unsqueeze(Lowering& l) {
  const ValueId x = l.input(0);
  const Integers given = axes_argument(l, "axes");
  l.require(given.size() <= 16, "it adds too many dimensions");
  Shape to = l.shape(x);
  for (const int a : l.axes(given, static_cast<int>(to.size() + given.size()))) to.insert(to.begin() + a, 1);
  l.set_output(0, l.reshape(x, to));
}

void transpose(Lowering& l) {
  const ValueId x = l.input(0);
  std::vector<int> permutation;
  if (const auto given = l.integers("perm")) {
    for (const std::int64_t p : *given) permutation.push_back(l.axis(p, l.rank(x)));
  } else {
    for (int d = l.rank(x) - 1; d >= 0; --d) permutation.push_back(d);
  }
  l.set_output(0, l.transpose(x, std::move(permutation)));
}

void concat(Lowering& l) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < l.input_count(); ++i) {
    const ValueId id = l.input(i);
    // Shape arithmetic joins empty lists.
    if (element_count(l.shape(id)) > 0 || l.input_count() == 1) parts.push_back(id);
  }
  if (parts.empty()) {  // nothing was found
    for (std::size_t i = 0; i < l.input_count(); ++i) {
      if (l.rank(l.input(i)) == l.rank(l.input(l.input_count() - 1))) parts.push_back(l.input(i));
    }
  }
  l.require(!parts.empty(), "it has no input");
  l.set_output(0, l.concat(parts, l.axis(l.integer("axis", 1), l.rank(parts[0]))));
}

// The part [begin, begin + size) of one axis.
ValueId part(Lowering& l, ValueId x, int axis, std::int64_t begin, std::int64_t size) {
  Shape to = l.shape(x);
  Integers start(to.size(), 0);
  start[static_cast<std::size_t>(axis)] = begin;
  to[static_cast<std::size_t>(axis)] = size;
  return l.slice(x, start, Integers(to.size(), 1), to);
}

void split(Lowering& l) {
  const ValueId x = l.input(0);
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  const std::int64_t size = l.shape(x)[static_cast<std::size_t>(axis)];
  const auto count = static_cast<std::int64_t>(l.output_count());
  Integers sizes;
  if (l.opset() >= 13 && l.has_input(1))
    sizes = l.integers_input(1, "split");
  else if (const auto given = l.integers("split"); given && l.opset() < 13)
    sizes = *given;
  if (sizes.empty()) {
    const std::int64_t each = (size + count - 1) / count;
    for (std::int64_t i = 0; i < count; ++i) sizes.push_back(std::min(each, size - i * each));
  }
  l.require(static_cast<std::int64_t>(sizes.size()) == count, "its sizes do not fit its outputs");
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    l.require(sizes[i] >= 0 && sizes[i] <= size - begin, "its sizes do not fit its input");
    if (l.output_wanted(i)) l.set_output(i, part(l, x, axis, begin, sizes[i]));
    begin += sizes[i];
  }
  l.require(begin == size, "its sizes do not fit its input");
}

void slice(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  Integers starts, ends, axes, steps;
  if (l.opset() < 10) {
    starts = l.integers("starts").value_or(Integers{});
    ends = l.integers("ends").value_or(Integers{});
    axes = l.integers("axes").value_or(Integers{});
  } else {
    starts = l.integers_input(1, "starts");
    ends = l.integers_input(2, "ends");
    if (l.has_input(3)) axes = l.integers_input(3, "axes");
    if (l.has_input(4)) steps = l.integers_input(4, "steps");
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  l.require(starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
            "its starts, ends, axes and steps differ in number");
  (void)l.axes(axes, l.rank(x));  // refuses duplicates
  Shape to = in;
  Integers start(in.size(), 0), step(in.size(), 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(l.axis(axes[i], l.rank(x)));
    const std::int64_t size = in[d];
    constexpr std::int64_t kFar = std::int64_t{1} << 40;
    const std::int64_t stride = std::clamp(steps[i], -kFar, kFar);
    if (stride == 0) l.refuse("its step is 0");
    // onnx.ai/onnx/operators/onnx__Slice.html: negative positions count from the end, then both are clamped.
    const std::int64_t from = std::clamp(starts[i], -kFar, kFar);
    const std::int64_t until = std::clamp(ends[i], -kFar, kFar);
    const std::int64_t lowest = stride > 0 ? 0 : -1;
    const std::int64_t begin = std::clamp<std::int64_t>(from < 0 ? from + size : from, 0,
                                                        stride > 0 ? size : std::max<std::int64_t>(size - 1, 0));
    const std::int64_t end = std::clamp<std::int64_t>(until < 0 ? until + size : until, lowest, size);
    const std::int64_t count = stride > 0 ? (end - begin + stride - 1) / stride : (begin - end - stride - 1) / -stride;
    to[d] = std::max<std::int64_t>(count, 0);
    start[d] = begin;
    step[d] = stride;
  }
  l.set_output(0, l.slice(x, start, step, to));
}

void pad(Lowering& l) {
  ValueId x = l.input(0);
  const auto rank = static_cast<std::size_t>(l.rank(x));
  Pad pad;
  Integers pads;
  std::vector<std::size_t> axes(rank);
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  if (l.opset() < 11) {
    pads = l.integers("pads").value_or(Integers{});
    pad.value = l.number("value", 0);
  } else {
    pads = l.integers_input(1, "pads");
    if (l.has_input(2)) {
      const Constant* value = l.constant_input(2);
      if (value == nullptr || element_count(value->shape) != 1)
        l.refuse("its value must be one number known beforehand");
      pad.value = value->type == DataType::kF32 ? value->f32[0] : static_cast<float>(value->i64[0]);
    }
    if (l.has_input(3)) {
      axes.clear();
      for (const std::int64_t a : l.integers_input(3, "axes"))
        axes.push_back(static_cast<std::size_t>(l.axis(a, l.rank(x))));
    }
  }
  const std::string mode = l.text("mode", "constant");
  if (mode == "reflect")
    pad.mode = Pad::Mode::kReflect;
  else if (mode == "edge")
    pad.mode = Pad::Mode::kEdge;
  else
    l.require(mode == "constant", fmt::format("its mode '{}' is not supported", printable(mode)));
  l.require(pads.size() == 2 * axes.size(), "its pads do not fit its input");
  pad.before.assign(rank, 0);
  pad.after.assign(rank, 0);
  Shape to = l.shape(x);
  // Negative pads cut; what they cut is sliced off first.
  Integers start(rank, 0);
  Shape cut = to;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::size_t d = axes[i];
    const std::int64_t before = pads[i], after = pads[i + axes.size()];
    l.require(before > -kMaxValueElements && before < kMaxValueElements && after > -kMaxValueElements &&
                  after < kMaxValueElements,
              "its pads are out of range");
    start[d] = std::max<std::int64_t>(-before, 0);
    cut[d] -= start[d] + std::max<std::int64_t>(-after, 0);
    // An input with no elements, where nothing was found, is padded as well.
    l.require(cut[d] >= 0, "its pads cut more than there is");
    pad.before[d] = std::max<std::int64_t>(before, 0);
    pad.after[d] = std::max<std::int64_t>(after, 0);
    l.require(pad.mode != Pad::Mode::kReflect || (pad.before[d] < cut[d] && pad.after[d] < cut[d]),
              "its reflected pads are as large as its input");
    l.require(pad.mode != Pad::Mode::kEdge || cut[d] > 0, "its input has no edge");
    to[d] = cut[d] + pad.before[d] + pad.after[d];
  }
  if (cut != l.shape(x)) x = l.slice(x, start, Integers(rank, 1), cut);
  l.set_output(0, to == l.shape(x) ? x : l.emit(std::move(pad), {x}, to));
}

// A constant of shape `from`, which has as many dimensions as `to`, repeated along those in which it has size 1.
Constant repeated(Lowering& l, const Constant& x, const Shape& from, const Shape& to) {
  std::int64_t count = 1;
  for (const std::int64_t d : to) {
    l.require(d >= 0 && (d == 0 || count <= kMaxFoldedElements / d),
              fmt::format("its shape {} is out of bounds", to_string(to)));
    count *= d;
  }
  l.spend(static_cast<double>(count));
  Constant result{x.type, to, {}, {}};
  const auto repeat = [&]<class T>(const std::vector<T>& values, std::vector<T>& out) {
    if (count == 0) return;
    out = values;
    // From the last dimension on: `block` elements are there of what lies inside it.
    std::size_t block = 1;
    for (std::size_t d = to.size(); d-- > 0;) {
      const auto times = static_cast<std::size_t>(to[d]);
      if (from[d] != to[d]) {
        std::vector<T> more;
        more.reserve(out.size() * times);
        for (std::size_t first = 0; first < out.size(); first += block) {
          const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
          for (std::size_t k = 0; k < times; ++k)
            more.insert(more.end(), begin, begin + static_cast<std::ptrdiff_t>(block));
        }
        out = std::move(more);
      }
      block *= times;
    }
  };
  if (x.type == DataType::kF32)
    repeat(x.f32, result.f32);
  else
    repeat(x.i64, result.i64);
  return result;
}

void expand(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape to = broadcast(l, l.shape(x), l.integers_input(1, "shape"));
  if (to == l.shape(x)) {
    l.set_output(0, x);
    return;
  }
  Shape aligned = l.shape(x);
  aligned.insert(aligned.begin(), to.size() - aligned.size(), 1);
  if (const Constant* known = l.constant_input(0)) {
    l.set_output(0, l.constant(repeated(l, *known, aligned, to)));
    return;
  }
  // x + 0 broadcasts; the zero has as few elements as it can.
  ValueId y = l.reshape(x, aligned);
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] == l.shape(y)[d]) continue;
    l.require(to[d] >= 0 && to[d] <= kMaxValueElements, "its shape is out of bounds");
    Shape line(to.size(), 1);
    line[d] = to[d];
    const auto count = static_cast<std::size_t>(to[d]);
    const ValueId zeros = l.constant(Constant{DataType::kF32, line, std::vector<float>(count, 0), {}});
    y = l.binary(Binary::Kind::kAdd, y, zeros);
  }
  l.set_output(0, y);
}

void tile(Lowering& l) {
  ValueId y = l.input(0);
  const Integers repeats = l.integers_input(1, "repeats");
  l.require(repeats.size() == l.shape(y).size(), "its repeats do not fit its input");
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    Shape to = l.shape(y);
    const std::int64_t size = to[d];
    l.require(repeats[d] > 0 && (size == 0 || repeats[d] <= kMaxValueElements / size),
              fmt::format("its repeat {} is out of range", repeats[d]));
    if (repeats[d] == 1 || size == 0) continue;
    to[d] *= repeats[d];
    l.require(element_count(to) <= kMaxValueElements, "its output is too large");
    // One step however often it repeats: a Concat is one for each of its inputs.
    Integers rows(static_cast<std::size_t>(to[d]));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i) % size;
    y = l.emit(Gather{static_cast<int>(d), std::move(rows)}, {y}, std::move(to));
  }
  l.set_output(0, y);
}

void depth_to_space(Lowering& l) {
  const ValueId x = l.input(0);
  l.require(l.rank(x) == 4, "its input is not a picture");
  const Shape s = l.shape(x);
  const std::int64_t b = l.integer("blocksize", 0);
  l.require(b > 0 && b <= 4096 && s[1] % (b * b) == 0, "its blocksize does not fit its input");
  const bool columns_first = l.text("mode", "DCR") == "CRD";
  const std::int64_t c = s[1] / (b * b);
  const ValueId blocks = columns_first ? l.transpose(l.reshape(x, {s[0], c, b, b, s[2], s[3]}), {0, 1, 4, 2, 5, 3})
                                       : l.transpose(l.reshape(x, {s[0], b, b, c, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  l.set_output(0, l.reshape(blocks, {s[0], c, s[2] * b, s[3] * b}));
}

void space_to_depth(Lowering& l) {
  const ValueId x = l.input(0);
  l.require(l.rank(x) == 4, "its input is not a picture");
  const Shape s = l.shape(x);
  const std::int64_t b = l.integer("blocksize", 0);
  l.require(b > 0 && b <= 4096 && s[2] % b == 0 && s[3] % b == 0, "its blocksize does not fit its input");
  const ValueId blocks = l.transpose(l.reshape(x, {s[0], s[1], s[2] / b, b, s[3] / b, b}), {0, 3, 5, 1, 2, 4});
  l.set_output(0, l.reshape(blocks, {s[0], s[1] * b * b, s[2] / b, s[3] / b}));
}

}  // namespace

const std::vector<HandlerEntry>& movement_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"Identity", identity},
      {"Dropout", identity},
      {"Cast", cast},
      {"CastLike", cast_like},
      {"Constant", constant},
      {"ConstantOfShape", constant_of_shape},
      {"Shape", shape_of},
      {"Size", size_of_tensor},
      {"Range", range},
      {"Reshape", reshape},
      {"Flatten", flatten},
      {"Squeeze", squeeze},
      {"Unsqueeze", unsqueeze},
      {"Transpose", transpose},
      {"Concat", concat},
      {"Split", split},
      {"Slice", slice},
      {"Pad", pad},
      {"Expand", expand},
      {"Tile", tile},
      {"DepthToSpace", depth_to_space},
      {"SpaceToDepth", space_to_depth},
  };
  return kTable;
}

}  // namespace camd::infer
