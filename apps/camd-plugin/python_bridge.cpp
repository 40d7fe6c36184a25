// camd_worker.so: a worker's side in plain C, which camd_worker.py calls through ctypes. So it ties itself to no
// version of Python.
//
// Threads: camd_worker_accept() the main one; the others one thread for each instance, as they come from accept().
// Validity: pointers until the next camd_worker_next() of the same instance.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "apps/camd-plugin/crash.hpp"
#include "apps/camd-plugin/worker_end.hpp"
#include "base/log.hpp"
#include "pipeline/plugin/frame_events.hpp"
#include "pipeline/plugin/plugin_question.hpp"
#include "pipeline/plugin_process/descriptor_socket.hpp"
#include "pipeline/plugin_process/report.hpp"

namespace {

using namespace camd;
namespace wire = camd::pipeline::wire;

struct Instance {
  Instance(pipeline::Descriptor socket, pipeline::Descriptor orders, pipeline::Descriptor answers)
      : end(std::move(socket), std::move(orders), std::move(answers)) {}
  worker::WorkerEnd end;
  wire::CreateOrder created;  // of a check order: the plug-in
  wire::CheckOrder asked;
  std::vector<pipeline::PluginAnswer> said;
  std::unique_ptr<wire::ModelOrder> model;
  camd_results results{};
  std::string problem;
  pipeline::FrameEvents events;
};

Instance& of(void* instance) { return *static_cast<Instance*>(instance); }

template <std::size_t N>
void put_text(char (&to)[N], const char* text) {
  std::snprintf(to, N, "%s", text == nullptr ? "" : text);
}

}  // namespace

extern "C" {

#define CAMD_EXPORTED __attribute__((visibility("default")))

// [blocks] until camd makes an instance. NULL: camd wants no more.
CAMD_EXPORTED void* camd_worker_accept(const char* confinement) {
  static const bool installed = [] {
    worker::install_crash_handler();
    return true;
  }();
  (void)installed;
  for (;;) {
    std::uint64_t size = 0;
    std::vector<pipeline::Descriptor> fds;
    if (!pipeline::receive_descriptors(wire::kControlFd, std::as_writable_bytes(std::span(&size, 1)), fds)) {
      return nullptr;
    }
    if (fds.size() != 3) continue;
    auto made = std::make_unique<Instance>(std::move(fds[0]), std::move(fds[1]), std::move(fds[2]));
    put_text(made->end.answers().confinement, confinement);
    return made.release();
  }
}

// [blocks] until there is an order: its wire::Op. It has to be answered.
CAMD_EXPORTED std::uint32_t camd_worker_next(void* instance) {
  Instance& self = of(instance);
  worker::set_crash_record(&self.end.answers().crash);
  const wire::Op op = self.end.next();
  try {
    if (op == wire::Op::kCheck) {
      self.asked = wire::CheckOrder::read(self.end.blob());
      self.created.plugin = self.asked.plugin;
      self.created.config_json = self.asked.config_json;
      self.said.clear();
    }
    if (op == wire::Op::kCreate) self.created = wire::CreateOrder::read(self.end.blob());
    if (op == wire::Op::kOutputs) self.model = std::make_unique<wire::ModelOrder>(self.end.blob());
    if (op == wire::Op::kProcess) {
      self.results = self.end.results();
      self.events.clear();
      for (std::int32_t i = 0; i < self.end.orders().event_count; ++i) {
        (void)self.events.add(&self.end.answers().events[i]);
      }
    }
  } catch (const std::exception& error) {
    self.end.answer(CAMD_ERROR_FAILED, error.what());
    return camd_worker_next(instance);
  }
  return static_cast<std::uint32_t>(op);
}

CAMD_EXPORTED void camd_worker_answer(void* instance, std::int32_t code, const char* message) {
  Instance& self = of(instance);
  if (static_cast<wire::Op>(self.end.orders().op) == wire::Op::kProcess) {
    wire::Answers& answers = self.end.answers();
    answers.count = self.results.count;
    answers.moved = 0;
    answers.event_count = self.events.count();
    for (std::int32_t i = self.end.orders().event_count; i < self.events.count(); ++i) {
      answers.events[i] = *self.events.get(i);
    }
  }
  if (static_cast<wire::Op>(self.end.orders().op) == wire::Op::kCheck) wire::put_answers(self.said, self.end.answers());
  self.end.answer(code, message == nullptr ? "" : message);
}

// ---- Of the check order, and its answer. `kind` as PluginAnswer::Kind
CAMD_EXPORTED const char* camd_worker_card(void* instance) { return of(instance).asked.card_json.c_str(); }
CAMD_EXPORTED std::int32_t camd_worker_camera_count(void* instance) {
  return static_cast<std::int32_t>(of(instance).asked.cameras.size());
}
CAMD_EXPORTED const char* camd_worker_camera(void* instance, std::int32_t i) {
  return of(instance).asked.cameras.at(static_cast<std::size_t>(i)).c_str();
}
CAMD_EXPORTED void camd_worker_say(void* instance, std::int32_t kind, const char* key, const char* text) {
  of(instance).said.push_back({static_cast<pipeline::PluginAnswer::Kind>(kind), key, text, {}});
}
// One more of the known keys of what was said last.
CAMD_EXPORTED void camd_worker_say_known(void* instance, const char* known) {
  of(instance).said.back().known.emplace_back(known);
}

// ---- Of the create order, and its answer
CAMD_EXPORTED const char* camd_worker_plugin(void* instance) { return of(instance).created.plugin.c_str(); }
CAMD_EXPORTED const char* camd_worker_config(void* instance) { return of(instance).created.config_json.c_str(); }
CAMD_EXPORTED std::uint32_t camd_worker_reloads(void* instance) { return of(instance).created.reloads; }
CAMD_EXPORTED void camd_worker_describe(void* instance, const char* name, const char* version, int reopens) {
  wire::Answers& answers = of(instance).end.answers();
  put_text(answers.name, name);
  put_text(answers.version, version);
  answers.extensions = reopens != 0 ? wire::kOffersReopen : 0;
}

// ---- Of the outputs order, and its answer. `outputs` has camd_model.output_count needs
CAMD_EXPORTED const camd_model* camd_worker_model(void* instance) { return &of(instance).model->model(); }
CAMD_EXPORTED void camd_worker_needs(void* instance, const std::int32_t* outputs, std::int32_t input,
                                     std::int32_t picture, std::int32_t detections) {
  Instance& self = of(instance);
  wire::Answers& answers = self.end.answers();
  const std::int32_t count = std::min(self.model->model().output_count, wire::kMostOutputs);
  std::copy_n(outputs, count, answers.need_outputs);
  answers.need_input = input;
  answers.need_picture = picture;
  answers.detections = detections;
}

// ---- Of a frame
// Another number for each frame in flight: its tensors keep their places.
CAMD_EXPORTED std::uint32_t camd_worker_prepared(void* instance) { return of(instance).end.prepared(); }
CAMD_EXPORTED const camd_frame* camd_worker_frame(void* instance) { return &of(instance).end.frame(); }
CAMD_EXPORTED const camd_tensors* camd_worker_tensors(void* instance) { return &of(instance).end.tensors(); }
// NULL, or why the GPU's work of this frame did not come to its end. [blocks]
CAMD_EXPORTED const char* camd_worker_finish_gpu_work(void* instance) {
  Instance& self = of(instance);
  try {
    self.end.finish_gpu_work();
    return nullptr;
  } catch (const std::exception& error) {
    self.problem = error.what();
    return self.problem.c_str();
  }
}
CAMD_EXPORTED camd_results* camd_worker_results(void* instance) { return &of(instance).results; }
CAMD_EXPORTED std::int32_t camd_worker_event_count(void* instance) { return of(instance).events.count(); }
CAMD_EXPORTED const camd_event* camd_worker_event(void* instance, std::int32_t i) { return of(instance).events.get(i); }
CAMD_EXPORTED std::int32_t camd_worker_add_event(void* instance, const camd_event* event) {
  return of(instance).events.add(event);
}

// [any] A line of the log; level as camd_log_level.
CAMD_EXPORTED void camd_worker_log(std::int32_t level, const char* text) {
  switch (level) {
    case CAMD_LOG_ERROR: base::log().error("{}", text); break;
    case CAMD_LOG_WARN: base::log().warn("{}", text); break;
    case CAMD_LOG_INFO: base::log().info("{}", text); break;
    default: base::log().debug("{}", text); break;
  }
}
}
