// Random networks on the CUDA engine, lanes beside each other on an emulated GPU that holds kernels up at random,
// against the same kernels one after the other in memory full of NaNs: what differs is the order alone.
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "infer/cuda/cuda_engine.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/infer/cuda_emulated.hpp"
#include "tests/infer/cuda_graphs.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using test::GraphBuilder;

// Branches, sums and concatenations of some layers; every value that nobody reads is an output, and one that is read.
Graph random_network(GraphBuilder& g, std::mt19937& random) {
  const auto pick = [&random](std::size_t count) { return random() % count; };
  std::vector<ValueId> values{g.conv(g.input(), 8, 3, 2)};
  std::vector<int> reads{0};
  const auto read = [&](std::size_t i) {
    ++reads[i];
    return values[i];
  };
  const auto like = [&](std::size_t i, auto&& fits) {
    std::vector<std::size_t> others;
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (j != i && fits(g.shape(values[j]), g.shape(values[i]))) others.push_back(j);
    }
    return others;
  };
  for (int made = 0; made < 12;) {
    const std::size_t i = pick(values.size());
    const Shape shape = g.shape(values[i]);
    const int channels = static_cast<int>(8 * (1 + pick(3)));
    ValueId next = kNoValue;
    switch (pick(7)) {
      case 0: next = g.conv(read(i), channels, 3); break;
      case 1: next = g.conv(read(i), channels, 1); break;
      case 2: next = g.separable(read(i), channels, shape[2] > 4 && pick(2) == 0 ? 2 : 1); break;
      case 3: next = g.unary(read(i), {Function::kSigmoid}); break;
      case 4: {
        const auto equal = like(i, [](const Shape& a, const Shape& b) { return a == b; });
        if (equal.empty()) continue;
        next = g.binary(Binary::Kind::kAdd, read(i), read(equal[pick(equal.size())]));
        break;
      }
      case 5: {
        const auto beside = like(i, [](const Shape& a, const Shape& b) { return a[2] == b[2] && a[3] == b[3]; });
        if (beside.empty()) continue;
        next = g.concat({read(i), read(beside[pick(beside.size())])});
        break;
      }
      default: {
        const auto below = like(i, [](const Shape& a, const Shape& b) { return a[1] == b[1] && a[3] == b[3]; });
        if (below.empty()) continue;
        next = g.concat({read(i), read(below[pick(below.size())])}, 2);
      }
    }
    values.push_back(next);
    reads.push_back(0);
    ++made;
  }
  std::vector<ValueId> outputs{values[pick(values.size() - 1)]};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (reads[i] == 0 && values[i] != outputs[0]) outputs.push_back(values[i]);
  }
  return g.finish(outputs);
}

class CudaOrder : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, CudaOrder, testing::Range(0U, 12U));

TEST_P(CudaOrder, OfARandomNetworkEachOutputIsCompleteWhenItsEventSaysSo) {
  std::mt19937 random(GetParam());
  GraphBuilder g({1, 3, 24, 40}, GetParam());
  const Graph graph = random_network(g, random);
  camd::test::EmulatedGpu gpu(base::system_clock());
  std::atomic<unsigned> kernels{0};
  gpu.before_kernel([&kernels] {
    const auto turns = std::mt19937(kernels++)() % 400'000;
    for (std::uint_fast32_t i = 0; i < turns; ++i) asm volatile("");
  });
  for (const DataType type : {DataType::kF16, DataType::kF32}) {
    EngineOptions options;
    options.compute_type = type;
    options.input.height = 24;
    options.input.width = 40;
    ModelDescription model;
    model.path = "random";
    const auto engine =
        make_cuda_engine(graph, model, {"input", graph.shape(graph.input), DataType::kF32}, options, gpu);
    const auto execution = engine->make_execution();
    execution->keep_input();
    const device::Stream stream = gpu.make_stream("network");
    std::vector<device::Stream> readers;
    for (std::size_t i = 0; i < engine->outputs().size(); ++i) readers.push_back(gpu.make_stream("reader"));
    for (int round = 0; round < 3; ++round) {
      const std::vector<float> input = g.random_input();
      ASSERT_TRUE(gpu.copy(execution->input().data, input.data(), input.size() * sizeof(float),
                           device::CopyKind::kHostToDevice, stream)
                      .ok());
      ASSERT_TRUE(execution->enqueue_network(stream).ok());
      std::vector<std::vector<std::byte>> got;
      for (std::size_t i = 0; i < readers.size(); ++i) {
        got.emplace_back(execution->output(i).spec->size_bytes());
        ASSERT_TRUE(gpu.wait(execution->output_ready(i), readers[i]).ok());
        ASSERT_TRUE(gpu.copy(got[i].data(), execution->output(i).data, got[i].size(), device::CopyKind::kDeviceToHost,
                             readers[i])
                        .ok());
      }
      for (const device::Stream& reader : readers) ASSERT_TRUE(gpu.synchronize(reader.ref()).ok());
      ASSERT_TRUE(gpu.synchronize(stream.ref()).ok());
      const auto want = test::run_emulated(engine->plan(), input);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(to_floats(got[i].data(), want[i].size(), execution->output(i).spec->type), want[i])
            << "type " << static_cast<int>(type) << ", round " << round << ", output " << i;
      }
    }
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
