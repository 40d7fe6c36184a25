// The 80 class names of COCO (cocodataset.org) in the order in which detectors number them: `classes: coco`.
//
// Threads: [setup].
#pragma once

#include <string>
#include <vector>

namespace camd::plugins {

[[nodiscard]] std::vector<std::string> coco_classes();

}  // namespace camd::plugins
