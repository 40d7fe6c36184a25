// Handlers of Resize (opsets 10 to 19) and Upsample (7 to 9): every coordinate and rounding mode becomes a table of
// input positions and weights per output position (onnx.ai/onnx/operators/onnx__Resize.html).
#include "infer/graph/lower_resize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace camd::infer {
namespace {

struct Modes {
  std::string interpolation, coordinates, nearest;
  float cubic = -0.75F;
  bool exclude_outside = false;
  bool antialias = false;
  // tf_crop_and_resize: the part of the input to enlarge (starts, then ends, 0..1), and what lies outside of the input.
  std::vector<float> region{};
  float outside = 0.0F;

  [[nodiscard]] bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

// The part of one axis that is resized, 0..1.
struct Span {
  float from = 0.0F;
  float to = 1.0F;
};

// Positions are computed in f32, as PyTorch and ONNX Runtime do: at whole and half positions the last bit decides.
float source_position(const Lowering& l, const Modes& m, std::int64_t out, std::int64_t out_size, std::int64_t in_size,
                      float scale, Span span) {
  const auto x = static_cast<float>(out);
  const auto in = static_cast<float>(in_size);
  if (m.coordinates == "half_pixel") return (x + 0.5F) / scale - 0.5F;
  if (m.coordinates == "pytorch_half_pixel") return out_size > 1 ? (x + 0.5F) / scale - 0.5F : 0.0F;
  if (m.coordinates == "asymmetric") return x / scale;
  if (m.coordinates == "align_corners") {
    return out_size == 1 ? 0.0F : x * (in - 1.0F) / static_cast<float>(out_size - 1);
  }
  if (m.coordinates == "tf_half_pixel_for_nn") return (x + 0.5F) / scale;
  if (m.coordinates == "half_pixel_symmetric") {
    const float adjustment = static_cast<float>(out_size) / (scale * in);
    return in / 2 * (1 - adjustment) + (x + 0.5F) / scale - 0.5F;
  }
  if (m.crops()) {
    if (out_size == 1) return 0.5F * (span.from + span.to) * (in - 1.0F);
    return span.from * (in - 1.0F) + x * (span.to - span.from) * (in - 1.0F) / static_cast<float>(out_size - 1);
  }
  l.refuse(fmt::format("its coordinate_transformation_mode '{}' is not supported", printable(m.coordinates)));
}

std::int64_t nearest_index(const Lowering& l, const Modes& m, float x, float scale) {
  if (m.nearest == "round_prefer_floor") return static_cast<std::int64_t>(std::ceil(x - 0.5F));
  if (m.nearest == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5F));
  if (m.nearest == "floor") return static_cast<std::int64_t>(std::floor(x));
  if (m.nearest == "ceil") return static_cast<std::int64_t>(std::ceil(x));
  // Opset 10 named no mode; ONNX Runtime takes the ceiling when shrinking.
  if (m.nearest == "simple") return static_cast<std::int64_t>(scale < 1.0F ? std::ceil(x) : std::floor(x));
  l.refuse(fmt::format("its nearest_mode '{}' is not supported", printable(m.nearest)));
}

void cubic_weights(float a, float t, float weights[4]) {
  const auto near = [a](float d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [a](float d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  weights[0] = far(1 + t);
  weights[1] = near(t);
  weights[2] = near(1 - t);
  weights[3] = far(2 - t);
}

// Output positions that look outside of the input get weights of 0; nearest has a second tap for that.
void blank_outside(ResizeAxis& axis, const std::vector<bool>& outside) {
  if (std::find(outside.begin(), outside.end(), true) == outside.end()) return;
  ResizeAxis blanked;
  blanked.taps = std::max(axis.taps, 2);
  for (std::size_t i = 0; i < outside.size(); ++i) {
    for (int k = 0; k < blanked.taps; ++k) {
      const std::size_t tap = i * static_cast<std::size_t>(axis.taps) + static_cast<std::size_t>(k % axis.taps);
      blanked.index.push_back(axis.index[tap]);
      blanked.weight.push_back(outside[i] || k >= axis.taps ? 0.0F : axis.weight[tap]);
    }
  }
  axis = std::move(blanked);
}

ResizeAxis make_axis(const Lowering& l, const Modes& m, std::int64_t in_size, std::int64_t out_size, float scale,
                     Span span) {
  std::vector<bool> outside;
  ResizeAxis axis;
  axis.taps = m.interpolation == "nearest" ? 1 : m.interpolation == "linear" ? 2 : 4;
  const auto clamped = [in_size](std::int64_t i) {
    return static_cast<int>(std::clamp<std::int64_t>(i, 0, in_size - 1));
  };
  for (std::int64_t out = 0; out < out_size; ++out) {
    const float exact = source_position(l, m, out, out_size, in_size, scale, span);
    if (m.crops()) outside.push_back(!(exact >= 0 && exact <= static_cast<float>(in_size - 1)));
    // Far outside all is the border; what a file says may be farther than integers reach, or no number.
    const float farthest = static_cast<float>(in_size) + 4;
    const float at = exact > -4.0F ? std::min(exact, farthest) : -4.0F;
    if (axis.taps == 1) {
      axis.index.push_back(clamped(nearest_index(l, m, at, scale)));
      axis.weight.push_back(1.0F);
      continue;
    }
    if (axis.taps == 2) {
      const float inside = std::clamp(at, 0.0F, static_cast<float>(in_size - 1));
      const auto first = static_cast<std::int64_t>(inside);
      const float weight = inside - static_cast<float>(first);
      axis.index.push_back(clamped(first));
      axis.index.push_back(clamped(first + 1));
      axis.weight.push_back(1.0F - weight);
      axis.weight.push_back(weight);
      continue;
    }
    const float base = std::floor(at);
    float weights[4];
    cubic_weights(m.cubic, at - base, weights);
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      const std::int64_t i = static_cast<std::int64_t>(base) - 1 + k;
      if (m.exclude_outside && (i < 0 || i >= in_size)) weights[k] = 0;
      sum += weights[k];
    }
    for (int k = 0; k < 4; ++k) {
      axis.index.push_back(clamped(static_cast<std::int64_t>(base) - 1 + k));
      axis.weight.push_back(m.exclude_outside ? weights[k] / sum : weights[k]);
    }
  }
  if (axis.taps == 1 && out_size % in_size == 0) {
    const std::int64_t factor = out_size / in_size;
    bool repeats = true;
    for (std::int64_t i = 0; i < out_size; ++i)
      repeats = repeats && axis.index[static_cast<std::size_t>(i)] == i / factor;
    if (repeats) axis.repeat = static_cast<int>(factor);
  }
  if (m.crops()) blank_outside(axis, outside);
  return axis;
}

// The dimensions of a picture whose channels come last in the order of one whose channels come first.
template <class T>
std::vector<T> channels_first(const std::vector<T>& of) {
  return {of[0], of[3], of[1], of[2]};
}

ValueId resized(Lowering& l, ValueId x, const Modes& m, const std::vector<float>& scales, const Shape& sizes) {
  const Shape in = l.shape(x);
  const std::size_t rank = in.size();
  l.require(m.interpolation == "nearest" || m.interpolation == "linear" || m.interpolation == "cubic",
            fmt::format("its mode '{}' is not supported", printable(m.interpolation)));
  for (std::size_t d = 0; d < rank; ++d) {
    l.require((sizes[d] > 0 || in[d] == 0) && (sizes[d] <= kMaxResizedSide || sizes[d] == in[d]),
              fmt::format("its output would be {}", to_string(sizes)));
    l.require(!m.antialias || sizes[d] >= in[d], "antialias is not supported when shrinking");
  }
  if (element_count(in) == 0) {  // as many pictures as were found
    return l.constant(Constant{DataType::kF32, sizes, {}, {}});
  }
  const auto span = [&](std::size_t d) { return m.region.empty() ? Span{} : Span{m.region[d], m.region[d + rank]}; };
  const auto whole = [&](std::size_t d) { return span(d).from == 0.0F && span(d).to == 1.0F; };
  // A scale that leaves the size as it is may still move what is shown: 4 pixels times 1.2 are 4 others.
  const auto kept = [&](std::size_t d) { return sizes[d] == in[d] && whole(d) && (scales[d] == 1.0F || in[d] == 1); };
  bool unchanged = true;
  for (std::size_t d = 0; d < rank; ++d) unchanged = unchanged && kept(d);
  if (unchanged) return x;
  if ((rank != 3 && rank != 4) || !kept(0) || !kept(1)) {
    l.refuse(fmt::format("resizing {} to {}: only the last one or two dimensions of a picture can be resized",
                         to_string(in), to_string(sizes)));
  }
  if (rank == 3) x = l.reshape(x, {in[0], in[1], 1, in[2]});
  Resize resize;
  resize.x = make_axis(l, m, in[rank - 1], sizes[rank - 1], scales[rank - 1], span(rank - 1));
  if (rank == 4)
    resize.y = make_axis(l, m, in[2], sizes[2], scales[2], span(2));
  else
    resize.y = {1, {0}, {1.0F}, 1};
  const Shape out = {in[0], in[1], rank == 4 ? sizes[2] : 1, sizes[rank - 1]};
  // What is outside is 0 by its weights: another value is taken off before and added after.
  const bool lifted = m.crops() && m.outside != 0.0F;
  if (lifted) x = l.binary(Binary::Kind::kSub, x, l.constant(m.outside));
  ValueId y = l.emit_pictures(resize, {x}, out);
  if (lifted) y = l.binary(Binary::Kind::kAdd, y, l.constant(m.outside));
  return rank == 3 ? l.reshape(y, sizes) : y;
}

void emit_resize(Lowering& l, const Modes& m, const std::vector<float>& scales, const Shape& sizes) {
  const ValueId x = l.input(0);
  const Shape in = l.shape(x);
  // Channels that come last, as ONNX Runtime's optimisers arrange the pictures of 8-bit networks.
  const bool last = in.size() == 4 && m.region.empty() && sizes[1] != in[1] && sizes[3] == in[3] && scales[3] == 1.0F;
  ValueId y = x;
  if (last) {
    y = resized(l, l.transpose(x, {0, 3, 1, 2}), m, channels_first(scales), channels_first(sizes));
    y = l.transpose(y, {0, 2, 3, 1});
  } else {
    y = resized(l, x, m, scales, sizes);
  }
  if (y != x && l.is_in_steps(x)) {
    // Between two steps there is none, and ONNX Runtime takes the one nearer to 0.
    if (m.interpolation != "nearest") y = l.unary(y, {Function::kTruncate, 0, 0});
    l.mark_steps(y);
  }
  l.set_output(0, y);
}

// Fills what is not given: scales from sizes, or sizes from scales.
void by_scales(Lowering& l, const Modes& m, const std::vector<float>& scales) {
  const Shape in = l.shape(l.input(0));
  l.require(scales.size() == in.size(), fmt::format("its scales do not fit its input {}", to_string(in)));
  Shape sizes;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const double size = std::floor(static_cast<double>(in[d]) * static_cast<double>(scales[d]));
    l.require(scales[d] > 0 && (size >= 1 || in[d] == 0) && size <= static_cast<double>(kMaxValueElements),
              fmt::format("its scale {} is out of range", scales[d]));
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  emit_resize(l, m, scales, sizes);
}

void by_sizes(Lowering& l, const Modes& m, const Shape& sizes) {
  const Shape in = l.shape(l.input(0));
  l.require(sizes.size() == in.size(), fmt::format("its sizes do not fit its input {}", to_string(in)));
  std::vector<float> scales;
  for (std::size_t d = 0; d < in.size(); ++d)
    scales.push_back(in[d] == 0 ? 1.0F : static_cast<float>(sizes[d]) / static_cast<float>(in[d]));
  emit_resize(l, m, scales, sizes);
}

void upsample(Lowering& l) {
  const Modes m{l.text("mode", "nearest"), "asymmetric", "simple", -0.75F};
  const auto* attribute = l.attribute("scales");
  if (attribute != nullptr) {
    by_scales(l, m, {attribute->floats().begin(), attribute->floats().end()});
  } else {
    by_scales(l, m, l.weights_input(1, "scales").f32);
  }
}

void resize(Lowering& l) {
  if (l.opset() < 11) {
    by_scales(l, {l.text("mode", "nearest"), "asymmetric", "simple", -0.75F}, l.weights_input(1, "scales").f32);
    return;
  }
  Modes m{l.text("mode", "nearest"),
          l.text("coordinate_transformation_mode", "half_pixel"),
          l.text("nearest_mode", "round_prefer_floor"),
          l.number("cubic_coeff_a", -0.75F),
          l.integer("exclude_outside", 0) != 0,
          l.integer("antialias", 0) != 0,
          {},
          l.number("extrapolation_value", 0.0F)};
  const std::string policy = l.text("keep_aspect_ratio_policy", "stretch");
  l.require(policy == "stretch" || policy == "not_larger" || policy == "not_smaller",
            fmt::format("its keep_aspect_ratio_policy '{}' is not supported", printable(policy)));
  const Shape in = l.shape(l.input(0));
  const int rank = static_cast<int>(in.size());
  std::vector<int> axes;
  if (const auto given = l.integers("axes")) {
    for (const std::int64_t a : *given) axes.push_back(l.axis(a, rank));
  } else {
    for (int a = 0; a < rank; ++a) axes.push_back(a);
  }
  if (m.crops()) {
    const std::vector<float> given = l.weights_input(1, "roi").f32;
    l.require(given.size() == 2 * axes.size(), "its roi does not fit its axes");
    m.region.assign(in.size(), 0.0F);
    m.region.resize(2 * in.size(), 1.0F);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      m.region[static_cast<std::size_t>(axes[i])] = given[i];
      m.region[in.size() + static_cast<std::size_t>(axes[i])] = given[i + axes.size()];
    }
  }
  // An empty tensor counts as absent: opset 11 required `scales` to be there.
  const bool sized = l.has_input(3) && !l.integers_input(3, "sizes").empty();
  if (sized) {
    const auto& given = l.integers_input(3, "sizes");
    l.require(given.size() == axes.size(), "its sizes do not fit its axes");
    Shape sizes = in;
    float common = policy == "not_larger" ? std::numeric_limits<float>::infinity() : 0.0F;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto d = static_cast<std::size_t>(axes[i]);
      sizes[d] = given[i];
      const float factor = static_cast<float>(given[i]) / static_cast<float>(in[d]);
      common = policy == "not_larger" ? std::min(common, factor) : std::max(common, factor);
    }
    if (policy == "stretch" || axes.empty()) {
      by_sizes(l, m, sizes);
      return;
    }
    std::vector<float> scales(in.size(), 1.0F);
    for (const int axis : axes) {
      const auto d = static_cast<std::size_t>(axis);
      const float size = std::floor(common * static_cast<float>(in[d]) + 0.5F);
      l.require(size >= 1 && size <= static_cast<float>(kMaxResizedSide), "its sizes are out of range");
      scales[d] = common;
      sizes[d] = static_cast<std::int64_t>(size);
    }
    emit_resize(l, m, scales, sizes);
    return;
  }
  const auto& given = l.weights_input(2, "scales").f32;
  l.require(given.size() == axes.size(), "its scales do not fit its axes");
  std::vector<float> scales(in.size(), 1.0F);
  for (std::size_t i = 0; i < axes.size(); ++i) scales[static_cast<std::size_t>(axes[i])] = given[i];
  by_scales(l, m, scales);
}

}  // namespace

const std::vector<HandlerEntry>& resize_handlers() {
  static const std::vector<HandlerEntry> kTable = {
      {"Resize", resize, "the last one or two dimensions; antialias only when enlarging"},
      {"Upsample", upsample, "the last one or two dimensions"}};
  return kTable;
}

}  // namespace camd::infer
