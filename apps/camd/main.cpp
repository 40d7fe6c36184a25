// camd: the daemon and its subcommands. Here: the command line, and errors as one line with the right exit code.

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/camd/commands.hpp"
#include "apps/camd/new_plugin.hpp"
#include "apps/manual/manual.hpp"
#include "base/cpus.hpp"
#include "base/crash.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "config/describe.hpp"
#include "pipeline/plugin/plugin_calls.hpp"

namespace {

using namespace camd;

constexpr int kUsage = 2;
constexpr int kInternal = 70;
constexpr std::array kExits{
    app::ExitMeaning{0, "done: the end of --duration or --frames, all files at their end, or a signal"},
    app::ExitMeaning{kUsage, "the command line or the configuration is wrong"},
    app::ExitMeaning{3, "the device, the model or a plug-in cannot be used"},
    app::ExitMeaning{4, "every camera has failed for good"},
    app::ExitMeaning{5, "the device was lost while running"},
    app::ExitMeaning{kInternal, "a mistake of camd's own"},
};

int report(const std::exception& error, int code) {
  camd::base::tell_error(error.what());
  if (pipeline::plugin_threads_left_behind()) {  // nothing may be destroyed under foreign code that still runs
    (void)base::flush_log(std::chrono::milliseconds(300));
    std::_Exit(code);
  }
  return code;
}

// Where one of the descriptors 0 to 2 is closed, the first file that is opened gets its number, and metrics or lines of
// the log land in it. What this opens, from the lowest number on, takes their places.
void secure_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) std::_Exit(kInternal);  // NOLINT: without O_CLOEXEC
  }
}

// A heap keeps what its threads have freed, and glibc makes up to eight heaps a core. A camera that is opened anew has
// new threads, in whatever heap comes next. So memory crept up by 35 MiB over 240 connections of one camera; with a
// heap a core it stays where it is. MALLOC_ARENA_MAX says otherwise.
void limit_heaps() {
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) {
    mallopt(M_ARENA_MAX, base::usable_cpus());
  }
}

// Everybody on the machine can read /proc/PID/cmdline: there stand stars for the password of a URL.
void hide_passwords(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view text(argv[i]);
    const std::size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) continue;
    const std::size_t begin = scheme + 3;
    const std::size_t at = text.substr(0, text.find_first_of("/?#", begin)).rfind('@');
    const std::size_t colon = text.find(':', begin);
    if (at == std::string_view::npos || colon == std::string_view::npos || colon > at) continue;
    std::fill(argv[i] + colon + 1, argv[i] + at, '*');
  }
}

// The words that an option takes, in the order of its help, with what each stands for.
template <typename Meaning>
using Words = std::vector<std::pair<std::string, Meaning>>;

template <typename Meaning>
Meaning meaning(const Words<Meaning>& words, const std::string& word) {
  return std::find_if(words.begin(), words.end(), [&](const auto& one) { return one.first == word; })->second;
}

// An option that takes one of `words`: the help shows the words and nothing else.
template <typename Meaning>
void add_words(CLI::App& app, const std::string& name, std::string& word, const Words<Meaning>& words,
               const std::string& help) {
  std::vector<std::string> names;
  for (const auto& one : words) names.push_back(one.first);
  app.add_option(name, word, help)
      ->check(CLI::IsMember(names).description(""))
      ->type_name(CLI::detail::join(names, "|"))
      ->capture_default_str();
}

// What packages install beside the program.
std::string manual(const CLI::App& cli, const std::string& page) {
  if (page == "camd.bash") return app::bash_completion(cli);
  if (page == "camd.yaml.5") return config::keys_manual_page(config::config_keys(), CAMD_VERSION);
  return app::manual_page(cli, {CAMD_VERSION, kExits, "camtop(1), camd.yaml(5)"});
}

int run(int argc, char** argv) {
  CLI::App cli{"camd: live cameras in, detections out, and the truth about their latency.", "camd"};
  cli.require_subcommand(1);
  cli.set_help_all_flag("--help-all", "Help of every subcommand");
  std::string log_level = "info";
  cli.add_option("--log", log_level, "What is logged to stderr")
      ->type_name("error|warn|info|debug|trace")
      ->capture_default_str();

  app::RunOptions run_options;
  std::string duration;
  std::string metrics = "auto";
  const Words<app::MetricsMode> modes{{"auto", app::MetricsMode::kAuto},
                                      {"dashboard", app::MetricsMode::kDashboard},
                                      {"json", app::MetricsMode::kJson},
                                      {"off", app::MetricsMode::kOff}};
  CLI::App* run_cli = cli.add_subcommand("run", "Run a configuration");
  run_cli->add_option("CONFIG", run_options.config, "The YAML file, or a model")->type_name("FILE")->required();
  run_cli->add_option("--duration", duration, "Stop after this time, e.g. 10s, 5min");
  run_cli->add_option("--frames", run_options.frames, "Stop after so many delivered frames");
  add_words(*run_cli, "--metrics", metrics, modes, "The metrics; auto: the dashboard on a terminal, else json");
  run_cli->add_option("--set", run_options.overrides, "key.path=value, over the file; may be repeated")
      ->allow_extra_args(false);

  std::string shard;
  const char* const shard_help = "Only the cameras of the i-th of n camds with this file, i from 0";
  run_cli->add_option("--shard", shard, shard_help)->type_name("i/n");

  std::string check_config;
  std::vector<std::string> check_overrides;
  CLI::App* check_cli = cli.add_subcommand("check", "Validate a configuration: \"ok\", or every error with its place");
  check_cli->add_option("CONFIG", check_config, "The YAML file, or a model")->type_name("FILE")->required();
  check_cli->add_option("--set", check_overrides, "key.path=value, over the file; may be repeated")
      ->allow_extra_args(false);

  check_cli->add_option("--shard", shard, shard_help)->type_name("i/n");

  bool schema = false;
  CLI::App* config_cli = cli.add_subcommand("config", "Print the annotated default configuration");
  config_cli->add_flag("--schema", schema, "Print a JSON Schema for editors instead");
  std::string config_model;
  config_cli->add_option("--for", config_model, "Print a card for this model instead: what camd decides by itself");

  bool doctor_json = false;
  std::string doctor_config;
  CLI::App* doctor_cli = cli.add_subcommand("doctor", "What works on this machine, what does not, and what mends it");
  doctor_cli
      ->add_option("CONFIG", doctor_config, "Look at this configuration's model and cameras too, or at this model")
      ->type_name("FILE");
  std::vector<std::string> doctor_clips;
  doctor_cli
      ->add_option("--clip", doctor_clips, "Measure how fast this video file is decoded, by each GPU and by the CPU")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  doctor_cli->add_flag("--json", doctor_json, "As one JSON object");

  pipeline::BenchOptions bench;
  std::string bench_input;
  std::string bench_json;
  std::string bench_strategy = "all";
  std::string bench_format = "bgr";
  const Words<base::PixelFormat> formats{{"bgr", base::PixelFormat::kBgr},   {"rgb", base::PixelFormat::kRgb},
                                         {"nv12", base::PixelFormat::kNv12}, {"i420", base::PixelFormat::kI420},
                                         {"yuy2", base::PixelFormat::kYuy2}, {"gray8", base::PixelFormat::kGray8}};
  CLI::App* bench_cli = cli.add_subcommand("bench", "Measure every way to move frames through a model, host to host");
  bench_cli->add_option("--model", bench.model, "The ONNX file")->type_name("FILE")->required();
  bench_cli->add_option(
      "--input", bench_input,
      "Size of the pictures, WxH (default: the network's); the network's too where the model leaves it open");
  add_words(*bench_cli, "--format", bench_format, formats, "Pixel format of the pictures");
  const Words<config::EngineChoice> engines{{"auto", config::EngineChoice::kAuto},
                                            {"cuda", config::EngineChoice::kCuda},
                                            {"cpu", config::EngineChoice::kCpu},
                                            {"opencv", config::EngineChoice::kOpencv}};
  std::string bench_engine = "auto";
  add_words(*bench_cli, "--engine", bench_engine, engines, "What runs the model");
  const Words<config::Precision> precisions{{"auto", config::Precision::kAuto},
                                            {"f16", config::Precision::kF16},
                                            {"bf16", config::Precision::kBf16},
                                            {"tf32", config::Precision::kTf32},
                                            {"f32", config::Precision::kF32}};
  std::string bench_precision = "auto";
  add_words(*bench_cli, "--precision", bench_precision, precisions, "What the network is computed in");
  bench_cli->add_flag("--half-outputs", bench.half_outputs, "Outputs as f16, where the engine can (cuda)");
  bench_cli->add_option("--device", bench.device, "What computes")
      ->type_name("auto|cuda|cuda:N|host")
      ->capture_default_str();
  bench_cli->add_option("--strategy", bench_strategy, "all, or names with commas between them")->capture_default_str();
  bench_cli->add_option("--frames", bench.frames, "Frames that count, for each strategy")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("1..1000000")
      ->capture_default_str();
  bench_cli->add_option("--warmup", bench.warmup, "Frames before them")
      ->check(CLI::Range(0, 1'000'000).description(""))
      ->type_name("0..1000000")
      ->capture_default_str();
  bench_cli->add_option("--pace", bench.pace_fps, "Frames a second (default: one after the other)")
      ->check(CLI::Range(0.1, 10'000.0).description(""))
      ->type_name("0.1..10000");
  bench_cli->add_option("--json", bench_json, "Write the rows to this file too")->type_name("FILE");
  bench.plugin.isolation.deadline = std::chrono::seconds(10);
  bench.plugin.isolation.python = "python3";
  bench_cli->add_option("--plugin", bench.plugin.plugin, "Call this plug-in behind each frame, and measure it too")
      ->type_name("NAME|FILE");
  bench_cli->add_option("--plugin-config", bench.plugin.config_json, "Its config as a JSON object")
      ->type_name("JSON")
      ->capture_default_str();
  bench_cli->add_option("--python", bench.plugin.isolation.python, "The interpreter of a script")
      ->type_name("FILE")
      ->capture_default_str();
  const Words<pipeline::Isolation> isolations{{"process", pipeline::Isolation::kProcess},
                                              {"none", pipeline::Isolation::kNone}};
  std::string bench_isolation = "process";
  add_words(*bench_cli, "--isolation", bench_isolation, isolations, "Where the plug-in runs: in a process of its own?");

  std::string plugin_path;
  CLI::App* plugin_cli = cli.add_subcommand("plugin", "Check a plug-in: ABI version, name, problems");
  CLI::Option* plugin_file =
      plugin_cli
          ->add_option("FILE", plugin_path,
                       "The shared library, or the script in Python; with --record the configuration")
          ->type_name("FILE");
  std::string plugin_python;
  plugin_cli->add_option("--python", plugin_python, "The interpreter of a script (default: python3)")
      ->type_name("FILE");
  pipeline::ReplayOptions replay;
  CLI::Option* plugin_replay =
      plugin_cli->add_option("--replay", replay.recording, "Run FILE on this recording, and print its lines")
          ->type_name("RECORDING");
  plugin_cli->add_option("--config", replay.config_json, "With --replay: the plug-in's config as a JSON object")
      ->type_name("JSON")
      ->capture_default_str();
  app::RunOptions record_options;
  record_options.frames = 100;
  record_options.metrics = app::MetricsMode::kOff;
  CLI::Option* plugin_record =
      plugin_cli
          ->add_option(
              "--record", record_options.record,
              "Run FILE, a configuration, and record what its first plug-in from a path sees; behind all where none is")
          ->type_name("RECORDING");
  plugin_cli->add_option("--frames", record_options.frames, "With --record: so many frames")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("1..1000000")
      ->capture_default_str();
  plugin_record->excludes(plugin_replay);
  std::string new_name;
  CLI::Option* plugin_new =
      plugin_cli->add_option("--new", new_name, "Make a folder of this name with a plug-in and its test")
          ->excludes(plugin_file)
          ->excludes(plugin_replay)
          ->excludes(plugin_record);
  std::string new_language = "c++";
  Words<int> languages;
  for (const std::string& language : app::plugin_languages()) languages.emplace_back(language, 0);
  add_words(*plugin_cli, "--language", new_language, languages, "Of the new plug-in");
  plugin_cli->callback([&] {
    if (plugin_file->count() + plugin_new->count() == 0) throw CLI::RequiredError("FILE or --new");
  });

  CLI::App* version_cli = cli.add_subcommand("version", "Print the version");

  std::string manual_page;
  CLI::App* manual_cli = cli.add_subcommand("manual", "Print a manual page or the completion")->group("");
  manual_cli->add_option("PAGE", manual_page)->check(CLI::IsMember({"camd.1", "camd.yaml.5", "camd.bash"}))->required();
  cli.footer(app::exits_text(kExits));  // subcommands that are made before it do not repeat it

  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return cli.exit(error);  // --help
    base::tell_error(fmt::format("camd: {} (camd --help, camd run --help)", error.what()));
    return kUsage;
  }
  hide_passwords(argc, argv);  // they are copied
  base::set_log_level(log_level);
  if (!shard.empty()) run_options.shard = app::parse_shard("--shard", shard);
  if (*run_cli) {
    run_options.metrics = meaning(modes, metrics);
    if (!duration.empty()) run_options.duration = app::parse_duration("--duration", duration);
    return app::run_command(run_options);
  }
  if (*check_cli) return app::check_command(check_config, check_overrides, run_options.shard);
  if (*config_cli) return config_model.empty() ? app::config_command(schema) : app::proposal_command(config_model);
  if (*doctor_cli) return app::doctor_command(doctor_config, doctor_clips, doctor_json);
  if (*bench_cli) {
    if (!bench_input.empty()) app::parse_size("--input", bench_input, bench.width, bench.height);
    if (bench_strategy != "all") bench.strategies = CLI::detail::split(bench_strategy, ',');
    bench.format = meaning(formats, bench_format);
    bench.engine = meaning(engines, bench_engine);
    bench.precision = meaning(precisions, bench_precision);
    bench.plugin.isolation.isolation = meaning(isolations, bench_isolation);
    return app::bench_command(bench, bench_json);
  }
  if (*plugin_cli && !new_name.empty()) {
    std::fputs(app::new_plugin(new_name, new_language).c_str(), stdout);
    return 0;
  }
  if (*plugin_cli && !record_options.record.empty()) {
    record_options.config = plugin_path;
    return app::run_command(record_options);
  }
  if (*plugin_cli && !replay.recording.empty()) {
    replay.plugin = plugin_path;
    replay.python = plugin_python;
    return app::replay_command(replay);
  }
  if (*plugin_cli) return app::plugin_command(plugin_path, plugin_python);
  if (*manual_cli) std::fputs(manual(cli, manual_page).c_str(), stdout);
  if (*version_cli) std::printf("camd %s\n", CAMD_VERSION);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  secure_standard_descriptors();
  limit_heaps();
  base::install_crash_handler(&base::report_crash_to_stderr);
  // A reader of stdout that goes away is an error code of write(), not a death.
  signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const camd::base::Error& error) {
    return report(error, camd::base::exit_code(error.kind()));
  } catch (const std::exception& error) {
    camd::base::tell_error(fmt::format("camd: internal error: {}", error.what()));
    return kInternal;
  }
}
