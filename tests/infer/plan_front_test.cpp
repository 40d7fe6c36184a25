// A plan's first steps in two parts, the picture's lower part first: under emulation, equal bit by bit to one part.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "infer/cuda/packing.hpp"
#include "infer/cuda/plan_front.hpp"
#include "infer/cuda/tiles.hpp"
#include "infer/onnx_file.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer {
namespace {

using base::PixelFormat;
using cuda::Front;
using cuda::Part;
using cuda::Plan;
using test::GraphBuilder;

Plan plan_of(const Graph& graph) {
  cuda::PlanOptions options;
  options.shared_bytes = std::size_t{227} * 1024;
  options.output_type = DataType::kF16;
  return cuda::make_plan(graph, options, "test");
}

// A first layer with a block, and a chain of further blocks, one of them with stride 2.
Graph with_block(GraphBuilder& g) {
  ValueId x = g.separable(g.conv(g.input(), 8, 3, 2), 16);
  x = g.separable(x, 24, 2);
  x = g.separable(x, 24);
  return g.finish({g.conv(x, 16, 3, 2)});
}
// A first layer that is a kernel by itself: too many channels for a block.
Graph without_block(GraphBuilder& g) {
  ValueId x = g.separable(g.conv(g.input(), 24, 3, 2), 32);
  x = g.separable(x, 32, 2);
  return g.finish({g.conv(x, 16, 3, 2)});
}

// All steps may be divided, however few blocks they have.
Front front_of(const Plan& plan, double upper_share = 0.5) {
  return cuda::find_front(plan, {.upper_share = upper_share, .least_blocks = 1});
}

InputOptions input_of(const Graph& graph) {
  InputOptions options;
  options.height = static_cast<int>(graph.shape(graph.input)[2]);
  options.width = static_cast<int>(graph.shape(graph.input)[3]);
  return options;
}

std::vector<std::byte> noise(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& b : made) b = static_cast<std::byte>(random() & 255U);
  return made;
}

// Memory for a plan's buffers, its arena laid out in this way, full of NaNs.
struct Memory {
  Memory(const Plan& plan, const cuda::ArenaLayout& layout) {
    std::byte* const arena = add(layout.size_bytes);
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      const cuda::Buffer& buffer = plan.buffers[b];
      if (buffer.kind != cuda::BufferKind::kArena) {
        bases.push_back(add(buffer.size_bytes));
      } else {
        bases.push_back(arena + layout.offsets[b]);
        if (buffer.exclusive) std::memset(bases.back(), 0, buffer.size_bytes);
      }
    }
    std::copy(plan.constants.begin(), plan.constants.end(), bases[cuda::kConstantsBuffer]);
  }
  std::byte* add(std::size_t size_bytes) {
    memory.emplace_back(size_bytes / 8 + 34, 0x7FFF7FFF7FFF7FFFULL);
    void* first = memory.back().data();
    std::size_t room = memory.back().size() * sizeof(std::uint64_t);
    return static_cast<std::byte*>(std::align(16, 1, first, room));
  }
  std::vector<std::vector<std::uint64_t>> memory;
  std::vector<std::byte*> bases;
};

struct Case {
  const Plan& plan;
  const SamplePlan& sample;
  const std::vector<std::byte>& picture;  // as the device has it
};

std::vector<cuda::Arguments> bound(const Case& c, const Memory& memory) {
  std::vector<cuda::Arguments> steps;
  for (const cuda::Step& step : c.plan.steps) {
    steps.push_back(step.arguments);
    cuda::bind(steps.back(), memory.bases);
  }
  auto& stem = std::get<cuda::StemArguments>(steps[0]);
  stem.plan = c.sample;
  stem.picture = reinterpret_cast<const std::uint8_t*>(c.picture.data());
  return steps;
}

// What the front's steps make.
using Results = std::vector<std::vector<std::byte>>;
Results results(const Case& c, const Front& front, const Memory& memory) {
  Results all;
  for (std::size_t i = 0; i < front.borders.size(); ++i) {
    const auto buffer = static_cast<std::size_t>(c.plan.steps[i].writes.front());
    all.emplace_back(memory.bases[buffer], memory.bases[buffer] + c.plan.buffers[buffer].size_bytes);
  }
  return all;
}

Results in_one(const Case& c, const Front& front) {
  const Memory memory(c.plan, front.arena);
  const std::vector<cuda::Arguments> steps = bound(c, memory);
  for (std::size_t i = 0; i < front.borders.size(); ++i) EXPECT_EQ(cuda::run(steps[i], {}), 0);
  return results(c, front, memory);
}

// All lower parts before the picture's upper part is there, then the rest.
Results in_two(const Case& c, const Front& front, std::size_t lower_part) {
  const Memory memory(c.plan, front.arena);
  std::vector<std::byte> arriving = noise(c.picture.size(), 99);
  const auto there = static_cast<std::ptrdiff_t>(lower_part);
  std::copy(c.picture.begin() + there, c.picture.end(), arriving.begin() + there);
  const std::vector<cuda::Arguments> steps = bound({c.plan, c.sample, arriving}, memory);
  const auto run = [](const cuda::Arguments& arguments) { EXPECT_EQ(cuda::run(arguments, {}), 0); };
  for (std::size_t i = 0; i < front.borders.size(); ++i) run(cuda::part_of(front, i, steps[i], Part::kLower));
  std::copy(c.picture.begin(), c.picture.begin() + there, arriving.begin());
  for (std::size_t i = 0; i < front.borders.size(); ++i) run(cuda::part_of(front, i, steps[i], Part::kUpper));
  return results(c, front, memory);
}

TEST(PlanFront, InTwoPartsTheResultsAreTheSameBitByBitWhateverTheUpperPartWasBefore) {
  for (const bool block : {true, false}) {
    GraphBuilder g({1, 3, 256, 48});
    const Graph graph = block ? with_block(g) : without_block(g);
    const Plan plan = plan_of(graph);
    const Front front = front_of(plan);
    ASSERT_EQ(front.borders.size(), 3U);
    const InputOptions options = input_of(graph);
    for (const auto format : {PixelFormat::kNv12, PixelFormat::kBgr, PixelFormat::kI420, PixelFormat::kGray8}) {
      // As large as the input; letterboxed above and below; at the sides; enlarged; shrunk, with odd sides.
      for (const auto& [width, height] : {std::pair{48, 256}, {48, 200}, {32, 256}, {24, 128}, {67, 401}}) {
        SCOPED_TRACE(testing::Message() << (block ? "block, " : "no block, ") << to_string(format) << " " << width
                                        << "x" << height);
        const base::PictureLayout layout = base::tight_layout(format, width, height);
        const SamplePlan sample = make_sample_plan(layout, options);
        const std::vector<std::byte> picture = noise(layout.size_bytes, 7);
        const std::size_t lower_part = cuda::lower_part(front, sample, layout);
        ASSERT_GT(lower_part, 0U);
        ASSERT_LT(lower_part, layout.size_bytes);
        const Case c{plan, sample, picture};
        EXPECT_EQ(in_two(c, front, lower_part), in_one(c, front));
      }
    }
  }
}

TEST(PlanFront, BordersAreRowsOfTilesAndTheLowerRowsNeedNoneAboveTheBorderBefore) {
  GraphBuilder g({1, 3, 360, 640});
  const Graph graph = with_block(g);
  const Plan plan = plan_of(graph);
  const Front front = front_of(plan, 0.3);
  ASSERT_EQ(front.borders.size(), 3U);
  const auto separable = [&](std::size_t i) { return std::get<cuda::SeparableArguments>(plan.steps[i].arguments); };
  EXPECT_EQ(front.borders[0], 48) << "of 180 rows 54, in whole tiles of 16";
  EXPECT_EQ(front.network_row, 93) << "what row 47 of the first convolution reads";
  // A window of three rows around each, with stride 2 and 1.
  const int tile1 = cuda::kSeparableTiles[separable(1).tile].ty, tile2 = cuda::kSeparableTiles[separable(2).tile].ty;
  EXPECT_EQ(front.borders[1], cuda::round_up((48 + 1 + 1) / 2, tile1));
  EXPECT_EQ(front.borders[2], cuda::round_up(front.borders[1] + 1, tile2));
  // A row of luma more than that, and all chroma.
  const base::PictureLayout layout = base::tight_layout(PixelFormat::kNv12, 640, 360);
  const InputOptions options = input_of(graph);
  EXPECT_EQ(cuda::lower_part(front, make_sample_plan(layout, options), layout), static_cast<std::size_t>(92) * 640);
}

TEST(PlanFront, StepsOfFewBlocksAreLeftWhole) {
  GraphBuilder g({1, 3, 360, 640});
  const Plan plan = plan_of(with_block(g));
  const int blocks_of_stem = 12 * 10;  // tiles of 16 x 32 in 180 x 320
  EXPECT_EQ(cuda::find_front(plan, {.least_blocks = blocks_of_stem + 1}).borders.size(), 0U);
  EXPECT_GE(cuda::find_front(plan, {.least_blocks = blocks_of_stem}).borders.size(), 1U);
}

TEST(PlanFront, APlanThatDoesNotReadThePictureItselfIsNotDivided) {
  GraphBuilder g({1, 3, 360, 640});
  const Graph graph = with_block(g);
  cuda::PlanOptions options;
  options.type = DataType::kF32;
  EXPECT_TRUE(front_of(cuda::make_plan(graph, options, "test")).borders.empty());
}

// Who else reads a step's upper rows would not know when its lower ones are there.
TEST(PlanFront, TheDivisionEndsBehindAResultThatTwoStepsRead) {
  GraphBuilder g({1, 3, 256, 48});
  const ValueId first = g.separable(g.separable(g.conv(g.input(), 8, 3, 2), 16), 16);
  const ValueId second = g.separable(g.separable(first, 16), 16);
  const Plan plan = plan_of(g.finish({g.conv(second, 16, 3), g.conv(first, 16, 3)}));
  EXPECT_EQ(front_of(plan).borders.size(), 2U);
}

TEST(PlanFront, TheDivisionEndsBeforeAResultThatTwoStepsMake) {
  GraphBuilder g({1, 3, 256, 48});
  const ValueId first = g.separable(g.conv(g.input(), 8, 3, 2), 16);
  const ValueId left = g.separable(first, 16), right = g.separable(left, 16);
  const Plan plan = plan_of(g.finish({g.conv(g.concat({left, right}), 16, 3)}));
  EXPECT_EQ(front_of(plan).borders.size(), 1U);
}

// Lower rows of the third result are there before upper rows of the first.
TEST(PlanFront, ResultsOfTheFrontLieApartAndOthersWhereTheyMay) {
  GraphBuilder g({1, 3, 256, 48});
  const Plan plan = plan_of(with_block(g));
  const Front front = front_of(plan);
  ASSERT_EQ(front.borders.size(), 3U);
  std::size_t end = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto a = static_cast<std::size_t>(plan.steps[i].writes.front());
    end += cuda::aligned(plan.buffers[a].size_bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const auto b = static_cast<std::size_t>(plan.steps[j].writes.front());
      const std::size_t of_a = front.arena.offsets[a], of_b = front.arena.offsets[b];
      EXPECT_TRUE(of_a + plan.buffers[a].size_bytes <= of_b || of_b + plan.buffers[b].size_bytes <= of_a);
    }
  }
  EXPECT_EQ(front.arena.size_bytes, end) << "nothing else needs more";
  EXPECT_LT(plan.arena_bytes, end);
}

TEST(PlanFront, APictureOfWhichTheLowerPartNeedsAllComesWhole) {
  GraphBuilder g({1, 3, 256, 48});
  const Graph graph = with_block(g);
  const Front front = front_of(plan_of(graph), 0.3);
  const auto lower_part = [&](const base::PictureLayout& layout) {
    return cuda::lower_part(front, make_sample_plan(layout, input_of(graph)), layout);
  };
  // So flat that it is shown below the border alone.
  EXPECT_EQ(lower_part(base::tight_layout(PixelFormat::kBgr, 480, 80)), 0U);
  // Chroma in front of luma would come with neither part.
  base::PictureLayout layout = base::tight_layout(PixelFormat::kNv12, 48, 256);
  EXPECT_GT(lower_part(layout), 0U);
  std::swap(layout.planes[0].offset_bytes, layout.planes[1].offset_bytes);
  EXPECT_EQ(lower_part(layout), 0U);
  // Nothing is divided.
  EXPECT_EQ(cuda::lower_part(Front{}, make_sample_plan(layout, input_of(graph)), layout), 0U);
}

TEST(PlanFront, OfTheReferenceDetectorThreeStepsFollowThePicture) {
  const std::string path = std::string(CAMD_SOURCE_DIR) + "/models/marker-1280x720.onnx";
  const Plan plan = plan_of(lower_model(read_onnx_file(path), {"input", {1, 3, 720, 1280}, DataType::kF32}));
  const Front front = cuda::find_front(plan);
  EXPECT_EQ(front.borders, (std::vector<int>{96, 56, 64})) << "of 360, 180 and 180 rows";
  const base::PictureLayout layout = base::tight_layout(PixelFormat::kNv12, 1280, 720);
  InputOptions options;
  options.width = 1280;
  options.height = 720;
  EXPECT_EQ(cuda::lower_part(front, make_sample_plan(layout, options), layout), std::size_t{188} * 1280);
  EXPECT_LE(front.arena.size_bytes, plan.arena_bytes + (std::size_t{4} << 20));
}

}  // namespace
}  // namespace camd::infer
