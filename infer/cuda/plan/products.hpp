// Products by known matrices as convolutions. Private to infer/cuda.
//
// Threads: a function of its argument, [any].
#pragma once

#include "infer/graph/graph.hpp"

namespace camd::infer::cuda {

// x [.., M, K] times a constant [K, N] becomes a 1x1 convolution of the picture [1, K, h, w] with h * w = M, which lies
// in memory as x does. So such products get the tensor cores, the functions and the choice of precision that
// convolutions have. A second call changes nothing.
[[nodiscard]] Graph with_convolved_products(const Graph& graph);

}  // namespace camd::infer::cuda
