// Files in memory, and the pieces that are cut out of them.
#include "pipeline/plugin_process/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/mutex.hpp"

namespace camd::pipeline {
namespace {

using base::Error;
using base::ErrorKind;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRegionBytes = std::size_t{256} << 20;  // address space; pages come when they are written

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorKind::kPlugin, fmt::format("memory for worker processes: {}: {}", what, std::strerror(errno)));
}

constexpr std::size_t whole_pages(std::size_t size_bytes) noexcept { return (size_bytes + kPage - 1) / kPage * kPage; }

}  // namespace

int Descriptor::release() noexcept { return std::exchange(fd_, -1); }

void Descriptor::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

MemoryFile::MemoryFile(const char* name, std::size_t size_bytes)
    : fd_(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_bytes_(size_bytes) {
  if (!fd_) fail("memfd_create");
  if (ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) != 0) fail("ftruncate");
  void* const mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (mapped == MAP_FAILED) fail("mmap");
  data_ = static_cast<std::byte*>(mapped);
}

MemoryFile::MemoryFile(Descriptor fd, std::size_t size_bytes, bool writable)
    : fd_(std::move(fd)), size_bytes_(size_bytes) {
  void* const mapped =
      mmap(nullptr, size_bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (mapped == MAP_FAILED) fail("mmap");
  data_ = static_cast<std::byte*>(mapped);
}

MemoryFile::~MemoryFile() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), size_bytes_(other.size_bytes_) {}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, size_bytes_);
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = other.size_bytes_;
  }
  return *this;
}

void MemoryFile::seal(bool read_only) const {
  int seals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (read_only) seals |= F_SEAL_FUTURE_WRITE;
  if (fcntl(fd_.get(), F_ADD_SEALS, seals | F_SEAL_SEAL) != 0) fail("F_ADD_SEALS");
}

namespace {

// All regions of this process. Pieces may outlive static objects, so it is never destroyed.
class Pool {
 public:
  static Pool& instance() {
    static Pool& pool = *new Pool;  // NOLINT(cppcoreguidelines-owning-memory)
    return pool;
  }

  // Out of a file that others have pieces of, too, or of one that is `alone`.
  std::byte* take(std::size_t size_bytes, bool alone) {
    const std::size_t size = whole_pages(std::max<std::size_t>(size_bytes, 1));
    const base::MutexLock lock(mutex_);
    for (One& one : regions_) {
      if (alone) break;
      for (auto free = one.free.begin(); free != one.free.end(); ++free) {
        if (free->second < size) continue;
        const std::size_t offset = free->first;
        const std::size_t rest = free->second - size;
        one.free.erase(free);
        if (rest > 0) one.free.emplace(offset + size, rest);
        one.taken.emplace(offset, size);
        return one.region->file.data() + offset;
      }
    }
    auto made = std::make_shared<SharedRegion>();
    made->id = ++last_id_;
    made->file = MemoryFile("camd-frames", alone ? size : std::max(size, kRegionBytes));
    made->file.seal(true);
    regions_.push_back({std::move(made), {}, {}});
    One& one = regions_.back();
    one.taken.emplace(0, size);
    if (one.region->file.size_bytes() > size) one.free.emplace(size, one.region->file.size_bytes() - size);
    return one.region->file.data();
  }

  void give_back(std::byte* piece) noexcept {
    const base::MutexLock lock(mutex_);
    const auto found = region_of(piece);
    if (found == regions_.end()) return;
    const auto offset = static_cast<std::size_t>(piece - found->region->file.data());
    const auto taken = found->taken.find(offset);
    if (taken == found->taken.end()) return;
    std::size_t begin = offset, size = taken->second;
    found->taken.erase(taken);
    // Its pages stay: a sealed file refuses to give back a part of itself (EPERM, with F_SEAL_FUTURE_WRITE).
    if (found->taken.empty()) {
      regions_.erase(found);
      return;
    }
    auto next = found->free.lower_bound(begin);
    if (next != found->free.end() && next->first == begin + size) {
      size += next->second;
      next = found->free.erase(next);
    }
    if (next != found->free.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        begin = before->first;
        size += before->second;
        found->free.erase(before);
      }
    }
    found->free.emplace(begin, size);
  }

  std::optional<SharedPlace> place(const std::byte* address) {
    const base::MutexLock lock(mutex_);
    const auto found = region_of(address);
    if (found == regions_.end()) return std::nullopt;
    const auto offset = static_cast<std::size_t>(address - found->region->file.data());
    const auto after = found->taken.upper_bound(offset);
    if (after == found->taken.begin()) return std::nullopt;
    const auto piece = std::prev(after);
    if (offset >= piece->first + piece->second) return std::nullopt;
    return SharedPlace{found->region, offset};
  }

 private:
  struct One {
    std::shared_ptr<SharedRegion> region;
    std::map<std::size_t, std::size_t> free, taken;  // sizes by offset
  };
  std::vector<One>::iterator region_of(const std::byte* address) CAMD_REQUIRES(mutex_) {
    return std::find_if(regions_.begin(), regions_.end(), [address](const One& one) {
      const std::byte* begin = one.region->file.data();
      return address >= begin && address < begin + one.region->file.size_bytes();
    });
  }

  base::Mutex mutex_;
  std::vector<One> regions_ CAMD_GUARDED_BY(mutex_);
  std::uint32_t last_id_ CAMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<std::byte> allocate_shared(std::size_t size_bytes) {
  return {Pool::instance().take(size_bytes, false), [](std::byte* piece) { Pool::instance().give_back(piece); }};
}

std::shared_ptr<std::byte> allocate_shared_alone(std::size_t size_bytes) {
  return {Pool::instance().take(size_bytes, true), [](std::byte* piece) { Pool::instance().give_back(piece); }};
}

std::optional<SharedPlace> shared_place(const void* address) {
  return Pool::instance().place(static_cast<const std::byte*>(address));
}

}  // namespace camd::pipeline
