// The bound on the size of pictures. A stream can name any size in a few bytes, and decoders allocate memory for it at
// once: a file of 0.75 MB made one take 4.5 GB. So the size is judged where it is first named, before anything is
// allocated for it, and by us, so that what the user reads does not depend on which element complains first.
//
// Threads: functions [setup]; the judging itself happens on GStreamer's streaming threads.
#pragma once

#include <gst/gst.h>

#include <cstdint>
#include <string>

namespace camd::capture {

// More pixels a side are refused whatever the area: preprocessing and decoders do not take them.
inline constexpr int kMostPixelsASide = 16384;

// What is wrong with pictures of this size, in one line; "" when they may be taken.
[[nodiscard]] std::string size_problem(int width, int height, int most_megapixels);

// Watches every video decoder that the pipeline has or will have, and `sink`. When one of them is about to get, or to
// give, pictures of a size that size_problem() refuses, the pipeline fails: an error message that says so is posted
// first, then the caps are refused. To be called once, before the pipeline leaves state NULL.
void bound_pictures(GstElement* pipeline, GstElement* sink, int most_megapixels);

}  // namespace camd::capture
