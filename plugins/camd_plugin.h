/* camd_plugin.h: the interface between camd and its postprocessors. Plain C11, the only header a plug-in needs.
 *
 * A plug-in is a shared library that exports one symbol, `camd_plugin_v1`, a function that returns a constant
 * table (camd_plugin). camd reads the ABI version and the table's size before it calls anything else.
 *
 * Life:      create -> outputs -> process ... process -> destroy. One instance for each entry of `postprocess:`.
 * Threads:   [setup]  one thread, before the first frame or after the last; no other call of this instance runs.
 *            [post]   a postprocess worker; calls of one instance never overlap, but may come from several threads.
 *            [any]    any thread, at any time between create and the end of destroy.
 * Validity:  every pointer that camd passes is valid until the called function returns, unless said otherwise.
 * Errors:    functions return CAMD_OK or another code and write one line to `error->message`.
 *            Nothing may be thrown across this interface (camd_plugin.hpp turns exceptions into codes).
 * Growth:    structs that begin with `size` grow at their end only; `size` holds the bytes that the writer of the
 *            struct knows. The others are elements of arrays: they never change within one ABI version.
 */
#ifndef CAMD_PLUGIN_H_
#define CAMD_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

/* DLPack (github.com/dmlc/dlpack) describes tensors. Where its header is installed it is used; elsewhere the same
 * layout is declared here, so that this file stands alone. */
#if defined(DLPACK_DLPACK_H_)
#define CAMD_HAVE_DLPACK_ 1
#elif defined(__has_include) && !defined(CAMD_PLUGIN_OWN_DLPACK)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define CAMD_HAVE_DLPACK_ 1
#endif
#endif
#ifndef CAMD_HAVE_DLPACK_
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 } DLDeviceType;
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef enum { kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLBfloat = 4U } DLDataTypeCode;
typedef struct {
  uint8_t code; /* DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;   /* ndim elements */
  int64_t* strides; /* in elements; NULL: compact, row-major */
  uint64_t byte_offset;
} DLTensor;
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CAMD_PLUGIN_ABI_VERSION 1u
#define CAMD_PLUGIN_SYMBOL "camd_plugin_v1"
#define CAMD_MAX_KEYPOINTS 32
#define CAMD_CLASS_NAME_BYTES 48
#define CAMD_ERROR_BYTES 512

#if defined(__GNUC__)
#define CAMD_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define CAMD_PLUGIN_EXPORT
#endif

/* Return codes. Any other value counts as CAMD_ERROR_FAILED. */
enum {
  CAMD_OK = 0,
  CAMD_ERROR_CONFIG = 1, /* create, outputs: the configuration or the model does not fit: camd does not start */
  CAMD_ERROR_FAILED = 2  /* process: this frame failed: it is dropped as plugin_error, the next frame is tried */
};

typedef struct camd_error {
  char message[CAMD_ERROR_BYTES]; /* UTF-8, ended by NUL, one line: what is wrong, what is allowed, how to mend it */
} camd_error;

typedef enum { CAMD_LOG_ERROR = 0, CAMD_LOG_WARN = 1, CAMD_LOG_INFO = 2, CAMD_LOG_DEBUG = 3 } camd_log_level;

/* What camd offers a plug-in. Valid from create until destroy has returned. */
typedef struct camd_host {
  size_t size;
  const char* camd_version;                                                             /* e.g. "0.1.0" */
  void (*log)(const struct camd_host* host, camd_log_level level, const char* message); /* [any] to stderr */
  int64_t (*now_mono_ns)(const struct camd_host* host); /* [any] the clock of all *_mono_ns fields */
} camd_host;

typedef struct camd_tensor_spec {
  const char* name;
  int32_t ndim;
  const int64_t* shape; /* ndim elements, all known, batch first */
  DLDataType dtype;
} camd_tensor_spec;

typedef struct camd_model {
  size_t size;
  const char* path;
  camd_tensor_spec input;
  int32_t output_count;
  const camd_tensor_spec* outputs; /* in the model's order */
  const char* card_json; /* the model card as a JSON object ("{}" without one): classes, layout, anchors, ... */
  int32_t camera_count;
  const char* const* camera_names; /* in the configuration's order; camd_frame.camera_index indexes it */
} camd_model;

/* What a plug-in wants of a tensor. Only what some plug-in reads crosses the bus. */
typedef enum {
  CAMD_NEED_NONE = 0,
  CAMD_NEED_SHAPE = 1, /* DLTensor without data */
  CAMD_NEED_HOST = 2,  /* bytes that the CPU can read: kDLCPU or kDLCUDAHost */
  CAMD_NEED_DEVICE = 3 /* where the engine left it: kDLCUDA on a GPU (order your reads after camd_tensors.stream) */
} camd_need;

typedef struct camd_needs {
  size_t size;
  camd_need* outputs; /* camd_model.output_count elements, all CAMD_NEED_NONE on entry */
  camd_need input;    /* the network's input after preprocessing; CAMD_NEED_NONE on entry */
  camd_need picture;  /* the source picture: CAMD_NEED_NONE (on entry) or CAMD_NEED_HOST; holds a slot longer */
} camd_needs;

/* Pixel formats of camd_picture; the names are GStreamer's video formats. */
typedef enum {
  CAMD_PIXEL_BGR = 0,
  CAMD_PIXEL_RGB = 1,
  CAMD_PIXEL_NV12 = 2,
  CAMD_PIXEL_I420 = 3,
  CAMD_PIXEL_YUY2 = 4,
  CAMD_PIXEL_GRAY8 = 5
} camd_pixel_format;

typedef struct camd_plane {
  const uint8_t* data;
  int32_t stride_bytes;
  int32_t width;  /* samples a row */
  int32_t height; /* rows */
} camd_plane;

typedef struct camd_picture {
  camd_pixel_format format;
  int32_t bt709;      /* 1: ITU-R BT.709, 0: BT.601 (YCbCr formats) */
  int32_t full_range; /* 1: 0..255, 0: 16..235 (YCbCr formats) */
  int32_t plane_count;
  camd_plane planes[3];
} camd_picture;

typedef struct camd_frame {
  size_t size;
  const char* camera;
  int32_t camera_index;
  int32_t width;            /* source pixels */
  int32_t height;           /* source pixels */
  uint64_t sequence;        /* counts captured frames of this camera from 0: gaps are dropped frames */
  int64_t captured_mono_ns; /* when the picture was taken, CLOCK_MONOTONIC */
  int64_t arrived_mono_ns;  /* when camd received it */
  int64_t captured_unix_ns; /* captured_mono_ns on the wall clock */
  /* Network pixel = source pixel * scale + offset, per axis. The inverse maps boxes back. */
  float scale_x, scale_y;
  float offset_x, offset_y;
  const camd_picture* picture; /* NULL unless this plug-in asked for it */
} camd_frame;

typedef struct camd_tensors {
  size_t size;
  int32_t output_count;
  const DLTensor* const* outputs;        /* per output: NULL where nothing was asked for; host memory where HOST was */
  const DLTensor* const* device_outputs; /* per output: NULL unless DEVICE was asked for */
  const DLTensor* input;                 /* NULL unless asked for */
  void* stream; /* the stream that device tensors are ready on (cudaStream_t), NULL on the host device */
} camd_tensors;

typedef struct camd_detection {
  int32_t class_id;
  float score;                            /* 0..1 */
  float box[4];                           /* x, y, width, height in source pixels */
  int32_t keypoint_count;                 /* 0..CAMD_MAX_KEYPOINTS */
  float keypoints[CAMD_MAX_KEYPOINTS][2]; /* x, y in source pixels */
  char class_name[CAMD_CLASS_NAME_BYTES]; /* UTF-8, ended by NUL */
} camd_detection;

/* The frame's list of detections: every plug-in may read, change, remove and add (up to capacity). camd checks it
 * after each plug-in: a count over capacity, a wrong keypoint_count or a number that is not finite fails the frame. */
typedef struct camd_results {
  size_t size;
  int32_t capacity;
  int32_t count;
  camd_detection* items;
} camd_results;

typedef struct camd_plugin {
  uint32_t abi_version; /* CAMD_PLUGIN_ABI_VERSION */
  uint32_t struct_size; /* sizeof(camd_plugin) */
  const char* name;
  const char* version;
  const char* description; /* one line */

  /* [setup] `config_json` is the entry's `config:` as a JSON object ("{}" when absent). */
  int32_t (*create)(const camd_host* host, const char* config_json, void** instance, camd_error* error);
  /* [setup] Declares what process() will read, or refuses the model. */
  int32_t (*outputs)(void* instance, const camd_model* model, camd_needs* needs, camd_error* error);
  /* [post] One frame. */
  int32_t (*process)(void* instance, const camd_frame* frame, const camd_tensors* tensors, camd_results* results,
                     camd_error* error);
  /* [setup] Finishes files and frees the instance. Returns CAMD_OK or, with a message, what could not be finished.
   * The instance is gone either way. */
  int32_t (*destroy)(void* instance, camd_error* error);
} camd_plugin;

/* The symbol that a plug-in exports: CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void); */
typedef const camd_plugin* (*camd_plugin_entry)(void);

#ifdef __cplusplus
}
#endif

#endif /* CAMD_PLUGIN_H_ */
