#include "apps/camd-plugin/gpu_memory.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <type_traits>

#include "base/error.hpp"
#include "base/mutex.hpp"

namespace camd::worker {
namespace {

using base::Error;
using base::ErrorKind;
using Address = std::uint64_t;  // CUdeviceptr

// The functions of libcuda.so.1 that are needed, with the types of cuda.h.
struct Driver {
  using Handle = pipeline::wire::ExportHandle;  // CUipcMemHandle: 64 bytes, passed by value
  int (*init)(unsigned flags) = nullptr;
  int (*get_device)(int* device, int ordinal) = nullptr;
  int (*retain_primary)(void** context, int device) = nullptr;
  int (*set_current)(void* context) = nullptr;
  int (*open)(Address* address, Handle handle, unsigned flags) = nullptr;
  int (*close)(Address address) = nullptr;
  int (*synchronize)() = nullptr;
  int (*name_of)(int error, const char** name) = nullptr;

  Driver() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      throw Error(ErrorKind::kPlugin, fmt::format("NVIDIA's driver library cannot be loaded: {}", dlerror()));
    }
    const auto find = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) throw Error(ErrorKind::kPlugin, fmt::format("libcuda.so.1 has no {}()", name));
    };
    find(init, "cuInit");
    find(get_device, "cuDeviceGet");
    find(retain_primary, "cuDevicePrimaryCtxRetain");
    find(set_current, "cuCtxSetCurrent");
    find(open, "cuIpcOpenMemHandle_v2");
    find(close, "cuIpcCloseMemHandle");
    find(synchronize, "cuCtxSynchronize");
    find(name_of, "cuGetErrorName");
    require(init(0), "cuInit");
  }
  void require(int error, const char* what) const {
    if (error == 0) return;
    const char* name = nullptr;
    if (name_of(error, &name) != 0 || name == nullptr) name = "unknown";
    throw Error(ErrorKind::kPlugin, fmt::format("{}() failed: {} ({})", what, name, error));
  }
};

const Driver& driver() {
  static const Driver one;
  return one;
}

// The primary context, which stays until the process ends.
void* context_of(int device) {
  static base::Mutex mutex;
  static std::map<int, void*> contexts;
  const base::MutexLock lock(mutex);
  const auto known = contexts.find(device);
  if (known != contexts.end()) return known->second;
  int native = 0;
  void* context = nullptr;
  driver().require(driver().get_device(&native, device), "cuDeviceGet");
  driver().require(driver().retain_primary(&context, native), "cuDevicePrimaryCtxRetain");
  contexts.emplace(device, context);
  return context;
}

}  // namespace

OpenedMemory::OpenedMemory(int device, const pipeline::wire::ExportHandle& handle) {
  constexpr unsigned kPeerAccessWhereNeeded = 1;
  driver().require(driver().set_current(context_of(device)), "cuCtxSetCurrent");
  Address address = 0;
  driver().require(driver().open(&address, handle, kPeerAccessWhereNeeded), "cuIpcOpenMemHandle");
  data_ = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): the driver says so
}

OpenedMemory::~OpenedMemory() {
  if (data_ != nullptr) (void)driver().close(reinterpret_cast<Address>(data_));
}

void wait_for_gpu() { driver().require(driver().synchronize(), "cuCtxSynchronize"); }

}  // namespace camd::worker
