// Manual pages and completion that are made from a command line; bash itself completes.
#include "apps/manual/manual.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp()

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

namespace camd::app {
namespace CAMD_TEST_FILE {

// A program with a command, a choice, a file and a hidden option.
struct Sample {
  std::string mode = "auto", file;
  bool quiet = false;
  CLI::App cli{"tool: makes things - quickly.", "tool"};

  Sample() {
    CLI::App* run = cli.add_subcommand("run", "Run it");
    run->add_option("FILE", file, ".hidden\\name")->type_name("FILE")->required();
    run->add_option("--mode", mode, "How")->type_name("auto|slow")->capture_default_str();
    run->add_flag("-q,--quiet", quiet, "Say nothing");
    run->add_flag("--secret", quiet, "Not for you")->group("");
    cli.add_subcommand("other", "Another")->group("");
  }
};

// What bash offers for the words of a line, the last of which is being written.
std::string completed(const std::string& script, const std::string& words) {
  std::string folder = "/tmp/camd_completion_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return "no folder";
  std::ofstream(folder + "/script") << script;
  std::ofstream(folder + "/model.yaml") << "x";
  const std::string command = "cd " + folder + " && bash --norc -c '. ./script; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tool; echo \"${COMPREPLY[*]}\"' 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  for (const char* file : {"/script", "/model.yaml"}) std::remove((folder + file).c_str());
  std::remove(folder.c_str());
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

TEST(Manual, ThePageHoldsWhatTheHelpSaysAndNothingHidden) {
  const Sample sample;
  const std::array exits{ExitMeaning{0, "done"}, ExitMeaning{2, "not done"}};
  EXPECT_EQ(manual_page(sample.cli, {"1.2", exits, "other(1)"}),
            ".TH TOOL 1 \"\" \"tool 1.2\" \"User Commands\"\n"
            ".SH NAME\n"
            "tool \\- makes things \\- quickly\n"
            ".SH SYNOPSIS\n"
            ".B tool run\n"
            "[\\fIOPTION\\fR...] \\fIFILE\\fR\n"
            ".SH OPTIONS\n"
            ".TP\n"
            "\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n"
            "Print this help message and exit\n"
            ".SH COMMANDS\n"
            ".SS tool run\n"
            "Run it\n"
            ".TP\n"
            "\\fIFILE\\fR\n"
            "\\&.hidden\\ename\n"
            ".TP\n"
            "\\fB\\-h\\fR, \\fB\\-\\-help\\fR\n"
            "Print this help message and exit\n"
            ".TP\n"
            "\\fB\\-\\-mode\\fR \\fIauto|slow\\fR\n"
            "How\n"
            ".br\n"
            "Default: \\fBauto\\fR.\n"
            ".TP\n"
            "\\fB\\-q\\fR, \\fB\\-\\-quiet\\fR\n"
            "Say nothing\n"
            ".SH EXIT STATUS\n"
            ".TP\n.B 0\ndone\n"
            ".TP\n.B 2\nnot done\n"
            ".SH SEE ALSO\nother(1)\n");
}

TEST(Manual, TheHelpNamesTheExitCodes) {
  const std::array exits{ExitMeaning{0, "done"}, ExitMeaning{70, "a mistake"}};
  EXPECT_EQ(exits_text(exits), "Exit codes:\n  0   done\n  70  a mistake");
}

TEST(Manual, BashCompletesCommandsOptionsWordsAndFiles) {
  const Sample sample;
  const std::string script = bash_completion(sample.cli);
  EXPECT_EQ(completed(script, "tool r"), "run");
  EXPECT_EQ(completed(script, "tool o"), "") << "a hidden command";
  EXPECT_EQ(completed(script, "tool run --m"), "--mode");
  EXPECT_EQ(completed(script, "tool run --s"), "") << "a hidden option";
  EXPECT_EQ(completed(script, "tool run --mode s"), "slow");
  EXPECT_EQ(completed(script, "tool run mod"), "model.yaml");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::app
