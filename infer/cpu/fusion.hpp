// What the CPU engine runs as one step although the graph has several ops for it: normalisations, attention, and
// a pair of QuantizeLinear and DequantizeLinear with the op before it.
//
// Threads: a function of its argument, [any]. Private to infer/cpu/.
#pragma once

#include <unordered_map>
#include <vector>

#include "infer/cpu/kernels.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cpu {

// y = f((x - mean) / sqrt(variance + epsilon) * gain + offset) for a picture x, with mean and variance over `group`
// neighbouring channels of the whole picture.
struct Normalization {
  int group = 1;
  float epsilon = 0.0F;
  std::vector<float> gain, offset;  // per channel
};

// softmax(q * k * scale) * v, over the last dimension.
struct Attention {
  float scale = 1.0F;
  bool turned = false;  // values and results have their rows and columns exchanged: v * transposed(softmax(...))
};

// Per value, what the op that makes it does beyond the operator it names.
struct Fusions {
  std::unordered_map<ValueId, Normalization> normalizations;  // of a Unary that does nothing else
  std::unordered_map<ValueId, Attention> attentions;          // of a MatMul whose inputs are q, k, none and v
  std::unordered_map<ValueId, Requantize> requantizations;    // after the op and its activation
};

// Rewrites the graph and says what its ops do beside that; build_program() makes steps of both. Results stay the same
// but for the order in which a normalisation's sums are taken.
[[nodiscard]] Fusions fuse(Graph& graph);

}  // namespace camd::infer::cpu
