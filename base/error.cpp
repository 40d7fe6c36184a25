#include "base/error.hpp"

namespace camd::base {

int exit_code(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kConfig:
    case ErrorKind::kIo: return 2;
    case ErrorKind::kDevice:
    case ErrorKind::kModel:
    case ErrorKind::kPlugin: return 3;
    case ErrorKind::kSource: return 4;
    case ErrorKind::kDeviceLost: return 5;
    case ErrorKind::kState:
    case ErrorKind::kInternal: return 70;
  }
  return 70;
}

}  // namespace camd::base
