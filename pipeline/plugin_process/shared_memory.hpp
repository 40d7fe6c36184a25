// Memory that other processes can map: camd writes it, a worker process can only read it.
//
// Tensors of frames in flight and staged pictures lie here. Pieces are cut out of large files of memory
// (memfd_create(2)), which take no more than what was written of them. A file is sealed once camd has mapped it: nobody
// can make it shorter, and no further mapping of it can be written to.
//
// Threads: [any]; a lock inside. allocate_shared() and the end of a piece may block.
// Invariants: a file is unmapped, and its pages go back, when the last piece of it is given back, and never before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace camd::pipeline {

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept;
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

// A file in memory, mapped as a whole.
class MemoryFile {
 public:
  MemoryFile() noexcept = default;
  // Makes one of `size_bytes`, all of it 0, mapped for reading and writing. `name` is for /proc. Throws Error(kPlugin).
  MemoryFile(const char* name, std::size_t size_bytes);
  // Maps what another process has sent. Throws Error(kPlugin).
  MemoryFile(Descriptor fd, std::size_t size_bytes, bool writable);
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Nobody can change its length from now on and, with `read_only`, nobody can make a mapping that can be written to.
  // Mappings that exist stay as they are. Throws Error(kPlugin).
  void seal(bool read_only) const;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  Descriptor fd_;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// A sealed file that pieces are cut out of.
struct SharedRegion {
  std::uint32_t id = 0;  // never 0, never given twice
  MemoryFile file;
};

struct SharedPlace {
  std::shared_ptr<const SharedRegion> region;
  std::uint64_t offset = 0;
};

// A piece of at least one byte, aligned to 4096, that is given back with the last copy of the pointer. What it holds is
// not known. Throws Error(kPlugin): there is no memory or no descriptor left.
[[nodiscard]] std::shared_ptr<std::byte> allocate_shared(std::size_t size_bytes);
// The same in a file of its own, so that who maps it sees nothing else: a camera's picture is not for all plug-ins.
[[nodiscard]] std::shared_ptr<std::byte> allocate_shared_alone(std::size_t size_bytes);
// Where an address inside a living piece lies; empty for any other memory.
[[nodiscard]] std::optional<SharedPlace> shared_place(const void* address);

}  // namespace camd::pipeline
