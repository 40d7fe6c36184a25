// NvdecLibrary: NVIDIA's decoder interface (NVDEC), as a table of its functions. libnvcuvid comes with the driver and
// is loaded at run time; the headers are Debian's libffmpeg-nvenc-dev. Tests fill the table with functions of their
// own.
//
// Threads: nvdec_library() [any], [blocks] at its first call; the functions as NVIDIA says, with the CUDA context
// current.
#pragma once

#include <ffnvcodec/dynlink_cuda.h>
// After dynlink_cuda.h, whose types they use.
#include <ffnvcodec/dynlink_cuviddec.h>
#include <ffnvcodec/dynlink_nvcuvid.h>

#include <string>

namespace camd::device {

struct NvdecLibrary {
  tcuvidGetDecoderCaps* get_caps = nullptr;
  tcuvidCreateDecoder* create_decoder = nullptr;
  tcuvidDestroyDecoder* destroy_decoder = nullptr;
  tcuvidDecodePicture* decode_picture = nullptr;
  tcuvidGetDecodeStatus* get_status = nullptr;
  tcuvidMapVideoFrame64* map = nullptr;
  tcuvidUnmapVideoFrame64* unmap = nullptr;
  tcuvidCreateVideoParser* create_parser = nullptr;
  tcuvidParseVideoData* parse = nullptr;
  tcuvidDestroyVideoParser* destroy_parser = nullptr;
};

// Null where it cannot be loaded; `*why` then says why, where it is not null. Lives as long as the process.
[[nodiscard]] const NvdecLibrary* nvdec_library(std::string* why) noexcept;

}  // namespace camd::device
