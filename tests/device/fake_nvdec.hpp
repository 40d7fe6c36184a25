// FakeNvdec: a table of NVIDIA's decoder functions for machines without a GPU. Its parser takes each unit for one
// picture. A unit that begins with "stream WxH" says what follows: " interlaced", " 10bit", " 444", " surfaces=N",
// " bt709", " full". Other units belong to the stream that settings() describes. A picture is a unit in the order in
// which it came; all of its bytes are the unit's last byte.
//
// Pictures lie in memory of the host, which is what an emulated GPU has.
//
// Threads: [any]; one table a process, so one test at a time: reset() first.
#pragma once

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "device/cuda/nvdec_library.hpp"

namespace camd::test {

class FakeNvdec {
 public:
  struct Settings {
    int width = 320, height = 240;  // of a stream that does not say
    bool supported = true;
    bool writes_nv12 = true;
    unsigned most_side = 4096;
    int most_sessions = 1000;       // create_decoder answers out of memory beyond
    bool decodes = true;            // decode_picture works
    bool maps = true;               // map works
    bool damaged = false;           // what the engine says of every picture
    unsigned delay = 0;             // pictures that the parser keeps back
    unsigned pitch = 512;           // bytes from row to row, at least
    int asks = 0;                   // get_status says that a picture is being decoded so many times
    std::function<void()> mapping;  // is called by map, whose caller waits for it
    std::function<void()> working;  // is called while a decoder is made, and while it is destroyed
  };

  static FakeNvdec& instance() {
    static FakeNvdec one;
    return one;
  }
  // Forgets the settings, what was counted, and sessions that nobody will destroy. No decoder may be left.
  void reset() {
    const base::MutexLock lock(mutex_);
    settings_ = {};
    sessions_.clear();
    made_ = 0;
    asked_ = 0;
  }
  void set(const Settings& settings) {
    const base::MutexLock lock(mutex_);
    settings_ = settings;
  }
  [[nodiscard]] Settings settings() {
    const base::MutexLock lock(mutex_);
    return settings_;
  }
  [[nodiscard]] int sessions_made() {
    const base::MutexLock lock(mutex_);
    return made_;
  }
  [[nodiscard]] int asked() {
    const base::MutexLock lock(mutex_);
    return asked_;
  }
  [[nodiscard]] int sessions_alive() {
    const base::MutexLock lock(mutex_);
    return static_cast<int>(sessions_.size());
  }
  [[nodiscard]] int mapped() {
    const base::MutexLock lock(mutex_);
    std::size_t count = 0;
    for (const auto& [handle, session] : sessions_) count += session->mapped.size();
    return static_cast<int>(count);
  }
  [[nodiscard]] static const device::NvdecLibrary& library() {
    static const device::NvdecLibrary table = make_table();
    return table;
  }

 private:
  static constexpr int kOk = 0, kInvalid = 1, kNoMemory = 2;
  static CUresult answer(int code) { return static_cast<CUresult>(code); }

  struct Session {
    CUVIDDECODECREATEINFO info{};
    std::map<int, unsigned char> pictures;  // by surface: what it shows
    std::map<unsigned long long, std::unique_ptr<std::vector<unsigned char>>> mapped;
  };
  struct Shown {
    int surface;
    long long time;
  };
  struct Parser {
    CUVIDPARSERPARAMS parameters{};
    bool begun = false;
    CUVIDEOFORMAT format{};
    int surfaces = 1;
    int next = 0;
    std::deque<Shown> kept;
  };

  static device::NvdecLibrary make_table() {
    device::NvdecLibrary table;
    table.get_caps = &get_caps;
    table.create_decoder = &create_decoder;
    table.destroy_decoder = &destroy_decoder;
    table.decode_picture = &decode_picture;
    table.get_status = &get_status;
    table.map = &map;
    table.unmap = &unmap;
    table.create_parser = &create_parser;
    table.parse = &parse;
    table.destroy_parser = &destroy_parser;
    return table;
  }

  static CUresult get_caps(CUVIDDECODECAPS* caps) {
    const Settings settings = instance().settings();
    const bool known = caps->eCodecType != cudaVideoCodec_VP8;
    caps->bIsSupported = settings.supported && known ? 1 : 0;
    caps->nNumNVDECs = 7;
    caps->nOutputFormatMask = settings.writes_nv12 ? 3 : 2;
    caps->nMaxWidth = caps->nMaxHeight = settings.most_side;
    caps->nMaxMBCount = 65536;
    caps->nMinWidth = caps->nMinHeight = 48;
    return answer(kOk);
  }

  static CUresult create_decoder(CUvideodecoder* handle, CUVIDDECODECREATEINFO* info) {
    FakeNvdec& self = instance();
    if (const Settings settings = self.settings(); settings.working) settings.working();
    const base::MutexLock lock(self.mutex_);
    if (static_cast<int>(self.sessions_.size()) >= self.settings_.most_sessions) return answer(kNoMemory);
    const Settings settings = self.settings_;
    const bool known = settings.supported && info->CodecType != cudaVideoCodec_VP8 && settings.writes_nv12;
    const bool fits = info->ulWidth >= 48 && info->ulWidth <= settings.most_side && info->ulHeight >= 48 &&
                      info->ulHeight <= settings.most_side;
    if (!known || !fits) return answer(kInvalid);
    auto session = std::make_shared<Session>();
    session->info = *info;
    *handle = reinterpret_cast<CUvideodecoder>(session.get());
    self.sessions_.emplace(*handle, std::move(session));
    ++self.made_;
    return answer(kOk);
  }
  static CUresult destroy_decoder(CUvideodecoder handle) {
    FakeNvdec& self = instance();
    if (const Settings settings = self.settings(); settings.working) settings.working();
    const base::MutexLock lock(self.mutex_);
    return answer(self.sessions_.erase(handle) == 1 ? kOk : kInvalid);
  }
  static CUresult decode_picture(CUvideodecoder handle, CUVIDPICPARAMS* picture) {
    FakeNvdec& self = instance();
    const base::MutexLock lock(self.mutex_);
    const auto found = self.sessions_.find(handle);
    if (found == self.sessions_.end() || !self.settings_.decodes) return answer(kInvalid);
    if (picture->CurrPicIdx >= static_cast<int>(found->second->info.ulNumDecodeSurfaces)) return answer(kInvalid);
    found->second->pictures[picture->CurrPicIdx] = picture->pBitstreamData[picture->nBitstreamDataLen - 1];
    return answer(kOk);
  }
  static CUresult get_status(CUvideodecoder, int, CUVIDGETDECODESTATUS* status) {
    FakeNvdec& self = instance();
    const base::MutexLock lock(self.mutex_);
    status->decodeStatus = self.asked_++ < self.settings_.asks ? cuvidDecodeStatus_InProgress
                           : self.settings_.damaged            ? cuvidDecodeStatus_Error
                                                               : cuvidDecodeStatus_Success;
    return answer(kOk);
  }
  static CUresult map(CUvideodecoder handle, int surface, unsigned long long* address, unsigned* pitch,
                      CUVIDPROCPARAMS*) {
    FakeNvdec& self = instance();
    if (const Settings settings = self.settings(); settings.mapping) settings.mapping();
    const base::MutexLock lock(self.mutex_);
    const auto found = self.sessions_.find(handle);
    if (found == self.sessions_.end() || !self.settings_.maps) return answer(kInvalid);
    Session& session = *found->second;
    if (session.mapped.size() >= session.info.ulNumOutputSurfaces) return answer(kInvalid);
    *pitch = std::max(self.settings_.pitch, static_cast<unsigned>(session.info.ulTargetWidth));
    auto pixels = std::make_unique<std::vector<unsigned char>>(
        std::size_t{*pitch} * session.info.ulTargetHeight * 3 / 2, session.pictures[surface]);
    *address = reinterpret_cast<unsigned long long>(pixels->data());
    session.mapped.emplace(*address, std::move(pixels));
    return answer(kOk);
  }
  static CUresult unmap(CUvideodecoder handle, unsigned long long address) {
    FakeNvdec& self = instance();
    const base::MutexLock lock(self.mutex_);
    const auto found = self.sessions_.find(handle);
    if (found == self.sessions_.end()) return answer(kInvalid);
    return answer(found->second->mapped.erase(address) == 1 ? kOk : kInvalid);
  }

  static CUresult create_parser(CUvideoparser* handle, CUVIDPARSERPARAMS* parameters) {
    auto parser = std::make_unique<Parser>();
    parser->parameters = *parameters;
    *handle = parser.release();
    return answer(kOk);
  }
  static CUresult destroy_parser(CUvideoparser handle) {
    delete static_cast<Parser*>(handle);
    return answer(kOk);
  }
  static CUresult parse(CUvideoparser handle, CUVIDSOURCEDATAPACKET* packet) {
    auto& parser = *static_cast<Parser*>(handle);
    if (packet->payload_size > 0 && !take(parser, *packet)) return answer(kInvalid);
    const bool ends = (packet->flags & CUVID_PKT_ENDOFSTREAM) != 0;
    while (parser.kept.size() > (ends ? 0 : instance().settings().delay)) {
      CUVIDPARSERDISPINFO shown{};
      shown.picture_index = parser.kept.front().surface;
      shown.progressive_frame = 1;
      shown.timestamp = parser.kept.front().time;
      parser.kept.pop_front();
      if (parser.parameters.pfnDisplayPicture(parser.parameters.pUserData, &shown) == 0) return answer(kInvalid);
    }
    if (ends) parser.begun = false;
    return answer(kOk);
  }

  static bool take(Parser& parser, const CUVIDSOURCEDATAPACKET& packet) {
    const std::string text(reinterpret_cast<const char*>(packet.payload),
                           std::min<std::size_t>(packet.payload_size, 80));
    const bool says = text.rfind("stream ", 0) == 0;
    if ((says || !parser.begun) && !begin(parser, says ? text : "")) return false;
    CUVIDPICPARAMS picture{};
    picture.CurrPicIdx = parser.next;
    parser.next = (parser.next + 1) % parser.surfaces;
    picture.pBitstreamData = packet.payload;
    picture.nBitstreamDataLen = static_cast<unsigned>(packet.payload_size);
    static constexpr unsigned kWholeUnit = 0;
    picture.nNumSlices = 1;
    picture.pSliceDataOffsets = &kWholeUnit;
    if (parser.parameters.pfnDecodePicture(parser.parameters.pUserData, &picture) == 0) return false;
    // As the driver does (580.159, H200): the picture of a unit with this flag is decoded and never shown.
    if ((packet.flags & CUVID_PKT_DISCONTINUITY) != 0) return true;
    parser.kept.push_back({picture.CurrPicIdx, packet.timestamp});
    return true;
  }
  static bool begin(Parser& parser, const std::string& text) {
    const Settings settings = instance().settings();
    const auto says = [&text](const char* word) { return text.find(word) != std::string::npos; };
    int width = settings.width;
    int height = settings.height;
    unsigned surfaces = 4;
    // NOLINTBEGIN(cert-err34-c): the tests' own numbers
    if (!text.empty()) (void)std::sscanf(text.c_str(), "stream %dx%d", &width, &height);
    if (says(" surfaces=")) (void)std::sscanf(text.c_str() + text.find(" surfaces="), " surfaces=%u", &surfaces);
    // NOLINTEND(cert-err34-c)
    CUVIDEOFORMAT format{};
    format.codec = parser.parameters.CodecType;
    format.progressive_sequence = says(" interlaced") ? 0 : 1;
    format.bit_depth_luma_minus8 = format.bit_depth_chroma_minus8 = says(" 10bit") ? 2 : 0;
    format.chroma_format = says(" 444") ? cudaVideoChromaFormat_444 : cudaVideoChromaFormat_420;
    format.min_num_decode_surfaces = static_cast<unsigned char>(surfaces);
    format.coded_width = static_cast<unsigned>((width + 15) / 16 * 16);
    format.coded_height = static_cast<unsigned>((height + 15) / 16 * 16);
    format.display_area.right = width;
    format.display_area.bottom = height;
    format.video_signal_description.matrix_coefficients = says(" bt709") ? 1 : 2;
    format.video_signal_description.video_full_range_flag = says(" full") ? 1 : 0;
    const int answered = parser.parameters.pfnSequenceCallback(parser.parameters.pUserData, &format);
    if (answered == 0) return false;
    parser.begun = true;
    parser.surfaces = answered > 1 ? answered : 1;
    parser.next = 0;
    parser.kept.clear();
    return true;
  }

  base::Mutex mutex_;
  Settings settings_ CAMD_GUARDED_BY(mutex_);
  std::map<CUvideodecoder, std::shared_ptr<Session>> sessions_ CAMD_GUARDED_BY(mutex_);
  int made_ CAMD_GUARDED_BY(mutex_) = 0;
  int asked_ CAMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace camd::test
