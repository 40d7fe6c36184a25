// Lowers small models of OnnxBuilder, whose input is always called x, and runs them by the reference.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/graph/reference.hpp"
#include "onnx_builder.hpp"

namespace camd::infer::test {

inline Graph lower(const OnnxBuilder& builder, const Shape& shape = {1, 3, 8, 8}, const LowerOptions& options = {}) {
  return lower_model(builder.file(), {"x", shape, DataType::kF32}, options);
}

// What lowering refuses the model with, which is the model's fault; "accepted" when it does not.
inline std::string refusal(const OnnxBuilder& builder, const Shape& shape = {1, 3, 8, 8}) {
  try {
    (void)lower(builder, shape);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kModel);
    return error.what();
  }
  return "accepted";
}

inline std::vector<float> count_up(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

// The first output for an input of 0, 1, 2, ...
inline std::vector<float> result_of_counts(const OnnxBuilder& builder, const Shape& shape) {
  return run_reference(lower(builder, shape), count_up(element_count(shape)))[0].f32;
}

}  // namespace camd::infer::test
