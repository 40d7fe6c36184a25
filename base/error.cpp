#include "base/error.hpp"

#include <utility>

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

Status::Status(ErrorKind kind, std::string message) : failure_(new Failure{kind, std::move(message)}) {}

ErrorKind Status::kind() const noexcept { return ok() ? ErrorKind::kInternal : failure_->kind; }

const std::string& Status::message() const noexcept {
  static const std::string none;
  return ok() ? none : failure_->message;
}

Status::Owned Status::copy_of(const Failure& failure) { return Owned(new Failure(failure)); }

void Status::destroy(Failure* failure) noexcept { delete failure; }

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);  // on an ARM char has no sign
    const bool blank = byte <= 0x20U || byte >= 0x7FU;
    if (!blank)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  constexpr std::size_t kLongest = 400;
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "...";
  return line;
}

}  // namespace camd::base
