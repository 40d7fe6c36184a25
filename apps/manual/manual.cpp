#include "apps/manual/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/troff.hpp"

namespace camd::app {
namespace {

using Options = std::vector<const CLI::Option*>;

Options shown_options(const CLI::App& app, bool positional) {
  return app.get_options([&](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == positional;
  });
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// .TP, the option and its value, and what it does.
std::string option_entry(const CLI::Option& option) {
  std::string names, value;
  if (option.get_positional()) {
    names = fmt::format("\\fI{}\\fR", base::troff(option.get_name(true)));
  } else {
    for (const std::string& name : option.get_snames()) names += fmt::format(", \\fB\\-{}\\fR", base::troff(name));
    for (const std::string& name : option.get_lnames()) names += fmt::format(", \\fB\\-\\-{}\\fR", base::troff(name));
    names.erase(0, 2);
    if (takes_value(option)) value = fmt::format(" \\fI{}\\fR", base::troff(option.get_type_name()));
  }
  std::string text = fmt::format(".TP\n{}{}\n{}", names, value, base::troff(option.get_description()));
  if (!option.get_default_str().empty())
    text += fmt::format("\n.br\nDefault: \\fB{}\\fR.", base::troff(option.get_default_str()));
  return text + "\n";
}

std::string options_of(const CLI::App& app) {
  std::string text;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : shown_options(app, positional)) text += option_entry(*option);
  }
  return text;
}

std::string synopsis(const CLI::App& app, const std::string& name) {
  std::string line = fmt::format(".B {}\n[\\fIOPTION\\fR...]", base::troff(name));
  for (const CLI::Option* option : shown_options(app, true)) {
    const std::string word = fmt::format("\\fI{}\\fR", base::troff(option->get_name(true)));
    line += option->get_required() ? " " + word : " [" + word + "]";
  }
  return line + "\n";
}

// ---- bash

std::string shell_word(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

bool is_file(const CLI::Option& option) { return option.get_type_name() == "FILE"; }

// "a|b|c" as words; nothing for a type that is no choice.
std::string choices(const CLI::Option& option) {
  std::string words = option.get_type_name();
  if (words.find('|') == std::string::npos) return {};
  std::replace(words.begin(), words.end(), '|', ' ');
  return words;
}

std::string names_of(const Options& options) {
  std::string names;
  for (const CLI::Option* option : options) {
    for (const std::string& name : option->get_lnames()) names += " --" + name;
  }
  return names.empty() ? names : names.substr(1);
}

// The cases of one command's options: what comes behind each.
std::string value_cases(const CLI::App& app, const std::string& command) {
  std::string text;
  for (const CLI::Option* option : shown_options(app, false)) {
    if (!takes_value(*option)) continue;
    std::string names;
    for (const std::string& name : option->get_lnames())
      names += fmt::format("|{}", shell_word(command + " --" + name));
    const std::string then = is_file(*option) ? "files=yes" : fmt::format("words={}", shell_word(choices(*option)));
    text += fmt::format("    {}) {} ;;\n", names.substr(1), then);
  }
  return text;
}

std::string command_case(const CLI::App& app, const std::string& command) {
  std::string words = names_of(shown_options(app, false));
  bool files = false;
  for (const CLI::Option* option : shown_options(app, true)) files = files || is_file(*option);
  for (const CLI::App* below : shown_commands(app)) words += " " + below->get_name();
  return fmt::format("      {}) words={}{} ;;\n", shell_word(command), shell_word(words), files ? " files=yes" : "");
}

}  // namespace

std::string exits_text(std::span<const ExitMeaning> exits) {
  std::string text = "Exit codes:\n";
  for (const ExitMeaning& exit : exits) text += fmt::format("  {:<4}{}\n", exit.code, exit.meaning);
  text.pop_back();
  return text;
}

std::string manual_page(const CLI::App& app, const ManualNotes& notes) {
  const std::string name = app.get_name();
  const std::string description = app.get_description();
  const std::size_t line = description.find('\n');
  // "camd: what it is." is "camd - what it is" here.
  std::string what = description.substr(0, line);
  if (what.rfind(name + ": ", 0) == 0) what.erase(0, name.size() + 2);
  if (!what.empty() && what.back() == '.') what.pop_back();
  std::string text = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
                                 upper(name), name, notes.version, name, base::troff(what));
  const std::vector<const CLI::App*> commands = shown_commands(app);
  if (commands.empty()) text += synopsis(app, name);
  for (const CLI::App* command : commands) {
    text += synopsis(*command, name + " " + command->get_name());
    if (command != commands.back()) text += ".br\n";
  }
  if (line != std::string::npos) {
    text += fmt::format(".SH DESCRIPTION\n.nf\n{}\n.fi\n", base::troff(description.substr(line + 1)));
  }
  text += ".SH OPTIONS\n" + options_of(app);
  if (!commands.empty()) text += ".SH COMMANDS\n";
  for (const CLI::App* command : commands) {
    text += fmt::format(".SS {} {}\n{}\n", name, command->get_name(), base::troff(command->get_description()));
    text += options_of(*command);
  }
  if (!notes.exits.empty()) text += ".SH EXIT STATUS\n";
  for (const ExitMeaning& exit : notes.exits)
    text += fmt::format(".TP\n.B {}\n{}\n", exit.code, base::troff(exit.meaning));
  if (!notes.see_also.empty()) text += fmt::format(".SH SEE ALSO\n{}\n", notes.see_also);
  return text;
}

std::string bash_completion(const CLI::App& app) {
  const std::string name = app.get_name();
  std::string commands, values = value_cases(app, ""), words = command_case(app, "");
  for (const CLI::App* command : shown_commands(app)) {
    commands += "|" + command->get_name();
    values += value_cases(*command, command->get_name());
    words += command_case(*command, command->get_name());
  }
  // Without a command nothing is one: a pattern that no word matches.
  commands = commands.empty() ? "''" : commands.substr(1);
  return fmt::format(R"(# Completion of {0} for bash. Made from its command line.
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command='' word words='' files=no
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $word in
      {1}) command=$word; break ;;
    esac
  done
  case "$command $previous" in
{2}    *)
    case $command in
{3}    esac ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ $files == yes && $current != -* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _{0} {0}
)",
                     name, commands, values, words);
}

}  // namespace camd::app
