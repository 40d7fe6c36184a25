#include "infer/tail/tail_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "base/error.hpp"
#include "base/log.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;
using base::Status;

using Values = std::vector<std::shared_ptr<const Constant>>;

// Writes a value to the beginning of a tensor of fixed shape, dimension by dimension; the rest of it is -1.
void place_in(const Constant& value, const Shape& room, float* out) {
  const auto total = static_cast<std::size_t>(element_count(room));
  std::fill_n(out, total, -1.0F);
  if (value.shape.size() != room.size()) return;
  const std::int64_t count = element_count(value.shape);
  std::vector<std::int64_t> where(room.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = 0;
    bool inside = true;
    for (std::size_t d = 0; d < room.size(); ++d) {
      inside = inside && where[d] < room[d];
      at = at * room[d] + where[d];
    }
    const auto from = static_cast<std::size_t>(i);
    if (inside) out[at] = value.type == DataType::kI64 ? static_cast<float>(value.i64[from]) : value.f32[from];
    for (std::size_t d = room.size(); d-- > 0;) {
      if (++where[d] < value.shape[d]) break;
      where[d] = 0;
    }
  }
}

class TailEngine final : public Engine {
 public:
  TailEngine(const OnnxFile& file, SplitModel split, device::Device& device, std::unique_ptr<Engine> head,
             void (*product)(const Product&))
      : device_(device),
        model_(describe_model(file)),
        split_(std::move(split)),
        head_(std::move(head)),
        options_{kTailSteps, kTailElements, product} {
    const auto index_of = [&](const std::string& name) {
      const auto& outputs = split_.head.proto.graph().output();
      const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const auto& o) { return o.name() == name; });
      if (found == outputs.end()) throw Error(ErrorKind::kInternal, "the head does not put out " + printable(name));
      return static_cast<std::size_t>(found - outputs.begin());
    };
    for (const std::string& name : tail().reads()) reads_.push_back(index_of(name));
    const std::vector<Shape> rooms = rooms_of_outputs();
    for (const TensorSpec& declared : model_.outputs) {
      const auto made = std::find(tail().makes().begin(), tail().makes().end(), declared.name);
      if (made == tail().makes().end()) {
        sources_.push_back({false, index_of(declared.name)});
        outputs_.push_back(head_->outputs()[sources_.back().index]);
        outputs_.back().name = declared.name;
        continue;
      }
      sources_.push_back({true, static_cast<std::size_t>(made - tail().makes().begin())});
      outputs_.push_back({declared.name, rooms[sources_.back().index], DataType::kF32});
    }
    base::log().info("{}: {}", model_.path, describe_tail(split_));
  }

  struct Source {
    bool of_tail = false;
    std::size_t index = 0;  // in the head's outputs, or in Tail::makes()
  };

  [[nodiscard]] std::string_view name() const noexcept override { return head_->name(); }
  [[nodiscard]] const ModelDescription& model() const noexcept override { return model_; }
  [[nodiscard]] const InputOptions& input_options() const noexcept override { return head_->input_options(); }
  [[nodiscard]] const TensorSpec& input() const noexcept override { return head_->input(); }
  [[nodiscard]] const std::vector<TensorSpec>& outputs() const noexcept override { return outputs_; }
  [[nodiscard]] std::unique_ptr<Execution> make_execution() override { return make_execution_for(Goal::kLatency); }
  [[nodiscard]] bool serves(Goal goal) const noexcept override { return head_->serves(goal); }
  [[nodiscard]] std::unique_ptr<Execution> make_execution_for(Goal goal) override;

  [[nodiscard]] const Tail& tail() const noexcept { return split_.tail; }
  [[nodiscard]] Values run_tail(const std::vector<Constant>& values) const { return tail().run(values, options_); }
  [[nodiscard]] Engine& head() const noexcept { return *head_; }
  [[nodiscard]] const std::vector<std::size_t>& reads() const noexcept { return reads_; }
  [[nodiscard]] const std::vector<Source>& sources() const noexcept { return sources_; }

  void tell_failure(const char* why) noexcept {
    if (told_.exchange(true)) return;
    const char* const advice = tail().makes().size() > 3 ? "; to leave out what else it makes than boxes, scores and "
                                                           "classes, name those three outputs in model.cut_at"
                                                         : "";
    base::log().warn("{}: the tail on the host failed on a picture, which counts as nothing found: {}{}", model_.path,
                     why, advice);
  }

 private:
  // How many rows an output has in each trial; nothing where its rank is 0.
  [[nodiscard]] static std::vector<std::int64_t> rows_in(const std::vector<Values>& trials, std::size_t output) {
    std::vector<std::int64_t> rows;
    for (const Values& trial : trials) {
      if (!trial[output]->shape.empty()) rows.push_back(trial[output]->shape[0]);
    }
    return rows;
  }

  // The rows of an output [?,4] or wider whose number the file leaves open: one in all trials may be more in others,
  // and other outputs that have as many are beside it. Empty where there is no such output.
  [[nodiscard]] std::vector<std::int64_t> rows_of_boxes(const std::vector<Values>& trials) const {
    for (std::size_t o = 0; o < tail().makes().size(); ++o) {
      const auto declared = std::find_if(model_.outputs.begin(), model_.outputs.end(),
                                         [&](const TensorSpec& spec) { return spec.name == tail().makes()[o]; });
      const Shape& shape = trials[0][o]->shape;
      const bool open = declared->shape.size() == 2 && declared->shape[0] < 0;
      if (open && shape.size() == 2 && shape[1] >= 4 && shape[1] <= 7) return rows_in(trials, o);
    }
    return {};
  }

  // Runs the tail on made-up values. The dimensions that the file leaves open, or that differ, get room.
  [[nodiscard]] std::vector<Shape> rooms_of_outputs() const {
    std::vector<Values> trials;
    std::string why;
    for (const float scale : {0.0F, 1.0F, 0.3F, 100.0F}) {
      std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
      std::vector<Constant> values;
      for (const std::size_t i : reads_) {
        const Shape& shape = head_->outputs()[i].shape;
        Constant c{DataType::kF32, shape, {}, {}};
        for (std::int64_t e = 0; e < element_count(shape); ++e) {
          c.f32.push_back(scale * static_cast<float>(random() & 0xFFFFU) / 65536.0F);
        }
        values.push_back(std::move(c));
      }
      try {
        trials.push_back(run_tail(values));
      } catch (const Error& error) {
        why = error.what();
      }
    }
    if (trials.empty()) throw Error(ErrorKind::kModel, why);
    const std::vector<std::int64_t> boxes = rows_of_boxes(trials);
    std::vector<Shape> rooms;
    for (std::size_t o = 0; o < tail().makes().size(); ++o) {
      const auto declared = std::find_if(model_.outputs.begin(), model_.outputs.end(),
                                         [&](const TensorSpec& spec) { return spec.name == tail().makes()[o]; });
      Shape room = trials[0][o]->shape;
      const bool of_boxes = !boxes.empty() && !room.empty() && declared->shape.size() == room.size() &&
                            declared->shape[0] < 0 && rows_in(trials, o) == boxes;
      std::vector<bool> differs(room.size());
      for (const Values& trial : trials) {
        const Shape& shape = trial[o]->shape;
        if (shape.size() != room.size())
          throw Error(ErrorKind::kModel, fmt::format("{}: the rank of output '{}' depends on the picture", model_.path,
                                                     printable(tail().makes()[o])));
        for (std::size_t d = 0; d < room.size(); ++d) {
          differs[d] = differs[d] || shape[d] == 0 || shape[d] != trials[0][o]->shape[d];
          room[d] = std::max(room[d], shape[d]);
        }
      }
      // A row's width, which is as the trials have it even where the file leaves it open. A single row may be all that
      // made-up values give, so that a width of three dimensions has only ones before it.
      const auto first = static_cast<std::size_t>(
          std::find_if(room.begin(), room.end(), [](std::int64_t size) { return size != 1; }) - room.begin());
      for (std::size_t d = 0; d < room.size(); ++d) {
        const bool width = (d + 1 == room.size() && (d > first || d > 1)) || (of_boxes && d > 0);
        const bool open = declared->shape.size() == room.size() && declared->shape[d] < 0 &&
                          (room[d] != 1 || (of_boxes && d == 0)) && !width;
        if (differs[d] || open) room[d] = std::max(room[d], kTailRows);
      }
      // A mask for each box is as large as the picture.
      if (of_boxes && element_count(room) > kMaxFoldedElements)
        room[0] = std::max<std::int64_t>(kMaxFoldedElements / (element_count(room) / room[0]), 1);
      if (element_count(room) > kMaxFoldedElements) {
        throw Error(ErrorKind::kModel, fmt::format("{}: output '{}' has no bound below {}", model_.path,
                                                   printable(tail().makes()[o]), to_string(room)));
      }
      rooms.push_back(std::move(room));
    }
    return rooms;
  }

  device::Device& device_;
  ModelDescription model_;
  SplitModel split_;
  std::unique_ptr<Engine> head_;
  FoldOptions options_;
  std::vector<std::size_t> reads_;  // of the head's outputs
  std::vector<Source> sources_;     // of outputs_
  std::vector<TensorSpec> outputs_;
  std::atomic<bool> told_{false};
};

class TailExecution final : public Execution {
 public:
  TailExecution(TailEngine& engine, device::Device& device, Goal goal)
      : engine_(engine),
        device_(device),
        in_place_(device.info().works_in_host_memory),
        head_(engine.head().make_execution_for(goal)),
        ready_(device.make_event()) {
    const auto page_locked = in_place_ ? device::HostMemory::kPageable : device::HostMemory::kPinned;
    for (const std::size_t i : engine.reads()) {
      const TensorSpec& spec = engine.head().outputs()[i];
      values_.push_back(
          {DataType::kF32, spec.shape, std::vector<float>(static_cast<std::size_t>(element_count(spec.shape))), {}});
      read_.push_back(in_place_ ? device::HostBuffer() : device.allocate_host(page_locked, spec.size_bytes()));
    }
    for (std::size_t i = 0; i < engine.outputs().size(); ++i) {
      const std::size_t bytes =
          engine.sources()[i].of_tail ? std::max<std::size_t>(engine.outputs()[i].size_bytes(), 1) : 0;
      on_device_.push_back(bytes == 0 ? device::DeviceBuffer() : device.allocate_device(bytes));
      on_host_.push_back(bytes == 0 || in_place_ ? device::HostBuffer() : device.allocate_host(page_locked, bytes));
    }
  }

  Status enqueue_preprocess(const PictureView& picture, device::StreamRef stream) override {
    return head_->enqueue_preprocess(picture, stream);
  }
  void keep_input() override { head_->keep_input(); }
  bool bind_input(void* address) override { return head_->bind_input(address); }
  bool bind_output(std::size_t i, void* address) override {
    const auto& source = engine_.sources()[i];
    const auto& reads = engine_.reads();
    // What the tail reads stays where it is found.
    if (source.of_tail || std::find(reads.begin(), reads.end(), source.index) != reads.end()) return false;
    return head_->bind_output(source.index, address);
  }

  Status enqueue_network(device::StreamRef stream) override {
    Status status = head_->enqueue_network(stream);
    for (std::size_t k = 0; k < read_.size() && status && !in_place_; ++k) {
      const TensorView from = head_->output(engine_.reads()[k]);
      status =
          device_.copy(read_[k].data(), from.data, from.spec->size_bytes(), device::CopyKind::kDeviceToHost, stream);
    }
    if (status) status = device_.call(&TailExecution::run_on_stream, this, stream);
    for (std::size_t i = 0; i < on_host_.size() && status && !in_place_; ++i) {
      if (!engine_.sources()[i].of_tail) continue;
      status = device_.copy(on_device_[i].data(), on_host_[i].data(), engine_.outputs()[i].size_bytes(),
                            device::CopyKind::kHostToDevice, stream);
    }
    return status ? device_.record(ready_, stream) : status;
  }

  [[nodiscard]] TensorView input() const noexcept override { return head_->input(); }
  [[nodiscard]] TensorView output(std::size_t i) const noexcept override {
    const auto& source = engine_.sources()[i];
    if (!source.of_tail) return {head_->output(source.index).data, &engine_.outputs()[i]};
    return {on_device_[i].data(), &engine_.outputs()[i]};
  }
  [[nodiscard]] const device::Event& output_ready(std::size_t i) const noexcept override {
    const auto& source = engine_.sources()[i];
    return source.of_tail ? ready_ : head_->output_ready(source.index);
  }
  [[nodiscard]] Status result() const noexcept override { return head_->result(); }

 private:
  static void run_on_stream(void* self) noexcept { static_cast<TailExecution*>(self)->run_tail(); }

  [[nodiscard]] float* room(std::size_t i) noexcept {
    return reinterpret_cast<float*>(in_place_ ? on_device_[i].data() : on_host_[i].data());
  }

  void run_tail() noexcept {
    try {
      for (std::size_t k = 0; k < values_.size(); ++k) {
        const void* from = in_place_ ? head_->output(engine_.reads()[k]).data : read_[k].data();
        std::memcpy(values_[k].f32.data(), from, values_[k].f32.size() * sizeof(float));
      }
      const Values made = engine_.run_tail(values_);
      for (std::size_t i = 0; i < engine_.outputs().size(); ++i) {
        const auto& source = engine_.sources()[i];
        if (source.of_tail) place_in(*made[source.index], engine_.outputs()[i].shape, room(i));
      }
    } catch (const std::exception& error) {
      for (std::size_t i = 0; i < engine_.outputs().size(); ++i) {
        if (!engine_.sources()[i].of_tail) continue;
        std::fill_n(room(i), static_cast<std::size_t>(element_count(engine_.outputs()[i].shape)), -1.0F);
      }
      engine_.tell_failure(error.what());
    }
  }

  TailEngine& engine_;
  device::Device& device_;
  const bool in_place_;
  std::unique_ptr<Execution> head_;
  device::Event ready_;
  std::vector<Constant> values_;                 // of Tail::reads()
  std::vector<device::HostBuffer> read_;         // the same, where a device copies them to
  std::vector<device::DeviceBuffer> on_device_;  // outputs of the tail
  std::vector<device::HostBuffer> on_host_;      // the same, where the tail writes them
};

std::unique_ptr<Execution> TailEngine::make_execution_for(Goal goal) {
  return std::make_unique<TailExecution>(*this, device_, goal);
}

}  // namespace

std::unique_ptr<Engine> make_tail_engine(const OnnxFile& file, SplitModel split, device::Device& device,
                                         const std::function<std::unique_ptr<Engine>(const OnnxFile& head)>& make_head,
                                         void (*product)(const Product&)) {
  std::unique_ptr<Engine> head = make_head(split.head);
  return std::make_unique<TailEngine>(file, std::move(split), device, std::move(head), product);
}

std::string describe_tail(const SplitModel& split) {
  return fmt::format("its last part, which makes {}, runs on the host, as sizes there depend on the picture: {}",
                     fmt::join(split.tail.makes(), ", "), split.because);
}

}  // namespace camd::infer
