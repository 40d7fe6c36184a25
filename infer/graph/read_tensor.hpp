// A tensor of an ONNX file as a Constant: raw and typed fields, every element type, external files.
//
// Threads: as Lowering, one thread during lower_model(). Private to infer/graph/.
#pragma once

#include <string>

#include "base/error.hpp"
#include "infer/graph/lowering.hpp"

namespace camd::infer {

// Weights beside the model cannot be read, by no engine.
class WeightsMissing final : public base::Error {
 public:
  explicit WeightsMissing(const std::string& message) : Error(base::ErrorKind::kModel, message) {}
};

// Float types become f32, integers and booleans i64. [blocks] where the tensor is in an external file, which must lie
// in the model's folder or below. Throws WeightsMissing where they are not, and Error(kModel) as Lowering::refuse()
// does for what else cannot be read.
[[nodiscard]] Constant read_tensor(const Lowering& l, const onnx::TensorProto& tensor);

}  // namespace camd::infer
