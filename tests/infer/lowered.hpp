// Lowers small models of OnnxBuilder, whose input is always called x.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "infer/graph/lower_model.hpp"
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

}  // namespace camd::infer::test
