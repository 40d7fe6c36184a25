// Functions that a model brings along beside its graph (ONNX IR 8), put in where they are called.
//
// Threads: a function of its arguments, [any]. Private to infer/, as onnx/file.hpp is.
#pragma once

#include "infer/onnx/file.hpp"

namespace camd::infer {

// Nodes and bytes that all calls of a model may come to, and how deep a function may call others. PyTorch's exporter
// of 2.1 to 2.5 makes a function of each layer; a function that calls itself ends at these.
inline constexpr int kMaxInlinedNodes = 40'000;
inline constexpr std::size_t kMaxInlinedBytes = std::size_t{64} << 20;
inline constexpr int kMaxCallDepth = 32;

// Replaces each call in the file's graph, and in the graphs inside its nodes, by the nodes of the function. Names
// inside a call begin with the function's and the call's number, as in "Block_3/x". The graph need not have been
// checked, and needs to be afterwards. Throws Error(kModel) with `path` for functions that contradict themselves, are
// of another opset than the model, or come to more than the limits above.
void inline_functions(const std::string& path, onnx::ModelProto& model);

}  // namespace camd::infer
