// The rows of `camd bench`: each way to move the data, measured and compared.
#include "pipeline/diagnose/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "config/model_card.hpp"
#include "device/make_device.hpp"
#include "infer/engine.hpp"
#include "pipeline/core/frame_path.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/session.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

struct Strategy {
  const char* name;
  FramePathOptions path;
};

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> all{
      {"pageable-sync", {StreamStrategy::kSingle, Transfer::kPageable, true, false}},
      {"pinned-async", {StreamStrategy::kSingle, Transfer::kPinned, false, false}},
      {"per-frame-streams", {StreamStrategy::kPerFrame, Transfer::kPinned, false, false}},
      {"split-streams", {StreamStrategy::kSplit, Transfer::kPinned, false, false}},
      {"mapped", {StreamStrategy::kSingle, Transfer::kMapped, false, false}},
      {"graph", {StreamStrategy::kPerFrame, Transfer::kPinned, false, true}},
      {"graph-direct", {StreamStrategy::kPerFrame, Transfer::kDirect, false, true}},
  };
  return all;
}

std::string digest(const std::vector<std::vector<std::byte>>& outputs) {
  std::string bytes;
  for (const std::vector<std::byte>& of_picture : outputs) {
    bytes.append(reinterpret_cast<const char*>(of_picture.data()), of_picture.size());
  }
  return base::sha256(bytes);
}

// Reads every output on the host, and does nothing with it.
std::int32_t reads_everything(void* /*instance*/, const camd_model* model, camd_needs* needs, camd_error* /*error*/) {
  for (std::int32_t i = 0; i < model->output_count; ++i) needs->outputs[i] = CAMD_NEED_HOST;
  return CAMD_OK;
}
constexpr camd_plugin kReader{
    CAMD_PLUGIN_ABI_VERSION,
    sizeof(camd_plugin),
    "bench",
    "1",
    "reads every output",
    [](const camd_host*, const char*, void** instance, camd_error*) {
      *instance = nullptr;
      return static_cast<std::int32_t>(CAMD_OK);
    },
    &reads_everything,
    [](void*, const camd_frame*, const camd_tensors*, camd_results*, camd_error*) {
      return static_cast<std::int32_t>(CAMD_OK);
    },
    [](void*, camd_error*) { return static_cast<std::int32_t>(CAMD_OK); },
    nullptr,
};

}  // namespace

std::vector<std::string> bench_strategies() {
  std::vector<std::string> names;
  for (const Strategy& strategy : strategies()) names.emplace_back(strategy.name);
  return names;
}

BenchResult run_bench(const BenchOptions& options) {
  const std::vector<std::string> known = bench_strategies();
  for (const std::string& name : options.strategies) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(ErrorKind::kUsage, fmt::format("--strategy {}: allowed are all, {}", name, fmt::join(known, ", ")));
    }
  }
  const auto device = device::make_device(options.device);
  config::Model model;
  model.path = options.model;
  std::string card_json = "{}";
  if (const auto path = config::find_model_card(model.path)) {
    config::ModelCard card = config::load_model_card(*path, card_keys());
    model.input = card.input;
    model.cut_at = std::move(card.cut_at);
    card_json = card.rest_json;
  }
  model.engine = options.engine;
  model.precision = options.precision;
  const std::vector<infer::TensorSpec> inputs = infer::describe_model(options.model, model.cut_at).inputs;
  const auto is_open = [&](std::size_t d) { return inputs[0].shape.size() == 4 && inputs[0].shape[d] < 0; };
  if (options.height > 0 && is_open(2)) model.input.height = options.height;
  if (options.width > 0 && is_open(3)) model.input.width = options.width;
  infer::EngineOptions engine_settings = engine_options(model);
  if (options.half_outputs) engine_settings.output_type = infer::DataType::kF16;
  const auto engine = infer::make_engine(options.model, engine_settings, *device);
  const bool with_plugin = !options.plugin.plugin.empty();
  PluginHost plugins(with_plugin ? std::vector{options.plugin} : std::vector<PluginSpec>(), base::system_clock());
  plugins.add(kReader, "{}");
  declare_model(plugins, *engine, options.model, card_json, {"bench"});
  const auto bytes_copied = [&] { return plugins.counters().front().health.bytes_copied; };

  BenchResult result;
  result.device = device->info().name;
  result.engine = engine->name();
  result.model = options.model;
  result.width = options.width > 0 ? options.width : engine->input_options().width;
  result.height = options.height > 0 ? options.height : engine->input_options().height;
  result.format = base::to_string(options.format);
  result.pace_fps = options.pace_fps;
  result.plugin = options.plugin.plugin;
  result.isolated = options.plugin.isolation.isolation == Isolation::kProcess;
  const base::PictureLayout layout = base::tight_layout(options.format, result.width, result.height);
  const auto pictures = make_probe_pictures(layout);

  std::vector<std::vector<std::byte>> reference;
  std::string reference_name;
  for (const Strategy& strategy : strategies()) {
    if (!options.strategies.empty() &&
        std::find(options.strategies.begin(), options.strategies.end(), strategy.name) == options.strategies.end()) {
      continue;
    }
    if (strategy.path.graph && !device->supports_graphs()) {
      BenchRow row;
      row.strategy = strategy.name;
      row.skipped = "this device has no graphs";
      result.rows.push_back(row);
      continue;
    }
    PathProbe probe(base::system_clock(), *device, *engine, plugins, strategy.path, layout, pictures);
    const auto outputs = probe.outputs();
    if (reference.empty()) {
      reference = outputs;
      reference_name = strategy.name;
      result.outputs_sha256 = digest(outputs);
    } else if (outputs != reference) {
      throw Error(ErrorKind::kInternal, fmt::format("the outputs of {} and {} differ", strategy.name, reference_name));
    }
    const std::uint64_t copied_before = bytes_copied();
    const ProbeResult probed = probe.measure(options.frames, options.warmup, options.pace_fps, with_plugin);
    BenchRow row;
    row.strategy = strategy.name;
    row.times = probed;
    if (options.pace_fps <= 0) row.fps = probe.throughput(options.frames);
    row.frames = options.frames;
    row.bytes_copied = bytes_copied() - copied_before;
    result.rows.push_back(row);
  }
  return result;
}

std::string bench_table(const BenchResult& result) {
  const bool with_plugin = !result.plugin.empty();
  std::string text = fmt::format(
      "{}, engine {}, {} pictures {}x{}{}{}; microseconds, p50 / p99\n", result.device, result.engine, result.format,
      result.width, result.height, result.pace_fps > 0 ? fmt::format(", {} frames/s", result.pace_fps) : "",
      with_plugin ? fmt::format(", {} in {} process", result.plugin, result.isolated ? "a" : "this") : "");
  text += fmt::format("{:18} {:>17} {:>13} {:>13} {:>17} {:>13} {:>9} {:>10} {:>10}{}\n", "strategy", "host to host",
                      "h2d", "preprocess", "network", "d2h", "frames/s", "h2d bytes", "d2h bytes",
                      with_plugin ? fmt::format(" {:>17} {:>12}", "plug-in", "bytes copied") : "");
  const auto pair = [](const ProbeTimes& t) { return fmt::format("{:.1f} / {:.1f}", t.p50, t.p99); };
  for (const BenchRow& row : result.rows) {
    if (!row.skipped.empty()) {
      text += fmt::format("{:18} not run: {}\n", row.strategy, row.skipped);
      continue;
    }
    text +=
        fmt::format("{:18} {:>17} {:>13} {:>13} {:>17} {:>13} {:>9.0f} {:>10} {:>10}{}\n", row.strategy,
                    pair(row.times.e2e), pair(row.times.h2d), pair(row.times.preprocess), pair(row.times.infer),
                    pair(row.times.d2h), row.fps, row.times.h2d_bytes, row.times.d2h_bytes,
                    with_plugin ? fmt::format(" {:>17} {:>12}", pair(row.times.postprocess), row.bytes_copied) : "");
  }
  if (!result.outputs_sha256.empty()) text += fmt::format("outputs, SHA-256: {}\n", result.outputs_sha256);
  return text;
}

std::string bench_json(const BenchResult& result) {
  using Json = nlohmann::ordered_json;
  const auto times = [](const ProbeTimes& t) {
    return Json{{"min", t.min}, {"p50", t.p50}, {"p90", t.p90}, {"p99", t.p99}, {"p999", t.p999}, {"max", t.max}};
  };
  Json rows = Json::array();
  for (const BenchRow& row : result.rows) {
    if (!row.skipped.empty()) {
      rows.push_back(Json{{"strategy", row.strategy}, {"skipped", row.skipped}});
      continue;
    }
    rows.push_back(Json{{"strategy", row.strategy},
                        {"e2e_us", times(row.times.e2e)},
                        {"h2d_us", times(row.times.h2d)},
                        {"preprocess_us", times(row.times.preprocess)},
                        {"infer_us", times(row.times.infer)},
                        {"d2h_us", times(row.times.d2h)},
                        {"fps", row.fps},
                        {"h2d_bytes", row.times.h2d_bytes},
                        {"d2h_bytes", row.times.d2h_bytes},
                        {"frames", row.frames}});
    if (result.plugin.empty()) continue;
    rows.back()["plugin_us"] = times(row.times.postprocess);
    rows.back()["bytes_copied"] = row.bytes_copied;
  }
  Json json{{"device", result.device}, {"engine", result.engine},
            {"model", result.model},   {"input", {result.width, result.height}},
            {"format", result.format}, {"pace_fps", result.pace_fps}};
  if (!result.outputs_sha256.empty()) json["outputs_sha256"] = result.outputs_sha256;
  if (!result.plugin.empty()) {
    json["plugin"] = result.plugin;
    json["isolation"] = result.isolated ? "process" : "none";
  }
  json["rows"] = std::move(rows);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace camd::pipeline
