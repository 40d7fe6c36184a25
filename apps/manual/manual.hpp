// A program's manual page and its completion in bash, made from its command line: what the help says is written once.
//
// Threads: functions without state, [any].
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace camd::app {

struct ExitMeaning {
  int code;
  std::string_view meaning;
};

struct ManualNotes {
  std::string_view version;
  std::span<const ExitMeaning> exits;
  std::string_view see_also;  // "camtop(1), camd.yaml(5)"
};

// The section of the help that names the exit codes.
[[nodiscard]] std::string exits_text(std::span<const ExitMeaning> exits);

// man(7) of section 1. Options and commands without a group are hidden here as they are in the help.
[[nodiscard]] std::string manual_page(const CLI::App& app, const ManualNotes& notes);

// A script for bash-completion's folder: commands, options, the words that an option takes, and files where an
// option's type is FILE.
[[nodiscard]] std::string bash_completion(const CLI::App& app);

}  // namespace camd::app
