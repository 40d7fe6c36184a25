// Errors of set-up (exceptions with a place) and of per-frame work (a status that never throws).
//
// Threads: [any]. Error is thrown by set-up code only and never crosses a thread or the C ABI.
// Status is what per-frame code returns: success carries no allocation.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace camd::base {

// What kind of thing went wrong. Decides the exit code of `camd` (exit_code()).
enum class ErrorKind {
  kUsage,       // the command line
  kConfig,      // the configuration file
  kDevice,      // a device cannot be used
  kModel,       // a model cannot be read or run
  kPlugin,      // a plug-in was refused or failed
  kSource,      // a camera's source
  kIo,          // a file or stream that camd writes or reads for itself
  kDeviceLost,  // the device failed while running
  kState,       // a call that the current state does not allow
  kInternal,    // a bug in camd
};

// Exit codes of the daemon: 2 usage or configuration, 3 device, model or plug-in, 4 sources,
// 5 device lost while running, 70 internal error.
[[nodiscard]] int exit_code(ErrorKind kind) noexcept;

// A set-up error. what() is one complete line for the user: what is wrong, where, and how to mend it.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

// The result of per-frame work. As large as a pointer, which is null on success: a frame passes through some dozens.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // success
  [[gnu::cold]] Status(ErrorKind kind, std::string message);
  Status(const Status& other) {
    if (!other.ok()) failure_ = copy_of(*other.failure_);
  }
  Status(Status&& other) noexcept = default;  // leaves success
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status& operator=(Status&& other) noexcept = default;
  ~Status() = default;

  [[nodiscard]] bool ok() const noexcept { return failure_ == nullptr; }
  [[nodiscard]] explicit operator bool() const noexcept { return ok(); }
  // Meaningful only when !ok(); else kInternal and empty.
  [[nodiscard]] ErrorKind kind() const noexcept;
  [[nodiscard]] const std::string& message() const noexcept;

 private:
  struct Failure {
    ErrorKind kind;
    std::string message;
  };
  struct Destroy {
    void operator()(Failure* failure) const noexcept { destroy(failure); }
  };
  using Owned = std::unique_ptr<Failure, Destroy>;
  // Neither inline nor expected: what follows a call is no more than the question whether it failed, and what is done
  // about a failure lies apart from what every frame runs.
  [[gnu::cold]] static Owned copy_of(const Failure& failure);
  [[gnu::cold]] static void destroy(Failure* failure) noexcept;

  Owned failure_;
};

// Another library's message in one printable line, cut when it is very long. [any]
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace camd::base
