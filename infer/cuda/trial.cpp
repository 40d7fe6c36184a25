// make_trusted_plans(): plans, runs of the trial picture, and the choice between them.
#include "infer/cuda/trial.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "infer/cuda/kernels/generic_image.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/mixed_precision.hpp"
#include "infer/cuda/plan/run.hpp"
#include "infer/preprocess.hpp"
#include "infer/sample.hpp"

namespace camd::infer {
namespace {

using cuda::Arguments;
using cuda::GenericConvArguments;
using cuda::Plan;
using device::CopyKind;
using device::CudaDevice;
using device::DeviceBuffer;
using Outputs = std::vector<std::vector<float>>;

// Two plans of f32 with the same steps and memory; the second one's convolutions have weights as f16 has them.
struct Pair {
  const LoadedPlan& exact;
  const LoadedPlan& rounded;
};

// Runs plans, one step after the other, on the trial picture. It is a quarter as wide and high as the network's input,
// so preprocessing enlarges it.
class Trial {
 public:
  Trial(CudaDevice& device, const InputOptions& input, std::size_t planes_bytes)
      : device_(device), stream_(device.make_stream("trial")), planes_(device.allocate_device(planes_bytes)) {
    const int width = std::max(input.width / 4, 1), height = std::max(input.height / 4, 1);
    const std::vector<std::byte> pixels = trial_picture(width, height);
    const DeviceBuffer picture = device_.allocate_device(pixels.size());
    require(device_.select());
    require(device_.clear(planes_.data(), planes_.size_bytes(), stream_));
    require(device_.copy(picture.data(), pixels.data(), pixels.size(), CopyKind::kHostToDevice, stream_));
    const cuda::PreprocessArguments arguments{
        make_sample_plan(base::tight_layout(base::PixelFormat::kBgr, width, height), input),
        {reinterpret_cast<const std::uint8_t*>(picture.data())},
        reinterpret_cast<float*>(planes_.data())};
    check(cuda::preprocess(arguments, context()), "preprocess");
    require(device_.synchronize(stream_.ref()));
  }

  [[nodiscard]] Outputs outputs_of(const LoadedPlan& loaded) {
    Memory memory(device_, loaded.plan, stream_);
    const std::vector<Arguments> steps = bound(loaded, memory);
    require(device_.select());
    for (std::size_t i = 0; i < steps.size(); ++i) launch(steps[i], loaded.plan.steps[i].origin);
    return download(loaded.plan, memory);
  }

  // For each group of `size` convolutions in a row: calls use(steps, outputs) with the outputs if they alone are
  // computed in f16.
  template <typename Use>
  void each_alone(const Pair& pair, std::size_t size, const Use& use) {
    const Plan& plan = pair.exact.plan;
    Memory memory(device_, plan, stream_);
    const std::vector<Arguments> exact = bound(pair.exact, memory), rounded = bound(pair.rounded, memory);
    std::size_t most = 0;
    std::vector<std::size_t> convolutions;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto* conv = std::get_if<GenericConvArguments>(&exact[i]);
      if (conv == nullptr) continue;
      convolutions.push_back(i);
      most = std::max({most, elements(conv->x), elements(conv->y)});
    }
    const DeviceBuffer halves = device_.allocate_device(most * 2), floats = device_.allocate_device(most * 4);
    require(device_.select());
    for (std::size_t first = 0; first < convolutions.size(); first += size) {
      const auto begin = convolutions.begin() + static_cast<std::ptrdiff_t>(first);
      const std::vector<std::size_t> group(
          begin, begin + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(size), convolutions.end() - begin));
      for (std::size_t k = 0; k < exact.size(); ++k) {
        if (std::find(group.begin(), group.end(), k) == group.end()) {
          launch(exact[k], plan.steps[k].origin);
          continue;
        }
        auto conv = std::get<GenericConvArguments>(rounded[k]);
        cuda::Image x = conv.x;  // rounded, tightly packed
        x.data = floats.data();
        x.pitch = (x.c + 7) / 8 * 8;
        require(device_.clear(floats.data(), floats.size_bytes(), stream_));
        round(conv.x, x, halves.data());
        conv.x = x;
        launch(conv);
        round(conv.y, conv.y, halves.data());
      }
      use(group, download(plan, memory));
    }
  }

 private:
  struct Memory {
    Memory(CudaDevice& device, const Plan& plan, const device::Stream& stream)
        : arena(device.allocate_device(plan.arena_bytes)), outputs(device.allocate_device(plan.output_bytes)) {
      // Padding that no kernel writes must hold finite numbers.
      require(device.clear(arena.data(), arena.size_bytes(), stream));
    }
    DeviceBuffer arena, outputs;
  };

  [[nodiscard]] cuda::LaunchContext context() const {
    cuda::LaunchContext context;
    context.stream = stream_.ref().native();
    context.prepare = true;
    return context;
  }
  void check(int error, const char* what) { require(device_.check(error, what)); }
  void launch(const Arguments& step) { check(cuda::run(step, context()), "the trial's step"); }
  // The same, with the first run's choices.
  void launch(const Arguments& step, const std::string& origin) {
    launch(step);
    const auto* top = std::get_if<cuda::TopKArguments>(&step);
    if (top == nullptr) return;
    const auto bytes = static_cast<std::size_t>(top->outer * top->operation.count * top->inner) * sizeof(float);
    auto* const made = reinterpret_cast<std::byte*>(top->y);
    const auto known = choices_.find(origin);
    if (known == choices_.end()) {
      const DeviceBuffer& kept = choices_.emplace(origin, device_.allocate_device(bytes)).first->second;
      require(device_.copy(kept.data(), made, bytes, CopyKind::kDeviceToDevice, stream_));
    } else if (known->second.size_bytes() == bytes) {
      require(device_.copy(made, known->second.data(), bytes, CopyKind::kDeviceToDevice, stream_));
    }
  }

  [[nodiscard]] std::vector<Arguments> bound(const LoadedPlan& loaded, const Memory& memory) const {
    std::vector<std::byte*> bases;
    for (const cuda::Buffer& b : loaded.plan.buffers) {
      switch (b.kind) {
        case cuda::BufferKind::kConstants: bases.push_back(loaded.constants.data()); break;
        case cuda::BufferKind::kInput: bases.push_back(planes_.data()); break;
        case cuda::BufferKind::kArena: bases.push_back(memory.arena.data() + b.offset_bytes); break;
        case cuda::BufferKind::kOutput: bases.push_back(memory.outputs.data() + b.offset_bytes); break;
      }
    }
    std::vector<Arguments> steps;
    for (const cuda::Step& step : loaded.plan.steps) {
      steps.push_back(step.arguments);
      cuda::bind(steps.back(), bases);
    }
    return steps;
  }

  [[nodiscard]] Outputs download(const Plan& plan, const Memory& memory) {
    Outputs outputs;
    for (const cuda::PlannedOutput& output : plan.outputs) {
      const cuda::Buffer& buffer = plan.buffers[static_cast<std::size_t>(output.buffer)];
      std::vector<std::byte> bytes(output.spec.size_bytes());
      require(device_.copy(bytes.data(), memory.outputs.data() + buffer.offset_bytes, bytes.size(),
                           CopyKind::kDeviceToHost, stream_));
      require(device_.synchronize(stream_.ref()));
      outputs.push_back(
          to_floats(bytes.data(), static_cast<std::size_t>(element_count(output.spec.shape)), output.spec.type));
    }
    return outputs;
  }

  [[nodiscard]] static std::size_t elements(const cuda::Image& image) {
    return static_cast<std::size_t>(image.h) * static_cast<std::size_t>(image.w) *
           static_cast<std::size_t>((image.c + 7) / 8 * 8);
  }
  // `to` is `from` rounded to f16; they may be the same.
  void round(const cuda::Image& from, const cuda::Image& to, std::byte* halves) {
    const auto side = [&](const cuda::Image& image) {
      cuda::Strided t;
      t.data = image.data;
      t.strides[0] = image.pitch;
      t.strides[1] = 1;
      return t;
    };
    cuda::Strided half = side(to);
    half.data = halves;
    half.type = DataType::kF16;
    half.strides[0] = from.c;
    cuda::MoveArguments move;
    move.rank = 2;
    move.shape[0] = move.size[0] = std::int64_t{from.h} * from.w;
    move.shape[1] = move.size[1] = from.c;
    move.step[0] = move.step[1] = 1;
    move.x = side(from);
    move.y = half;
    launch(move);
    move.x = half;
    move.y = side(to);
    launch(move);
  }

  CudaDevice& device_;
  device::Stream stream_;
  DeviceBuffer planes_;
  std::map<std::string, DeviceBuffer> choices_;  // the first run's results of each TopK
};

class Planner {
 public:
  Planner(const Graph& graph, const std::string& path, const InputOptions& input, const cuda::PlanOptions& options,
          CudaDevice& device)
      : graph_(cuda::rewritten(graph, options)), path_(path), input_(input), options_(options), device_(device) {}

  [[nodiscard]] TrustedPlans make(bool many_frames) {
    cuda::PlanOptions options = trusted_options();
    TrustedPlans plans;
    plans.latency = load(graph_, options);
    options.share_of_work = cuda::kWorkForThroughput;
    if (many_frames) plans.throughput = load(graph_, options);
    return plans;
  }

 private:
  [[nodiscard]] cuda::PlanOptions trusted_options() {
    const auto convolutions = static_cast<int>(std::count_if(
        graph_.ops.begin(), graph_.ops.end(), [](const Op& op) { return std::holds_alternative<Conv>(op.operation); }));
    if (options_.type == DataType::kF32 || convolutions == 0) return options_;
    const TrialGraph measured = trial_graph(graph_, true);
    Trial trial(device_, input_, static_cast<std::size_t>(element_count(graph_.shape(graph_.input))) * sizeof(float));
    cuda::PlanOptions f32 = options_, f16 = options_;
    f32.type = DataType::kF32;
    f32.read_planes = false;
    f32.output_type = f16.output_type = DataType::kF32;
    f16.f32_convolutions = measured.unmeasured;
    const auto exact = load(measured.graph, f32);
    const Outputs want = trial.outputs_of(*exact);
    const std::vector<OutputKind> kinds = output_kinds(measured.graph);
    std::vector<Shape> shapes;
    for (const cuda::PlannedOutput& output : exact->plan.outputs) shapes.push_back(output.spec.shape);
    const auto distance_of = [&](const std::vector<bool>& in_f32) {
      f16.f32_convolutions = in_f32;
      const float off = distance(trial.outputs_of(*load(measured.graph, f16)), want, shapes, kinds);
      base::log().debug("engine cuda: {}: {} convolutions in f32, off by {:.2g}", path_,
                        std::count(in_f32.begin(), in_f32.end(), true), off);
      return off;
    };
    const auto with = [&](const std::vector<bool>& in_f32) {
      cuda::PlanOptions options = options_;
      options.f32_convolutions = in_f32;
      return options;
    };
    const float alone = distance_of(measured.unmeasured);
    if (alone <= kToleratedDistance) return with(measured.unmeasured);
    const LoadedPlan rounded(device_, cuda::make_plan(cuda::with_rounded_weights(measured.graph), f32, path_));
    std::vector<float> steps(exact->plan.steps.size(), 0.0F);
    constexpr std::int64_t kMostMultiplyAdds = 4'000'000'000'000;  // some tenths of a second on an H100
    const std::size_t group =
        convolutions_of_a_run(measured.graph, static_cast<std::size_t>(convolutions), kMostMultiplyAdds);
    trial.each_alone({*exact, rounded}, group, [&](const std::vector<std::size_t>& members, const Outputs& got) {
      const float off = off_by_each(distance(got, want, shapes, kinds), members.size());
      for (const std::size_t step : members) steps[step] = off;
    });
    const F32Choice choice = f32_choice(measured.graph, kinds, alone);
    std::vector<bool> in_f32 = choose_f32_convolutions(cuda::of_convolutions(measured.graph, exact->plan, steps),
                                                       measured.unmeasured, distance_of, choice);
    const std::vector<bool> together = cuda::with_fewer_conversions(graph_, in_f32);
    if (together != in_f32 && distance_of(together) <= choice.wanted) in_f32 = together;
    const auto count = std::count(in_f32.begin(), in_f32.end(), true);
    base::log().info(
        "engine cuda: {}: f16 alone would be off by {:.2g} of an output's largest value, so {} of {} convolutions are "
        "computed in f32",
        path_, alone, count, convolutions);
    if (count < convolutions) return with(in_f32);
    f32 = options_;
    f32.type = DataType::kF32;
    return f32;
  }

  [[nodiscard]] std::unique_ptr<const LoadedPlan> load(const Graph& graph, const cuda::PlanOptions& options) {
    return std::make_unique<const LoadedPlan>(device_, cuda::make_plan(graph, options, path_));
  }

  const Graph graph_;  // its convolutions are those that precision is chosen for
  const std::string& path_;
  const InputOptions& input_;
  const cuda::PlanOptions& options_;
  CudaDevice& device_;
};

}  // namespace

TrustedPlans make_trusted_plans(const Graph& graph, const std::string& path, const InputOptions& input,
                                const cuda::PlanOptions& options, bool many_frames, CudaDevice& device) {
  return Planner(graph, path, input, options, device).make(many_frames);
}

}  // namespace camd::infer
