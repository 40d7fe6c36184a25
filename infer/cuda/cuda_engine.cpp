// CudaExecution runs a plan for one frame at a time.
#include "infer/cuda/cuda_engine.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "device/cuda/cuda_device.hpp"
#include "infer/cuda/filters.hpp"
#include "infer/cuda/kernels/generic_image.hpp"
#include "infer/cuda/kernels/stem.hpp"
#include "infer/cuda/plan/handles.hpp"
#include "infer/cuda/plan/run.hpp"
#include "infer/cuda/trial.hpp"
#include "infer/sample.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;
using base::Status;
using cuda::BufferKind;
using cuda::Plan;
using cuda::Step;
using device::CudaDevice;
using device::StreamRef;

class CudaExecution final : public Execution {
 public:
  CudaExecution(CudaDevice& device, const Plan& plan, Goal goal, const TensorSpec& input_spec,
                const InputOptions& input, const device::DeviceBuffer& constants)
      : device_(device),
        goal_(goal),
        plan_(plan),
        input_spec_(input_spec),
        input_options_(input),
        constants_(constants),
        arena_(device.allocate_device(plan.arena_bytes)),
        outputs_(device.allocate_device(plan.output_bytes)),
        planes_(device.allocate_device(plan.buffers[cuda::kInputBuffer].size_bytes)),
        own_stream_(device.make_urgent_stream("network")),
        forked_(device.make_event()) {
    for (int lane = 1; lane < plan.lane_count; ++lane) {
      lanes_.push_back(device.make_urgent_stream("lane " + std::to_string(lane)));
    }
    for (std::size_t i = 0; i < plan.steps.size(); ++i) step_done_.push_back(device.make_event());
    for (const cuda::PlannedOutput& output : plan.outputs) {
      addresses_.push_back(outputs_.data() + buffer(output.buffer).offset_bytes);
      // Outputs of one step become final together: they share its event.
      const auto same =
          std::find_if(ready_.begin(), ready_.end(), [&](const Ready& r) { return r.step == output.step; });
      if (same == ready_.end()) ready_.push_back(Ready{output.step, device.make_event()});
    }
    bind_steps();
    // Padding that no kernel writes must hold finite numbers.
    require(device_.clear(arena_.data(), arena_.size_bytes(), own_stream_));
    require(device_.clear(planes_.data(), planes_.size_bytes(), own_stream_));
    // Runs once without a graph, which prepares and loads every kernel: a capture must not do that.
    require(enqueue_steps(own_stream_, 0, Marks::kNone));
    require(device_.synchronize(own_stream_.ref()));
    capture();
  }

  Status enqueue_preprocess(const PictureView& picture, StreamRef stream) override {
    if (!(picture.layout == layout_)) {
      layout_ = picture.layout;
      sample_plan_ = make_sample_plan(layout_, input_options_);
    }
    const PicturePlace place{reinterpret_cast<const std::uint8_t*>(picture.data),
                             reinterpret_cast<const std::uint8_t* const*>(picture.at)};
    Status selected = device_.select();
    if (!selected) return selected;
    if (plan_.stem < 0 || keep_input_) {
      const cuda::PreprocessArguments arguments{sample_plan_, place, reinterpret_cast<float*>(planes_.data())};
      return device_.check(cuda::preprocess(arguments, {.stream = stream.native()}), "preprocess");
    }
    cuda::StemArguments arguments = std::get<cuda::StemArguments>(steps_[0]);
    arguments.plan = sample_plan_;
    arguments.picture = place;
    return device_.check(cuda::stem(arguments, {.stream = stream.native(), .overlap_previous = picture.awaited}),
                         "stem");
  }

  Status enqueue_network(StreamRef stream) override {
    if (device_.capturing(stream)) return enqueue_steps(stream, first_step(), Marks::kInside);
    return device_.launch(graph_, stream);
  }

  void keep_input() override {
    if (keep_input_) return;
    keep_input_ = true;
    capture();
  }

  bool bind_output(std::size_t i, void* address) override {
    addresses_[i] = static_cast<std::byte*>(address);
    bind_steps();
    capture();
    return true;
  }

  bool filter(std::span<const Filter> filters, const FilteredTo& to) override {
    std::vector<TensorView> outputs;
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) outputs.push_back(output(i));
    std::optional<cuda::Filters> made = cuda::Filters::make(device_, own_stream_, filters, outputs, to);
    if (!made) return false;
    filters_ = std::move(made);
    // Once without a graph, which loads the kernel.
    require(device_.check(filters_->enqueue({.stream = own_stream_.ref().native(), .prepare = true}), "filter"));
    require(device_.synchronize(own_stream_.ref()));
    capture();
    return true;
  }

  [[nodiscard]] TensorView input() const noexcept override { return {planes_.data(), &input_spec_}; }
  [[nodiscard]] TensorView output(std::size_t i) const noexcept override {
    return {addresses_[i], &plan_.outputs[i].spec};
  }
  [[nodiscard]] const device::Event& output_ready(std::size_t i) const noexcept override {
    const int step = plan_.outputs[i].step;
    return std::find_if(ready_.begin(), ready_.end(), [&](const Ready& r) { return r.step == step; })->event;
  }
  [[nodiscard]] Status result() const noexcept override { return device_.status(); }

  // Times step i, launched `repeats` times from one graph.
  base::Duration time_step(std::size_t i, int repeats) {
    device::TimedEvent begin = device_.make_timed_event(), end = device_.make_timed_event();
    const cuda::LaunchContext context{own_stream_.ref().native()};
    device::GraphExec graph;
    require(device_.begin_capture(own_stream_));
    int error = 0;
    for (int r = 0; r < repeats && error == 0; ++r) error = cuda::run(steps_[i], context);
    require(device_.check(error, "capturing a step"));
    require(device_.end_capture(own_stream_, graph));
    std::vector<base::Duration> times;
    for (int round = 0; round < 5; ++round) {
      require(device_.record(begin, own_stream_));
      require(device_.launch(graph, own_stream_));
      require(device_.record(end, own_stream_));
      require(device_.synchronize(own_stream_.ref()));
      times.push_back(device_.elapsed(begin, end) / repeats);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  // How the outputs' events are recorded.
  enum class Marks : std::uint8_t {
    kNone,     // before anything is captured
    kInside,   // as part of the caller's capture
    kOutside,  // as nodes of our own graph, that streams outside may wait for
  };
  struct Ready {
    int step;
    device::Event event;
  };

  [[nodiscard]] const cuda::Buffer& buffer(int i) const { return plan_.buffers[static_cast<std::size_t>(i)]; }
  // The stem runs in enqueue_preprocess() unless the input is kept.
  [[nodiscard]] std::size_t first_step() const { return plan_.stem == 0 && !keep_input_ ? 1 : 0; }

  void bind_steps() {
    std::vector<std::byte*> bases;
    for (const cuda::Buffer& b : plan_.buffers) {
      switch (b.kind) {
        case BufferKind::kConstants: bases.push_back(constants_.data()); break;
        case BufferKind::kInput: bases.push_back(planes_.data()); break;
        case BufferKind::kArena: bases.push_back(arena_.data() + b.offset_bytes); break;
        case BufferKind::kOutput: bases.push_back(nullptr); break;
      }
    }
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
      bases[static_cast<std::size_t>(plan_.outputs[i].buffer)] = addresses_[i];
    }
    steps_.clear();
    for (const Step& step : plan_.steps) {
      steps_.push_back(step.arguments);
      cuda::bind(steps_.back(), bases);
    }
  }

  void capture() {
    require(device_.begin_capture(own_stream_));
    const Status enqueued = enqueue_steps(own_stream_, first_step(), Marks::kOutside);
    device::GraphExec graph;
    require(device_.end_capture(own_stream_, graph));
    require(enqueued);
    graph_ = std::move(graph);
    require(device_.synchronize(own_stream_.ref()));
  }

  // Enqueues all steps from `first` on. `stream` is lane 0; at the end it has waited for the other lanes.
  Status enqueue_steps(StreamRef stream, std::size_t first, Marks marks) {
    Status status = device_.select();
    if (!status) return status;
    const auto lane_stream = [&](int lane) {
      return lane == 0 ? stream : lanes_[static_cast<std::size_t>(lane - 1)].ref();
    };
    if (plan_.lane_count > 1) status = device_.record(forked_, stream);
    std::vector<int>& last = last_of_lane_;
    last.assign(static_cast<std::size_t>(plan_.lane_count), -1);
    // The first layer ran with the preprocessing, in the same capture.
    if (marks == Marks::kInside && first == 1) last[0] = 0;
    for (std::size_t i = first; i < steps_.size() && status; ++i) {
      const Step& step = plan_.steps[i];
      const StreamRef own = lane_stream(step.lane);
      int& before = last[static_cast<std::size_t>(step.lane)];
      if (before < 0 && step.lane != 0) status = device_.wait(forked_, own);
      for (const int other : step.waits) {
        if (status && other >= static_cast<int>(first))
          status = device_.wait(step_done_[static_cast<std::size_t>(other)], own);
      }
      if (!status) return status;
      cuda::LaunchContext context{own.native(), step.overlap_previous && before >= 0, marks == Marks::kNone};
      // The longest chain is spread over the GPU; the others take the room that it leaves. Where other frames run
      // beside this one, they need that room more.
      if (step.lane == 0 && goal_ == Goal::kLatency) {
        context.spread_over = device_.limits().multiprocessors;
        context.spread_bytes = device_.limits().shared_bytes_per_multiprocessor / 2;  // no room for two blocks
      }
      status = device_.check(cuda::run(steps_[i], context), step.origin.c_str());
      before = static_cast<int>(i);
      if (status && step.signals) status = device_.record(step_done_[i], own);
      if (status && marks != Marks::kNone) status = mark_outputs(static_cast<int>(i), own, marks);
    }
    for (int lane = 1; lane < plan_.lane_count && status; ++lane) {
      const int end = last[static_cast<std::size_t>(lane)];
      if (end < 0) continue;
      device::Event& done = step_done_[static_cast<std::size_t>(end)];
      status = device_.record(done, lane_stream(lane));
      if (status) status = device_.wait(done, stream);
    }
    if (status && filters_ && marks != Marks::kNone) {
      status = device_.check(
          filters_->enqueue({.stream = stream.native(), .overlap_previous = marks == Marks::kInside}), "filter");
    }
    if (status && marks != Marks::kNone) status = mark_outputs(cuda::PlannedOutput::kAllSteps, stream, marks);
    return status;
  }

  Status mark_outputs(int step, StreamRef stream, Marks marks) {
    for (Ready& ready : ready_) {
      if (ready.step != step) continue;
      return marks == Marks::kInside ? device_.record(ready.event, stream)
                                     : device_.record_for_outside(ready.event, stream);
    }
    return {};
  }

  CudaDevice& device_;
  const Goal goal_;
  const Plan& plan_;
  const TensorSpec& input_spec_;
  const InputOptions& input_options_;
  const device::DeviceBuffer& constants_;
  device::DeviceBuffer arena_, outputs_, planes_;
  device::Stream own_stream_;
  std::vector<device::Stream> lanes_;
  device::Event forked_;
  std::vector<device::Event> step_done_;
  std::vector<Ready> ready_;
  std::vector<std::byte*> addresses_;  // of the outputs
  std::vector<cuda::Arguments> steps_;
  std::vector<int> last_of_lane_;
  std::optional<cuda::Filters> filters_;
  device::GraphExec graph_;
  bool keep_input_ = false;
  base::PictureLayout layout_;
  SamplePlan sample_plan_;
};

class CudaEngineImpl final : public CudaEngine {
 public:
  CudaEngineImpl(const Graph& graph, ModelDescription model, TensorSpec input, const EngineOptions& options,
                 CudaDevice& device)
      : device_(device),
        model_(std::move(model)),
        input_(std::move(input)),
        input_options_(options.input),
        plans_(make_trusted_plans(graph, model_.path, input_options_, plan_options(options, device),
                                  options.many_frames, device)),
        plan_(plans_.latency->plan) {
    for (const cuda::PlannedOutput& output : plan_.outputs) outputs_.push_back(output.spec);
    base::log().info("engine cuda: {}: {}", model_.path, plan_.summary());
    if (plans_.throughput) {
      base::log().info("engine cuda: {}: for many frames: {}", model_.path, plans_.throughput->plan.summary());
    }
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }
  [[nodiscard]] const ModelDescription& model() const noexcept override { return model_; }
  [[nodiscard]] const InputOptions& input_options() const noexcept override { return input_options_; }
  [[nodiscard]] const TensorSpec& input() const noexcept override { return input_; }
  [[nodiscard]] const std::vector<TensorSpec>& outputs() const noexcept override { return outputs_; }
  [[nodiscard]] std::unique_ptr<Execution> make_execution() override { return make(*plans_.latency, Goal::kLatency); }
  [[nodiscard]] bool serves(Goal goal) const noexcept override {
    return goal == Goal::kLatency || plans_.throughput != nullptr;
  }
  [[nodiscard]] std::unique_ptr<Execution> make_execution_for(Goal goal) override {
    return make(goal == Goal::kLatency ? *plans_.latency : *plans_.throughput, goal);
  }
  [[nodiscard]] const Plan& plan() const noexcept override { return plan_; }

  [[nodiscard]] std::vector<StepTime> profile(int repeats) override {
    const std::unique_ptr<CudaExecution> execution = make(*plans_.latency, Goal::kLatency);
    std::vector<StepTime> times;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& step = plan_.steps[i];
      times.push_back({std::string(cuda::kernel_name(step.arguments)), step.origin, execution->time_step(i, repeats)});
    }
    return times;
  }

 private:
  [[nodiscard]] std::unique_ptr<CudaExecution> make(const LoadedPlan& loaded, Goal goal) {
    return std::make_unique<CudaExecution>(device_, loaded.plan, goal, input_, input_options_, loaded.constants);
  }

  static cuda::PlanOptions plan_options(const EngineOptions& options, CudaDevice& device) {
    cuda::PlanOptions plan;
    plan.type = options.compute_type;
    plan.output_type = options.output_type;
    plan.shared_bytes = device.limits().shared_bytes_per_block;
#if defined(CAMD_WARPGROUP_PRODUCTS)
    plan.warpgroup_products = device.limits().warpgroup_products;
#endif
    plan.products = !device.limits().tf32 ? 0 : options.tf32 ? 1 : 3;
    return plan;
  }

  CudaDevice& device_;
  const ModelDescription model_;
  const TensorSpec input_;
  const InputOptions input_options_;
  const TrustedPlans plans_;
  const Plan& plan_;  // for latency
  std::vector<TensorSpec> outputs_;
};

}  // namespace

std::unique_ptr<CudaEngine> make_cuda_engine(const Graph& graph, ModelDescription model, const TensorSpec& input,
                                             const EngineOptions& options, device::Device& device) {
  auto* const cuda_device = dynamic_cast<CudaDevice*>(&device);
  if (cuda_device == nullptr) {
    throw Error(ErrorKind::kModel, model.path + ": engine cuda needs a CUDA device, this one is " + device.info().name);
  }
  return std::make_unique<CudaEngineImpl>(graph, std::move(model), input, options, *cuda_device);
}

}  // namespace camd::infer
