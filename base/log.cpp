#include "base/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <memory>
#include <utility>

#include "base/error.hpp"

namespace camd::base {

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("camd", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    made->flush_on(spdlog::level::warn);
    return made;
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

}  // namespace camd::base
