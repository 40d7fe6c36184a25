#include "device/cuda/nvdec_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "device/cuda/decoding_session.hpp"
#include "device/cuda/nvdec_library.hpp"
#include "device/cuda/nvdec_session.hpp"
#include "device/cuda/vulkan_video.hpp"

namespace camd::device {
namespace {

using base::Error;
using base::ErrorKind;
using base::Status;

constexpr unsigned kMostSurfaces = 32;  // to decode; no codec needs more than 17 and some in work
constexpr int kMostHeld = 32;           // output surfaces
constexpr std::size_t kLargestUnit = 1U << 28U;
constexpr int kMostFailures = 100;  // one after the other; then the engine does not take this stream
constexpr auto kOutOfMemory = static_cast<CUresult>(2);  // CUDA_ERROR_OUT_OF_MEMORY; the headers leave it out

cudaVideoCodec native_codec(VideoCodec codec) noexcept {
  switch (codec) {
    case VideoCodec::kH264: return cudaVideoCodec_H264;
    case VideoCodec::kH265: return cudaVideoCodec_HEVC;
    case VideoCodec::kAv1: return cudaVideoCodec_AV1;
    case VideoCodec::kVp8: return cudaVideoCodec_VP8;
    case VideoCodec::kVp9: return cudaVideoCodec_VP9;
    case VideoCodec::kJpeg: return cudaVideoCodec_JPEG;
  }
  return cudaVideoCodec_NumCodecs;
}

// A unit of these holds one picture, so that the parser need not wait for the next one to know where it ends.
bool one_picture_a_unit(VideoCodec codec) noexcept { return codec != VideoCodec::kAv1 && codec != VideoCodec::kVp9; }

int even(int size) noexcept { return (size + 1) & ~1; }

// What a session was made for.
struct Format {
  cudaVideoChromaFormat chroma = cudaVideoChromaFormat_420;
  unsigned bits_over_8 = 0;
  unsigned coded_width = 0;
  unsigned coded_height = 0;
  int left = 0, top = 0;
  int width = 0, height = 0;  // that is shown
  base::ColorMatrix matrix = base::ColorMatrix::kBt601;
  bool full_range = false;

  friend bool operator==(const Format&, const Format&) = default;
};

// Matrix coefficients of ITU-T H.273, table 4. Where the stream does not say, GStreamer's rule: by the height.
base::ColorMatrix matrix_of(unsigned coefficients, int height) noexcept {
  switch (coefficients) {
    case 1:  // BT.709
    case 7:  // SMPTE 240M
    case 9:  // BT.2020
    case 10: return base::ColorMatrix::kBt709;
    case 4:                                    // FCC
    case 5:                                    // BT.601, 625 lines
    case 6: return base::ColorMatrix::kBt601;  // BT.601, 525 lines
    default: return height > 576 ? base::ColorMatrix::kBt709 : base::ColorMatrix::kBt601;
  }
}

// What decodes, and which of its output surfaces are lent. Shared by its pictures.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::unique_ptr<DecodingSession> decoding, CudaDevice& device, const Format& format, unsigned surfaces,
          int outputs)
      : decoding_(std::move(decoding)), device_(device), format_(format), surfaces_(surfaces) {
    for (int i = 0; i < outputs; ++i) loans_[static_cast<std::size_t>(i)].usable = true;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Format& format() const noexcept { return format_; }
  [[nodiscard]] unsigned surfaces() const noexcept { return surfaces_; }
  [[nodiscard]] DecodingSession& decoding() const noexcept { return *decoding_; }

  struct Loan {
    std::shared_ptr<Session> session;  // while it is lent
    unsigned long long address = 0;
    bool usable = false;
  };

  // An output surface that nobody has; null: none.
  [[nodiscard]] Loan* free_loan() {
    const base::MutexLock lock(mutex_);
    const auto found =
        std::find_if(loans_.begin(), loans_.end(), [](const Loan& one) { return one.usable && !one.session; });
    if (found == loans_.end()) return nullptr;
    found->session = shared_from_this();
    return &*found;
  }
  // [any] As DecodedPicture::release.
  static void give_back(void* argument) noexcept {
    auto* const loan = static_cast<Loan*>(argument);
    const std::shared_ptr<Session> session = loan->session;
    if (loan->address != 0 && session->device_.select().ok()) session->decoding_->unmap(loan->address);
    loan->address = 0;
    std::shared_ptr<Session> last;  // goes outside of the lock, and before `session`
    const base::MutexLock lock(session->mutex_);
    last = std::move(loan->session);
  }

 private:
  const std::unique_ptr<DecodingSession> decoding_;
  CudaDevice& device_;
  const Format format_;
  const unsigned surfaces_;
  base::Mutex mutex_;
  std::array<Loan, kMostHeld> loans_;  // `session` is guarded by mutex_
};

class NvdecDecoder final : public VideoDecoder {
 public:
  NvdecDecoder(const NvdecLibrary& library, CudaDevice& device, DecoderTurns& turns, const VideoDecoderOptions& options,
               VideoTaker& taker)
      : library_(library),
        device_(device),
        turns_(turns),
        options_(options),
        taker_(taker),
        stream_(device.make_urgent_stream("decode")),  // as urgent as the network, beside which it is slower otherwise
        ready_(device.make_fence()) {
    if (options.held < 1 || options.held > kMostHeld) {
      throw Error(ErrorKind::kDevice,
                  fmt::format("a decoder cannot lend {} pictures, but 1 to {}", options.held, kMostHeld));
    }
    if (const Status selected = device.select(); !selected.ok()) throw Error(selected.kind(), selected.message());
    if (const Status made = make_parser(); !made.ok()) throw Error(made.kind(), made.message());
  }
  ~NvdecDecoder() override {
    (void)device_.select();
    if (parser_ != nullptr) (void)library_.destroy_parser(parser_);
  }
  NvdecDecoder(const NvdecDecoder&) = delete;
  NvdecDecoder& operator=(const NvdecDecoder&) = delete;

  Status decode(std::span<const std::byte> unit, std::optional<std::int64_t> time_ns) override {
    if (unit.empty()) return {};
    if (unit.size() > kLargestUnit) return Status(ErrorKind::kSource, "a compressed picture of more than 256 MiB");
    CUVIDSOURCEDATAPACKET packet{};
    packet.payload = reinterpret_cast<const unsigned char*>(unit.data());
    packet.payload_size = static_cast<tcu_ulong>(unit.size());
    // Not CUVID_PKT_DISCONTINUITY, where another stream begins: that picture would be decoded and never shown.
    packet.flags = one_picture_a_unit(options_.codec) ? CUVID_PKT_ENDOFPICTURE : 0;
    if (time_ns) {
      packet.flags |= CUVID_PKT_TIMESTAMP;
      packet.timestamp = *time_ns;
    }
    timed_ = time_ns.has_value();
    return parse(packet);
  }

  Status drain() override {
    CUVIDSOURCEDATAPACKET packet{};
    packet.flags = CUVID_PKT_ENDOFSTREAM;  // the next unit begins a stream
    return parse(packet);
  }

  void reset() noexcept override {
    forgetting_ = true;
    (void)drain();
    forgetting_ = false;
  }

  [[nodiscard]] VideoDecoderCounts counts() const noexcept override {
    return {undecodable_.load(), damaged_.load(), crowded_.load()};
  }

 private:
  // Errors: kDevice.
  Status make_parser() {
    CUVIDPARSERPARAMS parameters{};
    parameters.CodecType = native_codec(options_.codec);
    parameters.ulMaxNumDecodeSurfaces = 1;  // the stream says how many, when it begins
    parameters.ulClockRate = 1'000'000'000;
    parameters.ulErrorThreshold = 100;  // the engine tries damaged pictures, too
    parameters.ulMaxDisplayDelay = 0;
    parameters.pUserData = this;
    parameters.pfnSequenceCallback = &NvdecDecoder::on_sequence;
    parameters.pfnDecodePicture = &NvdecDecoder::on_picture;
    parameters.pfnDisplayPicture = &NvdecDecoder::on_display;
    const CUresult error = library_.create_parser(&parser_, &parameters);
    if (error == CUDA_SUCCESS) return {};
    parser_ = nullptr;
    return Status(ErrorKind::kDevice, fmt::format("the GPU's driver makes no parser for {}: error {}",
                                                  to_string(options_.codec), static_cast<int>(error)));
  }

  Status parse(CUVIDSOURCEDATAPACKET& packet) {
    if (!refusal_.empty()) return Status(ErrorKind::kSource, refusal_);
    if (Status selected = device_.select(); !selected.ok()) return selected;
    wanted_ = true;
    if (parser_ == nullptr) {
      if (Status made = make_parser(); !made.ok()) return made;
    }
    (void)library_.parse(parser_, &packet);  // what it says of damaged data helps nobody
    if (gave_up_) {
      // It believes that its stream has begun. The next unit shall begin one.
      (void)library_.destroy_parser(std::exchange(parser_, nullptr));
      gave_up_ = false;
      return {};
    }
    if (!refusal_.empty()) return Status(ErrorKind::kSource, refusal_);
    return device_.status();
  }

  // What callbacks return.
  static constexpr int kStop = 0;
  static constexpr int kGoOn = 1;

  int refuse(std::string why) noexcept {
    refusal_ = std::move(why);
    return kStop;
  }

  // ---- A stream begins, or changes

  static int CUDAAPI on_sequence(void* self, CUVIDEOFORMAT* format) {
    return static_cast<NvdecDecoder*>(self)->begin(*format);
  }

  int begin(const CUVIDEOFORMAT& said) noexcept {
    try {
      return begin_session(said);
    } catch (const std::exception& error) {
      return refuse(error.what());
    }
  }

  int begin_session(const CUVIDEOFORMAT& said) {
    const std::string_view codec = to_string(options_.codec);
    Format format;
    format.chroma = said.chroma_format;
    format.bits_over_8 = said.bit_depth_luma_minus8;
    format.coded_width = said.coded_width;
    format.coded_height = said.coded_height;
    format.left = said.display_area.left;
    format.top = said.display_area.top;
    format.width = said.display_area.right - said.display_area.left;
    format.height = said.display_area.bottom - said.display_area.top;
    if (said.codec != native_codec(options_.codec)) return refuse("the stream changes its codec");
    if (!fits(said, format)) {
      return refuse(fmt::format("the stream's sizes contradict each other: {}x{} of {}x{} pixels", format.width,
                                format.height, said.coded_width, said.coded_height));
    }
    if (static_cast<std::int64_t>(said.coded_width) * said.coded_height > options_.most_pixels) {
      return refuse(fmt::format("a picture of {}x{} pixels is larger than `max_megapixels` allows", said.coded_width,
                                said.coded_height));
    }
    if (said.progressive_sequence == 0 && options_.codec != VideoCodec::kJpeg) {
      return refuse(fmt::format("{} is interlaced, and the GPU's decoder is for progressive pictures", codec));
    }
    if (said.chroma_format != cudaVideoChromaFormat_420) {
      return refuse(fmt::format("{} with chroma other than 4:2:0, which the network cannot read on the GPU", codec));
    }
    format.matrix = options_.codec == VideoCodec::kJpeg
                        ? base::ColorMatrix::kBt601
                        : matrix_of(said.video_signal_description.matrix_coefficients, format.height);
    format.full_range = options_.codec == VideoCodec::kJpeg || said.video_signal_description.video_full_range_flag != 0;
    const unsigned needed = std::max<unsigned>(said.min_num_decode_surfaces, 1);
    if (needed > kMostSurfaces) return refuse(fmt::format("{} that needs {} pictures to decode one", codec, needed));
    if (session_ && session_->format() == format && session_->surfaces() >= needed) {
      return parser_surfaces(session_->surfaces());
    }
    return open_session(format, needed);
  }

  // 0 and 1 have another meaning there.
  static int parser_surfaces(unsigned surfaces) noexcept { return static_cast<int>(std::max(surfaces, 2U)); }

  static bool fits(const CUVIDEOFORMAT& said, const Format& format) noexcept {
    constexpr unsigned kLongestSide = std::numeric_limits<short>::max();
    return said.coded_width > 0 && said.coded_height > 0 && said.coded_width <= kLongestSide &&
           said.coded_height <= kLongestSide && format.left >= 0 && format.top >= 0 && format.width > 0 &&
           format.height > 0 && said.display_area.right <= static_cast<int>(said.coded_width) &&
           said.display_area.bottom <= static_cast<int>(said.coded_height);
  }

  // Why the engines do not take it; "" where they should. To ask takes the driver some 10 ms, so only who was refused
  // asks.
  [[nodiscard]] std::string beyond_the_engines(const Format& format) const {
    const std::string_view codec = to_string(options_.codec);
    CUVIDDECODECAPS caps{};
    caps.eCodecType = native_codec(options_.codec);
    caps.eChromaFormat = format.chroma;
    caps.nBitDepthMinus8 = format.bits_over_8;
    const CUresult error = library_.get_caps(&caps);
    if (error != CUDA_SUCCESS || caps.bIsSupported == 0) {
      return fmt::format("the GPU has no decoder for {} of {} bits", codec, 8 + format.bits_over_8);
    }
    if ((caps.nOutputFormatMask & (1U << static_cast<unsigned>(cudaVideoSurfaceFormat_NV12))) == 0) {
      return fmt::format("the GPU does not write {} of {} bits as NV12", codec, 8 + format.bits_over_8);
    }
    const std::uint64_t blocks =
        static_cast<std::uint64_t>((format.coded_width + 15) / 16) * ((format.coded_height + 15) / 16);
    if (format.coded_width > caps.nMaxWidth || format.coded_height > caps.nMaxHeight || blocks > caps.nMaxMBCount) {
      return fmt::format("the GPU decodes {} up to {}x{}, not {}x{}", codec, caps.nMaxWidth, caps.nMaxHeight,
                         format.coded_width, format.coded_height);
    }
    if (format.coded_width < caps.nMinWidth || format.coded_height < caps.nMinHeight) {
      return fmt::format("the GPU decodes {} from {}x{} on, not {}x{}", codec, caps.nMinWidth, caps.nMinHeight,
                         format.coded_width, format.coded_height);
    }
    return "";
  }

  // Where NVIDIA's interface makes no more sessions, or not soon. Null: Vulkan does not take such streams, or does not
  // say what is wanted of their pictures, or cannot make one more session either.
  [[nodiscard]] std::unique_ptr<DecodingSession> make_vulkan_session(const CUVIDDECODECREATEINFO& info) {
    VulkanVideo* const vulkan = options_.tells_damage ? nullptr : device_.vulkan_video();
    if (vulkan == nullptr || !vulkan->takes(info)) return nullptr;
    std::string why;
    std::unique_ptr<DecodingSession> made = vulkan->make(info, why);
    if (!made) base::log().warn("no decoder by Vulkan Video either: {}", why);
    return made;
  }

  int open_session(const Format& format, unsigned surfaces) {
    CUVIDDECODECREATEINFO info{};
    info.CodecType = native_codec(options_.codec);
    info.ChromaFormat = format.chroma;
    info.bitDepthMinus8 = format.bits_over_8;
    info.OutputFormat = cudaVideoSurfaceFormat_NV12;
    info.DeinterlaceMode = cudaVideoDeinterlaceMode_Weave;
    info.ulCreationFlags = cudaVideoCreate_PreferCUVID;
    info.ulNumDecodeSurfaces = static_cast<tcu_ulong>(parser_surfaces(surfaces));
    info.ulNumOutputSurfaces = static_cast<tcu_ulong>(options_.held);
    info.ulWidth = info.ulMaxWidth = format.coded_width;
    info.ulHeight = info.ulMaxHeight = format.coded_height;
    info.ulTargetWidth = static_cast<tcu_ulong>(even(format.width));
    info.ulTargetHeight = static_cast<tcu_ulong>(even(format.height));
    // Shown one to one: the area has the target's size, also where the picture's is odd.
    info.display_area.left = static_cast<short>(format.left);
    info.display_area.top = static_cast<short>(format.top);
    info.display_area.right = static_cast<short>(format.left + even(format.width));
    info.display_area.bottom = static_cast<short>(format.top + even(format.height));
    std::unique_ptr<DecodingSession> decoding;
    DecoderTurns::Turn turn(turns_);
    DecoderTurns::Outcome outcome = turn.wait(taker_);
    if (outcome == DecoderTurns::Outcome::kLate) {
      decoding = make_vulkan_session(info);
      if (!decoding) outcome = turn.wait_on(taker_);
    }
    if (outcome == DecoderTurns::Outcome::kGaveUp) {
      gave_up_ = true;
      return kStop;
    }
    CUresult error = CUDA_SUCCESS;
    if (!decoding) error = make_nvdec_session(library_, device_, info, decoding);
    if (error == kOutOfMemory) {
      decoding = make_vulkan_session(info);
      if (decoding) error = CUDA_SUCCESS;
    }
    if (error == kOutOfMemory) {
      return refuse("the GPU has no memory, or no session, left for another decoder");
    }
    if (const std::string problem = error != CUDA_SUCCESS ? beyond_the_engines(format) : ""; !problem.empty()) {
      return refuse(problem);
    }
    if (error != CUDA_SUCCESS) {
      return refuse(fmt::format("the GPU's driver makes no decoder for {} of {}x{}: error {}",
                                to_string(options_.codec), format.coded_width, format.coded_height,
                                static_cast<int>(error)));
    }
    // The one before lives as long as its pictures.
    session_ = std::make_shared<Session>(std::move(decoding), device_, format, surfaces, options_.held);
    failures_ = 0;
    return parser_surfaces(surfaces);
  }

  // ---- A picture is decoded

  static int CUDAAPI on_picture(void* self, CUVIDPICPARAMS* picture) {
    return static_cast<NvdecDecoder*>(self)->begin_picture(*picture);
  }

  int begin_picture(CUVIDPICPARAMS& picture) noexcept {
    if (!refusal_.empty() || !session_ || gave_up_) return kStop;
    const bool whole = picture.CurrPicIdx >= 0 && picture.CurrPicIdx < parser_surfaces(session_->surfaces());
    if (whole && session_->decoding().decode(picture)) {
      failures_ = 0;
      return kGoOn;
    }
    ++undecodable_;
    if (++failures_ < kMostFailures) return kGoOn;
    return refuse(fmt::format("the GPU's decoder has failed with {} pictures, one after the other", kMostFailures));
  }

  // ---- A picture is shown

  static int CUDAAPI on_display(void* self, CUVIDPARSERDISPINFO* shown) {
    return shown == nullptr ? kGoOn : static_cast<NvdecDecoder*>(self)->show(*shown);
  }

  int show(const CUVIDPARSERDISPINFO& shown) noexcept {
    if (!refusal_.empty() || !session_ || !wanted_ || gave_up_) return kStop;
    if (forgetting_) return kGoOn;
    if (shown.picture_index < 0 || shown.picture_index >= parser_surfaces(session_->surfaces())) return kGoOn;
    Session::Loan* const loan = session_->free_loan();
    if (loan == nullptr) {
      ++crowded_;
      return kGoOn;
    }
    const auto stream = static_cast<CUstream>(stream_.ref().native());
    unsigned pitch = 0;
    if (!session_->decoding().map(shown.picture_index, stream, loan->address, pitch)) {
      loan->address = 0;
      Session::give_back(loan);
      ++undecodable_;
      if (++failures_ < kMostFailures) return kGoOn;
      return refuse(fmt::format("the GPU's decoder has failed with {} pictures, one after the other", kMostFailures));
    }
    DecodedPicture picture;
    picture.layout = layout_of(session_->format(), static_cast<int>(pitch));
    picture.data = reinterpret_cast<const std::byte*>(loan->address);  // NOLINT(performance-no-int-to-ptr)
    picture.ready = &ready_;
    if (timed_) picture.time_ns = shown.timestamp;
    picture.damaged = was_damaged(shown.picture_index);
    picture.release = &Session::give_back;
    picture.argument = loan;
    if (!device_.signal(ready_, stream_).ok()) {  // lost: decode() says so
      Session::give_back(loan);
      return kStop;
    }
    wanted_ = taker_.take_picture(picture);
    return wanted_ ? kGoOn : kStop;
  }

  [[nodiscard]] bool was_damaged(int index) noexcept {
    const bool damaged = session_->decoding().damaged(index);
    if (damaged) ++damaged_;
    return damaged;
  }

  static base::PictureLayout layout_of(const Format& format, int pitch) noexcept {
    base::PictureLayout layout;
    layout.format = base::PixelFormat::kNv12;
    layout.matrix = format.matrix;
    layout.full_range = format.full_range;
    layout.width = format.width;
    layout.height = format.height;
    layout.plane_count = 2;
    const int chroma_width = even(format.width) / 2;
    const int chroma_height = even(format.height) / 2;
    const std::size_t chroma_at = static_cast<std::size_t>(pitch) * static_cast<std::size_t>(even(format.height));
    layout.planes[0] = {0, pitch, format.width, format.height};
    layout.planes[1] = {chroma_at, pitch, chroma_width, chroma_height};
    layout.size_bytes = chroma_at + static_cast<std::size_t>(pitch) * static_cast<std::size_t>(chroma_height - 1) +
                        static_cast<std::size_t>(chroma_width) * 2;
    return layout;
  }

  const NvdecLibrary& library_;
  CudaDevice& device_;
  DecoderTurns& turns_;
  const VideoDecoderOptions options_;
  VideoTaker& taker_;
  Stream stream_;
  Fence ready_;
  CUvideoparser parser_ = nullptr;
  std::shared_ptr<Session> session_;
  std::string refusal_;  // for good
  bool timed_ = false;   // the units say when their pictures are shown
  bool wanted_ = true;   // by the taker, in this call
  bool forgetting_ = false;
  bool gave_up_ = false;  // in this call, waiting for its turn
  int failures_ = 0;      // one after the other
  std::atomic<std::uint64_t> undecodable_{0};
  std::atomic<std::uint64_t> damaged_{0};
  std::atomic<std::uint64_t> crowded_{0};
};

}  // namespace

std::unique_ptr<VideoDecoder> make_nvdec_decoder(const NvdecLibrary& library, CudaDevice& device, DecoderTurns& turns,
                                                 const VideoDecoderOptions& options, VideoTaker& taker) {
  return std::make_unique<NvdecDecoder>(library, device, turns, options, taker);
}

std::vector<VideoSupport> nvdec_support(const NvdecLibrary& library, CudaDevice& device) {
  std::vector<VideoSupport> all;
  if (!device.select().ok()) return all;
  for (int codec = 0; codec < kVideoCodecCount; ++codec) {
    for (const int bits : {8, 10}) {
      VideoSupport one{static_cast<VideoCodec>(codec), bits};
      CUVIDDECODECAPS caps{};
      caps.eCodecType = native_codec(one.codec);
      caps.eChromaFormat = cudaVideoChromaFormat_420;
      caps.nBitDepthMinus8 = static_cast<unsigned>(bits - 8);
      if (library.get_caps(&caps) != CUDA_SUCCESS || caps.bIsSupported == 0) continue;
      if ((caps.nOutputFormatMask & (1U << static_cast<unsigned>(cudaVideoSurfaceFormat_NV12))) == 0) continue;
      one.engines = std::max<int>(caps.nNumNVDECs, 1);
      one.most_width = static_cast<int>(caps.nMaxWidth);
      one.most_height = static_cast<int>(caps.nMaxHeight);
      all.push_back(one);
    }
  }
  return all;
}

}  // namespace camd::device
