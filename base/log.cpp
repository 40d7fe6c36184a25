#include "base/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/sink.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log_writer.hpp"
#include "base/secrets.hpp"

namespace camd::base {
namespace {

constexpr Duration kExitPatience = std::chrono::seconds(1);

// Never destroyed: other threads log until the process is gone.
LogWriter& stderr_writer() {
  static LogWriter* const writer = [] {
    auto* const made = new LogWriter(STDERR_FILENO, log_style_of(STDERR_FILENO, std::getenv("JOURNAL_STREAM")));
    (void)std::atexit([] { (void)flush_log(kExitPatience); });
    return made;
  }();
  return *writer;
}

LogLevel level_of(spdlog::level::level_enum level) noexcept {
  switch (level) {
    case spdlog::level::trace: return LogLevel::kTrace;
    case spdlog::level::debug: return LogLevel::kDebug;
    case spdlog::level::info: return LogLevel::kInfo;
    case spdlog::level::warn: return LogLevel::kWarning;
    default: break;
  }
  return LogLevel::kError;
}

// Hands lines to the writer. Has no lock: the writer has one.
class WriterSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    std::string lines;
    append_log_lines(lines, stderr_writer().style(), level_of(message.level), message.time,
                     without_secrets({message.payload.data(), message.payload.size()}));
    stderr_writer().write(std::move(lines));
  }
  void flush() override { (void)flush_log(kExitPatience); }
  // The form of a line is the writer's.
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}
};

}  // namespace

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    (void)stderr_writer();  // notices first what stderr is
    return std::make_shared<spdlog::logger>("camd", std::make_shared<WriterSink>());
  }();
  return *logger;
}

void set_log_level(std::string_view level) {
  static constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 5> kLevels{{
      {"error", spdlog::level::err},
      {"warn", spdlog::level::warn},
      {"info", spdlog::level::info},
      {"debug", spdlog::level::debug},
      {"trace", spdlog::level::trace},
  }};
  for (const auto& [name, value] : kLevels) {
    if (name == level) {
      log().set_level(value);
      return;
    }
  }
  throw Error(ErrorKind::kUsage, fmt::format("log level \"{}\": allowed are error, warn, info, debug, trace", level));
}

void tell_error(std::string_view full_text) {
  const std::string text = without_secrets(full_text);
  std::string lines;
  const LogStyle style = stderr_writer().style();
  if (style == LogStyle::kJournal) {
    append_log_lines(lines, style, LogLevel::kError, {}, text);
  } else {
    lines.assign(text);
    if (lines.empty() || lines.back() != '\n') lines += '\n';
  }
  stderr_writer().write(std::move(lines));
}

bool flush_log(Duration patience) noexcept { return stderr_writer().flush(patience); }

}  // namespace camd::base
