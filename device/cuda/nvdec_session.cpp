#include "device/cuda/nvdec_session.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "device/cuda/capture_gate.hpp"

namespace camd::device {
namespace {

using std::chrono::steady_clock;
using Duration = steady_clock::duration;

// cuvidMapVideoFrame() waits for its picture on a descriptor that all decoders of the process share. Each picture that
// is ready wakes up everybody who waits there: with 288 cameras eleven threads for each picture. So only a few wait
// there at once. Who comes later naps until its picture is ready (docs/experiments.md).
constexpr int kMostWaiting = 2;
std::atomic<int> waiting{0};

constexpr Duration kShortestNap = std::chrono::microseconds(50);
constexpr Duration kLongestNaps = std::chrono::milliseconds(200);  // then the driver shall say what is the matter

class NvdecSession final : public DecodingSession {
 public:
  NvdecSession(const NvdecLibrary& library, CudaDevice& device, CUvideodecoder handle)
      : library_(library), device_(device), handle_(handle) {}
  ~NvdecSession() override {
    if (!device_.select().ok()) return;  // what a lost device held is gone
    const CaptureGate::DecoderWork work(CaptureGate::of_the_process());
    (void)library_.destroy_decoder(handle_);
  }
  NvdecSession(const NvdecSession&) = delete;
  NvdecSession& operator=(const NvdecSession&) = delete;

  bool decode(CUVIDPICPARAMS& picture) override { return library_.decode_picture(handle_, &picture) == CUDA_SUCCESS; }

  bool map(int surface, CUstream stream, unsigned long long& address, unsigned& pitch) override {
    CUVIDPROCPARAMS how{};
    how.progressive_frame = 1;
    how.output_stream = stream;
    const bool naps = waiting.fetch_add(1) >= kMostWaiting;
    if (naps) {
      waiting.fetch_sub(1);
      nap_until_decoded(surface);
    }
    const bool mapped = library_.map(handle_, surface, &address, &pitch, &how) == CUDA_SUCCESS;
    if (!naps) waiting.fetch_sub(1);
    return mapped;
  }

  void unmap(unsigned long long address) override { (void)library_.unmap(handle_, address); }

  bool damaged(int surface) override {
    const cuvidDecodeStatus status = status_of(surface);
    return status == cuvidDecodeStatus_Error || status == cuvidDecodeStatus_Error_Concealed;
  }

 private:
  // Invalid where the driver does not say, as of VP9 and AV1.
  [[nodiscard]] cuvidDecodeStatus status_of(int surface) const {
    CUVIDGETDECODESTATUS status{};
    if (library_.get_status(handle_, surface, &status) != CUDA_SUCCESS) return cuvidDecodeStatus_Invalid;
    return status.decodeStatus;
  }

  // [blocks] The first nap is most of what the pictures before took, so that a picture costs few of them.
  void nap_until_decoded(int surface) {
    const steady_clock::time_point begin = steady_clock::now();
    Duration waited{0};
    for (Duration nap = usual_ * 3 / 4; status_of(surface) == cuvidDecodeStatus_InProgress && waited < kLongestNaps;
         nap = usual_ / 8) {
      std::this_thread::sleep_for(std::max(nap, kShortestNap));
      waited = steady_clock::now() - begin;
    }
    usual_ = (usual_ + waited) / 2;
  }

  const NvdecLibrary& library_;
  CudaDevice& device_;
  CUvideodecoder handle_;
  Duration usual_{0};  // from the wish for a picture until it is decoded
};

}  // namespace

CUresult make_nvdec_session(const NvdecLibrary& library, CudaDevice& device, CUVIDDECODECREATEINFO& info,
                            std::unique_ptr<DecodingSession>& made) {
  const CaptureGate::DecoderWork work(CaptureGate::of_the_process());
  CUvideodecoder handle = nullptr;
  const CUresult error = library.create_decoder(&handle, &info);
  if (error == CUDA_SUCCESS) made = std::make_unique<NvdecSession>(library, device, handle);
  return error;
}

}  // namespace camd::device
