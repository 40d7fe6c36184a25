// The 80 class names of COCO (cocodataset.org) in the order in which detectors number them: `classes: coco`, and
// `classes: coco91`.
//
// Threads: [setup], functions of their arguments.
#pragma once

#include <string>
#include <vector>

namespace camd::plugins {

[[nodiscard]] std::vector<std::string> coco_classes();

// The same by COCO's ids, which run from 1 to 90 and leave eleven out: 91 names, of which those that nothing has are
// "class0", "class12", ... Detectors of Facebook's count so, and what came of them.
[[nodiscard]] std::vector<std::string> coco_classes_by_id();

}  // namespace camd::plugins
