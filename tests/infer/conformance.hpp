// ONNX's own operator cases for tests of engines. They come from Debian's python3-onnx, made once per build folder.
#pragma once

#include <string>
#include <vector>

#include "infer/graph/lower_model.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer::test {

struct ConformanceCase {
  std::string name;
  OnnxFile file;
  TensorSpec input;
  std::vector<float> values;       // of the input
  std::vector<Constant> expected;  // per output
};

// Every case whose operators are all supported, but for a list of exceptions; empty when the package is not here.
[[nodiscard]] std::vector<ConformanceCase> conformance_cases();

// Whether `got` equals the case's output i by the cases' own tolerance; says where it does not.
[[nodiscard]] std::string difference(const Constant& expected, const float* got, const Shape& shape);

}  // namespace camd::infer::test
