// What the part on the host computes for each frame: products with an engine's kernels, and memory that is let go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "infer/cpu/cpu_engine.hpp"
#include "infer/graph/folding.hpp"
#include "infer/graph/reference.hpp"
#include "lowered.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::OnnxBuilder;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

Constant noise(const Shape& shape) {
  std::mt19937 random(static_cast<unsigned>(element_count(shape)));
  std::uniform_real_distribution<float> some(-1, 1);
  Constant c{DataType::kF32, shape, {}, {}};
  for (std::int64_t i = 0; i < element_count(shape); ++i) c.f32.push_back(some(random));
  return c;
}

int products = 0;
void multiply(const Product& product) {
  ++products;
  cpu::multiply(product);
}

// Whether fold() makes the reference's result of noise, and by how many products.
void expect_products(int count, Operation operation, const std::vector<Shape>& shapes, const Shape& out) {
  std::vector<Constant> inputs;
  inputs.reserve(shapes.size());
  for (const Shape& shape : shapes) inputs.push_back(shape.empty() ? Constant{} : noise(shape));
  std::vector<const Constant*> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) given.push_back(shapes[i].empty() ? nullptr : &inputs[i]);
  const Op op{std::move(operation), {}, kNoValue, {}, "op"};
  products = 0;
  const Constant fast = fold(op, given, out, {kMaxFoldingSteps, kMaxFoldedElements, multiply});
  EXPECT_EQ(products, count);
  EXPECT_EQ(fast.shape, out);
  EXPECT_THAT(fast.f32, Pointwise(FloatNear(1e-4F), evaluate(op, given, out).f32));
}

TEST(Folding, MultipliesMatricesWithTheEngine) {
  expect_products(1, MatMul{}, {{7, 33}, {33, 21}, {}}, {7, 21});
  expect_products(1, MatMul{}, {{2, 3, 33}, {33, 21}, {1, 21}}, {2, 3, 21});
  expect_products(1, MatMul{}, {{37, 2100}, {2100, 45}, {45}}, {37, 45});  // long rows, part by part
}

TEST(Folding, LeavesOtherProductsToTheReference) {
  expect_products(0, MatMul{}, {{2, 3, 8}, {2, 8, 5}, {}}, {2, 3, 5});
  expect_products(0, MatMul{}, {{3, 8}, {8, 5}, {3, 1}}, {3, 5});
  expect_products(0, Conv{{1, 1}, {1, 1}, {1, 1}, {}, 2, false}, {{1, 4, 3, 3}, {4, 2, 1, 1}, {4}, {}}, {1, 4, 3, 3});
}

TEST(Folding, ConvolvesPicturesByOneProductEach) {
  expect_products(2, Conv{{3, 2}, {2, 1}, {1, 2}, {1, 0, 2, 1}, 1, false}, {{2, 5, 9, 8}, {4, 5, 3, 2}, {4}, {}},
                  {2, 4, 5, 7});
}

TEST(Folding, ConvolvesPicturesBackwardsByOneProductEach) {
  expect_products(2, ConvTranspose{{2, 2}, {2, 2}, {1, 1}, {}, 1}, {{2, 5, 3, 4}, {5, 3, 2, 2}, {3}}, {2, 3, 6, 8});
  expect_products(1, ConvTranspose{{3, 3}, {2, 1}, {1, 2}, {1, 1, 0, 2}, 1}, {{1, 5, 3, 4}, {5, 3, 3, 3}, {3}},
                  {1, 3, 6, 5});
}

// Nodes that read what is known and in no file, as those of a model's last part.
OnnxFile nodes_of(OnnxBuilder& b) {
  OnnxFile file;
  file.path = "tail";
  file.proto = b.proto();
  return file;
}

// Seventeen tensors of 64 MiB are more than a model's constants may be together.
TEST(Folding, LetsGoWhatNoNodeWillRead) {
  OnnxBuilder b;
  std::map<std::string, std::shared_ptr<const Constant>> known;
  const auto give = [&](const std::string& name, Constant constant) {
    known[name] = std::make_shared<const Constant>(std::move(constant));
  };
  give("shape", {DataType::kI64, {1}, {}, {kMaxFoldedElements}});
  give("first", {DataType::kI64, {1}, {}, {0}});
  give("second", {DataType::kI64, {1}, {}, {1}});
  std::vector<std::string> parts;
  for (int i = 0; i < 17; ++i) {
    const std::string at = std::to_string(i);
    give("x" + at, {DataType::kF32, {1}, {static_cast<float>(i)}, {}});
    b.node("Expand", {"x" + at, "shape"}, {"large" + at});
    parts.push_back("small" + at);
    b.node("Slice", {"large" + at, "first", "second"}, {parts.back()});
  }
  b.node("Sum", parts, {"sum"}).output("sum", {});
  const auto made = fold_graph(nodes_of(b), known, {1e12, kMaxFoldedElements, nullptr});
  EXPECT_THAT(made[0]->f32, ElementsAre(136));
}

// ---- What was found may be nothing, or no number.

TEST(Folding, CastsWhatNoIntegerHoldsToTheNearestOrToZero) {
  constexpr float kMost = std::numeric_limits<float>::infinity();
  OnnxBuilder b;
  b.node("Cast", {"x"}, {"y"}).integer("to", onnx::TensorProto::INT64).output("y", {});
  const auto made =
      fold_graph(nodes_of(b), {{"x", std::make_shared<const Constant>(
                                         Constant{DataType::kF32, {4}, {2.9F, -kMost, kMost, std::nanf("")}, {}})}});
  constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  ASSERT_EQ(made[0]->i64.size(), 4U);
  EXPECT_EQ(made[0]->i64[0], 2);
  EXPECT_LT(made[0]->i64[1], -kLargest);
  EXPECT_GT(made[0]->i64[2], kLargest);
  EXPECT_EQ(made[0]->i64[3], 0);
}

TEST(Folding, ResizesNoPicturesToNone) {
  OnnxBuilder b;
  b.node("Resize", {"x", "", "scales"}, {"y"}).output("y", {});
  const auto made = fold_graph(
      nodes_of(b), {{"x", std::make_shared<const Constant>(Constant{DataType::kF32, {0, 3, 2, 2}, {}, {}})},
                    {"scales", std::make_shared<const Constant>(Constant{DataType::kF32, {4}, {1, 1, 2, 2}, {}})}});
  EXPECT_EQ(made[0]->shape, (Shape{0, 3, 4, 4}));
}

TEST(Folding, ScattersAlongAnAxisWhatIsAllKnown) {
  OnnxBuilder b;
  b.node("ScatterElements", {"x", "at", "new"}, {"y"}).integer("axis", 1).output("y", {});
  const auto made = fold_graph(
      nodes_of(b), {{"x", std::make_shared<const Constant>(Constant{DataType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}, {}})},
                    {"at", std::make_shared<const Constant>(Constant{DataType::kI64, {2, 2}, {}, {2, 0, -2, -2}})},
                    {"new", std::make_shared<const Constant>(Constant{DataType::kF32, {2, 2}, {10, 20, 30, 40}, {}})}});
  EXPECT_THAT(made[0]->f32, ElementsAre(20, 2, 10, 4, 40, 6));
}

TEST(Folding, RepeatsAlongSeveralAxes) {
  OnnxBuilder b;
  b.node("Expand", {"x", "shape"}, {"y"}).output("y", {});
  const auto made = fold_graph(
      nodes_of(b), {{"x", std::make_shared<const Constant>(Constant{DataType::kI64, {2, 1, 2, 1}, {}, {1, 2, 3, 4}})},
                    {"shape", std::make_shared<const Constant>(Constant{DataType::kI64, {4}, {}, {2, 2, 1, 3}})}});
  EXPECT_EQ(made[0]->shape, (Shape{2, 2, 2, 3}));
  EXPECT_THAT(made[0]->i64, ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
