// Convolutions beside each other whose results are added (infer/graph/branch_pass.hpp).
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "infer/graph/reference.hpp"
#include "lowered.hpp"
#include "onnx_builder.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::lower;
using test::OnnxBuilder;

// Quarters from -1 to 1: sums and products of a few are exact in f32, in every order.
std::vector<float> quarters(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> whole(-4, 4);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(whole(random)) / 4);
  return values;
}

// Adds a convolution y = conv(x) with a bias.
void convolve(OnnxBuilder& b, const std::string& y, const Shape& weight, std::int64_t stride, std::int64_t groups,
              const std::vector<std::int64_t>& pads, std::int64_t dilation = 1, const std::string& x = "x") {
  b.weight(y + "_w", weight, quarters(element_count(weight), static_cast<unsigned>(y.size()) + 1));
  b.weight(y + "_b", {weight[0]}, quarters(weight[0], 7));
  b.node("Conv", {x, y + "_w", y + "_b"}, {y}).ints("pads", pads).ints("strides", {stride, stride});
  b.integer("group", groups).ints("dilations", {dilation, dilation});
}

void expect_ops(const OnnxBuilder& builder, std::size_t ops, const Shape& shape, const std::string& what) {
  LowerOptions plain;
  plain.optimize = false;
  const Graph graph = lower(builder, shape);
  EXPECT_EQ(graph.ops.size(), ops) << what;
  const std::vector<float> x = quarters(element_count(shape), 5);
  const auto want = run_reference(lower(builder, shape, plain), x), got = run_reference(graph, x);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].shape, got[i].shape) << what;
    EXPECT_EQ(want[i].f32, got[i].f32) << what << " output " << i;
  }
}

TEST(Branches, ConvolutionsOfOneValueThatAreAddedAreOne) {
  struct Case {
    const char* what;
    std::int64_t groups, stride;
    Shape large, small;  // of the kernels
    std::vector<std::int64_t> large_pads, small_pads;
    std::int64_t dilation;  // of the large one
  };
  for (const Case& c : {Case{"3x3 and 1x1", 1, 1, {3, 3}, {1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1},
                        {"with stride 2", 1, 2, {3, 3}, {1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1},
                        {"of each channel", 4, 1, {3, 3}, {1, 1}, {1, 1, 1, 1}, {0, 0, 0, 0}, 1},
                        {"in two groups", 2, 1, {5, 5}, {3, 3}, {2, 2, 2, 2}, {1, 1, 1, 1}, 1},
                        {"of equal size", 1, 1, {3, 3}, {3, 3}, {1, 1, 1, 1}, {1, 1, 1, 1}, 1},
                        {"dilated and 1x1", 1, 1, {3, 3}, {1, 1}, {2, 2, 2, 2}, {0, 0, 0, 0}, 2},
                        {"a row within a window", 1, 1, {3, 3}, {1, 3}, {1, 1, 1, 1}, {0, 1, 0, 1}, 1}}) {
    for (const bool large_first : {false, true}) {
      OnnxBuilder b;
      b.input("x", {1, 4, 7, 9});
      convolve(b, "large", {8, 4 / c.groups, c.large[0], c.large[1]}, c.stride, c.groups, c.large_pads, c.dilation);
      convolve(b, "s", {8, 4 / c.groups, c.small[0], c.small[1]}, c.stride, c.groups, c.small_pads);
      b.node("Add", large_first ? std::vector<std::string>{"large", "s"} : std::vector<std::string>{"s", "large"},
             {"a"});
      b.node("Relu", {"a"}, {"y"}).output("y", {});
      expect_ops(b, 1, {1, 4, 7, 9}, c.what);
    }
  }
}

// As MobileOne and RepVGG are trained: the identity is a batch norm of its own.
TEST(Branches, ALinePerChannelOfTheInputIsOneOfThem) {
  for (const std::int64_t groups : {1, 2, 4}) {
    OnnxBuilder b;
    b.input("x", {1, 4, 6, 5})
        .weight("gain", {4, 1, 1}, {0.5F, 2, -1, 0.25F})
        .weight("offset", {4, 1, 1}, {1, 0, 2, -3});
    b.node("Mul", {"x", "gain"}, {"g"}).node("Add", {"g", "offset"}, {"line"});
    convolve(b, "one", {4, 4 / groups, 1, 1}, 1, groups, {0, 0, 0, 0});
    convolve(b, "three", {4, 4 / groups, 3, 3}, 1, groups, {1, 1, 1, 1});
    convolve(b, "other", {4, 4 / groups, 3, 3}, 1, groups, {1, 1, 1, 1});
    b.node("Add", {"one", "line"}, {"a"}).node("Add", {"a", "three"}, {"c"}).node("Add", {"c", "other"}, {"y"});
    expect_ops(b.output("y", {}), 1, {1, 4, 6, 5}, std::to_string(groups));
  }
}

TEST(Branches, WhatDoesNotLieWithinTheOtherStaysTwo) {
  const Shape shape = {1, 4, 7, 9};
  const auto expect_two = [&](const std::string& what, const auto& build) {
    OnnxBuilder b;
    b.input("x", shape);
    build(b);
    expect_ops(b, 2, shape, what);
  };
  expect_two("a row and a column", [](OnnxBuilder& b) {
    convolve(b, "a", {4, 4, 3, 1}, 1, 1, {1, 0, 1, 0});
    convolve(b, "bb", {4, 4, 1, 3}, 1, 1, {0, 1, 0, 1});
    b.node("Add", {"a", "bb"}, {"y"}).output("y", {});
  });
  expect_two("other groups", [](OnnxBuilder& b) {
    convolve(b, "a", {4, 4, 3, 3}, 1, 1, {1, 1, 1, 1});
    convolve(b, "bb", {4, 1, 3, 3}, 1, 4, {1, 1, 1, 1});
    b.node("Add", {"a", "bb"}, {"y"}).output("y", {});
  });
  expect_two("beside the window", [](OnnxBuilder& b) {
    convolve(b, "a", {4, 4, 2, 2}, 1, 1, {1, 1, 0, 0});
    convolve(b, "bb", {4, 4, 2, 2}, 1, 1, {0, 0, 1, 1});
    b.node("Add", {"a", "bb"}, {"y"}).output("y", {});
  });
  expect_two("an output of the model", [](OnnxBuilder& b) {
    convolve(b, "a", {4, 4, 3, 3}, 1, 1, {1, 1, 1, 1});
    convolve(b, "bb", {4, 4, 1, 1}, 1, 1, {0, 0, 0, 0});
    b.node("Add", {"a", "bb"}, {"y"}).output("y", {}).output("a", {});
  });
  expect_two("of other values", [](OnnxBuilder& b) {
    convolve(b, "a", {4, 4, 1, 1}, 1, 1, {0, 0, 0, 0});
    convolve(b, "bb", {4, 4, 1, 1}, 1, 1, {0, 0, 0, 0}, 1, "a");
    b.node("Add", {"a", "bb"}, {"y"}).output("y", {});
  });
  // The input itself is added as the convolution's residual.
  OnnxBuilder b;
  b.input("x", shape);
  convolve(b, "a", {4, 4, 3, 3}, 1, 1, {1, 1, 1, 1});
  b.node("Add", {"x", "a"}, {"y"}).output("y", {});
  expect_ops(b, 1, shape, "a residual");
  EXPECT_NE(lower(b, shape).ops[0].inputs.at(3), kNoValue);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
