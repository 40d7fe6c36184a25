// Reads one code from its patch: the payload of a QR code, or a marker's family, number and turn.
//
// Threads: one caller at a time.
// Invariants: a marker is read when its bits are those of the family exactly; nothing is corrected, as another frame
//   comes soon. Reading allocates.
#pragma once

#include <opencv2/aruco/dictionary.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/codes/patch.hpp"

namespace camd::plugins::codes {

// All that can be read, for messages: "apriltag_16h5", ..., "aruco_4x4_50", ...
[[nodiscard]] std::vector<std::string> family_names();

struct MarkerRead {
  std::string text;  // "aruco_4x4_50:27"
  int turn = 0;      // the marker's own first corner is corner (turn) of those that it was cut out by
};

class Reader {
 public:
  // Throws std::invalid_argument for a name that is none.
  explicit Reader(const std::vector<std::string>& families);

  // UTF-8; nothing when it cannot be read. By ZXing.
  [[nodiscard]] std::optional<std::string> qr(const camd_picture& picture, const Corners& corners);
  // By the dictionaries of OpenCV's aruco.
  [[nodiscard]] std::optional<MarkerRead> marker(const camd_picture& picture, const Corners& corners);

 private:
  struct Family {
    std::string name;
    cv::aruco::Dictionary dictionary;
  };
  [[nodiscard]] std::optional<MarkerRead> identify(const camd_picture& picture, const Corners& corners);
  [[nodiscard]] bool read_bits(const cv::Mat& patch, int bits, cv::Mat& to) const;

  std::vector<Family> families_;
  cv::Mat patch_, wide_, bits_;
};

}  // namespace camd::plugins::codes
