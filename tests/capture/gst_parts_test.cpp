// The parts that GStreamer sources are made of: stamps, back-off, masking, pictures.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "base/semaphore.hpp"
#include "capture/backoff.hpp"
#include "capture/file_pace.hpp"
#include "capture/gst_connection.hpp"
#include "capture/gst_decoding.hpp"
#include "capture/gst_picture.hpp"
#include "capture/gst_pipelines.hpp"
#include "capture/gst_size_bound.hpp"
#include "capture/gst_support.hpp"
#include "capture/rtsp_sockets.hpp"
#include "capture/silence.hpp"
#include "capture/state_worker.hpp"
#include "capture/test_pattern.hpp"
#include "capture_fixtures.hpp"
#include "clips.hpp"
#include "device/host_device.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::from_ns;
using std::chrono::milliseconds;

TEST(FilePace, FramesAreDueByTheirDistanceFromTheFirst) {
  FilePace pace;
  const auto now = from_ns(5'000'000'000);
  EXPECT_EQ(pace.due(milliseconds(66), milliseconds(33), now), now);
  EXPECT_EQ(pace.due(milliseconds(99), milliseconds(33), now + milliseconds(5)), now + milliseconds(33));
  EXPECT_EQ(pace.due(milliseconds(266), milliseconds(33), now + milliseconds(300)), now + milliseconds(200));
  EXPECT_FALSE(pace.moved());
}

TEST(FilePace, AnotherRoundFollowsOneFrameLater) {
  FilePace pace;
  const auto now = from_ns(5'000'000'000);
  EXPECT_EQ(pace.due(milliseconds(10), milliseconds(40), now), now);
  EXPECT_EQ(pace.due(milliseconds(50), milliseconds(40), now), now + milliseconds(40));
  pace.start_round();
  EXPECT_EQ(pace.due(milliseconds(10), milliseconds(40), now), now + milliseconds(80));
  EXPECT_EQ(pace.due(milliseconds(50), milliseconds(40), now), now + milliseconds(120));
}

TEST(FilePace, TakesTheLastStepWhereTheClipGivesNoDurations) {
  FilePace pace;
  const auto now = from_ns(5'000'000'000);
  (void)pace.due(milliseconds(0), base::Duration::zero(), now);
  (void)pace.due(milliseconds(100), base::Duration::zero(), now);
  pace.start_round();
  EXPECT_EQ(pace.due(milliseconds(0), base::Duration::zero(), now), now + milliseconds(200));
  EXPECT_EQ(pace.due(std::nullopt, base::Duration::zero(), now), now + milliseconds(300));
}

TEST(FilePace, MovesTheScheduleWhenMoreThanASecondLate) {
  FilePace pace;
  const auto now = from_ns(5'000'000'000);
  (void)pace.due(milliseconds(0), milliseconds(40), now);
  EXPECT_EQ(pace.due(milliseconds(40), milliseconds(40), now + milliseconds(1000)), now + milliseconds(40));
  EXPECT_FALSE(pace.moved());
  EXPECT_EQ(pace.due(milliseconds(80), milliseconds(40), now + milliseconds(2080)), now + milliseconds(2080));
  EXPECT_TRUE(pace.moved());
  EXPECT_EQ(pace.due(milliseconds(120), milliseconds(40), now + milliseconds(2081)), now + milliseconds(2120));
}

TEST(OwnStops, AreWhatAWaitTookTooLong) {
  OwnStops stops;
  const auto begun = from_ns(5'000'000'000);
  stops.begin(begun);
  EXPECT_EQ(stops.look(begun + milliseconds(1000), milliseconds(1000)), milliseconds(0));
  EXPECT_EQ(stops.look(begun + milliseconds(12'000), milliseconds(1000)), milliseconds(10'000));
  EXPECT_EQ(stops.look(begun + milliseconds(12'300), milliseconds(1000)), milliseconds(0));
}

TEST(OwnStops, AreNoneWhereABusyMachineIsLate) {
  OwnStops stops;
  const auto begun = from_ns(5'000'000'000);
  stops.begin(begun);
  EXPECT_EQ(stops.look(begun + milliseconds(1900), milliseconds(1000)), milliseconds(0));
}

TEST(Silence, CountsFromTheLastPicture) {
  Silence silence;
  const auto begun = from_ns(5'000'000'000);
  silence.begin(begun);
  EXPECT_EQ(silence.look(begun + milliseconds(900), from_ns(0), milliseconds(0)), milliseconds(900));
  EXPECT_EQ(silence.look(begun + milliseconds(1900), from_ns(0), milliseconds(0)), milliseconds(1900));
  EXPECT_EQ(silence.look(begun + milliseconds(2900), begun + milliseconds(2400), milliseconds(0)), milliseconds(500));
}

TEST(Silence, DoesNotBlameTheCameraForTimeInWhichCamdDidNotRun) {
  Silence silence;
  const auto begun = from_ns(5'000'000'000);
  silence.begin(begun);
  const auto shown = begun + milliseconds(900);
  EXPECT_EQ(silence.look(begun + milliseconds(1000), shown, milliseconds(0)), milliseconds(100));
  EXPECT_EQ(silence.look(begun + milliseconds(12'000), shown, milliseconds(10'000)), milliseconds(1100));
  EXPECT_EQ(silence.look(begun + milliseconds(13'000), shown, milliseconds(0)), milliseconds(2100));
}

TEST(Silence, CountsFromThePictureThatCameAfterAStop) {
  Silence silence;
  const auto begun = from_ns(5'000'000'000);
  silence.begin(begun);
  const auto shown = begun + milliseconds(11'000);  // out of the backlog
  EXPECT_EQ(silence.look(begun + milliseconds(11'100), shown, milliseconds(10'000)), milliseconds(0));
  EXPECT_EQ(silence.look(begun + milliseconds(12'000), shown, milliseconds(0)), milliseconds(900));
}

TEST(Backoff, DoublesUpToItsLongestWaitWithAFifthOfJitter) {
  Backoff backoff(milliseconds(500), std::chrono::seconds(10), 1);
  for (const int expected_ms : {500, 1000, 2000, 4000, 8000}) {
    const base::Duration wait = backoff.next();
    EXPECT_GE(wait, milliseconds(expected_ms) * 8 / 10);
    EXPECT_LE(wait, milliseconds(expected_ms) * 12 / 10);
  }
  for (int i = 0; i < 100; ++i) EXPECT_LE(backoff.next(), std::chrono::seconds(10));
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds(600));
}

TEST(Backoff, DiffersBetweenCameras) {
  Backoff one(milliseconds(500), std::chrono::seconds(10), 1);
  Backoff other(milliseconds(500), std::chrono::seconds(10), 2);
  EXPECT_NE(one.next(), other.next());
}

TEST(MaskCredentials, HidesPasswordsWhereverTheyStand) {
  EXPECT_EQ(mask_credentials("rtsp://user:secret@host:554/a"), "rtsp://user:***@host:554/a");
  EXPECT_EQ(mask_credentials("cannot open rtsp://u:p@ss@h/x and http://a:b@c."),
            "cannot open rtsp://u:***@h/x and http://a:***@c.");
  EXPECT_EQ(mask_credentials("location=\"rtsp://u:p@h\" latency=0"), "location=\"rtsp://u:***@h\" latency=0");
  EXPECT_EQ(mask_credentials("rtsp://host:554/a@b"), "rtsp://host:554/a@b");
  EXPECT_EQ(mask_credentials("rtsp://user@host/"), "rtsp://user@host/");
  EXPECT_EQ(mask_credentials("no address"), "no address");
}

TEST(StateWorker, GivesUpOnAnElementThatHangsAndGoesOnWithItInOrder) {
  init_gstreamer();
  const testing::TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  GError* error = nullptr;
  // Opening a pipe for reading hangs until somebody opens it for writing.
  GstElement* const made = gst_parse_launch(("filesrc location=" + pipe + " ! fakesink").c_str(), &error);
  ASSERT_EQ(error, nullptr);
  const GstOwned<GstElement> pipeline(made);
  StateWorker worker;
  EXPECT_EQ(worker.change(pipeline.get(), GST_STATE_PLAYING, milliseconds(50)), StateChange::kHung);
  EXPECT_EQ(worker.change(pipeline.get(), GST_STATE_NULL, milliseconds(50)), StateChange::kHung);
  EXPECT_FALSE(worker.wait_idle(milliseconds(0)));
  ::close(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC));  // at once: a read from a pipe that is open would hang as well
  EXPECT_TRUE(worker.wait_idle(std::chrono::seconds(20)));
  EXPECT_EQ(worker.change(pipeline.get(), GST_STATE_NULL, std::chrono::seconds(20)), StateChange::kDone);
}

// Fails where it is to go down from paused, so many times.
class RefusingElement {
 public:
  static GstElement* make(int refusals) {
    static const GTypeInfo info{sizeof(GstElementClass),
                                nullptr,
                                nullptr,
                                &RefusingElement::set_up_class,
                                nullptr,
                                nullptr,
                                sizeof(GstElement),
                                0,
                                nullptr,
                                nullptr};
    static const GType type =
        g_type_register_static(GST_TYPE_ELEMENT, "CamdRefusingElement", &info, static_cast<GTypeFlags>(0));
    refusals_left() = refusals;
    return GST_ELEMENT(g_object_new(type, nullptr));
  }
  static std::atomic<int>& refusals_left() {
    static std::atomic<int> left = 0;
    return left;
  }

 private:
  static void set_up_class(gpointer type, gpointer) {
    gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(type), "refusing", "Test", "Refuses", "camd");
    GST_ELEMENT_CLASS(type)->change_state = [](GstElement* element, GstStateChange change) {
      if (change == GST_STATE_CHANGE_PAUSED_TO_READY && refusals_left() > 0 && refusals_left()-- > 0) {
        return GST_STATE_CHANGE_FAILURE;
      }
      return GST_ELEMENT_CLASS(g_type_class_peek(GST_TYPE_ELEMENT))->change_state(element, change);
    };
  }
};

TEST(StateWorker, AsksAPipelineAgainWhoseElementFailsOnTheWayDown) {
  init_gstreamer();
  const GstOwned<GstElement> pipeline(GST_ELEMENT(gst_object_ref_sink(gst_pipeline_new(nullptr))));
  GstElement* const other = gst_element_factory_make("identity", nullptr);
  gst_bin_add_many(GST_BIN(pipeline.get()), other, RefusingElement::make(2), nullptr);
  StateWorker worker;
  EXPECT_EQ(worker.change(pipeline.get(), GST_STATE_PAUSED, std::chrono::seconds(20)), StateChange::kDone);
  EXPECT_EQ(worker.change(pipeline.get(), GST_STATE_NULL, std::chrono::seconds(20)), StateChange::kDone);
  EXPECT_EQ(RefusingElement::refusals_left(), 0);
  EXPECT_EQ(GST_STATE(pipeline.get()), GST_STATE_NULL);
  EXPECT_EQ(GST_STATE(other), GST_STATE_NULL);
}

TEST(StateWorker, KeepsAPipelineThatDoesNotGoDown) {
  init_gstreamer();
  GstElement* const pipeline = GST_ELEMENT(gst_object_ref_sink(gst_pipeline_new(nullptr)));
  gst_bin_add(GST_BIN(pipeline), RefusingElement::make(1'000'000));
  StateWorker worker;
  EXPECT_EQ(worker.change(pipeline, GST_STATE_PAUSED, std::chrono::seconds(20)), StateChange::kDone);
  EXPECT_EQ(worker.change(pipeline, GST_STATE_NULL, std::chrono::seconds(20)), StateChange::kFailed);
  GstBus* const bus = gst_element_get_bus(pipeline);
  gst_bus_set_flushing(bus, TRUE);  // its messages hold the pipeline, too
  gst_object_unref(bus);
  EXPECT_EQ(GST_OBJECT_REFCOUNT_VALUE(pipeline), 2);  // ours, and the one that keeps it
  EXPECT_TRUE(left_threads_behind());
  RefusingElement::refusals_left() = 0;
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(pipeline);
  gst_object_unref(pipeline);
}

// ---- Pictures

TEST(SizeProblem, BoundsTheSidesAndTheArea) {
  EXPECT_EQ(size_problem(1, 1, 1), "");
  EXPECT_EQ(size_problem(8000, 8000, 64), "");
  EXPECT_EQ(size_problem(16384, 3906, 64), "");
  EXPECT_EQ(size_problem(16384, 16384, 268),
            "pictures of 16384x16384 pixels are refused: 1 to 16384 pixels a side and 268 megapixels (max_megapixels) "
            "are allowed");
  for (const auto& [width, height] :
       {std::pair{8000, 8001}, {16385, 1}, {1, 16385}, {0, 16}, {16, -1}, {65535, 65535}}) {
    EXPECT_NE(size_problem(width, height, 64), "") << width << "x" << height;
  }
}

struct PictureCase {
  const char* format;
  base::PixelFormat expected;
};

class GstPictureTest : public ::testing::TestWithParam<std::tuple<PictureCase, bool>> {
 protected:
  void SetUp() override { init_gstreamer(); }
  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
  testing::CountingObserver observer_;
  FrameRing ring_{*device_, observer_, FrameRing::Options{}};
};

// A sample with padded rows and a gap between planes, as decoders give them.
GstOwned<GstSample> padded_sample(const char* format, const base::PictureLayout& tight, const TestStamp& stamp,
                                  bool separate_memories) {
  base::PictureLayout padded = tight;
  std::size_t offset = 0;
  GstBuffer* const buffer = gst_buffer_new();
  for (int p = 0; p < padded.plane_count; ++p) {
    base::Plane& plane = padded.planes[static_cast<std::size_t>(p)];
    plane.offset_bytes = offset;
    plane.stride_bytes += 48;
    offset += static_cast<std::size_t>(plane.stride_bytes) * static_cast<std::size_t>(plane.height) + 64;
  }
  padded.size_bytes = offset;
  std::vector<std::byte> pixels(padded.size_bytes);
  TestPattern(padded).draw(pixels, stamp.sequence);
  EXPECT_TRUE(stamp_test_pattern(padded, pixels, stamp));
  if (separate_memories) {
    for (int p = 0; p < padded.plane_count; ++p) {
      const std::size_t from = padded.planes[static_cast<std::size_t>(p)].offset_bytes;
      const std::size_t to =
          p + 1 < padded.plane_count ? padded.planes[static_cast<std::size_t>(p + 1)].offset_bytes : offset;
      GstBuffer* const part = gst_buffer_new_memdup(pixels.data() + from, to - from);
      gst_buffer_append_memory(buffer, gst_buffer_get_memory(part, 0));
      gst_buffer_unref(part);
    }
  } else {
    GstBuffer* const whole = gst_buffer_new_memdup(pixels.data(), pixels.size());
    gst_buffer_append_memory(buffer, gst_buffer_get_memory(whole, 0));
    gst_buffer_unref(whole);
  }
  gsize offsets[GST_VIDEO_MAX_PLANES] = {};
  gint strides[GST_VIDEO_MAX_PLANES] = {};
  for (int p = 0; p < padded.plane_count; ++p) {
    offsets[p] = padded.planes[static_cast<std::size_t>(p)].offset_bytes;
    strides[p] = padded.planes[static_cast<std::size_t>(p)].stride_bytes;
  }
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, gst_video_format_from_string(format),
                                 static_cast<guint>(tight.width), static_cast<guint>(tight.height),
                                 static_cast<guint>(tight.plane_count), offsets, strides);
  const GstOwned<GstCaps> caps(gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, format, "width", G_TYPE_INT,
                                                   tight.width, "height", G_TYPE_INT, tight.height, nullptr));
  GstOwned<GstSample> sample(gst_sample_new(buffer, caps.get(), nullptr, nullptr));
  gst_buffer_unref(buffer);
  return sample;
}

TEST_P(GstPictureTest, ArrivesWithItsPixelsBorrowedOrCopied) {
  const auto& [one, may_borrow] = GetParam();
  const auto tight = base::tight_layout(one.expected, 322, 242);
  const TestStamp stamp{77, 12345};
  for (const bool separate : {false, true}) {
    const auto sample = padded_sample(one.format, tight, stamp, separate);
    auto fill = ring_.begin();
    ASSERT_TRUE(fill);
    EXPECT_EQ(fill_from_sample(*fill, may_borrow, false, sample.get()), "");
    fill->publish(from_ns(1), from_ns(1));
    const auto lease = ring_.take();
    ASSERT_TRUE(lease);
    const Frame& frame = lease->frame();
    EXPECT_EQ(frame.layout.format, one.expected);
    EXPECT_EQ(frame.layout.width, 322);
    EXPECT_EQ(frame.layout.height, 242);
    EXPECT_EQ(frame.pixels.size(), frame.layout.size_bytes);
    EXPECT_EQ(read_test_pattern(frame.layout, frame.pixels), stamp);
    const bool borrowed = may_borrow && (!separate || tight.plane_count == 1);
    EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(gst_sample_get_buffer(sample.get())), borrowed ? 2 : 1);
    EXPECT_EQ(frame.layout.planes[0].stride_bytes, tight.planes[0].stride_bytes + (borrowed ? 48 : 0));
    if (!borrowed) {
      EXPECT_EQ(frame.layout.size_bytes, tight.size_bytes);
      std::vector<std::byte> expected(tight.size_bytes);
      TestPattern(tight).draw(expected, stamp.sequence);
      ASSERT_TRUE(stamp_test_pattern(tight, expected, stamp));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), frame.pixels.begin()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GstPictureTest,
                         ::testing::Combine(::testing::Values(PictureCase{"BGR", base::PixelFormat::kBgr},
                                                              PictureCase{"RGB", base::PixelFormat::kRgb},
                                                              PictureCase{"NV12", base::PixelFormat::kNv12},
                                                              PictureCase{"I420", base::PixelFormat::kI420},
                                                              PictureCase{"YUY2", base::PixelFormat::kYuy2},
                                                              PictureCase{"GRAY8", base::PixelFormat::kGray8}),
                                            ::testing::Bool()),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).format) +
                                  (std::get<1>(one.param) ? "Borrowed" : "Copied");
                         });

base::PictureLayout layout_for(const std::string& caps_text) {
  init_gstreamer();
  const GstOwned<GstCaps> caps(gst_caps_from_string(caps_text.c_str()));
  GstVideoInfo info;
  EXPECT_TRUE(gst_video_info_from_caps(&info, caps.get()));
  return layout_of(info, nullptr).value_or(base::PictureLayout{});
}

TEST(GstPicture, TakesMatrixAndRangeFromTheColorimetry) {
  const std::string nv12 = "video/x-raw,format=NV12,width=640,height=480,colorimetry=";
  EXPECT_EQ(layout_for(nv12 + "bt601").matrix, base::ColorMatrix::kBt601);
  EXPECT_FALSE(layout_for(nv12 + "bt601").full_range);
  EXPECT_EQ(layout_for(nv12 + "bt709").matrix, base::ColorMatrix::kBt709);
  EXPECT_EQ(layout_for(nv12 + "bt2020").matrix, base::ColorMatrix::kBt709);
  EXPECT_TRUE(layout_for(nv12 + "1:4:0:0").full_range);  // JPEG's
  EXPECT_EQ(layout_for(nv12 + "1:4:0:0").matrix, base::ColorMatrix::kBt601);
}

TEST(GstPicture, GuessesTheMatrixFromTheSizeWhereTheStreamIsSilent) {
  EXPECT_EQ(layout_for("video/x-raw,format=I420,width=640,height=480").matrix, base::ColorMatrix::kBt601);
  EXPECT_EQ(layout_for("video/x-raw,format=I420,width=1280,height=720").matrix, base::ColorMatrix::kBt709);
}

TEST(GstPicture, RefusesWhatItDoesNotKnowAndDropsTheFrameAsSourceError) {
  init_gstreamer();
  const auto device = device::make_host_device(base::system_clock());
  testing::CountingObserver observer;
  FrameRing ring(*device, observer, FrameRing::Options{});
  const GstOwned<GstCaps> caps(gst_caps_from_string("video/x-raw,format=AYUV,width=16,height=16"));
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, 1024, nullptr);
  const GstOwned<GstSample> sample(gst_sample_new(buffer, caps.get(), nullptr, nullptr));
  gst_buffer_unref(buffer);
  {
    auto fill = ring.begin();
    EXPECT_NE(fill_from_sample(*fill, true, false, sample.get()), "");
  }
  EXPECT_EQ(observer.dropped(RingDrop::kNotFilled), 1);
}

TEST(GstPicture, RefusesABufferThatIsSmallerThanItsPicture) {
  init_gstreamer();
  const auto device = device::make_host_device(base::system_clock());
  testing::CountingObserver observer;
  FrameRing ring(*device, observer, FrameRing::Options{});
  const GstOwned<GstCaps> caps(gst_caps_from_string("video/x-raw,format=GRAY8,width=64,height=64"));
  GstBuffer* const buffer = gst_buffer_new_allocate(nullptr, 1024, nullptr);
  const GstOwned<GstSample> sample(gst_sample_new(buffer, caps.get(), nullptr, nullptr));
  gst_buffer_unref(buffer);
  for (const bool may_borrow : {true, false}) {
    auto fill = ring.begin();
    EXPECT_NE(fill_from_sample(*fill, may_borrow, false, sample.get()), "");
  }
  EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(gst_sample_get_buffer(sample.get())), 1);
}

// A server that redirects for ever had hundreds of sockets open at a time.
TEST(WeakSocket, KeepsNoSocketOpen) {
  GSocket* const socket = g_socket_new(G_SOCKET_FAMILY_IPV4, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_TCP, nullptr);
  ASSERT_NE(socket, nullptr);
  const int descriptor = g_socket_get_fd(socket);
  const WeakSocket weak(socket);
  EXPECT_EQ(weak.get().get(), socket);
  g_object_unref(socket);
  EXPECT_EQ(weak.get(), nullptr);
  EXPECT_EQ(fcntl(descriptor, F_GETFD), -1);  // NOLINT: its third argument is not wanted
}

// ---- Decoders on the CPU

TEST(DecoderThreads, AreTheProcessorsShareOfEachCamera) {
  EXPECT_EQ(decoder_threads(1, 16), 0U);  // as many as the decoder likes
  EXPECT_EQ(decoder_threads(2, 16), 8U);
  EXPECT_EQ(decoder_threads(16, 16), 1U);
  EXPECT_EQ(decoder_threads(300, 16), 1U);
  EXPECT_EQ(decoder_threads(2, 0), 1U);  // not known how many there are
}

// 300 cameras of files had six threads each.
TEST(DecoderThreads, AreSaidToTheDecoderThatIsChosen) {
  init_gstreamer();
  const testing::TemporaryFolder folder;
  const auto path = folder / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (testing::ClipOptions{.frames = 3}));
  config::Camera camera;
  config::FileSource file;
  file.path = path;
  camera.source = file;
  Decoding decoding;
  decoding.mode = config::DecodeMode::kCpu;
  decoding.threads = 1;
  const BuiltPipeline built = build_pipeline(camera, 4, decoding);
  StateWorker worker;
  ASSERT_EQ(worker.change(built.pipeline.get(), GST_STATE_PAUSED, std::chrono::seconds(20)), StateChange::kDone);
  const GstOwned<GstSample> first(gst_app_sink_pull_preroll(GST_APP_SINK(built.sink.get())));
  ASSERT_TRUE(first);
  GstIterator* const decoders =
      gst_bin_iterate_all_by_element_factory_name(GST_BIN(built.pipeline.get()), "avdec_h264");
  GValue item = G_VALUE_INIT;
  ASSERT_EQ(gst_iterator_next(decoders, &item), GST_ITERATOR_OK);
  int threads = 0;
  g_object_get(g_value_get_object(&item), "max-threads", &threads, nullptr);
  EXPECT_EQ(threads, 1);
  g_value_unset(&item);
  gst_iterator_free(decoders);
  EXPECT_EQ(worker.change(built.pipeline.get(), GST_STATE_NULL, std::chrono::seconds(20)), StateChange::kDone);
}

// ---- A connection

// It slept until the file was closed.
TEST(GstConnection, EndsTheThreadThatFoundOutWhatAFileIs) {
  init_gstreamer();
  const testing::TemporaryFolder folder;
  const auto path = folder / "clip.mkv";
  CAMD_CLIP_OR_SKIP(path, (testing::ClipOptions{.frames = 3}));
  struct Counter final : SampleTaker {
    bool take_sample(GstSample* /*sample*/, GstElement* /*pipeline*/) noexcept override {
      taken.release();
      return true;
    }
    base::Semaphore taken;
  } counter;
  config::Camera camera;
  config::FileSource file;
  file.path = path;
  camera.source = file;
  Decoding decoding;
  decoding.mode = config::DecodeMode::kCpu;
  StateWorker worker;
  GstConnection connection(build_pipeline(camera, 4, decoding), "door", counter, worker);
  GstIterator* const finders = gst_bin_iterate_all_by_element_factory_name(GST_BIN(connection.pipeline()), "typefind");
  GValue item = G_VALUE_INIT;
  ASSERT_EQ(gst_iterator_next(finders, &item), GST_ITERATOR_OK);
  GstPad* const pad = gst_element_get_static_pad(GST_ELEMENT(g_value_get_object(&item)), "sink");
  ASSERT_EQ(connection.change(GST_STATE_PLAYING, std::chrono::seconds(20)), StateChange::kDone);
  counter.taken.acquire();
  ASSERT_TRUE(testing::eventually([&] { return gst_pad_get_task_state(pad) == GST_TASK_PAUSED; }));
  connection.end_idle_threads();
  EXPECT_EQ(gst_pad_get_task_state(pad), GST_TASK_STOPPED);
  counter.taken.acquire();
  counter.taken.acquire();
  gst_object_unref(pad);
  g_value_unset(&item);
  gst_iterator_free(finders);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
