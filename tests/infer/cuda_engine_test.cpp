// The CUDA engine against the reference evaluator. Built twice: for a GPU, where everything is skipped visibly if there
// is none, and for an emulated one, which sees the order of kernels, not what the GPU makes of them.
#include "infer/cuda/cuda_engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "device/cuda/cuda_device.hpp"
#if defined(CAMD_CUDA_EMULATION)
#include "tests/device/emulated_gpu.hpp"
#endif
#include "infer/graph/reference.hpp"
#include "infer/half.hpp"
#include "infer/onnx/file.hpp"
#include "infer/onnx/input.hpp"
#include "infer/preprocess.hpp"
#include "tests/infer/conformance.hpp"
#include "tests/infer/cuda_graphs.hpp"
#include "tests/support/paths.hpp"

namespace camd::infer {
namespace CAMD_TEST_FILE {

using device::CopyKind;
using device::HostMemory;
using test::GraphBuilder;
using test::relative_error;

// Relative to the output's largest value.
constexpr float kF32Tolerance = 1e-4F;
constexpr float kF16Tolerance = 2e-2F;

#if defined(CAMD_CUDA_EMULATION)
constexpr bool kEmulated = true;
constexpr int kRounds = 1;
#else
constexpr bool kEmulated = false;
constexpr int kRounds = 3;
#endif

class CudaEngineTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(CAMD_CUDA_EMULATION)
    device_ = std::make_unique<camd::test::EmulatedGpu>(base::system_clock());
#else
    const device::CudaDevices found = device::cuda_devices();
    if (found.count == 0) GTEST_SKIP() << "no GPU: " << found.reason;
    device_ = device::make_cuda_device(0);
#endif
  }

  std::unique_ptr<CudaEngine> engine(const Graph& graph, DataType type, DataType output_type = DataType::kF32,
                                     bool many_frames = false) {
    EngineOptions options;
    options.many_frames = many_frames;
    options.compute_type = type;
    options.output_type = output_type;
    const Shape& s = graph.shape(graph.input);
    if (s.size() == 4) {
      options.input.height = static_cast<int>(s[2]);
      options.input.width = static_cast<int>(s[3]);
    }
    ModelDescription model;
    model.path = "test";
    return make_cuda_engine(graph, model, TensorSpec{"input", s, DataType::kF32}, options, *device_);
  }

  void upload(Execution& execution, const std::vector<float>& values, device::StreamRef stream) {
    ASSERT_TRUE(
        device_->copy(execution.input().data, values.data(), values.size() * 4, CopyKind::kHostToDevice, stream).ok());
    ASSERT_TRUE(device_->synchronize(stream).ok());
  }

  std::vector<float> download(Execution& execution, std::size_t i) {
    const device::Stream stream = device_->make_stream("download");
    // Only the output's own event orders the copy behind the network.
    EXPECT_TRUE(device_->wait(execution.output_ready(i), stream).ok());
    return read(execution, i, stream);
  }
  // As it is now.
  std::vector<float> read(Execution& execution, std::size_t i) {
    return read(execution, i, device_->make_stream("read"));
  }
  std::vector<float> read(Execution& execution, std::size_t i, const device::Stream& stream) {
    const TensorView view = execution.output(i);
    std::vector<std::byte> bytes(view.spec->size_bytes());
    EXPECT_TRUE(device_->copy(bytes.data(), view.data, bytes.size(), CopyKind::kDeviceToHost, stream).ok());
    EXPECT_TRUE(device_->synchronize(stream.ref()).ok());
    return to_floats(bytes.data(), static_cast<std::size_t>(element_count(view.spec->shape)), view.spec->type);
  }

  void expect_like_reference(const Graph& graph, const std::vector<float>& input, DataType type, DataType output_type,
                             float tolerance, bool may_need_f32 = false) {
    const std::vector<Constant> want = run_reference(graph, input);
    const auto made = engine(graph, type, output_type);
    if (!may_need_f32) {
      EXPECT_EQ(made->plan().type, type) << "kernels in f16 that are wrong would go unseen";
      EXPECT_EQ(made->plan().f32_convolutions, 0) << "the same";
    }
    const auto execution = made->make_execution();
    execution->keep_input();
    const device::Stream stream = device_->make_stream("test");
    upload(*execution, input, stream);
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_TRUE(execution->enqueue_network(stream).ok());
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_LE(relative_error(download(*execution, i), want[i].f32), tolerance)
            << "output " << i << ", round " << round;
      }
    }
    EXPECT_TRUE(execution->result().ok()) << execution->result().message();
  }

  std::unique_ptr<device::CudaDevice> device_;
};

TEST_F(CudaEngineTest, DetectorsOfOddSizesEqualTheReferenceInF16) {
  for (const auto& [h, w, width] : {std::tuple{36, 52, 8}, {61, 97, 16}, {45, 130, 4}, {90, 160, 8}}) {
    GraphBuilder g({1, 3, h, w}, static_cast<unsigned>(h));
    const Graph graph = test::small_detector(g, width);
    expect_like_reference(graph, g.random_input(), DataType::kF16, DataType::kF32, kF16Tolerance);
    expect_like_reference(graph, g.random_input(), DataType::kF16, DataType::kF16, kF16Tolerance);
  }
}

// Channels in pairs that are exactly 0 or 1 nearly everywhere, and a 1x1 convolution that looks at the differences
// between weights of a pair, which f16 does not know.
Graph with_one_that_f16_spoils(GraphBuilder& g) {
  const ValueId first = g.conv(g.input(), 16, 3, 1, 1, {Function::kClip, 0.0F, 1.0F});
  const ValueId spoilt = g.conv(first, 16, 1, 1, 1, {});
  const ValueId third = g.conv(spoilt, 16, 3, 1, 1, {});
  Graph graph = g.finish({g.conv(third, 8, 1, 1, 1, {})});
  const auto change = [&](std::size_t op, std::size_t input, const std::function<float(std::size_t, float)>& to) {
    const auto id = static_cast<std::size_t>(graph.ops[op].inputs[input]);
    Constant values = *graph.values[id].constant;
    const std::vector<float> old = values.f32;
    for (std::size_t i = 0; i < old.size(); ++i) values.f32[i] = to(i, old[i]);
    graph.values[id].constant = std::make_shared<const Constant>(values);
  };
  const std::vector<float> filters = graph.value(graph.ops[0].inputs[1]).constant->f32;
  change(0, 1, [&](std::size_t i, float) { return 3000.0F * filters[i % 27 + i / 54 * 54]; });
  change(0, 2, [](std::size_t, float) { return 0.0F; });
  change(1, 1, [](std::size_t i, float w) { return (i % 2 == 0 ? 1.0F : -1.0F) * (1.0F + 4e-4F * std::abs(w)); });
  change(1, 2, [](std::size_t, float) { return 0.0F; });
  change(2, 1, [](std::size_t, float w) { return 2000.0F * w; });
  return graph;
}

TEST_F(CudaEngineTest, ForManyFramesItServesThroughputTooWithTheReferencesOutputs) {
  GraphBuilder g({1, 3, 37, 51});
  const Graph graph = test::small_detector(g, 16);
  EXPECT_FALSE(engine(graph, DataType::kF16)->serves(Goal::kThroughput));
  const auto made = engine(graph, DataType::kF16, DataType::kF32, true);
  const std::vector<float> input = g.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  for (const Goal goal : {Goal::kLatency, Goal::kThroughput}) {
    ASSERT_TRUE(made->serves(goal));
    const auto execution = made->make_execution_for(goal);
    execution->keep_input();
    const device::Stream stream = device_->make_stream("test");
    upload(*execution, input, stream);
    ASSERT_TRUE(execution->enqueue_network(stream).ok());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(relative_error(download(*execution, i), want[i].f32), kF16Tolerance) << "output " << i;
    }
  }
}

// A filter of a network's outputs, and the host's memory that it fills.
struct Filtered {
  static constexpr float kLeft = -77.0F;  // what was there before

  Filtered(device::Device& device, Execution& execution, const std::vector<TensorSpec>& outputs,
           std::vector<Filter> wanted)
      : filters(std::move(wanted)) {
    for (const TensorSpec& spec : outputs) {
      values.push_back(
          device.allocate_host(HostMemory::kMapped, static_cast<std::size_t>(element_count(spec.shape)) * 4));
      to.values.push_back(reinterpret_cast<float*>(values.back().device_data()));
    }
    for (const Filter& filter : filters) {
      passed.push_back(device.allocate_host(HostMemory::kMapped, static_cast<std::size_t>(filter.places() + 1) * 4));
      to.passed.push_back(reinterpret_cast<std::int32_t*>(passed.back().device_data()));
    }
    taken = execution.filter(filters, to);
    for (const device::HostBuffer& buffer : values) {
      std::fill_n(reinterpret_cast<float*>(buffer.data()), buffer.size_bytes() / 4, kLeft);
    }
  }
  [[nodiscard]] std::vector<std::int32_t> places(std::size_t filter) const {
    const auto* const list = reinterpret_cast<const std::int32_t*>(passed[filter].data());
    std::vector<std::int32_t> sorted(list + 1, list + 1 + list[0]);
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
  [[nodiscard]] std::vector<float> floats(std::size_t output) const {
    const auto* const first = reinterpret_cast<const float*>(values[output].data());
    return {first, first + values[output].size_bytes() / 4};
  }

  std::vector<Filter> filters;
  FilteredTo to;
  std::vector<device::HostBuffer> values, passed;
  bool taken = false;
};

// An output [1,C,h,w] with so many anchors, whose scores are its first channels; `beside` is read as well.
Filter filter_of(const std::vector<TensorSpec>& outputs, int output, int scores, int beside, int anchors, float floor) {
  const auto all = [&](int i) {
    const Shape& s = outputs[static_cast<std::size_t>(i)].shape;
    const auto channels = static_cast<int>(s[1]) / anchors;
    return Elements{i, channels, 0, 1, channels * s[2] * s[3], s[2] * s[3]};
  };
  Elements of_scores = all(output);
  of_scores.channels = scores;
  const Shape& s = outputs[static_cast<std::size_t>(output)].shape;
  return {s[2] * s[3], anchors, floor, of_scores, {all(output), all(beside)}};
}

// What the filters of `f` make of these outputs.
struct Expected {
  Expected(const Filtered& f, const std::vector<std::vector<float>>& outputs) {
    for (const std::vector<float>& values : outputs) floats.emplace_back(values.size(), Filtered::kLeft);
    for (const Filter& filter : f.filters) {
      std::vector<std::int32_t>& list = places.emplace_back();
      for (std::int64_t place = 0; place < filter.places(); ++place) {
        const auto at = [&](const Elements& e, std::int64_t c) {
          return static_cast<std::size_t>(e.first + place / filter.anchors * e.cell_step +
                                          place % filter.anchors * e.anchor_step + c * e.channel_step);
        };
        bool passes = false;
        for (int c = 0; c < filter.scores.channels; ++c) {
          passes |= outputs[static_cast<std::size_t>(filter.scores.output)][at(filter.scores, c)] >= filter.floor;
        }
        if (!passes) continue;
        list.push_back(static_cast<std::int32_t>(place));
        for (const Elements& e : filter.values) {
          const auto output = static_cast<std::size_t>(e.output);
          for (int c = 0; c < e.channels; ++c) floats[output][at(e, c)] = outputs[output][at(e, c)];
        }
      }
    }
  }
  std::vector<std::vector<std::int32_t>> places;
  std::vector<std::vector<float>> floats;
};

TEST_F(CudaEngineTest, OnlyWhatPassesAFilterReachesTheHostInEachFrameAnew) {
  GraphBuilder g({1, 3, 44, 60});
  const Graph graph = test::small_detector(g, 8);
  const auto made = engine(graph, DataType::kF16);
  const std::vector<TensorSpec>& outputs = made->outputs();
  for (const float floor : {0.0F, 0.5F, 0.95F, 2.0F}) {  // of sigmoids: all, many, few, none
    const auto execution = made->make_execution();
    execution->keep_input();
    std::vector<Filter> filters;
    for (int i = 0; i < 9; i += 3) {
      filters.push_back(filter_of(outputs, i, 4, i + 1, 1, floor));
      filters.push_back(filter_of(outputs, i, 1, i + 2, 4, floor));
      filters.push_back(filter_of(outputs, i + 2, 1, i + 2, 1, floor * 3.0F - 1.5F));
    }
    const Filtered filtered(*device_, *execution, outputs, filters);  // more than one kernel takes
    ASSERT_TRUE(filtered.taken);
    const device::Stream stream = device_->make_stream("test");
    std::vector<std::vector<float>> so_far;
    so_far.reserve(outputs.size());
    for (const TensorSpec& spec : outputs) {
      so_far.emplace_back(static_cast<std::size_t>(element_count(spec.shape)), Filtered::kLeft);
    }
    for (int frame = 0; frame < 2; ++frame) {
      upload(*execution, g.random_input(), stream);
      ASSERT_TRUE(execution->enqueue_network(stream).ok());
      ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
      std::vector<std::vector<float>> values;
      for (std::size_t i = 0; i < outputs.size(); ++i) values.push_back(read(*execution, i));
      const Expected want(filtered, values);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        for (std::size_t k = 0; k < so_far[i].size(); ++k) {
          if (want.floats[i][k] != Filtered::kLeft) so_far[i][k] = want.floats[i][k];
        }
        const std::vector<float> got = filtered.floats(i);
        ASSERT_EQ(got.size(), so_far[i].size());
        for (std::size_t k = 0; k < got.size(); ++k) {
          ASSERT_EQ(got[k], so_far[i][k]) << "floor " << floor << ", frame " << frame << ", output " << i << ", " << k;
        }
      }
      for (std::size_t f = 0; f < filters.size(); ++f) {
        EXPECT_EQ(filtered.places(f), want.places[f]) << "floor " << floor << ", frame " << frame << ", filter " << f;
      }
    }
  }
}

TEST_F(CudaEngineTest, OutputsOfF16AreNotFiltered) {
  GraphBuilder g({1, 3, 36, 52});
  const Graph graph = test::small_detector(g, 8);
  const auto made = engine(graph, DataType::kF16, DataType::kF16);
  const auto execution = made->make_execution();
  EXPECT_FALSE(Filtered(*device_, *execution, made->outputs(), {filter_of(made->outputs(), 0, 4, 1, 1, 0.5F)}).taken);
}

TEST_F(CudaEngineTest, OneConvolutionThatF16SpoilsIsTheOnlyOneInF32) {
  GraphBuilder g({1, 3, 32, 48}, 7);
  const Graph graph = with_one_that_f16_spoils(g);
  const auto made = engine(graph, DataType::kF16);
  EXPECT_EQ(made->plan().type, DataType::kF16);
  EXPECT_EQ(made->plan().f32_convolutions, 1);
  std::vector<std::string> in_f32;
  for (const cuda::Step& step : made->plan().steps) {
    const auto* conv = std::get_if<cuda::GenericConvArguments>(&step.arguments);
    if (conv != nullptr && conv->type == DataType::kF32) in_f32.push_back(step.origin);
  }
  EXPECT_EQ(in_f32, (std::vector<std::string>{graph.ops[1].origin}));
}

// The best of values that lie close to each other are others in f16, in another order: no reason for f32.
TEST_F(CudaEngineTest, AChoiceBehindAConvolutionDoesNotAskForF32) {
  GraphBuilder g({1, 3, 16, 16}, 3);
  const ValueId scores = g.conv(g.conv(g.input(), 8, 3), 4, 1);
  const ValueId rows = g.op(Reshape{}, {scores}, {1, 1024});
  const Graph graph = g.finish({g.op(TopK{1, 200, true}, {rows}, {1, 200})});
  const auto made = engine(graph, DataType::kF16);
  EXPECT_EQ(made->plan().type, DataType::kF16);
  EXPECT_EQ(made->plan().f32_convolutions, 0);
}

TEST_F(CudaEngineTest, DetectorsOfOddSizesEqualTheReferenceInF32) {
  for (const auto& [h, w, width] : {std::tuple{36, 52, 8}, {61, 97, 16}, {45, 130, 4}}) {
    GraphBuilder g({1, 3, h, w}, static_cast<unsigned>(h));
    const Graph graph = test::small_detector(g, width);
    expect_like_reference(graph, g.random_input(), DataType::kF32, DataType::kF32, kF32Tolerance);
  }
}

TEST_F(CudaEngineTest, FirstBlocksWithOtherActivationsEqualTheReference) {
  for (const Activation& activation :
       {Activation{Function::kLeakyRelu, 0.1F}, Activation{Function::kSilu}, Activation{Function::kHardSwish}}) {
    GraphBuilder g({1, 3, 37, 75});
    const Graph graph = test::first_blocks(g, activation);
    expect_like_reference(graph, g.random_input(), DataType::kF16, DataType::kF32, kF16Tolerance);
  }
}

TEST_F(CudaEngineTest, ShuffledBlocksEqualTheReference) {
  for (const int width : {24, 58, 116}) {
    GraphBuilder g({1, 3, 76, 92});
    const Graph graph = test::shuffled_blocks(g, width);
    expect_like_reference(graph, g.random_input(), DataType::kF16, DataType::kF32, kF16Tolerance);
  }
}

TEST_F(CudaEngineTest, MobileBlocksEqualTheReference) {
  for (const Shape& size : {Shape{1, 3, 76, 92}, Shape{1, 3, 150, 214}}) {
    GraphBuilder g(size);
    const Graph graph = test::mobile_blocks(g);
    const std::vector<float> input = g.random_input();
    expect_like_reference(graph, input, DataType::kF16, DataType::kF32, kF16Tolerance);
    expect_like_reference(graph, input, DataType::kF32, DataType::kF32, kF32Tolerance);
  }
}

TEST_F(CudaEngineTest, OnnxsOwnOperatorCasesComeOutRight) {
  const auto cases = test::conformance_cases();
  if (cases.empty()) GTEST_SKIP() << "ONNX's operator cases are not on this machine";
  const device::Stream stream = device_->make_stream("test");
  for (const auto& c : cases) {
    const Graph graph = lower_model(c.file, c.input);
    const auto made = engine(graph, DataType::kF32);
    const auto execution = made->make_execution();
    execution->keep_input();
    upload(*execution, c.values, stream);
    ASSERT_TRUE(execution->enqueue_network(stream).ok()) << c.name;
    for (std::size_t i = 0; i < c.expected.size(); ++i) {
      const std::vector<float> got = download(*execution, i);
      EXPECT_EQ(test::difference(c.expected[i], got.data(), made->outputs()[i].shape), "") << c.name;
    }
  }
}

TEST_F(CudaEngineTest, RealDetectorsEqualTheReferenceInBothTypes) {
  if (kEmulated) GTEST_SKIP() << "takes minutes under emulation";
  int found = 0;
  for (const char* name :
       {"version-RFB-320.onnx", "yolox_nano.onnx", "nanodet_m_320.onnx", "FastestDet.onnx", "yunet_n_320_320.onnx"}) {
    const std::string path = camd::test::shared_dir() + "/models/" + name;
    if (!std::filesystem::exists(path)) continue;
    ++found;
    const OnnxFile file = read_onnx_file(path);
    const ModelDescription model = describe_model(file);
    InputOptions options;
    const TensorSpec input = resolve_input(model, options);
    const Graph graph = lower_model(file, input);
    std::vector<float> values(static_cast<std::size_t>(element_count(input.shape)));
    // Soft shapes in the range that the model was trained for: on noise, networks amplify what f16 rounds away.
    const bool bytes = std::string(name).find("yu") == 0 || std::string(name).find("yolox") == 0;
    const auto side = static_cast<std::size_t>(input.shape[3]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = i / side;
      const auto x = static_cast<float>(i % side), y = static_cast<float>(row);
      const float v = 0.5F * std::sin(x * 0.05F) + 0.4F * std::cos(y * 0.07F + x * 0.01F);
      values[i] = bytes ? 127.0F + 120.0F * v : v;
    }
    SCOPED_TRACE(name);
    expect_like_reference(graph, values, DataType::kF32, DataType::kF32, kF32Tolerance);
    // Other people's networks are deeper than ours and were not made for f16.
    const bool may_need_f32 = std::string(name).find("yolox") == 0;
    expect_like_reference(graph, values, DataType::kF16, DataType::kF32, 2 * kF16Tolerance, may_need_f32);
  }
  if (found == 0) GTEST_SKIP() << "no models in " << camd::test::shared_dir() << "/models";
}

// The picture goes into the first layer, or through planes: the same outputs, for every format, shown as it is and
// resized; and the same values where its address stands in memory.
TEST_F(CudaEngineTest, PicturesOfEveryFormatGiveTheSameOutputsFusedAndByPlanes) {
  using base::PixelFormat;
  GraphBuilder g({1, 3, 72, 96});  // what reads pictures, and a layer behind it
  const ValueId first = g.separable(g.conv(g.input(), 8, 3, 2), 16);
  const Graph graph = g.finish({first, g.conv(first, 8, 3)});
  const auto made = engine(graph, DataType::kF16);
  const device::Stream stream = device_->make_stream("test");
  std::mt19937 random(3);
  for (const auto format : {PixelFormat::kBgr, PixelFormat::kRgb, PixelFormat::kNv12, PixelFormat::kI420,
                            PixelFormat::kYuy2, PixelFormat::kGray8}) {
    for (const auto& [width, height] : {std::pair{96, 72}, {96, 54}, {201, 133}, {50, 38}}) {
      const auto layout = base::tight_layout(format, width, height);
      device::HostBuffer host = device_->allocate_host(HostMemory::kMapped, layout.size_bytes);
      // Smooth pictures, as cameras make them: noise would measure only how f16 rounds.
      for (std::size_t i = 0; i < layout.size_bytes; ++i)
        host.data()[i] = static_cast<std::byte>((i / 7 + i % 31 * 3 + random() % 4) & 255);
      const PictureView picture{host.device_data(), layout};
      const device::HostBuffer address = device_->allocate_host(HostMemory::kMapped, sizeof(picture.data));
      std::memcpy(address.data(), static_cast<const void*>(&picture.data), sizeof(picture.data));
      const PictureView anywhere{nullptr, layout, false,
                                 reinterpret_cast<const std::byte* const*>(address.device_data())};
      const auto fused = made->make_execution(), fused_anywhere = made->make_execution();
      const auto planes = made->make_execution(), planes_anywhere = made->make_execution();
      planes->keep_input();
      planes_anywhere->keep_input();
      std::vector<float> want_input(std::size_t{3} * 72 * 96);
      Preprocessor(made->input_options()).run({host.data(), layout}, want_input.data());
      ASSERT_TRUE(planes->enqueue_preprocess(picture, stream).ok());
      ASSERT_TRUE(planes->enqueue_network(stream).ok());
      ASSERT_TRUE(fused->enqueue_preprocess(picture, stream).ok());
      ASSERT_TRUE(fused->enqueue_network(stream).ok());
      for (const auto& execution : {fused_anywhere.get(), planes_anywhere.get()}) {
        ASSERT_TRUE(execution->enqueue_preprocess(anywhere, stream).ok());
        ASSERT_TRUE(execution->enqueue_network(stream).ok());
      }
      ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
      std::vector<float> got_input(want_input.size());
      ASSERT_TRUE(
          device_->copy(got_input.data(), planes->input().data, got_input.size() * 4, CopyKind::kDeviceToHost, stream)
              .ok());
      ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
      EXPECT_LE(relative_error(got_input, want_input), kF32Tolerance)
          << to_string(format) << " " << width << "x" << height;
      const std::vector<Constant> want = run_reference(graph, want_input);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_LE(relative_error(download(*planes, i), want[i].f32), kF16Tolerance)
            << to_string(format) << " planes " << i;
        EXPECT_LE(relative_error(download(*fused, i), want[i].f32), kF16Tolerance)
            << to_string(format) << " fused " << i;
        EXPECT_EQ(download(*fused_anywhere, i), download(*fused, i)) << to_string(format) << " " << i;
        EXPECT_EQ(download(*planes_anywhere, i), download(*planes, i)) << to_string(format) << " planes " << i;
      }
    }
  }
}

TEST_F(CudaEngineTest, OutputsCanBeBoundToMappedHostMemory) {
  GraphBuilder g({1, 3, 64, 64});
  const Graph graph = test::small_detector(g);
  const std::vector<float> input = g.random_input();
  const std::vector<Constant> want = run_reference(graph, input);
  const auto made = engine(graph, DataType::kF16);
  const auto execution = made->make_execution();
  execution->keep_input();
  std::vector<device::HostBuffer> memory;
  for (std::size_t i = 0; i < made->outputs().size(); ++i) {
    memory.push_back(device_->allocate_host(HostMemory::kMapped, made->outputs()[i].size_bytes()));
    ASSERT_TRUE(execution->bind_output(i, memory.back().device_data()));
  }
  const device::Stream stream = device_->make_stream("test");
  upload(*execution, input, stream);
  ASSERT_TRUE(execution->enqueue_network(stream).ok());
  ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto* values = reinterpret_cast<const float*>(memory[i].data());
    EXPECT_LE(relative_error({values, values + want[i].f32.size()}, want[i].f32), kF16Tolerance);
  }
}

TEST_F(CudaEngineTest, ANetworkJoinsTheCallersGraph) {
  GraphBuilder g({1, 3, 64, 96});
  const Graph graph = test::small_detector(g);
  const auto made = engine(graph, DataType::kF16);
  const auto execution = made->make_execution();
  execution->keep_input();
  const device::Stream stream = device_->make_stream("test");
  device::GraphExec captured;
  ASSERT_TRUE(device_->begin_capture(stream).ok());
  ASSERT_TRUE(execution->enqueue_network(stream).ok());
  ASSERT_TRUE(device_->end_capture(stream, captured).ok());
  for (int round = 0; round < 2; ++round) {
    const std::vector<float> input = g.random_input();
    const std::vector<Constant> want = run_reference(graph, input);
    upload(*execution, input, stream);
    ASSERT_TRUE(device_->launch(captured, stream).ok());
    ASSERT_TRUE(device_->synchronize(stream.ref()).ok());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(relative_error(read(*execution, i), want[i].f32), kF16Tolerance) << i;
    }
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::infer
