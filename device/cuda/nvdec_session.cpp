#include "device/cuda/nvdec_session.hpp"

namespace camd::device {
namespace {

class NvdecSession final : public DecodingSession {
 public:
  NvdecSession(const NvdecLibrary& library, CudaDevice& device, CUvideodecoder handle)
      : library_(library), device_(device), handle_(handle) {}
  ~NvdecSession() override {
    if (device_.select().ok()) (void)library_.destroy_decoder(handle_);  // what a lost device held is gone
  }
  NvdecSession(const NvdecSession&) = delete;
  NvdecSession& operator=(const NvdecSession&) = delete;

  bool decode(CUVIDPICPARAMS& picture) override { return library_.decode_picture(handle_, &picture) == CUDA_SUCCESS; }

  bool map(int surface, CUstream stream, unsigned long long& address, unsigned& pitch) override {
    CUVIDPROCPARAMS how{};
    how.progressive_frame = 1;
    how.output_stream = stream;
    return library_.map(handle_, surface, &address, &pitch, &how) == CUDA_SUCCESS;
  }

  void unmap(unsigned long long address) override { (void)library_.unmap(handle_, address); }

  bool damaged(int surface) override {
    CUVIDGETDECODESTATUS status{};
    if (library_.get_status(handle_, surface, &status) != CUDA_SUCCESS) return false;
    return status.decodeStatus == cuvidDecodeStatus_Error || status.decodeStatus == cuvidDecodeStatus_Error_Concealed;
  }

 private:
  const NvdecLibrary& library_;
  CudaDevice& device_;
  CUvideodecoder handle_;
};

}  // namespace

CUresult make_nvdec_session(const NvdecLibrary& library, CudaDevice& device, CUVIDDECODECREATEINFO& info,
                            std::unique_ptr<DecodingSession>& made) {
  CUvideodecoder handle = nullptr;
  const CUresult error = library.create_decoder(&handle, &info);
  if (error == CUDA_SUCCESS) made = std::make_unique<NvdecSession>(library, device, handle);
  return error;
}

}  // namespace camd::device
