// Rows that are chosen before they are computed.
#include "infer/graph/choice_pass.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "infer/graph/reference.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer {
namespace {

using test::GraphBuilder;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr std::int64_t kRows = 20, kChosen = 6;

// The input's rows, [1, kRows, 8], and the numbers of the best ones, [1, kChosen, 1].
struct Queries {
  ValueId rows, numbers;
};
Queries queries(GraphBuilder& g) {
  const ValueId rows = g.op(Reshape{}, {g.input()}, {1, kRows, 8});
  const ValueId scores = g.op(MatMul{}, {rows, g.constant({8, 1}), g.constant({1})}, {1, kRows, 1});
  const ValueId best = g.op(TopK{1, kChosen, true}, {scores}, {1, kChosen, 1});
  return {rows, best};
}
ValueId product(GraphBuilder& g, ValueId x, std::int64_t n, Activation f = {}) {
  return g.op(MatMul{}, {x, g.constant({g.shape(x)[2], n}), g.constant({n})}, {1, g.shape(x)[1], n}, f);
}
// As GatherElements reads them: the numbers once for each column.
ValueId chosen(GraphBuilder& g, ValueId x, ValueId numbers) {
  const std::int64_t n = g.shape(x)[2];
  const std::vector<std::int64_t> first(static_cast<std::size_t>(n), 0);
  const ValueId tiled = g.op(Gather{2, first}, {numbers}, {1, kChosen, n});
  return g.op(Pick{}, {x, tiled}, {1, kChosen, n});
}

std::vector<Shape> products(const Graph& graph) {
  std::vector<Shape> shapes;
  for (const Op& op : graph.ops) {
    if (std::holds_alternative<MatMul>(op.operation)) shapes.push_back(graph.shape(op.output));
  }
  return shapes;
}
std::ptrdiff_t picks(const Graph& graph) {
  return std::count_if(graph.ops.begin(), graph.ops.end(),
                       [](const Op& op) { return std::holds_alternative<Pick>(op.operation); });
}

// The graph behind the pass; both compute the same.
Graph with_rows_chosen_first(const Graph& graph, const std::vector<float>& input) {
  Graph changed = graph;
  choose_rows_first(changed);
  const std::vector<Constant> want = run_reference(graph, input), got = run_reference(changed, input);
  EXPECT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size() && i < got.size(); ++i) {
    EXPECT_EQ(got[i].shape, want[i].shape);
    EXPECT_THAT(got[i].f32, Pointwise(FloatNear(1e-5F), want[i].f32));
  }
  return changed;
}

TEST(ChoicePass, ProductsAndArithmeticAreDoneOfTheChosenRowsAlone) {
  GraphBuilder g({1, 1, kRows, 8});
  const auto [rows, numbers] = queries(g);
  const ValueId hidden = product(g, product(g, rows, 16, {Function::kRelu}), 16, {Function::kRelu});
  const ValueId offsets = g.binary(Binary::Kind::kMul, product(g, hidden, 4), g.constant({4}));
  const ValueId boxes = g.unary(g.binary(Binary::Kind::kAdd, offsets, g.constant({1, kRows, 4})), {Function::kSigmoid});
  const ValueId best = g.unary(chosen(g, boxes, numbers), {Function::kExp});
  const ValueId queries = g.unary(chosen(g, rows, numbers), {Function::kExp});
  const Graph changed = with_rows_chosen_first(g.finish({best, queries}), g.random_input());
  EXPECT_THAT(products(changed),
              ElementsAre(Shape{1, kRows, 1}, Shape{1, kChosen, 16}, Shape{1, kChosen, 16}, Shape{1, kChosen, 4}));
  EXPECT_EQ(picks(changed), 2);  // of the rows, once for both, and of what is added
}

TEST(ChoicePass, OutputsKeepTheirNames) {
  GraphBuilder g({1, 1, kRows, 8});
  const auto [rows, numbers] = queries(g);
  const ValueId best = chosen(g, product(g, rows, 4), numbers), same = chosen(g, rows, numbers);
  const Graph graph = g.finish({best, same});
  const Graph changed = with_rows_chosen_first(graph, g.random_input());
  EXPECT_EQ(products(changed).back(), (Shape{1, kChosen, 4}));
  EXPECT_EQ(changed.value(changed.outputs[0]).name, graph.value(best).name);
  EXPECT_EQ(changed.value(changed.outputs[1]).name, graph.value(same).name);
}

TEST(ChoicePass, WhatOthersReadIsComputedWhole) {
  GraphBuilder g({1, 1, kRows, 8});
  const auto [rows, numbers] = queries(g);
  const ValueId all = product(g, rows, 4);
  const Graph changed = with_rows_chosen_first(g.finish({chosen(g, all, numbers), all}), g.random_input());
  EXPECT_THAT(products(changed), ElementsAre(Shape{1, kRows, 1}, Shape{1, kRows, 4}));
}

TEST(ChoicePass, ProductsOfTwoValuesAndRowsThatAreNotKeptStay) {
  GraphBuilder g({1, 1, kRows, 8});
  const auto [rows, numbers] = queries(g);
  const ValueId turned = g.op(Transpose{{0, 2, 1}}, {rows}, {1, 8, kRows});
  const ValueId pairs = g.op(MatMul{}, {rows, turned, kNoValue}, {1, kRows, kRows});
  const ValueId shares = g.op(Softmax{1, false}, {product(g, rows, 4)}, {1, kRows, 4});
  const Graph changed =
      with_rows_chosen_first(g.finish({chosen(g, pairs, numbers), chosen(g, shares, numbers)}), g.random_input());
  EXPECT_THAT(products(changed), ElementsAre(Shape{1, kRows, 1}, Shape{1, kRows, kRows}, Shape{1, kRows, 4}));
}

}  // namespace
}  // namespace camd::infer
