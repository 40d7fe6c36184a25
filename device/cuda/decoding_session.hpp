// DecodingSession: a decoder of the GPU for pictures of one size, with the surfaces that it decodes to. NvdecDecoder
// parses the stream and tells it what to decode and to show.
//
// Threads: unmap() [any]; the rest by one thread at a time. The device's context is current on it.
#pragma once

#include <memory>

#include "device/cuda/nvdec_library.hpp"

namespace camd::device {

class DecodingSession {
 public:
  virtual ~DecodingSession() = default;
  // Begins to decode into the surface `picture.CurrPicIdx`. Does not wait for the result. False: could not be begun.
  virtual bool decode(CUVIDPICPARAMS& picture) = 0;
  // [blocks] Writes the surface as NV12 of the target's size to an output surface, complete behind `stream`. The chroma
  // plane follows the luma plane's last row. False: it failed, or all output surfaces are out.
  virtual bool map(int surface, CUstream stream, unsigned long long& address, unsigned& pitch) = 0;
  // Gives an output surface back.
  virtual void unmap(unsigned long long address) = 0;
  // Whether the picture of this surface, which was mapped, is not as it was sent.
  virtual bool damaged(int surface) = 0;
};

}  // namespace camd::device
