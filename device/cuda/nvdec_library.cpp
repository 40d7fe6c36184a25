#include "device/cuda/nvdec_library.hpp"

#include <dlfcn.h>

namespace camd::device {
namespace {

struct Loaded {
  NvdecLibrary table;
  std::string problem;  // empty: all is there

  Loaded() noexcept {
    void* const library = dlopen("libnvcuvid.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      problem = "the NVIDIA driver's libnvcuvid.so.1 cannot be loaded (apt install libnvcuvid1)";
      return;
    }
    find(library, "cuvidGetDecoderCaps", table.get_caps);
    find(library, "cuvidCreateDecoder", table.create_decoder);
    find(library, "cuvidDestroyDecoder", table.destroy_decoder);
    find(library, "cuvidDecodePicture", table.decode_picture);
    find(library, "cuvidGetDecodeStatus", table.get_status);
    find(library, "cuvidMapVideoFrame64", table.map);
    find(library, "cuvidUnmapVideoFrame64", table.unmap);
    find(library, "cuvidCreateVideoParser", table.create_parser);
    find(library, "cuvidParseVideoData", table.parse);
    find(library, "cuvidDestroyVideoParser", table.destroy_parser);
  }

 private:
  template <class Function>
  void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr && problem.empty()) {
      problem = std::string("the NVIDIA driver is too old: its libnvcuvid.so.1 has no ") + name;
    }
  }
};

}  // namespace

const NvdecLibrary* nvdec_library(std::string* why) noexcept {
  static const Loaded loaded;
  if (loaded.problem.empty()) return &loaded.table;
  if (why != nullptr) *why = loaded.problem;
  return nullptr;
}

}  // namespace camd::device
