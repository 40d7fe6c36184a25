#include "infer/graph/lower_sampling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "infer/graph/window.hpp"

namespace camd::infer {
namespace {

using Integers = std::vector<std::int64_t>;

void grid_sample(Lowering& l) {
  const ValueId x = l.input(0), grid = l.input(1);
  const Shape in = l.shape(x), to = l.shape(grid);
  l.require(in.size() == 4 && to.size() == 4 && to[3] == 2 && to[0] == in[0],
            fmt::format("its input {} and grid {} are no pictures", to_string(in), to_string(to)));
  GridSample o;
  const std::string mode = l.text("mode", "linear"), padding = l.text("padding_mode", "zeros");
  if (mode == "nearest")
    o.mode = GridSample::Mode::kNearest;
  else if (mode == "cubic" || mode == "bicubic")
    o.mode = GridSample::Mode::kCubic;
  else
    l.require(mode == "linear" || mode == "bilinear", fmt::format("its mode '{}' is not supported", printable(mode)));
  if (padding == "border")
    o.padding = GridSample::Padding::kBorder;
  else if (padding == "reflection")
    o.padding = GridSample::Padding::kReflection;
  else
    l.require(padding == "zeros", fmt::format("its padding_mode '{}' is not supported", printable(padding)));
  o.align_corners = l.integer("align_corners", 0) != 0;
  l.set_output(0, l.emit(o, {x, grid}, {in[0], in[1], to[1], to[2]}));
}

// ---- DeformConv (onnx.ai/onnx/operators/onnx__DeformConv.html)

// `count` whole numbers of an attribute, from `smallest` on.
Integers numbers(const Lowering& l, std::string_view name, std::size_t count, std::int64_t smallest) {
  constexpr std::int64_t kLargest = 1 << 20;
  Integers given = l.integers(name).value_or(Integers(count, smallest));
  l.require(given.size() == count, fmt::format("its {} need {} numbers", name, count));
  for (const std::int64_t v : given) {
    l.require(v >= smallest && v <= kLargest, fmt::format("its {} of {} is out of range", name, v));
  }
  return given;
}

struct Deformed {
  Shape in, weight;   // [N,C,H,W], [M,C/groups,kh,kw]
  std::int64_t taps;  // kh * kw
  std::int64_t rows, columns;
  Integers stride, dilation, pads;
};

// Where each tap of the kernel would look without its offset, as a grid of GridSample has it, [taps, rows*columns, 2].
Constant undisturbed_grid(const Deformed& d) {
  Constant grid{DataType::kF32, {d.taps, d.rows * d.columns, 2}, {}, {}};
  grid.f32.reserve(static_cast<std::size_t>(element_count(grid.shape)));
  const auto place = [](std::int64_t at, std::int64_t size) {
    return static_cast<float>((2.0 * static_cast<double>(at) + 1.0) / static_cast<double>(size) - 1.0);
  };
  for (std::int64_t tap = 0; tap < d.taps; ++tap) {
    const std::int64_t down = tap / d.weight[3] * d.dilation[0] - d.pads[0];
    const std::int64_t right = tap % d.weight[3] * d.dilation[1] - d.pads[1];
    for (std::int64_t y = 0; y < d.rows; ++y) {
      for (std::int64_t x = 0; x < d.columns; ++x) {
        grid.f32.push_back(place(x * d.stride[1] + right, d.in[3]));
        grid.f32.push_back(place(y * d.stride[0] + down, d.in[2]));
      }
    }
  }
  return grid;
}

// What each tap of the kernel finds, [N, C * taps, rows, columns]: channel by channel, and in it tap by tap.
ValueId found_by_taps(Lowering& l, const Deformed& d, std::int64_t groups) {
  const ValueId x = l.input(0);
  const std::int64_t batch = d.in[0], channels = d.in[1] / groups, pixels = d.rows * d.columns;
  // Offsets are pairs of rows and columns, grids of columns and rows.
  Integers swapped(static_cast<std::size_t>(2 * d.taps * groups));
  for (std::size_t i = 0; i < swapped.size(); ++i) swapped[i] = static_cast<std::int64_t>(i ^ 1U);
  const ValueId offsets = l.emit(Gather{1, std::move(swapped)}, {l.input(2)}, l.shape(l.input(2)));
  const ValueId unit = l.constant(Constant{
      DataType::kF32, {1, 1, 2}, {2.0F / static_cast<float>(d.in[3]), 2.0F / static_cast<float>(d.in[2])}, {}});
  l.require(2 * d.taps * pixels <= l.most_elements(), "its offset is too large");
  const ValueId begin = l.constant(undisturbed_grid(d));
  const auto group_of = [&](ValueId all, std::int64_t group, std::int64_t each) {
    if (groups == 1) return all;
    Shape to = l.shape(all);
    to[1] = each;
    return l.slice(all, {0, group * each, 0, 0}, {1, 1, 1, 1}, to);
  };
  std::vector<ValueId> found;
  for (std::int64_t g = 0; g < groups; ++g) {
    ValueId grid = l.reshape(group_of(offsets, g, 2 * d.taps), {batch * d.taps, 2, pixels});
    grid = l.binary(Binary::Kind::kMul, l.transpose(grid, {0, 2, 1}), unit);
    const ValueId from = batch == 1 ? begin : l.concat(std::vector<ValueId>(static_cast<std::size_t>(batch), begin), 0);
    grid = l.reshape(l.binary(Binary::Kind::kAdd, grid, from), {batch, d.taps * d.rows, d.columns, 2});
    ValueId some =
        l.emit(GridSample{}, {group_of(x, g, channels), grid}, {batch, channels, d.taps * d.rows, d.columns});
    if (l.has_input(4)) {
      const ValueId mask = l.reshape(group_of(l.input(4), g, d.taps), {batch, 1, d.taps * d.rows, d.columns});
      some = l.binary(Binary::Kind::kMul, some, mask);
    }
    found.push_back(l.reshape(some, {batch, channels * d.taps, d.rows, d.columns}));
  }
  return l.concat(found, 1);
}

// A convolution whose taps look where the picture says. They are sampled first; what is left is one of 1x1.
void deformable_convolution(Lowering& l) {
  Deformed d;
  d.in = l.shape(l.input(0));
  d.weight = l.weights_input(1, "weight").shape;
  const Shape offsets = l.shape(l.input(2));
  l.require(d.in.size() == 4 && d.weight.size() == 4 && offsets.size() == 4 && element_count(d.weight) > 0,
            fmt::format("its input {}, weight {} and offset {} are not of two spatial dimensions", to_string(d.in),
                        to_string(d.weight), to_string(offsets)));
  const std::int64_t groups = l.integer("group", 1), offset_groups = l.integer("offset_group", 1);
  l.require(groups > 0 && d.in[1] == groups * d.weight[1] && d.weight[0] % groups == 0 && offset_groups > 0 &&
                d.in[1] % offset_groups == 0,
            fmt::format("its weight {}, {} groups and {} groups of offsets do not fit its input {}",
                        to_string(d.weight), groups, offset_groups, to_string(d.in)));
  d.taps = d.weight[2] * d.weight[3];
  d.rows = offsets[2];
  d.columns = offsets[3];
  d.stride = numbers(l, "strides", 2, 1);
  d.dilation = numbers(l, "dilations", 2, 1);
  d.pads = numbers(l, "pads", 4, 0);
  const auto windows = [&](std::size_t i) {
    const std::int64_t room = d.in[2 + i] + d.pads[i] + d.pads[2 + i] - window_span(d.weight[2 + i], d.dilation[i]);
    return room < 0 ? 0 : room / d.stride[i] + 1;
  };
  l.require(offsets == Shape{d.in[0], 2 * offset_groups * d.taps, windows(0), windows(1)},
            fmt::format("its offset {} does not fit its input {}", to_string(offsets), to_string(d.in)));
  if (l.has_input(4)) {
    const Shape mask = l.shape(l.input(4));
    l.require(mask == Shape{d.in[0], offset_groups * d.taps, d.rows, d.columns},
              fmt::format("its mask {} does not fit its offset {}", to_string(mask), to_string(offsets)));
  }
  const ValueId weight = l.reshape(l.input(1), {d.weight[0], d.weight[1] * d.taps, 1, 1});
  ValueId bias = kNoValue;
  if (l.has_input(3)) {
    l.require(l.weights_input(3, "bias").shape == Shape{d.weight[0]}, "its bias does not fit its weight");
    bias = l.input(3);
  } else {
    const std::vector<float> zeros(static_cast<std::size_t>(d.weight[0]), 0.0F);
    bias = l.constant(Constant{DataType::kF32, {d.weight[0]}, zeros, {}});
  }
  Conv conv;
  conv.kernel = {1, 1};
  conv.groups = static_cast<int>(groups);
  l.set_output(0, l.emit_pictures(conv, {found_by_taps(l, d, offset_groups), weight, bias, kNoValue},
                                  {d.in[0], d.weight[0], d.rows, d.columns}));
}

// ---- RoiAlign (onnx.ai/onnx/operators/onnx__RoiAlign.html)

struct RoiAlign {
  bool largest = false;  // else the mean
  float scale = 1.0F, shift = 0.0F;
  bool at_least_a_pixel = false;  // as it was before opset 16
  std::int64_t rows = 1, columns = 1, samples = 0;
};

// A place between pixels as the four around it and what each counts there.
struct Around {
  std::array<std::int64_t, 4> at{};
  std::array<float, 4> weight{};
};

Around around(float y, float x, std::int64_t height, std::int64_t width) {
  Around result;
  if (!(y >= -1 && y <= static_cast<float>(height) && x >= -1 && x <= static_cast<float>(width))) return result;
  const auto side = [](float v, std::int64_t size) {
    v = std::max(v, 0.0F);
    const auto low = std::min(static_cast<std::int64_t>(v), size - 1);
    const std::int64_t high = std::min(low + 1, size - 1);
    return std::tuple(low, high, low == size - 1 ? 0.0F : v - static_cast<float>(low));
  };
  const auto [top, bottom, ty] = side(y, height);
  const auto [left, right, tx] = side(x, width);
  result.at = {top * width + left, top * width + right, bottom * width + left, bottom * width + right};
  result.weight = {(1 - ty) * (1 - tx), (1 - ty) * tx, ty * (1 - tx), ty * tx};
  return result;
}

// How many samples of a bin lie along one of its sides.
std::int64_t samples_along(Lowering& l, const RoiAlign& o, float size, std::int64_t bins) {
  if (o.samples > 0) return o.samples;
  constexpr float kMost = 1 << 16;
  const float each = std::ceil(size / static_cast<float>(bins));
  l.require(each < kMost, "one of its boxes is out of range");
  return each > 0 ? static_cast<std::int64_t>(each) : 0;
}

// The samples of all bins of one box: row by row of bins, and in each `each` of them.
std::vector<Around> samples_of(Lowering& l, const RoiAlign& o, const float* box, const Shape& in, std::int64_t& each) {
  const float left = box[0] * o.scale - o.shift, top = box[1] * o.scale - o.shift;
  float width = box[2] * o.scale - o.shift - left, height = box[3] * o.scale - o.shift - top;
  if (o.at_least_a_pixel) {
    width = std::max(width, 1.0F);
    height = std::max(height, 1.0F);
  }
  const bool finite = std::isfinite(left) && std::isfinite(top) && std::isfinite(width) && std::isfinite(height);
  const std::int64_t down = finite ? samples_along(l, o, height, o.rows) : 0;
  const std::int64_t across = finite ? samples_along(l, o, width, o.columns) : 0;
  each = std::max<std::int64_t>(down * across, 1);
  l.spend(4 * static_cast<double>(each) * static_cast<double>(o.rows * o.columns));
  // Bins without samples are 0, as if they had one that counts nothing.
  if (down * across == 0) return std::vector<Around>(static_cast<std::size_t>(o.rows * o.columns));
  const float bin_height = height / static_cast<float>(o.rows), bin_width = width / static_cast<float>(o.columns);
  const auto place = [](float begin, float bin, std::int64_t of, std::int64_t i, std::int64_t count) {
    return begin + static_cast<float>(of) * bin + (static_cast<float>(i) + 0.5F) * bin / static_cast<float>(count);
  };
  std::vector<Around> result;
  result.reserve(static_cast<std::size_t>(each * o.rows * o.columns));
  for (std::int64_t row = 0; row < o.rows; ++row) {
    for (std::int64_t column = 0; column < o.columns; ++column) {
      for (std::int64_t y = 0; y < down; ++y) {
        for (std::int64_t x = 0; x < across; ++x) {
          result.push_back(
              around(place(top, bin_height, row, y, down), place(left, bin_width, column, x, across), in[2], in[3]));
        }
      }
    }
  }
  return result;
}

// One channel of one box, bin by bin. The largest is that of the four parts of each sample, as ONNX's cases have it.
void align(const RoiAlign& o, const std::vector<Around>& samples, std::int64_t each, const float* plane, float* out) {
  const Around* sample = samples.data();
  for (std::int64_t bin = 0; bin < o.rows * o.columns; ++bin) {
    float sum = 0, most = -std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < each; ++i, ++sample) {
      for (std::size_t k = 0; k < 4; ++k) {
        const float part = sample->weight[k] * plane[sample->at[k]];
        sum += part;
        most = std::max(most, part);
      }
    }
    out[bin] = o.largest ? most : sum / static_cast<float>(each);
  }
}

RoiAlign roi_align_of(Lowering& l) {
  RoiAlign o;
  const std::string mode = l.text("mode", "avg");
  l.require(mode == "avg" || mode == "max", fmt::format("its mode '{}' is not supported", printable(mode)));
  o.largest = mode == "max";
  const std::string from =
      l.text("coordinate_transformation_mode", l.opset() >= 16 ? "half_pixel" : "output_half_pixel");
  l.require(from == "half_pixel" || from == "output_half_pixel",
            fmt::format("its coordinate_transformation_mode '{}' is not supported", printable(from)));
  o.at_least_a_pixel = from == "output_half_pixel";
  o.shift = o.at_least_a_pixel ? 0.0F : 0.5F;
  o.scale = l.number("spatial_scale", 1.0F);
  o.rows = l.integer("output_height", 1);
  o.columns = l.integer("output_width", 1);
  o.samples = l.integer("sampling_ratio", 0);
  constexpr std::int64_t kMost = 1024;
  l.require(
      o.rows > 0 && o.rows <= kMost && o.columns > 0 && o.columns <= kMost && o.samples >= 0 && o.samples <= kMost,
      "its output size or sampling_ratio is out of range");
  return o;
}

// The same of a picture that is not known yet, [1,C,rows,columns]: all samples side by side, and what they come to.
ValueId align_later(Lowering& l, const RoiAlign& o, const std::vector<Around>& samples, std::int64_t each,
                    std::int64_t picture) {
  const Shape in = l.shape(l.input(0));
  const std::int64_t channels = in[1], bins = o.rows * o.columns, parts = 4 * each;
  // Both are kept for each box, so a number here costs more than a step.
  constexpr double kStepsEach = 16;
  l.spend(kStepsEach * static_cast<double>(bins) * static_cast<double>(parts));
  Integers places;
  Constant weights{DataType::kF32, {1, bins, parts}, {}, {}};
  for (const Around& sample : samples) {
    places.insert(places.end(), sample.at.begin(), sample.at.end());
    weights.f32.insert(weights.f32.end(), sample.weight.begin(), sample.weight.end());
  }
  if (!o.largest) {
    for (float& weight : weights.f32) weight /= static_cast<float>(each);
  }
  const ValueId one =
      in[0] == 1 ? l.input(0) : l.slice(l.input(0), {picture, 0, 0, 0}, {1, 1, 1, 1}, {1, channels, in[2], in[3]});
  const ValueId found =
      l.emit(Gather{1, std::move(places)}, {l.reshape(one, {channels, in[2] * in[3]})}, {channels, bins * parts});
  const ValueId weighed =
      l.binary(Binary::Kind::kMul, l.reshape(found, {channels, bins, parts}), l.constant(std::move(weights)));
  return l.reshape(l.reduce(o.largest ? Reduce::Kind::kMax : Reduce::Kind::kSum, weighed, {2}),
                   {1, channels, o.rows, o.columns});
}

// Boxes are what a first stage found. So it is mostly the host that looks at the picture again for each of them.
void roi_align(Lowering& l) {
  const RoiAlign o = roi_align_of(l);
  const auto known = [&](std::size_t i) -> const Constant& {
    const Constant* c = l.constant_input(i);
    if (c == nullptr) l.refuse("where it looks depends on the picture");
    return *c;
  };
  const Constant& boxes = known(1);
  const Constant& pictures = known(2);
  const Shape in = l.shape(l.input(0));
  l.require(!l.is_whole(l.input(0)) && boxes.type == DataType::kF32 && pictures.type == DataType::kI64 &&
                in.size() == 4 && boxes.shape.size() == 2 && boxes.shape[1] == 4 &&
                pictures.shape == Shape{boxes.shape[0]},
            fmt::format("its input {}, boxes {} and indices {} do not fit", to_string(in), to_string(boxes.shape),
                        to_string(pictures.shape)));
  const std::int64_t count = boxes.shape[0], channels = in[1], plane = in[2] * in[3], bins = o.rows * o.columns;
  const Shape to = {count, channels, o.rows, o.columns};
  l.require(count == 0 || channels * bins <= l.most_elements() / count,
            fmt::format("its output {} is too large", to_string(to)));
  l.require(count == 0 || plane > 0, "its input has no elements");
  const Constant* const x = l.constant_input(0);
  Constant result{DataType::kF32, to, {}, {}};
  if (x != nullptr || count == 0) result.f32.resize(static_cast<std::size_t>(element_count(to)));
  std::vector<ValueId> later;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t picture = pictures.i64[static_cast<std::size_t>(n)];
    l.require(picture >= 0 && picture < in[0], "one of its indices is out of range");
    std::int64_t each = 0;
    const std::vector<Around> samples = samples_of(l, o, boxes.f32.data() + 4 * n, in, each);
    if (x == nullptr) {
      later.push_back(align_later(l, o, samples, each, picture));
      continue;
    }
    l.spend(static_cast<double>(samples.size()) * static_cast<double>(channels) / 2);
    for (std::int64_t c = 0; c < channels; ++c) {
      align(o, samples, each, x->f32.data() + (picture * channels + c) * plane,
            result.f32.data() + (n * channels + c) * bins);
    }
  }
  l.set_output(0, later.empty() ? l.constant(std::move(result)) : l.concat(later, 0));
}

}  // namespace

const std::vector<HandlerEntry>& sampling_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"GridSample", grid_sample, "two spatial dimensions"},
      {"DeformConv", deformable_convolution, "two spatial dimensions"},
      {"RoiAlign", roi_align, "boxes of a first stage: on the host, after what runs on the device"},
  };
  return kTable;
}

}  // namespace camd::infer
