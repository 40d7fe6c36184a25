// The trial of half precision: what engines that compute in it compare with f32 when they are made, and how far off it
// may be
// (infer/cuda/trial.hpp, infer/cpu/half_trial.hpp, docs/adr/0039-f16-by-layer.md).
//
// Threads: functions of their arguments, [any]; called while an engine is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "infer/graph/graph.hpp"

namespace camd::infer {

// The picture that is computed: BGR, [height][width][3], the same at each call. Its upper half is texture of all sizes.
// Its lower half is the grey of letterboxes, and black. f16 errs most on large even areas: there a layer's errors are
// the same at every pixel and add up in the next layer.
[[nodiscard]] std::vector<std::byte> trial_picture(int width, int height);

// The graph that is compared. An output behind a choice (TopK, a comparison, a number made whole) is another one
// as soon as two values come in another order, however close they are. So what choices read is compared as well. A
// trial whose runs repeat the first one's TopK says so: all its runs go on with the same positions. What is behind
// other choices is not compared; what the operators behind them read from in front stands for it.
struct TrialGraph {
  Graph graph;
  // For each convolution: it stands behind a choice, where nothing is compared, and is computed in f32.
  std::vector<bool> unmeasured;
};
[[nodiscard]] TrialGraph trial_graph(const Graph& graph, bool repeats_top_k);

// Which convolutions do harm is found out by runs in which a few of them are in half precision. So many of them share a
// run that all runs together take at most `most_multiply_adds` and compare at most kMostCompared values. That bounds
// the time for large networks, and for those in which hundreds of values are read behind a choice. At least 1.
inline constexpr std::int64_t kMostCompared = 250'000'000;
[[nodiscard]] std::size_t convolutions_of_a_run(const Graph& graph, std::size_t convolutions,
                                                std::int64_t most_multiply_adds);
// How far off one of the convolutions of a run makes the network, where all of them together make it `off`: their
// errors are independent, so they add up as squares.
[[nodiscard]] float off_by_each(float off, std::size_t convolutions);

// What an output's values are.
enum class OutputKind : std::uint8_t {
  kValues,
  kProbabilities,  // a sigmoid or a Softmax made them
  kClassScores,    // whoever reads them makes probabilities of them, by a sigmoid or a Softmax over the last dimension
};
// For each of the graph's outputs. Class scores are known by the boxes beside them: [1, n, 4] and [1, n, classes], as
// networks of the DETR family end, with no other output of n rows.
[[nodiscard]] std::vector<OutputKind> output_kinds(const Graph& graph);

// The largest difference of an element, as a share of the largest wanted value of its channel, infinite where only one
// of both is a number. Channels are the second of four dimensions, else the shortest one of more than one. So scores
// count as much as the pixels of boxes that lie in one output with them. A channel whose values stay below 1 counts as
// if it reached 1, or what its output reaches where that is less: f16 is not asked for more of scores than of others.
// Probabilities count as if they reached kLeastProbability, however empty the picture: kToleratedDistance is then 0.01
// of a score. Class scores are compared as the probabilities that are made of them, in both ways, and the worst
// hundredth of their rows is left out: a query between two places goes to either of them by what is rounded last, in
// f32 as well. All outputs are values where `kinds` is empty.
inline constexpr float kLeastProbability = 0.25F;
[[nodiscard]] float distance(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want,
                             const std::vector<Shape>& shapes, const std::vector<OutputKind>& kinds = {});

// Up to kToleratedDistance the network is computed in f16 alone. Beyond, convolutions in f32 must bring the distance
// down to kWantedDistance. Frames of cameras were at most 1.4 times as far off as this picture: 0.02 is promised.
inline constexpr float kToleratedDistance = 0.04F;
inline constexpr float kWantedDistance = 0.01F;
// Of class scores it is known what a distance means: frames 1.4 times as far off keep 0.01 of a score.
inline constexpr float kWantedOfClassScores = kToleratedDistance / 1.4F;

// What the choice of convolutions in f32 is to reach, and at which price.
struct F32Choice {
  float wanted = kWantedDistance;
  // For each convolution, what it costs in f32. Those come first that do most harm for their cost; empty: most harm.
  std::vector<double> costs;
  // How far off the network is with what is given alone. The errors of single convolutions, added as squares, may say
  // more; they are then taken for as much less. 0: not known.
  float together = 0.0F;
};
[[nodiscard]] F32Choice f32_choice(const Graph& graph, const std::vector<OutputKind>& kinds, float together);

// For each convolution, whether it is computed in f32. `alone`: how far the network is off if this convolution alone is
// computed in half precision. `given` are in f32 anyway. `distance_of` tells how far the network is off with these in
// f32; it is called at most kMostTries times. The result is what it was called with last, or all convolutions, which
// leaves nothing for it.
inline constexpr int kMostTries = 7;
[[nodiscard]] std::vector<bool> choose_f32_convolutions(
    const std::vector<float>& alone, const std::vector<bool>& given,
    const std::function<float(const std::vector<bool>& in_f32)>& distance_of, const F32Choice& choice = {});

}  // namespace camd::infer
