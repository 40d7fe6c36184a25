// A small RTSP server for the tests, in a process of its own so that it can be killed as a camera's power can be cut.
//
//   camd_rtsp_server PORT [USER PASSWORD]     PORT 0: any free one
//
// Prints "ready PORT" and serves rtsp://127.0.0.1:PORT/live (H.264 320x240, 30 frames/s, a key frame every 15) until
// its standard input is closed.
#include <gst/gst.h>
#include <gst/rtsp-server/rtsp-server.h>
#include <unistd.h>

#include <cstdio>

namespace {

gboolean on_input(GIOChannel* channel, GIOCondition, gpointer loop) {
  gchar bytes[16];
  gsize count = 0;
  if (g_io_channel_read_chars(channel, bytes, sizeof bytes, &count, nullptr) != G_IO_STATUS_EOF) return TRUE;
  g_main_loop_quit(static_cast<GMainLoop*>(loop));
  return FALSE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 2;
  gst_init(nullptr, nullptr);
  GMainLoop* const loop = g_main_loop_new(nullptr, FALSE);
  GstRTSPServer* const server = gst_rtsp_server_new();
  gst_rtsp_server_set_address(server, "127.0.0.1");
  gst_rtsp_server_set_service(server, argv[1]);

  GstRTSPMediaFactory* const factory = gst_rtsp_media_factory_new();
  gst_rtsp_media_factory_set_launch(
      factory,
      "( videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=320,height=240,framerate=30/1 ! "
      "x264enc tune=zerolatency speed-preset=ultrafast key-int-max=15 ! rtph264pay name=pay0 pt=96 "
      "audiotestsrc is-live=true ! audioconvert ! audio/x-raw,rate=8000,channels=1 ! mulawenc ! rtppcmupay name=pay1 "
      ")");
  gst_rtsp_media_factory_set_shared(factory, TRUE);
  if (argc == 4) {
    GstRTSPAuth* const auth = gst_rtsp_auth_new();
    GstRTSPToken* const token = gst_rtsp_token_new(GST_RTSP_TOKEN_MEDIA_FACTORY_ROLE, G_TYPE_STRING, "viewer", nullptr);
    gchar* const basic = gst_rtsp_auth_make_basic(argv[2], argv[3]);
    gst_rtsp_auth_add_basic(auth, basic, token);
    gst_rtsp_server_set_auth(server, auth);
    gst_rtsp_media_factory_add_role(factory, "viewer", GST_RTSP_PERM_MEDIA_FACTORY_ACCESS, G_TYPE_BOOLEAN, TRUE,
                                    GST_RTSP_PERM_MEDIA_FACTORY_CONSTRUCT, G_TYPE_BOOLEAN, TRUE, nullptr);
    g_free(basic);
    gst_rtsp_token_unref(token);
    g_object_unref(auth);
  }
  GstRTSPMountPoints* const mounts = gst_rtsp_server_get_mount_points(server);
  gst_rtsp_mount_points_add_factory(mounts, "/live", factory);
  g_object_unref(mounts);
  if (gst_rtsp_server_attach(server, nullptr) == 0) return 1;

  GIOChannel* const input = g_io_channel_unix_new(STDIN_FILENO);
  g_io_add_watch(input, static_cast<GIOCondition>(G_IO_IN | G_IO_HUP), &on_input, loop);
  std::printf("ready %d\n", gst_rtsp_server_get_bound_port(server));
  std::fflush(stdout);
  g_main_loop_run(loop);
  return 0;
}
