#include "device/exported_memory.hpp"

#include <map>

#include "base/mutex.hpp"

namespace camd::device {
namespace {

struct Pieces {
  base::Mutex mutex;
  std::map<const void*, ExportHandle> handles CAMD_GUARDED_BY(mutex);
};

// Memory may outlive static objects, so it is never destroyed.
Pieces& pieces() {
  static Pieces& all = *new Pieces;  // NOLINT(cppcoreguidelines-owning-memory)
  return all;
}

}  // namespace

void note_exported(const void* begin, const ExportHandle& handle) {
  Pieces& all = pieces();
  const base::MutexLock lock(all.mutex);
  all.handles.insert_or_assign(begin, handle);
}

void forget_exported(const void* begin) noexcept {
  Pieces& all = pieces();
  const base::MutexLock lock(all.mutex);
  all.handles.erase(begin);
}

std::optional<ExportHandle> exported_at(const void* begin) {
  Pieces& all = pieces();
  const base::MutexLock lock(all.mutex);
  const auto found = all.handles.find(begin);
  if (found == all.handles.end()) return std::nullopt;
  return found->second;
}

}  // namespace camd::device
