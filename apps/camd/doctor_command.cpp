#include "apps/camd/commands.hpp"
#include "base/error.hpp"
namespace camd::app {
int doctor_command(const std::string&, bool) { throw base::Error(base::ErrorKind::kInternal, "doctor: not here yet"); }
}  // namespace camd::app
