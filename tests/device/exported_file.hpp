// Memory that stands for a GPU's and that another process can open: a file, whose path is the handle that fake_cuda.c
// opens it by.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "device/exported_memory.hpp"
#include "tests/support/paths.hpp"

namespace camd::test {

inline device::ExportHandle handle_of(const std::string& path) {
  device::ExportHandle handle;
  std::memcpy(handle.bytes.data(), path.c_str(), path.size() + 1);
  return handle;
}

class ExportedFile final : public device::MemoryState {
 public:
  static constexpr std::size_t kSize = 4096;  // as fake_cuda.c maps it

  static device::DeviceBuffer make(std::size_t size_bytes) {
    if (size_bytes > kSize) std::abort();
    auto file = std::make_unique<ExportedFile>();
    auto* const data = static_cast<std::byte*>(file->data_);
    return device::DeviceBuffer(std::move(file), data, size_bytes);
  }
  ExportedFile() {
    static std::atomic<int> made{0};
    path_ = fmt::format("/tmp/camd-gpu-{}-{}", getpid(), ++made);
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, kSize) != 0) std::abort();
    data_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (data_ == MAP_FAILED) std::abort();
    device::note_exported(data_, handle_of(path_));
  }
  ~ExportedFile() override {
    device::forget_exported(data_);
    munmap(data_, kSize);
    unlink(path_.c_str());
  }
  ExportedFile(const ExportedFile&) = delete;
  ExportedFile& operator=(const ExportedFile&) = delete;

 private:
  std::string path_;
  void* data_ = nullptr;
};

// Worker processes that start while this lives find fake_cuda.c where they look for NVIDIA's driver library.
class FakeDriver {
 public:
  FakeDriver() {
    const char* const path = std::getenv("LD_LIBRARY_PATH");  // NOLINT(concurrency-mt-unsafe): before workers start
    if (path != nullptr) before_ = path;
    set(binary_dir() + "/lib/bad/driver:" + before_);
  }
  ~FakeDriver() { set(before_); }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

 private:
  static void set(const std::string& path) {
    (void)setenv("LD_LIBRARY_PATH", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  std::string before_;
};

}  // namespace camd::test
