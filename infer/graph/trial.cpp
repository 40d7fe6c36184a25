// The picture and the values that f16 and f32 are compared on.
#include "infer/graph/trial.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "infer/graph/rewriting.hpp"

namespace camd::infer {
namespace {

constexpr std::size_t kChannels = 3;

// Adds values of -amplitude to amplitude, random every `cell` pixels and linear between, mostly the same in all
// channels.
void add_texture(std::vector<float>& pixels, int width, int rows, int cell, float amplitude, std::minstd_rand& random) {
  const auto points = [&](int side) { return static_cast<std::size_t>(side / cell) + 2; };
  const std::size_t columns = points(width);
  std::vector<float> lattice(columns * points(rows) * kChannels);
  const auto next = [&] { return static_cast<float>(random() % 2001) / 1000.0F - 1.0F; };
  for (std::size_t i = 0; i < lattice.size(); i += kChannels) {
    const float light = next();
    for (std::size_t c = 0; c < kChannels; ++c) lattice[i + c] = amplitude * (0.7F * light + 0.3F * next());
  }
  float* to = pixels.data();
  for (int y = 0; y < rows; ++y) {
    const float* const row = &lattice[static_cast<std::size_t>(y / cell) * columns * kChannels];
    const float down = static_cast<float>(y % cell) / static_cast<float>(cell);
    for (int x = 0; x < width; ++x) {
      const float* const corner = row + static_cast<std::size_t>(x / cell) * kChannels;
      const float right = static_cast<float>(x % cell) / static_cast<float>(cell);
      for (std::size_t c = 0; c < kChannels; ++c) {
        const float* const below = corner + columns * kChannels;
        const float above = corner[c] + (corner[c + kChannels] - corner[c]) * right;
        *to++ += above + (below[c] + (below[c + kChannels] - below[c]) * right - above) * down;
      }
    }
  }
}

}  // namespace

std::vector<std::byte> trial_picture(int width, int height) {
  std::minstd_rand random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same picture each time
  std::vector<float> pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * kChannels, 120.0F);
  const int rows = (height + 1) / 2;
  add_texture(pixels, width, rows, 32, 60.0F, random);
  add_texture(pixels, width, rows, 8, 40.0F, random);
  add_texture(pixels, width, rows, 2, 20.0F, random);
  add_texture(pixels, width, rows, 1, 8.0F, random);
  for (int y = rows; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto at = (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x));
      std::fill_n(&pixels[at * kChannels], kChannels, x < width / 2 ? 114.0F : 0.0F);
    }
  }
  std::vector<std::byte> bytes(pixels.size());
  std::transform(pixels.begin(), pixels.end(), bytes.begin(),
                 [](float v) { return static_cast<std::byte>(std::clamp(v, 0.0F, 255.0F)); });
  return bytes;
}

namespace {

// Its result changes by a step where what it reads changes by nothing much.
bool chooses(const Operation& operation) {
  if (std::holds_alternative<TopK>(operation)) return true;
  if (const auto* binary = std::get_if<Binary>(&operation)) {
    return binary->kind == Binary::Kind::kEqual || binary->kind == Binary::Kind::kLess ||
           binary->kind == Binary::Kind::kLessOrEqual;
  }
  const auto* unary = std::get_if<Unary>(&operation);
  if (unary == nullptr) return false;
  const Function f = unary->function.function;
  return f == Function::kFloor || f == Function::kCeil || f == Function::kRound || f == Function::kSign ||
         f == Function::kTruncate;
}

std::size_t channel_axis(const Shape& shape) {
  if (shape.size() == 4) return 1;
  std::size_t axis = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && (shape[axis] <= 1 || shape[d] < shape[axis])) axis = d;
  }
  return axis;
}

float distance(const std::vector<float>& got, const std::vector<float>& want, const Shape& shape, float least_scale) {
  std::size_t channels = 1, inner = std::max<std::size_t>(want.size(), 1);
  if (std::count_if(shape.begin(), shape.end(), [](std::int64_t d) { return d > 1; }) > 1) {
    const std::size_t axis = channel_axis(shape);
    channels = static_cast<std::size_t>(shape[axis]);
    inner = 1;
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
  }
  std::vector<float> largest(channels, 0.0F), far(channels, 0.0F);
  const auto take = [&](std::size_t k, std::size_t channel) {
    if (got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k]))) {
      if (std::isfinite(want[k])) largest[channel] = std::max(largest[channel], std::abs(want[k]));
      return true;
    }
    if (!std::isfinite(got[k]) || !std::isfinite(want[k])) return false;
    largest[channel] = std::max(largest[channel], std::abs(want[k]));
    far[channel] = std::max(far[channel], std::abs(got[k] - want[k]));
    return true;
  };
  for (std::size_t k = 0; k < want.size();) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      for (const std::size_t end = k + inner; k < end; ++k) {
        if (!take(k, channel)) return std::numeric_limits<float>::infinity();
      }
    }
  }
  const float all = channels == 0 ? 0.0F : *std::max_element(largest.begin(), largest.end());
  const float least = std::max({std::min(all, 1.0F), least_scale, std::numeric_limits<float>::min()});
  float worst = 0;
  for (std::size_t c = 0; c < channels; ++c) worst = std::max(worst, far[c] / std::max(largest[c], least));
  return worst;
}

}  // namespace

TrialGraph trial_graph(const Graph& graph, bool repeats_top_k) {
  TrialGraph trial{graph, {}};
  std::vector<bool> depends(graph.values.size(), false);  // on a choice of any kind
  std::vector<bool> behind(graph.values.size(), false);   // one that is not repeated
  std::vector<ValueId> read;                              // by choices and what is behind them
  const auto any = [](const std::vector<bool>& of, const Op& op) {
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](ValueId in) { return in != kNoValue && of[static_cast<std::size_t>(in)]; });
  };
  for (const Op& op : graph.ops) {
    bool is_behind = any(behind, op);
    if (std::holds_alternative<Conv>(op.operation)) trial.unmeasured.push_back(is_behind);
    const bool repeated = repeats_top_k && std::holds_alternative<TopK>(op.operation);
    is_behind = is_behind || (chooses(op.operation) && !repeated);
    behind[static_cast<std::size_t>(op.output)] = is_behind;
    depends[static_cast<std::size_t>(op.output)] = is_behind || repeated || any(depends, op);
    if (!is_behind && !repeated) continue;
    for (const ValueId in : op.inputs) {
      if (in == kNoValue || in == graph.input || graph.is_constant(in) || behind[static_cast<std::size_t>(in)])
        continue;
      if (std::find(read.begin(), read.end(), in) == read.end()) read.push_back(in);
    }
  }
  std::vector<ValueId>& outputs = trial.graph.outputs;
  const auto of = [](const std::vector<bool>& set) {
    return [&set](ValueId id) { return set[static_cast<std::size_t>(id)]; };
  };
  if (std::none_of(outputs.begin(), outputs.end(), of(depends))) return trial;
  outputs.erase(std::remove_if(outputs.begin(), outputs.end(), of(behind)), outputs.end());
  for (const ValueId id : read) {
    if (std::find(outputs.begin(), outputs.end(), id) == outputs.end()) outputs.push_back(id);
  }
  return trial;
}

std::size_t convolutions_of_a_run(const Graph& graph, std::size_t convolutions, std::int64_t most_multiply_adds) {
  std::int64_t compared = 0;
  for (const ValueId id : graph.outputs) compared += element_count(graph.shape(id));
  const auto runs = static_cast<std::int64_t>(convolutions);
  return static_cast<std::size_t>(
      std::max(multiply_adds(graph) * runs / most_multiply_adds, compared * runs / kMostCompared) + 1);
}

float off_by_each(float off, std::size_t convolutions) { return off / std::sqrt(static_cast<float>(convolutions)); }

namespace {

// For each of the graph's values, whether a sigmoid or a Softmax made it.
std::vector<bool> probabilities(const Graph& graph) {
  std::vector<bool> are(graph.values.size(), false);
  for (const Op& op : graph.ops) {
    const auto all = [&](std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        if (op.inputs[i] == kNoValue || !are[static_cast<std::size_t>(op.inputs[i])]) return false;
      }
      return true;
    };
    const auto* unary = std::get_if<Unary>(&op.operation);
    const auto* softmax = std::get_if<Softmax>(&op.operation);
    const auto* reduce = std::get_if<Reduce>(&op.operation);
    const auto* binary = std::get_if<Binary>(&op.operation);
    const Function f = unary != nullptr ? unary->function.function : op.activation.function;
    bool is = f == Function::kSigmoid || f == Function::kHardSigmoid || (softmax != nullptr && !softmax->log);
    const bool moves = std::holds_alternative<Reshape>(op.operation) ||
                       std::holds_alternative<Transpose>(op.operation) || std::holds_alternative<Slice>(op.operation) ||
                       std::holds_alternative<Gather>(op.operation) ||
                       (reduce != nullptr && reduce->kind == Reduce::Kind::kMax);
    if (moves && all(1)) is = true;
    if ((std::holds_alternative<Concat>(op.operation) ||
         (binary != nullptr && binary->kind == Binary::Kind::kMul && f == Function::kNone)) &&
        all(op.inputs.size())) {
      is = true;
    }
    are[static_cast<std::size_t>(op.output)] = is;
  }
  return are;
}

// What readers of class scores make of them.
std::vector<float> sigmoid_of(std::vector<float> scores) {
  for (float& score : scores) score = 1.0F / (1.0F + std::exp(-score));
  return scores;
}
std::vector<float> softmax_of(std::vector<float> scores, std::size_t classes) {
  for (auto row = scores.begin(); row != scores.end(); row += static_cast<std::ptrdiff_t>(classes)) {
    const auto end = row + static_cast<std::ptrdiff_t>(classes);
    const float most = *std::max_element(row, end);
    std::transform(row, end, row, [&](float score) { return std::exp(score - most); });
    const float sum = std::accumulate(row, end, 0.0F);
    std::transform(row, end, row, [&](float share) { return share / sum; });
  }
  return scores;
}

// Of rows of probabilities, without the worst hundredth of them.
float distance_of_most_rows(const std::vector<float>& got, const std::vector<float>& want, std::size_t classes) {
  std::vector<float> largest(classes, kLeastProbability), rows(want.size() / classes, 0.0F);
  for (std::size_t i = 0; i < want.size(); ++i) largest[i % classes] = std::max(largest[i % classes], want[i]);
  for (std::size_t i = 0; i < want.size(); ++i) {
    float& row = rows[i / classes];
    row = std::max(row, std::abs(got[i] - want[i]) / largest[i % classes]);
  }
  const auto worst = rows.end() - 1 - static_cast<std::ptrdiff_t>(rows.size() / 100);
  std::nth_element(rows.begin(), worst, rows.end());
  return *worst;
}

float distance_of_class_scores(const std::vector<float>& got, const std::vector<float>& want, const Shape& shape) {
  if (want.empty()) return 0.0F;
  if (std::isinf(distance(got, want, shape, 0.0F))) return std::numeric_limits<float>::infinity();
  const auto classes = static_cast<std::size_t>(shape.back());
  return std::max(distance_of_most_rows(sigmoid_of(got), sigmoid_of(want), classes),
                  distance_of_most_rows(softmax_of(got, classes), softmax_of(want, classes), classes));
}

// What each convolution costs in f32, in products of one. Measured on an H200: products of two values that are made at
// run time, as attention has them, take longer in f32 by so much, and values that cross from one type to the other cost
// kernels.
std::vector<double> f32_costs(const Graph& graph) {
  constexpr double kCrossing = 40e6, kOfTwoValues = 17;
  const std::vector<int> makers = producers(graph);
  const auto is_convolution = [&](int op) { return std::holds_alternative<Conv>(graph.ops[at(op)].operation); };
  std::vector<std::vector<int>> in_front(graph.ops.size()), behind(graph.ops.size());  // of each op
  std::vector<double> costs(graph.ops.size(), 0.0);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    costs[i] = kCrossing + static_cast<double>(multiply_adds(graph, graph.ops[i]));
    for (const ValueId in : graph.ops[i].inputs) {
      if (in == kNoValue || makers[at(in)] < 0) continue;
      in_front[i].push_back(makers[at(in)]);
      behind[at(makers[at(in)])].push_back(static_cast<int>(i));
    }
  }
  // Such a product is computed in f32 where the convolutions next to it are.
  const auto charge = [&](std::size_t product, const std::vector<std::vector<int>>& neighbours) {
    const double cost = kOfTwoValues * static_cast<double>(multiply_adds(graph, graph.ops[product]));
    std::vector<bool> seen(graph.ops.size(), false);
    std::vector<int> next{static_cast<int>(product)};
    while (!next.empty()) {
      const int op = next.back();
      next.pop_back();
      if (seen[at(op)]) continue;
      seen[at(op)] = true;
      if (is_convolution(op)) {
        costs[at(op)] += cost;
      } else {
        next.insert(next.end(), neighbours[at(op)].begin(), neighbours[at(op)].end());
      }
    }
  };
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (!std::holds_alternative<MatMul>(op.operation)) continue;
    if (graph.is_constant(op.inputs[0]) || graph.is_constant(op.inputs[1])) continue;
    charge(i, in_front);
    charge(i, behind);
  }
  std::vector<double> of_convolutions;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (is_convolution(static_cast<int>(i))) of_convolutions.push_back(costs[i]);
  }
  return of_convolutions;
}

}  // namespace

std::vector<OutputKind> output_kinds(const Graph& graph) {
  const std::vector<bool> probable = probabilities(graph);
  std::vector<OutputKind> kinds;
  for (const ValueId id : graph.outputs)
    kinds.push_back(probable[static_cast<std::size_t>(id)] ? OutputKind::kProbabilities : OutputKind::kValues);
  const auto rows_of = [&](std::size_t output) {
    const Shape& shape = graph.shape(graph.outputs[output]);
    return shape.size() == 3 && shape[0] == 1 ? shape[1] : 0;
  };
  const auto has_boxes = [&](std::size_t output) { return graph.shape(graph.outputs[output])[2] == 4; };
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != OutputKind::kValues || rows_of(i) <= 1 || has_boxes(i)) continue;
    std::vector<std::size_t> others;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (k != i && rows_of(k) == rows_of(i)) others.push_back(k);
    }
    if (others.size() == 1 && has_boxes(others[0])) kinds[i] = OutputKind::kClassScores;
  }
  return kinds;
}

float distance(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want,
               const std::vector<Shape>& shapes, const std::vector<OutputKind>& kinds) {
  float worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const OutputKind kind = i < kinds.size() ? kinds[i] : OutputKind::kValues;
    const float least = kind == OutputKind::kProbabilities ? kLeastProbability : 0.0F;
    worst = std::max(worst, kind == OutputKind::kClassScores ? distance_of_class_scores(got[i], want[i], shapes[i])
                                                             : distance(got[i], want[i], shapes[i], least));
  }
  return worst;
}

F32Choice f32_choice(const Graph& graph, const std::vector<OutputKind>& kinds, float together) {
  F32Choice choice;
  if (std::find(kinds.begin(), kinds.end(), OutputKind::kClassScores) == kinds.end()) return choice;
  choice.wanted = kWantedOfClassScores;
  choice.together = together;
  choice.costs = f32_costs(graph);
  return choice;
}

std::vector<bool> choose_f32_convolutions(const std::vector<float>& alone, const std::vector<bool>& given,
                                          const std::function<float(const std::vector<bool>& in_f32)>& distance_of,
                                          const F32Choice& choice) {
  const std::size_t count = alone.size();
  const auto harm = [&](std::size_t i) {
    const auto own = static_cast<double>(alone[i]);
    return choice.costs.empty() ? own : own * own / std::max(choice.costs[i], 1.0);
  };
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    if (!given[i]) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return harm(a) > harm(b); });
  // What is left of independent errors, if the first n of the order are taken away.
  std::vector<double> left(order.size() + 1, 0.0);
  for (std::size_t n = order.size(); n-- > 0;) left[n] = std::hypot(left[n + 1], static_cast<double>(alone[order[n]]));
  const auto together = static_cast<double>(choice.together);
  const double scale = together > 0 && std::isfinite(left[0]) && left[0] > together ? together / left[0] : 1.0;
  std::size_t n = 1;
  while (n < order.size() && left[n] * scale > static_cast<double>(choice.wanted)) ++n;
  for (int tries = 0; tries < kMostTries && n < order.size(); ++tries) {
    std::vector<bool> in_f32 = given;
    for (std::size_t i = 0; i < n; ++i) in_f32[order[i]] = true;
    const float off = distance_of(in_f32);
    if (off <= choice.wanted) return in_f32;
    // Beyond the largest number nothing tells how many are missing.
    n += std::isinf(off) ? n : std::max<std::size_t>(1, n / 4);
  }
  return std::vector<bool>(count, true);
}

}  // namespace camd::infer
