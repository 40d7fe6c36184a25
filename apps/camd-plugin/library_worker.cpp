#include "apps/camd-plugin/library_worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "apps/camd-plugin/confine.hpp"
#include "apps/camd-plugin/crash.hpp"
#include "apps/camd-plugin/denied.hpp"
#include "apps/camd-plugin/worker_end.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"
#include "pipeline/plugin/in_process_plugin.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/plugin/plugin_library.hpp"
#include "pipeline/plugin/plugin_question.hpp"
#include "pipeline/plugin_process/descriptor_socket.hpp"
#include "pipeline/plugin_process/report.hpp"

namespace camd::worker {
namespace {

using pipeline::Descriptor;
using pipeline::InProcessPlugin;
namespace wire = pipeline::wire;

template <std::size_t N>
void put_text(char (&to)[N], const char* text) {
  std::snprintf(to, N, "%s", text == nullptr ? "" : text);
}

class LibraryInstance {
 public:
  LibraryInstance(Descriptor socket, Descriptor orders, Descriptor answers, const std::string& confinement)
      : end_(std::move(socket), std::move(orders), std::move(answers)) {
    put_text(end_.answers().confinement, confinement.c_str());
  }

  void serve() {
    set_crash_record(&end_.answers().crash);
    for (;;) {
      const wire::Op op = end_.next();
      forget_denied();
      try {
        obey(op);
      } catch (const std::exception& error) {
        end_.answer(CAMD_ERROR_FAILED, error.what() + denied_advice());
      }
      if (op == wire::Op::kDestroy) return;
    }
  }

 private:
  void obey(wire::Op op) {
    switch (op) {
      case wire::Op::kCheck: check(); break;
      case wire::Op::kCreate: create(); break;
      case wire::Op::kOutputs: outputs(); break;
      case wire::Op::kProcess: process(); break;
      case wire::Op::kSample:
        plugin_->sample();
        wire::put_outlet(plugin_->numbers().outlet, end_.answers());
        end_.answer(CAMD_OK);
        break;
      case wire::Op::kReopen: answer_problem(plugin_->reopen()); break;
      case wire::Op::kOpenCamera:
        end_.answers().handle =
            reinterpret_cast<std::uintptr_t>(plugin_->open(end_.orders().index, end_.orders().frame.camera));
        end_.answer(CAMD_OK);
        break;
      case wire::Op::kExchangeCamera:
        end_.answers().handle =
            reinterpret_cast<std::uintptr_t>(plugin_->exchange(end_.orders().index, camera_of_order()));
        end_.answer(CAMD_OK);
        break;
      case wire::Op::kCloseCamera: answer_problem(plugin_->close(camera_of_order())); break;
      case wire::Op::kDestroy: {
        std::string problem;
        if (plugin_ != nullptr) {
          problem = plugin_->destroy();
          wire::put_outlet(plugin_->numbers().outlet, end_.answers());
        }
        plugin_ = nullptr;  // and its library
        answer_problem(problem);
        break;
      }
      default: end_.answer(CAMD_ERROR_INVALID, "an order that this camd-plugin does not know"); break;
    }
  }
  [[nodiscard]] void* camera_of_order() const {
    return reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr): it is this process's own pointer
        static_cast<std::uintptr_t>(end_.orders().argument));
  }
  void answer_problem(const std::string& problem) {
    end_.answer(problem.empty() ? CAMD_OK : CAMD_ERROR_FAILED, problem.empty() ? problem : problem + denied_advice());
  }

  void check() {
    const wire::CheckOrder wanted = wire::CheckOrder::read(end_.blob());
    const std::string prefix = "plug-in " + wanted.plugin;
    try {
      const pipeline::PluginLibrary library(wanted.plugin);
      const camd_plugin& table = library.table(wanted.plugin);
      pipeline::check_table(table, wanted.plugin);
      pipeline::PluginQuestion question(wanted.config_json, wanted.card_json, wanted.cameras);
      question.ask(table, prefix);
      wire::put_answers(question.answers(), end_.answers());
    } catch (const base::Error& error) {
      throw without_prefix(error, prefix);
    }
    end_.answer(CAMD_OK);
  }

  void create() {
    const wire::CreateOrder wanted = wire::CreateOrder::read(end_.blob());
    pipeline::PluginSpec spec;
    spec.plugin = wanted.plugin;
    spec.config_json = wanted.config_json;
    prefix_ = spec.prefix();
    try {
      auto library = std::make_unique<pipeline::PluginLibrary>(wanted.plugin);
      const camd_plugin& table = library->table(wanted.plugin);
      plugin_ = std::make_unique<InProcessPlugin>(table, std::move(library), spec, base::system_clock(), wanted.reloads,
                                                  &end_.answers().counters);
    } catch (const base::Error& error) {
      throw without_prefix(error, prefix_);
    }
    const camd_plugin& table = plugin_->table();
    wire::Answers& answers = end_.answers();
    put_text(answers.name, table.name);
    put_text(answers.version, table.version);
    // Also where it has no gauges: its outlet is told then.
    answers.extensions = wire::kOffersSample | (plugin_->knows_cameras() ? wire::kOffersCameras : 0U) |
                         (plugin_->reopens() ? wire::kOffersReopen : 0U);
    end_.answer(CAMD_OK);
  }
  // The host names the plug-in by itself.
  [[nodiscard]] static base::Error without_prefix(const base::Error& error, const std::string& prefix) {
    const std::string text = error.what();
    return {error.kind(), text.starts_with(prefix + ": ") ? text.substr(prefix.size() + 2) : text};
  }

  void outputs() {
    const wire::ModelOrder wanted(end_.blob());
    try {
      plugin_->declare(wanted.model());
    } catch (const base::Error& error) {
      throw without_prefix(error, prefix_);
    }
    const pipeline::PluginNeeds& needs = plugin_->needs();
    wire::Answers& answers = end_.answers();
    std::copy(needs.outputs.begin(), needs.outputs.end(), answers.need_outputs);
    answers.need_input = needs.input;
    answers.need_picture = needs.picture ? CAMD_NEED_HOST : CAMD_NEED_NONE;
    answers.detections = needs.detections;
    end_.answer(CAMD_OK);
  }

  void process() {
    wire::Answers& answers = end_.answers();
    events_.clear();
    for (std::int32_t i = 0; i < end_.orders().event_count; ++i) (void)events_.add(&answers.events[i]);
    camd_results results = end_.results();
    camd_error error = pipeline::no_error();
    bool moved = false;
    const pipeline::CallResult result =
        plugin_->call(nullptr, end_.frame(), end_.tensors(), results, events_, error, moved);
    end_.finish_gpu_work();
    answers.count = results.count;
    answers.moved = moved ? 1 : 0;
    answers.event_count = events_.count();
    for (std::int32_t i = end_.orders().event_count; i < events_.count(); ++i) answers.events[i] = *events_.get(i);
    if (result == pipeline::CallResult::kDone) {
      end_.answer(CAMD_OK);
    } else {
      end_.answer(CAMD_ERROR_FAILED, pipeline::message_of(error) + denied_advice());
    }
  }

  WorkerEnd end_;
  std::unique_ptr<InProcessPlugin> plugin_;
  std::string prefix_;
  pipeline::FrameEvents events_;
};

}  // namespace

void serve_libraries(const wire::WorkerOrder& order, const std::string& confinement) {
  install_crash_handler();
  for (;;) {
    std::uint64_t size = 0;
    std::vector<Descriptor> fds;
    if (!pipeline::receive_descriptors(wire::kControlFd, std::as_writable_bytes(std::span(&size, 1)), fds)) return;
    if (fds.size() != 3) continue;
    auto instance =
        std::make_shared<LibraryInstance>(std::move(fds[0]), std::move(fds[1]), std::move(fds[2]), confinement);
    std::thread([instance, name = order.name] {
      base::name_this_thread(name);
      try {
        instance->serve();
      } catch (const std::exception& error) {
        base::log().error("plug-in process {}: {}", name, error.what());
      }
    }).detach();
  }
}

}  // namespace camd::worker
