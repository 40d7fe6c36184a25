#include "base/secrets.hpp"

#include <algorithm>
#include <vector>

#include "base/mutex.hpp"

namespace camd::base {
namespace {

struct Secrets {
  Mutex mutex;
  std::vector<std::string> longest_first CAMD_GUARDED_BY(mutex);
};

// Never destroyed: other threads log until the process is gone.
Secrets& secrets() {
  static Secrets* const all = new Secrets;
  return *all;
}

}  // namespace

void hide_secret(std::string_view secret) {
  if (secret.size() < kShortestSecret) return;
  const MutexLock lock(secrets().mutex);
  std::vector<std::string>& all = secrets().longest_first;
  if (std::find(all.begin(), all.end(), secret) != all.end()) return;
  const auto shorter =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.size() < secret.size(); });
  all.emplace(shorter, secret);
}

std::string without_secrets(std::string_view text) {
  std::string shown(text);
  const MutexLock lock(secrets().mutex);
  for (const std::string& secret : secrets().longest_first) {
    for (std::size_t at = shown.find(secret); at != std::string::npos; at = shown.find(secret, at + 3)) {
      shown.replace(at, secret.size(), "***");
    }
  }
  return shown;
}

}  // namespace camd::base
