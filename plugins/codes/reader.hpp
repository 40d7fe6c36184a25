// Reads one code from its patch: the payload of a QR code, or a marker's family, number and turn.
//
// Threads: one caller at a time.
// Invariants: a marker is read when its bits are those of the family exactly; nothing is corrected, as another frame
//   comes soon. Reading allocates.
#pragma once

#include <cstdint>
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

// How a QR code is looked at: as most are read, in two more ways that read some of the others, or in all four.
enum class Looks : std::uint8_t { kUsual, kOther, kAll };

class Reader {
 public:
  // Throws std::invalid_argument for a name that is none.
  explicit Reader(const std::vector<std::string>& families);

  // UTF-8; nothing when it cannot be read. By ZXing.
  [[nodiscard]] std::optional<std::string> qr(const camd_picture& picture, const Corners& corners,
                                              Looks looks = Looks::kAll);
  // By the dictionaries of OpenCV's aruco.
  [[nodiscard]] std::optional<MarkerRead> marker(const camd_picture& picture, const Corners& corners);

 private:
  struct Family {
    std::string name;
    cv::aruco::Dictionary dictionary;
  };
  struct Look {
    float margin = 0.0F;  // around the code, as a share of its side
    float scale = 1.0F;   // pixels of the patch for one of the picture's
    bool one_threshold = false;
    int most = 720;  // pixels of the patch's side
  };
  [[nodiscard]] std::optional<std::string> look(const camd_picture& picture, const Corners& corners, const Look& how);
  [[nodiscard]] std::optional<MarkerRead> identify(const camd_picture& picture, const Corners& corners);
  [[nodiscard]] bool read_bits(const cv::Mat& patch, int bits, cv::Mat& to) const;

  std::vector<Family> families_;
  cv::Mat patch_, wide_, bits_;
};

}  // namespace camd::plugins::codes
