#include "plugins/frame_json.hpp"

#include <fmt/compile.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>

namespace camd::plugins {
namespace {

// Bytes of the character that `text` begins with (Unicode 15, table 3-7); 0 when it begins with none. `text` is not
// empty.
std::size_t utf8_bytes(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = at(0);
  if (lead < 0x80U) return 1;
  const std::size_t bytes = lead >= 0xC2U && lead <= 0xDFU   ? 2U
                            : lead >= 0xE0U && lead <= 0xEFU ? 3U
                            : lead >= 0xF0U && lead <= 0xF4U ? 4U
                                                             : 0U;
  // What a second byte must lie in, so that nothing is longer than it needs to be, a surrogate, or above U+10FFFF.
  const unsigned low = lead == 0xE0U ? 0xA0U : lead == 0xF0U ? 0x90U : 0x80U;
  const unsigned high = lead == 0xEDU ? 0x9FU : lead == 0xF4U ? 0x8FU : 0xBFU;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (at(i) < (i == 1 ? low : 0x80U) || at(i) > (i == 1 ? high : 0xBFU)) return 0;
  }
  return bytes;
}

// What does not stand for itself in a JSON string, or may not be UTF-8.
bool is_special(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20U || byte >= 0x80U || c == '"' || c == '\\';
}

// Pixels to a hundredth: finer than any detector, and a third of the bytes.
void put_pixels(JsonBuffer& out, float value) {
  const double rounded = std::round(static_cast<double>(value) * 100.0) / 100.0;
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("{}"), rounded == 0.0 ? 0.0 : rounded);
  // fmt writes 12.0 as "12": a number all the same.
}

// False from a camd that does not tell.
bool has_flag(const camd_frame& frame, std::uint32_t flag) {
  return CAMD_HAS_MEMBER(camd_frame, &frame, flags) && (frame.flags & flag) != 0;
}

// 0 from a camd that does not tell.
std::int64_t uncertainty_us(const camd_frame& frame) {
  return CAMD_HAS_MEMBER(camd_frame, &frame, captured_uncertainty_ns) ? frame.captured_uncertainty_ns / 1000 : 0;
}

void put_detection(JsonBuffer& out, const camd_detection& detection) {
  put(out, "{\"class\":");
  put_string(out, detection.class_name);
  if (detection.track_id != 0)
    fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"track_id\":{}"), detection.track_id);
  if (detection.text[0] != '\0') {
    put(out, ",\"text\":");
    put_string(out, detection.text);
  }
  fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"class_id\":{},\"score\":{:.4f},\"box\":["),
                 detection.class_id, detection.score);
  for (int i = 0; i < 4; ++i) {
    if (i > 0) out.push_back(',');
    put_pixels(out, detection.box[i]);
  }
  put(out, "],\"keypoints\":[");
  for (int k = 0; k < detection.keypoint_count; ++k) {
    put(out, k > 0 ? ",[" : "[");
    put_pixels(out, detection.keypoints[k][0]);
    out.push_back(',');
    put_pixels(out, detection.keypoints[k][1]);
    out.push_back(']');
  }
  put(out, "]}");
}

}  // namespace

void put(JsonBuffer& out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

void put_string(JsonBuffer& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    // Almost always all of it is plain.
    const auto plain = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), is_special) - text.begin());
    put(out, text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const char c = text.front();
    const auto byte = static_cast<unsigned char>(c);
    std::size_t bytes = 1;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20U) {
      fmt::format_to(std::back_inserter(out), FMT_COMPILE("\\u{:04x}"), byte);
    } else if (bytes = utf8_bytes(text); bytes > 0) {
      put(out, text.substr(0, bytes));
    } else {
      put(out, "\xEF\xBF\xBD");
      bytes = 1;
    }
    text.remove_prefix(bytes);
  }
  out.push_back('"');
}

void put_time(JsonBuffer& out, std::int64_t unix_ns) {
  std::int64_t seconds = unix_ns / 1'000'000'000, rest = unix_ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  const std::time_t time = seconds;
  std::tm utc{};
  gmtime_r(&time, &utc);
  fmt::format_to(std::back_inserter(out), FMT_COMPILE("\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z\""),
                 utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, rest / 1000);
}

void put_event(JsonBuffer& out, const camd_event& event) {
  put(out, "{\"name\":");
  put_string(out, event.name);
  if (event.track_id != 0) fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"track_id\":{}"), event.track_id);
  if (event.zone[0] != '\0') {
    put(out, ",\"zone\":");
    put_string(out, event.zone);
  }
  for (int i = 0; i < event.number_count; ++i) {
    put(out, i > 0 ? "," : ",\"numbers\":{");
    put_string(out, event.numbers[i].name);
    fmt::format_to(std::back_inserter(out), FMT_COMPILE(":{}"), event.numbers[i].value);
  }
  put(out, event.number_count > 0 ? "}}" : "}");
}

void put_event_head(JsonBuffer& out, const camd_frame& frame) {
  put(out, "{\"camera\":");
  put_string(out, frame.camera);
  fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"seq\":{},\"time\":"), frame.sequence);
  put_time(out, frame.captured_unix_ns);
  put(out, ",\"event\":");
}

void put_frame(JsonBuffer& out, const camd_frame& frame, const camd::plugin::Results& results,
               const camd::plugin::Events& events, std::int64_t now_ns) {
  put(out, "{\"camera\":");
  put_string(out, frame.camera);
  fmt::format_to(std::back_inserter(out), FMT_COMPILE(",\"seq\":{},\"captured_mono_ns\":{},\"time\":"), frame.sequence,
                 frame.captured_mono_ns);
  put_time(out, frame.captured_unix_ns);
  fmt::format_to(std::back_inserter(out),
                 FMT_COMPILE(",\"latency_us\":{},\"captured_uncertainty_us\":{},\"width\":{},\"height\":{},"),
                 (now_ns - frame.captured_mono_ns) / 1000, uncertainty_us(frame), frame.width, frame.height);
  put(out, has_flag(frame, CAMD_FRAME_DAMAGED) ? "\"damaged\":true,\"detections\":[" : "\"detections\":[");
  bool first = true;
  for (const camd_detection& detection : results) {
    if (!first) out.push_back(',');
    first = false;
    put_detection(out, detection);
  }
  put(out, "]");
  if (has_flag(frame, CAMD_FRAME_INCOMPLETE)) put(out, ",\"complete\":false");
  first = true;
  for (const camd_event& event : events) {
    put(out, first ? ",\"events\":[" : ",");
    first = false;
    put_event(out, event);
  }
  put(out, first ? "}" : "]}");
}

}  // namespace camd::plugins
