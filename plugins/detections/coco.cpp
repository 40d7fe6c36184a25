// The list of COCO's class names.
#include "plugins/detections/coco.hpp"

#include <array>
#include <cstddef>

namespace camd::plugins {

std::vector<std::string> coco_classes() {
  return {
      "person",         "bicycle",    "car",           "motorcycle",    "airplane",     "bus",           "train",
      "truck",          "boat",       "traffic light", "fire hydrant",  "stop sign",    "parking meter", "bench",
      "bird",           "cat",        "dog",           "horse",         "sheep",        "cow",           "elephant",
      "bear",           "zebra",      "giraffe",       "backpack",      "umbrella",     "handbag",       "tie",
      "suitcase",       "frisbee",    "skis",          "snowboard",     "sports ball",  "kite",          "baseball bat",
      "baseball glove", "skateboard", "surfboard",     "tennis racket", "bottle",       "wine glass",    "cup",
      "fork",           "knife",      "spoon",         "bowl",          "banana",       "apple",         "sandwich",
      "orange",         "broccoli",   "carrot",        "hot dog",       "pizza",        "donut",         "cake",
      "chair",          "couch",      "potted plant",  "bed",           "dining table", "toilet",        "tv",
      "laptop",         "mouse",      "remote",        "keyboard",      "cell phone",   "microwave",     "oven",
      "toaster",        "sink",       "refrigerator",  "book",          "clock",        "vase",          "scissors",
      "teddy bear",     "hair drier", "toothbrush"};
}

std::vector<std::string> coco_classes_by_id() {
  constexpr std::array<std::size_t, 11> kLeftOut = {0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83};
  std::vector<std::string> names = coco_classes();
  for (const std::size_t id : kLeftOut)
    names.insert(names.begin() + static_cast<std::ptrdiff_t>(id), "class" + std::to_string(id));
  return names;
}

}  // namespace camd::plugins
