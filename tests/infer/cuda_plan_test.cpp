// The CUDA engine's planner, and its kernels under emulation: everything but the GPU itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "infer/cuda/plan/chain_length.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/packing.hpp"
#include "infer/cuda/plan/plan.hpp"
#include "infer/frame_memory.hpp"
#include "infer/graph/reference.hpp"
#include "infer/half.hpp"
#include "infer/preprocess.hpp"
#include "tests/infer/conformance.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"
#include "tests/infer/cuda_plans.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using cuda::Plan;
using cuda::PlanOptions;
using cuda::Step;
using test::expect_like_reference;
using test::GraphBuilder;
using test::kF16Tolerance;
using test::kF32Tolerance;
using test::options_of;
using test::relative_error;
using test::steps_of;

// Two convolutions of the input and what joins them: operators 0, 1 and 2.
Graph two_and_their_join() {
  GraphBuilder g({1, 3, 8, 8});
  return g.finish({g.concat({g.conv(g.input(), 8, 1), g.conv(g.input(), 8, 1)})});
}

TEST(ChainLength, AKernelThatWaitsForTwoStartsLaterThanOneThatWaitsForOne) {
  cuda::ChainLength chain(two_and_their_join());
  const auto apart = chain.of({0, 1, 2}, {100, 300, 10});
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->longest, 300 + 2500 + 10);
  EXPECT_EQ(apart->sum, 410);
  const auto together = chain.of({0, 0, 2}, {350, 70, 10});  // the second unit computes nothing
  ASSERT_TRUE(together);
  EXPECT_EQ(together->longest, 360);
  EXPECT_EQ(together->sum, 360);
}

TEST(ChainLength, NoneWhereUnitsWaitForEachOther) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId x = g.conv(g.input(), 8, 1), y = g.conv(x, 8, 1);
  cuda::ChainLength chain(g.finish({g.conv(y, 8, 1)}));
  EXPECT_FALSE(chain.of({0, 1, 0}, {1, 1}));
  EXPECT_TRUE(chain.of({0, 0, 1}, {1, 1}));
}

TEST(CudaPlan, RefusesFramesThatWouldFillTheMachine) {
  GraphBuilder g({1, 3, 64, 64});
  const Graph graph = g.finish({g.enlarge(g.input(), 16384, 16384)});
  try {
    (void)cuda::make_plan(graph, options_of(DataType::kF32), "big.onnx");
    ADD_FAILURE() << "it was taken";
  } catch (const ModelTooLarge& refusal) {
    EXPECT_THAT(refusal.what(), testing::StartsWith("big.onnx: each frame in flight would take "));
  }
}

TEST(CudaPlan, TheDetectorBecomesTensorCoreKernelsOnly) {
  GraphBuilder g({1, 3, 64, 96});
  const Plan plan = cuda::make_plan(test::small_detector(g), options_of(DataType::kF16), "test");
  EXPECT_EQ(plan.stem, 0);
  EXPECT_EQ(steps_of<cuda::StemArguments>(plan), 1);
  EXPECT_NE(std::get<cuda::StemArguments>(plan.steps[0].arguments).block.depthwise, nullptr);
  EXPECT_EQ(steps_of<cuda::SeparableArguments>(plan), 4) << "the first block is in the first layer's kernel";
  const auto others = static_cast<int>(plan.steps.size()) - 5;
  EXPECT_EQ(steps_of<cuda::TileProgramArguments>(plan), others)
      << "concatenation, enlargement and addition cost nothing";
  EXPECT_LE(others, 12) << "23 convolutions of pyramid, contexts and heads";
  EXPECT_EQ(plan.lane_count, 3) << "levels run side by side";
  const auto begin = std::next(plan.steps.begin());
  EXPECT_TRUE(std::all_of(begin, plan.steps.end(), [](const Step& s) { return s.lane != 0 || s.overlap_previous; }));
}

// Whether step `i` can only run when step `other` is done.
bool comes_after(const Plan& plan, std::size_t i, std::size_t other) {
  for (std::size_t j = 0; j < i; ++j) {
    const auto& writes = plan.steps[j].writes;
    const auto& reads = plan.steps[i].reads;
    const bool needed = std::any_of(writes.begin(), writes.end(),
                                    [&](int b) { return std::find(reads.begin(), reads.end(), b) != reads.end(); });
    if (needed && (j == other || comes_after(plan, j, other))) return true;
  }
  return false;
}

// Whoever reads an output waits for its last writer alone.
TEST(CudaPlan, TheLastStepThatWritesAnOutputComesAfterAllOthersThatDo) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId x = g.op(Reshape{}, {g.input()}, {1, 3, 64});
  // Of two kinds: they are no one kernel.
  const ValueId upper = g.binary(Binary::Kind::kAdd, x, x), lower = g.unary(x, {Function::kTanh});
  const ValueId other = g.unary(g.input(), {Function::kRelu});
  const Plan plan = cuda::make_plan(g.finish({g.concat({upper, lower}, 2), other}), options_of(DataType::kF32), "test");
  const int last = plan.outputs[0].step;
  ASSERT_GE(last, 1);
  int others = 0;
  for (int i = 0; i < last; ++i) {
    const Step& step = plan.steps[static_cast<std::size_t>(i)];
    if (std::find(step.writes.begin(), step.writes.end(), plan.outputs[0].buffer) == step.writes.end()) continue;
    ++others;
    const Step& behind = plan.steps[static_cast<std::size_t>(last)];
    const bool waits = std::find(behind.waits.begin(), behind.waits.end(), i) != behind.waits.end();
    EXPECT_TRUE(step.lane == behind.lane || waits);
  }
  EXPECT_EQ(others, 1);
}

// It is final when the network has ended, so nothing waits for it alone.
TEST(CudaPlan, StepsThatMakePartsOfTheOnlyOutputDoNotWaitForEachOther) {
  GraphBuilder g({1, 3, 8, 8});
  const ValueId x = g.op(Reshape{}, {g.input()}, {1, 3, 64});
  // Of two kinds: they are no one kernel.
  const ValueId upper = g.binary(Binary::Kind::kAdd, x, x), lower = g.unary(x, {Function::kTanh});
  const Plan plan = cuda::make_plan(g.finish({g.concat({upper, lower}, 2)}), options_of(DataType::kF32), "test");
  EXPECT_EQ(plan.outputs[0].step, cuda::PlannedOutput::kAllSteps);
  std::vector<int> writers;
  for (int i = 0; i < static_cast<int>(plan.steps.size()); ++i) {
    const std::vector<int>& writes = plan.steps[static_cast<std::size_t>(i)].writes;
    if (std::find(writes.begin(), writes.end(), plan.outputs[0].buffer) != writes.end()) writers.push_back(i);
  }
  ASSERT_EQ(writers.size(), 2U);
  const Step &first = plan.steps[static_cast<std::size_t>(writers[0])],
             &second = plan.steps[static_cast<std::size_t>(writers[1])];
  EXPECT_NE(first.lane, second.lane);
  EXPECT_EQ(std::find(second.waits.begin(), second.waits.end(), writers[0]), second.waits.end());
}

// Three, five or fifteen blocks share what no two, four or eight can.
TEST(CudaPlan, SmallLayersOfManyChannelsEqualTheReference) {
  for (const int channels : {64, 80, 232}) {
    GraphBuilder g({1, 3, 40, 40});
    const ValueId wide = g.conv(g.conv(g.input(), 16, 3, 2), 256, 1);
    const ValueId x = g.conv(wide, channels, 3, 1, 1, {Function::kSilu});
    const ValueId small = g.conv(x, channels, 3, 2, 1, {Function::kRelu});
    const Graph graph = g.finish({g.conv(small, channels, 1, 1, 1, {}, small), g.conv(x, channels, 1, 1, 1, {})});
    const std::vector<float> input = g.random_input();
    const std::vector<Constant> want = run_reference(graph, input);
    PlanOptions options = options_of(DataType::kF16);
    options.shared_bytes = std::size_t{227} * 1024;
    const auto got = test::run_emulated(cuda::make_plan(graph, options, "test"), input);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LE(relative_error(got[i], want[i].f32), 1e-2F) << channels;
  }
}

TEST(CudaPlan, APyramidsLevelDoesNotWaitForTheOneAboveBeforeTheirSumIsRead) {
  GraphBuilder g({1, 3, 64, 96});
  const Plan plan = cuda::make_plan(test::small_detector(g), options_of(DataType::kF16), "test");
  const auto writer_of = [&](const void* handle) {
    const int buffer = cuda::handle_buffer(handle);
    const auto step = std::find_if(plan.steps.begin(), plan.steps.end(), [&](const Step& s) {
      return std::find(s.writes.begin(), s.writes.end(), buffer) != s.writes.end();
    });
    return static_cast<std::size_t>(step - plan.steps.begin());
  };
  int sums = 0;
  for (const Step& step : plan.steps) {
    const auto* program = std::get_if<cuda::TileProgramArguments>(&step.arguments);
    for (int i = 0; program != nullptr && i < program->stage_count; ++i) {
      if (program->added[i] == nullptr) continue;
      ++sums;
      EXPECT_FALSE(comes_after(plan, writer_of(program->read[i]), writer_of(program->added[i])));
    }
  }
  EXPECT_EQ(sums, 2);
}

TEST(Packing, RoundingKeepsTheSumOfEveryFilter) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> spread(-2.0F, 2.0F);
  std::vector<float> weights(std::size_t{200} * 9);
  for (float& w : weights) w = spread(random);
  const std::vector<float> got = cuda::round_keeping_sums(weights, 9);
  for (std::size_t first = 0; first < weights.size(); first += 9) {
    double want = 0, kept = 0;
    float finest = 4.0F;
    for (std::size_t i = first; i < first + 9; ++i) {
      want += static_cast<double>(weights[i]);
      kept += static_cast<double>(got[i]);
      EXPECT_EQ(got[i], half_to_float(float_to_half(got[i])));
      EXPECT_LE(std::abs(got[i] - weights[i]), std::abs(weights[i]) * 0x1p-8F + 0x1p-10F);
      finest = std::min(finest, std::abs(weights[i]));
    }
    EXPECT_LE(std::abs(kept - want), std::max(static_cast<double>(finest), 0x1p-14) * 0x1p-10) << first / 9;
  }
}

TEST(Packing, ASingleTapIsRoundedAndWhatNoHalfHoldsStays) {
  EXPECT_EQ(cuda::round_keeping_sums({0.1F, -3.0F}, 1),
            (std::vector<float>{half_to_float(float_to_half(0.1F)), -3.0F}));
  EXPECT_EQ(cuda::round_keeping_sums({1e6F, 1.0F}, 2)[0], std::numeric_limits<float>::infinity());
}

TEST(CudaPlan, OutputsLiePackedInOrder) {
  GraphBuilder g({1, 3, 64, 96});
  const Plan plan = cuda::make_plan(test::small_detector(g), options_of(DataType::kF16), "test");
  std::size_t at = 0;
  for (const auto& output : plan.outputs) {
    EXPECT_EQ(plan.buffers[static_cast<std::size_t>(output.buffer)].offset_bytes, at);
    at += (output.spec.size_bytes() + 255) / 256 * 256;
  }
  EXPECT_EQ(plan.output_bytes, at);
}

// Replays the plan's own relation: what a lane's order and the waits do not put apart must not share memory.
TEST(CudaPlan, StepsThatMayRunSideBySideShareNoMemory) {
  GraphBuilder g({1, 3, 64, 96});
  const Plan plan = cuda::make_plan(test::small_detector(g), options_of(DataType::kF16), "test");
  const std::size_t n = plan.steps.size();
  std::vector<std::vector<bool>> after(n, std::vector<bool>(n, false));
  const auto follow = [&](std::size_t i, std::size_t j) {
    after[i][j] = true;
    for (std::size_t k = 0; k < n; ++k) after[i][k] = after[i][k] || after[j][k];
  };
  std::vector<int> tail(static_cast<std::size_t>(plan.lane_count), -1);
  for (std::size_t i = 0; i < n; ++i) {
    int& before = tail[static_cast<std::size_t>(plan.steps[i].lane)];
    if (before >= 0) follow(i, static_cast<std::size_t>(before));
    for (const int w : plan.steps[i].waits) follow(i, static_cast<std::size_t>(w));
    before = static_cast<int>(i);
  }
  const auto overlap = [&](int a, int b) {
    const auto& x = plan.buffers[static_cast<std::size_t>(a)];
    const auto& y = plan.buffers[static_cast<std::size_t>(b)];
    if (a == b || x.kind != cuda::BufferKind::kArena || y.kind != cuda::BufferKind::kArena) return false;
    return x.offset_bytes < y.offset_bytes + y.size_bytes && y.offset_bytes < x.offset_bytes + x.size_bytes;
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (const int read : plan.steps[i].reads) {
        for (const int write : plan.steps[j].writes) {
          EXPECT_TRUE(read != write || after[i][j]) << "step " << i << " reads what step " << j << " may still write";
        }
      }
      if (after[i][j]) continue;
      for (const int a : plan.steps[i].writes) {
        for (const auto* list : {&plan.steps[j].reads, &plan.steps[j].writes}) {
          for (const int b : *list) EXPECT_FALSE(overlap(a, b)) << "steps " << i << " and " << j;
        }
      }
      for (const int a : plan.steps[i].reads) {
        for (const int b : plan.steps[j].writes) EXPECT_FALSE(overlap(a, b)) << "steps " << i << " and " << j;
      }
    }
  }
}

TEST(CudaPlan, AGpuWithLittleSharedMemoryGetsSmallerTilesAndTheSameResult) {
  GraphBuilder g({1, 3, 40, 64});
  const Graph graph = test::small_detector(g, 16);
  expect_like_reference(graph, g.random_input(), options_of(DataType::kF16, std::size_t{48} * 1024));
  expect_like_reference(graph, g.random_input(), options_of(DataType::kF16, std::size_t{20} * 1024));
}

TEST(CudaPlan, AStepWaitsForEachOfThousandsThatItNeeds) {
  GraphBuilder g({1, 3, 2, 2});
  const ValueId once = g.concat(std::vector<ValueId>(2000, g.input()), 2);
  const ValueId twice = g.concat(std::vector<ValueId>(200, once), 3);
  const Plan plan = cuda::make_plan(g.finish({twice}), options_of(DataType::kF32), "test");
  EXPECT_EQ(plan.steps.size(), 2200U / cuda::kMostMoves);
}

TEST(CudaPlan, ALayerWhoseWeightsAProgramCannotKeepHasItsOwnKernel) {
  GraphBuilder g({1, 256, 6, 10});
  const ValueId wide = g.conv(g.input(), 256, 3);
  const Graph graph = g.finish({g.conv(wide, 32, 3)});
  const Plan plan = cuda::make_plan(graph, options_of(DataType::kF16, std::size_t{64} * 1024), "test");
  EXPECT_EQ(steps_of<cuda::ConvArguments>(plan), 2);
  EXPECT_EQ(steps_of<cuda::TileProgramArguments>(plan), 0);
}

TEST(CudaPlan, ALongLayerOfManyChannelsHasItsOwnKernelWhereAProgramWouldTakeLonger) {
  for (const int channels : {64, 512}) {
    GraphBuilder g({1, channels, 20, 20});
    const Graph graph = g.finish({g.conv(g.conv(g.input(), channels, 3), 32, 1)});
    const Plan plan = cuda::make_plan(graph, options_of(DataType::kF16), "test");
    EXPECT_EQ(steps_of<cuda::ConvArguments>(plan), channels == 512 ? 1 : 0) << channels;
    EXPECT_EQ(steps_of<cuda::TileProgramArguments>(plan), 1) << channels;
  }
}

// With their own layouts the first two would have 100 blocks each, and take 1.7 times as much of the GPU.
TEST(CudaPlan, TheLongestChainGetsItsOwnLayoutsOnlyWhereTheyTakeLittleMoreOfTheGpu) {
  const auto blocks = [](int side) {
    GraphBuilder g({1, 64, side, side});
    const Plan plan =
        cuda::make_plan(g.finish({g.conv(g.conv(g.input(), 64, 3), 64, 3)}), options_of(DataType::kF16), "test");
    std::vector<int> all;
    for (const cuda::Step& step : plan.steps) {
      const auto* p = std::get_if<cuda::TileProgramArguments>(&step.arguments);
      if (p != nullptr) all.push_back(p->tiles_y * p->tiles_x * p->columns);
    }
    return all;
  };
  EXPECT_EQ(blocks(40), (std::vector<int>{50, 50}));
  EXPECT_EQ(blocks(80), (std::vector<int>{70, 70}));
}

TEST(CudaPlan, ForThroughputItTakesFewerBlocksAndComputesTheSame) {
  GraphBuilder g({1, 3, 320, 320});
  const Graph graph = test::small_detector(g, 16);
  const auto blocks = [](const Plan& plan) {
    int all = 0;
    for (const cuda::Step& step : plan.steps) {
      const auto* p = std::get_if<cuda::TileProgramArguments>(&step.arguments);
      if (p != nullptr) all += p->tiles_y * p->tiles_x * p->columns;
    }
    return all;
  };
  PlanOptions options = options_of(DataType::kF16);
  const int for_latency = blocks(cuda::make_plan(graph, options, "test"));
  options.share_of_work = cuda::kWorkForThroughput;
  EXPECT_LT(blocks(cuda::make_plan(graph, options, "test")), for_latency);
  GraphBuilder small({1, 3, 36, 52});
  const Graph detector = test::small_detector(small, 16);
  expect_like_reference(detector, small.random_input(), options);
}

TEST(CudaPlan, ATensorOfTooManyDimensionsIsRefusedByName) {
  GraphBuilder g({1, 3, 4, 4});
  const ValueId seven = g.op(Reshape{}, {g.input()}, {1, 3, 2, 2, 2, 2, 1});
  const Graph graph = g.finish({g.op(Unary{{Function::kRelu}}, {seven}, {1, 3, 2, 2, 2, 2, 1})});
  try {
    (void)cuda::make_plan(graph, options_of(DataType::kF32), "m.onnx");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("m.onnx: Unary"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("engine opencv"), std::string::npos) << error.what();
  }
}

TEST(CudaEmulated, DetectorsOfOddSizesEqualTheReference) {
  for (const auto& [h, w, width] : {std::tuple{37, 51, 8}, {33, 70, 4}, {36, 52, 16}}) {
    GraphBuilder g({1, 3, h, w}, static_cast<unsigned>(w));
    const Graph graph = test::small_detector(g, width);
    PlanOptions f16 = options_of(DataType::kF16);
    expect_like_reference(graph, g.random_input(), f16);
    f16.output_type = DataType::kF16;
    expect_like_reference(graph, g.random_input(), f16);
    f16.fuse = false;
    expect_like_reference(graph, g.random_input(), f16);
    expect_like_reference(graph, g.random_input(), options_of(DataType::kF32));
  }
}

TEST(CudaEmulated, FirstBlocksWithOtherActivationsEqualTheReference) {
  for (const Activation& activation :
       {Activation{Function::kLeakyRelu, 0.1F}, Activation{Function::kSilu}, Activation{Function::kHardSwish}}) {
    GraphBuilder g({1, 3, 37, 75});
    const Graph graph = test::first_blocks(g, activation);
    expect_like_reference(graph, g.random_input(), options_of(DataType::kF16));
  }
}

TEST(CudaEmulated, SigmoidsOfNumbersFarFromZeroEqualTheReference) {
  for (const Function function : {Function::kSigmoid, Function::kSilu}) {
    GraphBuilder g({1, 3, 16, 16});
    const ValueId x = g.conv(g.input(), 16, 3, 1, 1, {});
    Conv one_pixel;
    one_pixel.kernel = {1, 1};
    const ValueId far = g.op(one_pixel, {x, g.constant({24, 16, 1, 1}, 60.0F), g.constant({24}), kNoValue},
                             {1, 24, 16, 16}, {function});
    test::expect_reference(g.finish({far}), g.random_input());
  }
}

// A layout whose rows begin at multiples of `bytes`. At multiples of 16, as where a picture's width is one, NV12's rows
// are fetched in pieces.
base::PictureLayout rows_at_multiples_of(int bytes, base::PictureLayout layout) {
  layout.size_bytes = 0;
  for (int i = 0; i < layout.plane_count; ++i) {
    base::Plane& plane = layout.planes[static_cast<std::size_t>(i)];
    plane.offset_bytes = layout.size_bytes;
    plane.stride_bytes = cuda::round_up(plane.stride_bytes, bytes);
    layout.size_bytes += static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height);
  }
  return layout;
}

// Patches of pixels that share chroma may begin in front of a tile, and at a picture that does not fill the network.
TEST(CudaEmulated, TheFirstLayerReadsAPictureAsItsPlanesWhereverItLies) {
  using base::PixelFormat;
  GraphBuilder one({1, 3, 40, 72}), block({1, 3, 40, 72});
  const ValueId first = block.conv(block.input(), 8, 3, 2);
  for (const Graph& graph :
       {one.finish({one.conv(one.input(), 24, 3, 2)}), block.finish({block.conv(block.separable(first, 16), 8, 1)})}) {
    const Plan plan = cuda::make_plan(graph, options_of(DataType::kF16), "test");
    ASSERT_EQ(plan.stem, 0);
    InputOptions options;
    options.width = 72;
    options.height = 40;
    std::mt19937 random(4);
    for (const auto format : {PixelFormat::kNv12, PixelFormat::kBgr, PixelFormat::kI420}) {
      for (const auto& [width, height] : {std::pair{72, 40}, {72, 30}, {67, 40}, {66, 40}, {50, 38}}) {
        for (const auto& variant : {std::pair{0, 1}, {1, 1}, {0, 16}, {1, 16}}) {
          const int pad = variant.first, alignment = variant.second;
          const auto layout = rows_at_multiples_of(alignment, base::tight_layout(format, width, height));
          std::vector<std::byte> picture(layout.size_bytes);
          for (std::byte& b : picture) b = static_cast<std::byte>(random() & 255U);
          std::vector<float> planes(std::size_t{3} * 40 * 72);
          Preprocessor(options).run({picture.data(), layout}, planes.data());
          const auto run = [&](bool fused) {
            return test::run_emulated(plan, planes, [&](cuda::Arguments& arguments) {
              auto* const stem = std::get_if<cuda::StemArguments>(&arguments);
              if (stem == nullptr) return;
              stem->pad_top = stem->pad_left = pad;
              stem->plan = make_sample_plan(layout, options);
              if (fused) stem->picture.data = reinterpret_cast<const std::uint8_t*>(picture.data());
            });
          };
          const auto want = run(false), got = run(true);
          for (std::size_t i = 0; i < want.size(); ++i) {
            EXPECT_LE(relative_error(got[i], want[i]), 2e-3)
                << to_string(format) << " " << width << "x" << height << " pad " << pad << " rows at multiples of "
                << alignment << " output " << i;
          }
        }
      }
    }
  }
}

TEST(CudaEmulated, ConvolutionsOfOddChannelCountsEqualTheReference) {
  for (const int channels : {1, 3, 7, 12, 17, 40, 130}) {
    for (const int stride : {1, 2}) {
      GraphBuilder g({1, 5, 13, 19}, static_cast<unsigned>(channels));
      const ValueId a = g.conv(g.input(), channels, 3, stride);
      const ValueId b = g.conv(a, channels + 2, 1, 1, 1, {Function::kLeakyRelu, 0.1F});
      const ValueId c = g.conv(b, channels + 2, 3, stride, channels + 2, {Function::kClip, 0.0F, 6.0F});
      const ValueId d = g.conv(c, 9, 1, 1, 1, {Function::kSilu});
      const ValueId e = g.conv(d, 9, 3, 1, 1, {Function::kRelu}, d);
      const ValueId f = g.conv(e, 6, 5, 1, 3, {Function::kMish});
      const Graph graph = g.finish({f, e, g.conv(e, 5, 1, 1, 1, {Function::kSigmoid})});
      expect_like_reference(graph, g.random_input(), options_of(DataType::kF16));
      expect_like_reference(graph, g.random_input(), options_of(DataType::kF32));
    }
  }
}

TEST(CudaEmulated, BlocksWithResidualsEqualTheReference) {
  for (const std::size_t shared : {227U * 1024, 24U * 1024}) {
    GraphBuilder g({1, 12, 21, 26});
    const ValueId a = g.conv(g.input(), 24, 3, 2);
    const ValueId b = g.conv(a, 16, 1), c = g.conv(b, 24, 3, 1, 1, {Function::kSilu}, a);
    const ValueId d = g.conv(c, 40, 3, 2, 1, {Function::kRelu}), e = g.conv(d, 40, 3, 1, 1, {Function::kRelu}, d, true);
    const ValueId up = g.enlarge(g.conv(e, 24, 1), g.shape(c)[2], g.shape(c)[3]);
    const ValueId joined = g.concat({g.conv(c, 16, 1), g.conv(c, 8, 3, 1, 1, {Function::kRelu}, kNoValue)});
    const ValueId f = g.conv(joined, 24, 1, 1, 1, {Function::kHardSwish}, up);
    const Graph graph = g.finish({g.conv(f, 6, 1, 1, 1, {Function::kSigmoid}), g.conv(f, 3, 1, 1, 1, {}), e});
    expect_like_reference(graph, g.random_input(), options_of(DataType::kF16, shared));
  }
}

TEST(CudaEmulated, ConcatenationsOfRowsAndColumnsEqualTheReference) {
  for (const int axis : {2, 3}) {
    GraphBuilder g({1, 16, 12, 20});
    const ValueId a = g.conv(g.input(), 16, 3), b = g.conv(g.input(), 16, 1);
    const Graph graph = g.finish({g.conv(g.conv(g.concat({a, b}, axis), 32, 1), 16, 3)});
    expect_like_reference(graph, g.random_input(), options_of(DataType::kF16));
  }
}

TEST(CudaEmulated, MoreHeadsOfOneImageThanAProgramTakesEqualTheReference) {
  GraphBuilder g({1, 3, 40, 56});
  const ValueId shared = g.conv(g.conv(g.input(), 16, 3, 2), 32, 3, 2);
  std::vector<ValueId> heads(std::size_t{2 * cuda::kMaxPlaneSinks + 1});
  int channels = 2;
  for (ValueId& head : heads) head = g.conv(shared, channels++, 1, 1, 1, {});
  const Graph graph = g.finish(heads);
  for (const cuda::Step& step : cuda::make_plan(graph, options_of(DataType::kF16), "test").steps) {
    const auto* program = std::get_if<cuda::TileProgramArguments>(&step.arguments);
    if (program == nullptr) continue;
    EXPECT_LE(program->sink_count, cuda::kMaxPlaneSinks);
  }
  expect_like_reference(graph, g.random_input(), options_of(DataType::kF16));
}

TEST(CudaEmulated, OutputsOfAnyWidthTypeAndFunctionEqualTheReference) {
  for (const int width : {16, 40, 64, 18, 13}) {  // of the heads: whole runs of 8 pixels and others
    GraphBuilder g({1, 3, 36, std::int64_t{4} * width}, static_cast<unsigned>(width));
    const ValueId shared = g.conv(g.conv(g.input(), 16, 3, 2), 32, 3, 2);
    const Graph graph = g.finish({g.conv(shared, 3, 1, 1, 1, {Function::kSigmoid}), g.conv(shared, 12, 1, 1, 1, {}),
                                  g.conv(shared, 5, 1, 1, 1, {Function::kClip, -0.5F, 0.5F})});
    for (const DataType type : {DataType::kF16, DataType::kF32}) {
      PlanOptions options = options_of(DataType::kF16);
      options.output_type = type;
      EXPECT_EQ(steps_of<cuda::TileProgramArguments>(cuda::make_plan(graph, options, "test")), 1);
      expect_like_reference(graph, g.random_input(), options);
    }
  }
}

TEST(CudaEmulated, ConcatenationsThatDoNotFitInPlaceAreCopied) {
  GraphBuilder g({1, 4, 9, 11});
  const ValueId a = g.conv(g.input(), 5, 3), b = g.conv(g.input(), 8, 1), c = g.conv(g.input(), 3, 3);
  const ValueId joined = g.concat({a, b, a, c, g.input()});
  const Graph graph = g.finish({g.conv(joined, 16, 3), joined});
  expect_like_reference(graph, g.random_input(), options_of(DataType::kF16));
  expect_like_reference(graph, g.random_input(), options_of(DataType::kF32));
}

TEST(CudaEmulated, OnnxsOwnOperatorCasesComeOutRight) {
  const auto cases = test::conformance_cases();
  if (cases.empty()) GTEST_SKIP() << "ONNX's operator cases are not on this machine";
  for (const auto& c : cases) {
    if (element_count(c.input.shape) > 100'000) continue;  // on a GPU these run too
    const Graph graph = lower_model(c.file, c.input);
    const auto got = test::run_emulated(cuda::make_plan(graph, options_of(DataType::kF32), c.name), c.values);
    for (std::size_t i = 0; i < c.expected.size(); ++i) {
      EXPECT_EQ(test::difference(c.expected[i], got[i].data(), c.expected[i].shape), "") << c.name;
    }
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
