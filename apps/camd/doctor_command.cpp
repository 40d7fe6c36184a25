// camd doctor: prints what works on this machine.

#include <cstdio>
#include <optional>

#include "apps/camd/commands.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/secrets.hpp"
#include "config/loader.hpp"
#include "pipeline/diagnose/doctor.hpp"
#include "pipeline/run/card_keys.hpp"
#include "pipeline/run/proposal.hpp"

namespace camd::app {

int doctor_command(const std::string& config_path, const std::vector<std::string>& clips, bool json) {
  base::set_log_level("error");  // what the rooms log while they are looked at is in the findings
  std::optional<config::Config> config;
  if (!config_path.empty()) {
    config = config::load(config_path, {}, {.card_keys = pipeline::card_keys()});
    (void)pipeline::Proposer().complete(*config);  // as `camd run` does: it runs what is looked at here
  }
  const std::vector<pipeline::Finding> findings =
      pipeline::examine(config ? &*config : nullptr, {clips.begin(), clips.end()});
  const std::string text = json ? pipeline::findings_json(findings) : pipeline::findings_text(findings);
  std::fputs(base::without_secrets(text).c_str(), stdout);
  return pipeline::all_usable(findings) ? 0 : base::exit_code(base::ErrorKind::kDevice);
}

}  // namespace camd::app
