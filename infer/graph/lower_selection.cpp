#include "infer/graph/lower_selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "infer/graph/lower_indexing.hpp"

namespace camd::infer {
namespace {

using Integers = std::vector<std::int64_t>;

// What is wanted of an axis: positions of the best, [.., count, ..].
ValueId best_positions(Lowering& l, ValueId x, int axis, std::int64_t count, bool largest) {
  Shape to = l.shape(x);
  std::int64_t& size = to[static_cast<std::size_t>(axis)];
  l.require(count >= 0 && count <= size, fmt::format("it takes {} of {} elements", count, size));
  l.require(size < std::numeric_limits<std::int32_t>::max(), "its axis is too long");
  size = count;
  return l.emit(TopK{axis, count, largest}, {x}, std::move(to));
}

void top_k(Lowering& l) {
  const ValueId x = l.input(0);
  l.require(l.rank(x) > 0, "its input is a scalar");
  std::int64_t count = l.integer("k", 0);
  if (l.opset() >= 10) {
    const Integers& k = l.integers_input(1, "k");
    l.require(k.size() == 1, "its k is not one number");
    count = k[0];
  }
  const int axis = l.axis(l.integer("axis", -1), l.rank(x));
  const ValueId positions = best_positions(l, x, axis, count, l.integer("largest", 1) != 0);
  l.set_output(1, positions);
  if (l.output_wanted(0)) l.set_output(0, pick_along(l, x, positions, axis));
}

template <bool kLargest>
void best_of_line(Lowering& l) {
  ValueId x = l.input(0);
  const Shape in = l.shape(x);
  l.require(!in.empty(), "its input is a scalar");
  const int axis = l.axis(l.integer("axis", 0), l.rank(x));
  const auto at = static_cast<std::size_t>(axis);
  const bool last = l.integer("select_last_index", 0) != 0;
  if (last) {  // the first from behind
    Integers start(in.size(), 0), step(in.size(), 1);
    start[at] = in[at] - 1;
    step[at] = -1;
    x = l.slice(x, start, step, in);
  }
  ValueId y = best_positions(l, x, axis, 1, kLargest);
  if (last) y = l.binary(Binary::Kind::kSub, l.integer(in[at] - 1), y);
  Shape to = l.shape(y);
  if (l.integer("keepdims", 1) == 0) to.erase(to.begin() + axis);
  l.set_output(0, l.reshape(y, to));
}

// The constant of input i; without it the operator's output has a size that the picture decides.
const Constant& known(Lowering& l, std::size_t i) {
  const Constant* c = l.constant_input(i);
  if (c == nullptr) l.refuse("how much it puts out depends on the picture");
  return *c;
}

void non_zero(Lowering& l) {
  const Constant& x = known(l, 0);
  const std::size_t rank = std::max<std::size_t>(x.shape.size(), 1);
  const auto count = static_cast<std::size_t>(element_count(x.shape));
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < count; ++i) {
    if (x.type == DataType::kF32 ? x.f32[i] != 0 : x.i64[i] != 0) found.push_back(i);
  }
  l.spend(static_cast<double>(count) + static_cast<double>(found.size() * rank));
  Constant result{DataType::kI64, {static_cast<std::int64_t>(rank), static_cast<std::int64_t>(found.size())}, {}, {}};
  result.i64.resize(rank * found.size());
  for (std::size_t n = 0; n < found.size(); ++n) {
    std::size_t rest = found[n];
    for (std::size_t d = rank; d-- > 0;) {
      const std::size_t size = x.shape.empty() ? 1 : static_cast<std::size_t>(x.shape[d]);
      result.i64[d * found.size() + n] = static_cast<std::int64_t>(rest % size);
      rest /= size;
    }
  }
  l.set_output(0, l.constant(std::move(result)));
}

struct Box {
  float left, top, right, bottom;
};

// The boxes that were kept so far, by the vertical strips of the plane that they reach into: two boxes that cover
// something together are in one strip. Exporters put the boxes of each class beside those of the last one, and compare
// all with all. In a strip each number has a line of its own: four boxes are compared at a time.
class Kept {
 public:
  // For boxes `order` of `all`. Strips are as wide as boxes are in the middle, so that most boxes are in two.
  Kept(const std::vector<Box>& all, const std::vector<std::int64_t>& order) {
    double widths = 0, left = std::numeric_limits<double>::infinity(), right = -left;
    std::size_t count = 0;
    for (const std::int64_t i : order) {
      const Box& box = all[static_cast<std::size_t>(i)];
      if (!covers_something(box)) continue;
      widths += static_cast<double>(box.right) - box.left;
      left = std::min(left, static_cast<double>(box.left));
      right = std::max(right, static_cast<double>(box.right));
      ++count;
    }
    double strips = 1;
    if (count >= kFewBoxes) strips = std::clamp((right - left) * static_cast<double>(count) / widths, 1.0, kMostStrips);
    strips_.resize(static_cast<std::size_t>(strips));
    left_ = left;
    if (strips_.size() > 1) strips_per_unit_ = static_cast<double>(strips_.size()) / (right - left);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  void add(const Box& box) {
    ++size_;
    if (!covers_something(box)) return;
    const std::size_t last = strip_at(box.right);
    for (std::size_t s = strip_at(box.left); s <= last; ++s) strips_[s].add(box);
  }
  // With how many of them hides() compares a box, at most.
  [[nodiscard]] std::size_t near(const Box& box) const {
    std::size_t count = 0;
    if (!covers_something(box)) return count;
    const std::size_t last = strip_at(box.right);
    for (std::size_t s = strip_at(box.left); s <= last; ++s) count += strips_[s].size;
    return count;
  }
  // Whether one of them has more than `iou` of what it and `box` cover together in common with it.
  [[nodiscard]] bool hides(const Box& box, float iou) const {
    if (iou < 0) return size_ > 0;  // nothing in common is more than that
    if (!covers_something(box)) return false;
    const std::size_t last = strip_at(box.right);
    for (std::size_t s = strip_at(box.left); s <= last; ++s) {
      if (strips_[s].hides(box, iou)) return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kFewBoxes = 64;
  static constexpr double kMostStrips = 1024;
  static constexpr std::size_t kSome = 4;
  using Some = float __attribute__((vector_size(kSome * sizeof(float))));

  struct Strip {
    std::size_t size = 0;
    std::vector<float> left, top, right, bottom, area;

    void add(const Box& box) {
      // Places behind the last box hold one that covers nothing.
      if (size % kSome == 0) {
        for (std::vector<float>* line : {&left, &top, &right, &bottom, &area}) line->resize(size + kSome, 0.0F);
      }
      left[size] = box.left;
      top[size] = box.top;
      right[size] = box.right;
      bottom[size] = box.bottom;
      area[size] = area_of(box);
      ++size;
    }
    [[nodiscard]] bool hides(const Box& box, float iou) const {
      const Some from_x = all_of(box.left), from_y = all_of(box.top), to_x = all_of(box.right),
                 to_y = all_of(box.bottom);
      const Some own = all_of(area_of(box)), nothing{};
      for (std::size_t i = 0; i < size; i += kSome) {
        const Some width = least(to_x, load(right, i)) - most(from_x, load(left, i));
        const Some height = least(to_y, load(bottom, i)) - most(from_y, load(top, i));
        const Some common = width * height;
        const auto hidden = (width > nothing) & (height > nothing) & (common / (own + load(area, i) - common) > iou);
        if ((hidden[0] | hidden[1] | hidden[2] | hidden[3]) != 0) return true;
      }
      return false;
    }
  };

  // One that does not, or is no box at all, has nothing in common with another.
  static bool covers_something(const Box& b) {
    return std::isfinite(b.left) && std::isfinite(b.right) && b.left < b.right && b.top < b.bottom;
  }
  [[nodiscard]] std::size_t strip_at(float x) const {
    const double strip = (static_cast<double>(x) - left_) * strips_per_unit_;
    return static_cast<std::size_t>(std::clamp(strip, 0.0, static_cast<double>(strips_.size() - 1)));
  }
  static float area_of(const Box& b) { return (b.right - b.left) * (b.bottom - b.top); }
  static Some all_of(float f) { return Some{f, f, f, f}; }
  static Some least(Some a, Some b) { return b < a ? b : a; }
  static Some most(Some a, Some b) { return a < b ? b : a; }
  static Some load(const std::vector<float>& line, std::size_t i) {
    Some some;
    std::memcpy(&some, line.data() + i, sizeof(some));
    return some;
  }

  std::size_t size_ = 0;
  std::vector<Strip> strips_;
  double left_ = 0, strips_per_unit_ = 0;  // 0: one strip
};

std::vector<Box> boxes_of(const Constant& c, std::int64_t batch, std::int64_t count, bool centred) {
  std::vector<Box> boxes;
  const float* v = c.f32.data() + batch * count * 4;
  for (std::int64_t i = 0; i < count; ++i, v += 4) {
    // [y1, x1, y2, x2], any two opposite corners; or the centre and the size, x first.
    boxes.push_back(centred
                        ? Box{v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2}
                        : Box{std::min(v[1], v[3]), std::min(v[0], v[2]), std::max(v[1], v[3]), std::max(v[0], v[2])});
  }
  return boxes;
}

// onnx.ai/onnx/operators/onnx__NonMaxSuppression.html
void non_max_suppression(Lowering& l) {
  const Constant& boxes = known(l, 0);
  const Constant& scores = known(l, 1);
  l.require(boxes.type == DataType::kF32 && scores.type == DataType::kF32 && boxes.shape.size() == 3 &&
                scores.shape.size() == 3 && boxes.shape[2] == 4 && boxes.shape[0] == scores.shape[0] &&
                boxes.shape[1] == scores.shape[2],
            fmt::format("its boxes {} and scores {} do not fit", to_string(boxes.shape), to_string(scores.shape)));
  const auto number = [&](std::size_t i, float otherwise) {
    if (!l.has_input(i)) return otherwise;
    const Constant& c = known(l, i);
    l.require(element_count(c.shape) == 1, "one of its thresholds is not one number");
    return c.type == DataType::kF32 ? c.f32[0] : static_cast<float>(c.i64[0]);
  };
  const auto most = static_cast<double>(number(2, 0));
  const float iou = number(3, 0), least = number(4, -std::numeric_limits<float>::infinity());
  const std::int64_t count = boxes.shape[1], classes = scores.shape[1];
  Constant result{DataType::kI64, {0, 3}, {}, {}};
  std::vector<std::int64_t> order;
  for (std::int64_t batch = 0; batch < boxes.shape[0]; ++batch) {
    const std::vector<Box> all = boxes_of(boxes, batch, count, l.integer("center_point_box", 0) != 0);
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* const score = scores.f32.data() + (batch * classes + c) * count;
      order.clear();
      for (std::int64_t i = 0; i < count; ++i) {
        if (score[i] > least) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
      l.spend(static_cast<double>(count) + static_cast<double>(order.size()) * 16);
      Kept kept(all, order);
      for (const std::int64_t i : order) {
        if (static_cast<double>(kept.size()) >= most) break;
        const Box& box = all[static_cast<std::size_t>(i)];
        l.spend(1 + static_cast<double>(kept.near(box)) / 4);  // four at a time
        if (kept.hides(box, iou)) continue;
        kept.add(box);
        result.i64.insert(result.i64.end(), {batch, c, i});
      }
    }
  }
  result.shape[0] = static_cast<std::int64_t>(result.i64.size() / 3);
  l.set_output(0, l.constant(std::move(result)));
}

void cumulative_sum(Lowering& l) {
  const ValueId x = l.input(0);
  const Integers& axis = l.integers_input(1, "axis");
  l.require(axis.size() == 1, "its axis is not one number");
  CumSum sum{l.axis(axis[0], l.rank(x)), l.integer("exclusive", 0) != 0, l.integer("reverse", 0) != 0};
  l.set_output(0, l.emit(sum, {x}, l.shape(x)));
}

void one_hot(Lowering& l) {
  const Constant& given = known(l, 1);
  l.require(element_count(given.shape) == 1, "its depth is not one number");
  const double wanted =
      given.type == DataType::kI64 ? static_cast<double>(given.i64[0]) : static_cast<double>(given.f32[0]);
  // Looked at before it becomes a whole number, which not every number can.
  l.require(wanted >= 1 && wanted <= static_cast<double>(kMaxFoldedElements), "its depth is out of range");
  const auto depth = static_cast<std::int64_t>(wanted);
  const ValueId indices = l.as_whole(l.input(0)), values = l.input(2);
  Shape to = l.shape(indices);
  const int axis = l.axis(l.integer("axis", -1), l.rank(indices) + 1);
  to.insert(to.begin() + axis, 1);
  Constant positions{DataType::kI64, Shape(to.size(), 1), {}, Integers(static_cast<std::size_t>(depth))};
  positions.shape[static_cast<std::size_t>(axis)] = depth;
  std::iota(positions.i64.begin(), positions.i64.end(), 0);
  const ValueId below =
      l.binary(Binary::Kind::kMul, l.binary(Binary::Kind::kLess, indices, l.integer(0)), l.integer(depth));
  const ValueId index = l.reshape(l.binary(Binary::Kind::kAdd, indices, below), to);
  const ValueId hot = l.binary(Binary::Kind::kEqual, index, l.constant(std::move(positions)));
  const ValueId off = l.slice(values, {0}, {1}, {1}), on = l.slice(values, {1}, {1}, {1});
  l.set_output(0, l.emit(Select{}, {hot, on, off}, l.shape(hot)));
}

// Ones where `marks`(column - row - k) holds, of whole numbers; else zeros. k beyond any matrix is bounded.
template <class Marks>
Constant marked(Lowering& l, const Shape& matrix, std::int64_t k, Marks&& marks) {
  const std::int64_t rows = matrix[matrix.size() - 2], columns = matrix.back();
  Constant mask{DataType::kI64, {rows, columns}, {}, {}};
  l.require(rows <= kMaxFoldedElements / std::max<std::int64_t>(columns, 1), "its input is too large");
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) mask.i64.push_back(marks(c - r - std::clamp(k, -kFar, kFar)) ? 1 : 0);
  }
  return mask;
}

void eye_like(Lowering& l) {
  using T = onnx::TensorProto;
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  l.require(in.size() == 2, "its input is no matrix");
  const std::int64_t type = l.integer("dtype", l.is_whole(x) ? T::INT64 : T::FLOAT);
  const bool whole = type != T::FLOAT && type != T::FLOAT16 && type != T::DOUBLE && type != T::BFLOAT16;
  const ValueId eye = l.constant(marked(l, in, l.integer("k", 0), [](std::int64_t beyond) { return beyond == 0; }));
  l.set_output(0, whole ? eye : l.as_number(eye));
}

void triangle(Lowering& l) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  l.require(in.size() >= 2 && in.size() <= 8, "its input is no matrix");
  std::int64_t k = 0;
  if (l.has_input(1)) {
    const Integers& given = l.integers_input(1, "k");
    l.require(given.size() == 1, "its k is not one number");
    k = given[0];
  }
  const bool upper = l.integer("upper", 1) != 0;
  Constant mask = marked(l, in, k, [&](std::int64_t beyond) { return upper ? beyond >= 0 : beyond <= 0; });
  const ValueId zero = l.is_whole(x) ? l.integer(0) : l.constant(0.0F);
  l.set_output(0, l.emit(Select{}, {l.constant(std::move(mask)), x, zero}, in));
}

}  // namespace

const std::vector<HandlerEntry>& selection_handlers() {
  constexpr std::string_view kTail = "on the host, after what runs on the device";
  static const std::vector<HandlerEntry> kTable = {
      {"TopK", top_k, "k known beforehand"},
      {"ArgMax", best_of_line<true>},
      {"ArgMin", best_of_line<false>},
      {"NonZero", non_zero, kTail},
      {"NonMaxSuppression", non_max_suppression, kTail},
      {"CumSum", cumulative_sum},
      {"EyeLike", eye_like},
      {"OneHot", one_hot},
      {"Trilu", triangle},
  };
  return kTable;
}

}  // namespace camd::infer
