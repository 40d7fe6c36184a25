/* camd_plugin.h: the interface between camd and its postprocessors. Plain C11, the only header a plug-in needs.
 *
 * A plug-in is a shared library that exports one symbol, `camd_plugin_v1`, a function that returns a constant
 * table (camd_plugin). camd reads the ABI version and the table's size before it calls anything else.
 *
 * Life:      create -> outputs -> process ... process -> destroy. One instance for each entry of `postprocess:`.
 *            A plug-in that offers "camd.check/1" is asked about its configuration first, without an instance.
 * Reload:    an instance whose entry of `postprocess:` did not change stays, if the model is the same and either the
 *            cameras are the same or it offers "camd.cameras/1". Other instances are made anew beside those that run:
 *            create() and outputs() are called while the old ones still get frames. If the new configuration can be
 *            used, frames go to the new ones, each camera's after its older frames have left the old ones, which are
 *            destroyed then; else the new ones are destroyed without a frame. So create() and outputs() leave alone
 *            what an older instance writes; and what instances of this process wrote before a reload
 *            (camd_host.reloads above 0) is not emptied or replaced.
 * Threads:   [setup]  before the first frame or after the last; no other call of this instance runs. create(),
 *                     outputs() and destroy() may come on different threads. One that does not return is left behind:
 *                     a start fails then, a reload is refused (docs/plugins.md says after which time).
 *            [post]   a postprocess worker, or camd between two frames; calls of one instance never overlap, but may
 *                     come from several threads.
 *            [any]    any thread, at any time between create and the end of destroy.
 * Validity:  every pointer that camd passes is valid until the called function returns, unless said otherwise.
 * Errors:    functions return CAMD_OK or another code and write one line to `error->message`. Nothing may be thrown
 *            across this interface (camd_plugin.hpp turns exceptions into codes).
 *
 * Growth within ABI version 1:
 *   Structs    A struct that has a `struct_size` may get further members at its end, and nothing else about it changes.
 *              Who makes the struct sets `struct_size` to the bytes it knows. Who reads or writes the struct looks at
 *              `struct_size` before it touches a member that is younger than version 0.1.0 of camd (CAMD_HAS_MEMBER);
 *              a member that is not there counts as 0. camd refuses a struct that is shorter than in version 0.1.0.
 *   Elements   Structs without `struct_size` are elements of arrays, or parts of other structs. Their size and their
 *              members never change. `reserved` words must be 0: camd refuses anything else. A later version may give
 *              one a meaning, in which 0 is what it is today. An extension will then tell that this camd knows it. Who
 *              adds an element sets all of it to 0 first.
 *   Constants  New codes, levels, pixel formats and kinds may be added. A plug-in must expect values that it does not
 *              know.
 *   Extensions What only some plug-ins need is an extension: a struct of its own, found by its name
 *              (camd_host.get_extension, camd_plugin.get_extension). A name ends in its version: "camd.counters/1". A
 *              change that is none of the above makes a new extension, ".../2"; camd may offer both. Names that begin
 *              with "camd." are camd's; others begin with a domain, "com.example.thing/1".
 *   Version 2  comes when something must change that cannot be added. It has a symbol and a header of its own, so that
 *              one camd can load plug-ins of both versions.
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
#define CAMD_TEXT_BYTES 64
#define CAMD_ERROR_BYTES 512
#define CAMD_DEFAULT_DETECTIONS 512 /* room for detections that every frame has */
#define CAMD_MAX_DETECTIONS 16384   /* the most that a plug-in may ask for */

/* Whether the struct behind `pointer`, of this type and with a `struct_size`, is long enough to hold `member`. */
#define CAMD_HAS_MEMBER(type, pointer, member) \
  ((pointer)->struct_size >= offsetof(type, member) + sizeof((pointer)->member))

#if defined(__GNUC__)
#define CAMD_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define CAMD_PLUGIN_EXPORT
#endif

/* Return codes. Any other value counts as CAMD_ERROR_FAILED. The last two are camd's answers to a plug-in. */
enum {
  CAMD_OK = 0,
  CAMD_ERROR_CONFIG = 1, /* create, outputs: the configuration or the model does not fit: camd does not start */
  CAMD_ERROR_FAILED = 2, /* process: this frame failed: it is dropped as plugin_error, the next frame is tried */
  CAMD_ERROR_FULL = 3,   /* there is no room for more; nothing was added */
  CAMD_ERROR_INVALID = 4 /* what was handed over breaks a rule of this header; nothing was changed */
};

typedef struct camd_error {
  size_t struct_size;
  char message[CAMD_ERROR_BYTES]; /* UTF-8, ended by NUL, one line: what is wrong, what is allowed, how to mend it */
} camd_error;

typedef enum { CAMD_LOG_ERROR = 0, CAMD_LOG_WARN = 1, CAMD_LOG_INFO = 2, CAMD_LOG_DEBUG = 3 } camd_log_level;

/* What camd offers a plug-in. Valid from create until destroy has returned. Each instance has its own. */
typedef struct camd_host {
  size_t struct_size;
  const char* camd_version;                                                             /* e.g. "0.1.0" */
  void (*log)(const struct camd_host* host, camd_log_level level, const char* message); /* [any] to stderr */
  int64_t (*now_mono_ns)(const struct camd_host* host); /* [any] the clock of all *_mono_ns fields */
  /* [any] What camd offers beyond this struct, or NULL where this camd has no extension of that name. `id` tells the
   * type of the struct behind the pointer, which is valid as long as the host: "camd.counters/1" is a camd_counters. */
  const void* (*get_extension)(const struct camd_host* host, const char* id);
  /* How often this process had reloaded its configuration before this instance was made: 0 at the first start. */
  uint32_t reloads;
} camd_host;

typedef struct camd_tensor_spec {
  const char* name;
  int32_t ndim;
  const int64_t* shape; /* ndim elements, all known, batch first */
  DLDataType dtype;
} camd_tensor_spec;

typedef struct camd_model {
  size_t struct_size;
  const char* path;
  camd_tensor_spec input;
  int32_t output_count;
  const camd_tensor_spec* outputs; /* in the model's order */
  const char* card_json; /* the model card as a JSON object ("{}" without one): classes, layout, anchors, ... */
  int32_t camera_count;
  const char* const* camera_names; /* camd_frame.camera_index indexes it; "" where there is no camera any more, or none
                                    * yet (after reloads) */
  int32_t channels_last; /* 1: the model's file has its input as [1,H,W,3]. `input` is [1,3,H,W] all the same: that is
                          * what camd feeds, and what plug-ins get */
} camd_model;

/* What a plug-in wants of a tensor. Only what some plug-in reads crosses the bus. */
typedef enum {
  CAMD_NEED_NONE = 0,
  CAMD_NEED_SHAPE = 1, /* DLTensor without data */
  CAMD_NEED_HOST = 2,  /* bytes that the CPU can read: kDLCPU or kDLCUDAHost */
  CAMD_NEED_DEVICE = 3 /* where the engine left it: kDLCUDA on a GPU (order your reads after camd_tensors.stream) */
} camd_need;

/* Values of an output, one after the other: that of a cell, an anchor and a channel is element
 * first + cell * cell_step + anchor * anchor_step + channel * channel_step. */
typedef struct camd_elements {
  int32_t output;
  int32_t channels; /* of each anchor, 1 at least */
  int64_t first;
  int64_t cell_step;
  int64_t anchor_step;
  int64_t channel_step;
} camd_elements;

#define CAMD_MAX_FILTERS 32
#define CAMD_FILTER_VALUES 6

/* A grid of places, of which the plug-in reads those alone that have a score of `floor` or more. A place is an anchor
 * of a cell; its number is cell * anchors + anchor. */
typedef struct camd_filter {
  int64_t cells;
  int32_t anchors; /* of each cell */
  float floor;     /* finite; a value that is not a number never passes */
  camd_elements scores;
  int32_t value_count;                      /* 1..CAMD_FILTER_VALUES */
  camd_elements values[CAMD_FILTER_VALUES]; /* what is read of a place that passes, its scores among it */
} camd_filter;

typedef struct camd_needs {
  size_t struct_size;
  camd_need* outputs; /* camd_model.output_count elements, all CAMD_NEED_NONE on entry */
  camd_need input;    /* the network's input after preprocessing; CAMD_NEED_NONE on entry */
  camd_need picture;  /* the source picture: CAMD_NEED_NONE (on entry) or CAMD_NEED_HOST; holds a slot longer */
  /* Detections that a frame's list shall have room for: CAMD_DEFAULT_DETECTIONS on entry, at most CAMD_MAX_DETECTIONS.
   * The list is as long as the plug-in of the chain that asks for most wants it. */
  int32_t detections;
  /* Of outputs that are wanted on the host, and that all filters together name, only what passes is read. Then camd may
   * leave the rest of them on the device (camd_tensors.passed). At most CAMD_MAX_FILTERS; valid until destroy. */
  const camd_filter* filters;
  int32_t filter_count;
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
  size_t struct_size;
  camd_pixel_format format;
  int32_t bt709;      /* 1: ITU-R BT.709, 0: BT.601 (YCbCr formats) */
  int32_t full_range; /* 1: 0..255, 0: 16..235 (YCbCr formats) */
  int32_t plane_count;
  camd_plane planes[3];
} camd_picture;

/* Flags of camd_frame. */
enum {
  CAMD_FRAME_DAMAGED =
      1u, /* something of the picture was lost or wrong on its way here, or of one that it is built on */
  CAMD_FRAME_INCOMPLETE = 2u /* an earlier plug-in of the chain did not see the frame, because its process had ended */
};

typedef struct camd_frame {
  size_t struct_size;
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
  /* How far captured_mono_ns may be off, in either direction. What a camera does not show is not in it: the least time
   * from its sensor to camd (docs/metrics.md, "The clock"). */
  int64_t captured_uncertainty_ns;
  uint32_t flags; /* CAMD_FRAME_...; flags that a plug-in does not know may be set */
} camd_frame;

typedef struct camd_tensors {
  size_t struct_size;
  int32_t output_count;
  const DLTensor* const* outputs;        /* per output: NULL where nothing was asked for; host memory where HOST was */
  const DLTensor* const* device_outputs; /* per output: NULL unless DEVICE was asked for */
  const DLTensor* input;                 /* NULL unless asked for */
  void* stream; /* the stream that device tensors are ready on (cudaStream_t), NULL on the host device */
  /* NULL: outputs are there as a whole. Else for each camd_needs.filters: how many places passed, and then their
   * numbers, each once and in no order. Of the outputs that filters name, only the values of these places are this
   * frame's; the others are left from earlier ones. */
  const int32_t* const* passed;
} camd_tensors;

typedef struct camd_detection {
  uint64_t track_id; /* the same number in every frame that shows the same object; 0: not tracked */
  int32_t class_id;
  float score;                            /* 0..1 */
  float box[4];                           /* x, y, width, height in source pixels */
  char class_name[CAMD_CLASS_NAME_BYTES]; /* UTF-8, ended by NUL */
  char text[CAMD_TEXT_BYTES];             /* what was read there, a code's content or a plate: UTF-8, ended by NUL */
  int32_t keypoint_count;                 /* 0..CAMD_MAX_KEYPOINTS */
  float keypoints[CAMD_MAX_KEYPOINTS][2]; /* x, y in source pixels */
  uint32_t reserved[11];                  /* 0 */
} camd_detection;

/* The frame's list of detections: every plug-in may read, change, remove and add (up to capacity). camd checks it
 * after each plug-in: a count over capacity, another `items` or `capacity` than it came with, a wrong keypoint_count, a
 * text that does not end, a number that is not finite or a reserved word that is not 0 fails the frame. */
typedef struct camd_results {
  size_t struct_size;
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
  /* [any] What the plug-in offers beyond this table, or NULL for a name that it does not know. May be NULL itself:
   * nothing. The answer is constant, and the same before the first create: "camd.counters/1" is a
   * camd_plugin_counters. */
  const void* (*get_extension)(const char* id);
} camd_plugin;

/* ---- camd.counters/1: a plug-in's own numbers in the metrics lines (event `plugin`) and in the dashboard */

#define CAMD_EXTENSION_COUNTERS "camd.counters/1"
#define CAMD_MAX_COUNTERS 32       /* of one instance, gauges included */
#define CAMD_COUNTER_NAME_BYTES 48 /* with the NUL */

typedef enum {
  CAMD_COUNTER = 0, /* a whole number that only grows: how often something has happened since the start */
  CAMD_GAUGE = 1,   /* a number that goes up and down: how much there is of something now */
  /* Not a kind. It makes every number from 0 on a value of the type, so that camd may look at one that is wrong. */
  CAMD_COUNTER_KIND_MOST = 0x7fffffff
} camd_counter_kind;

typedef struct camd_counter camd_counter; /* one number; camd owns it; valid as long as the host */

/* What camd offers. */
typedef struct camd_counters {
  size_t struct_size;
  /* [setup] In create or outputs. `name` is a lower case letter followed by lower case letters, digits and `_`, and
   * one of its kind in this instance. It begins at 0 and appears in the lines from then on. CAMD_ERROR_FULL: there are
   * CAMD_MAX_COUNTERS already. CAMD_ERROR_INVALID: the name or the kind is wrong, or set-up is over. `error` says
   * which; *counter is NULL then. */
  int32_t (*make)(const camd_host* host, camd_counter_kind kind, const char* name, camd_counter** counter,
                  camd_error* error);
  /* [any] Costs one atomic addition. Only for CAMD_COUNTER: nothing is added to a gauge, nor to NULL. */
  void (*add)(camd_counter* counter, uint64_t amount);
  /* [any] Costs one atomic store. Only for CAMD_GAUGE: a counter, NULL and a value that is not finite change nothing.
   */
  void (*set)(camd_counter* gauge, double value);
} camd_counters;

/* What a plug-in may offer: gauges that are found out once a period rather than with every frame. */
typedef struct camd_plugin_counters {
  size_t struct_size;
  /* [post] Once a period, before the numbers are read, and never beside process(): where that runs at this moment, the
   * numbers of the period before stand. Returns at once: a frame may wait for it. A failure is logged. */
  int32_t (*sample)(void* instance, camd_error* error);
} camd_plugin_counters;

/* ---- camd.events/1: what happened in a frame, beside what is seen in it; later plug-ins see it, `jsonl` writes it */

#define CAMD_EXTENSION_EVENTS "camd.events/1"
#define CAMD_MAX_EVENTS 64 /* of one frame */
#define CAMD_EVENT_NAME_BYTES 48
#define CAMD_EVENT_NUMBERS 8
#define CAMD_NUMBER_NAME_BYTES 24

typedef struct camd_number {
  char name[CAMD_NUMBER_NAME_BYTES]; /* UTF-8, ended by NUL, not empty */
  double value;                      /* finite */
} camd_number;

typedef struct camd_event {
  size_t struct_size;
  uint64_t track_id;                /* whom it is about, as in camd_detection; 0: nobody in particular */
  char name[CAMD_EVENT_NAME_BYTES]; /* what happened, e.g. "line_crossed": UTF-8, ended by NUL, not empty */
  char zone[CAMD_EVENT_NAME_BYTES]; /* where: a zone's or a line's name, UTF-8, ended by NUL; "": nowhere in particular
                                     */
  uint32_t reserved;                /* 0 */
  int32_t number_count;             /* 0..CAMD_EVENT_NUMBERS */
  camd_number numbers[CAMD_EVENT_NUMBERS];
} camd_event;

/* What camd offers. All of it [post], for the frame that process() of this instance is working on and in the thread
 * that called it. Outside of process() a frame has no events: count is 0, get gives NULL, add CAMD_ERROR_INVALID. */
typedef struct camd_events {
  size_t struct_size;
  int32_t (*count)(const camd_host* host); /* those of earlier plug-ins and of this one, in the order of their coming */
  const camd_event* (*get)(const camd_host* host,
                           int32_t index); /* NULL outside 0..count-1; valid until process returns */
  /* Copies the event. CAMD_ERROR_FULL: the frame has CAMD_MAX_EVENTS already. CAMD_ERROR_INVALID: a text without an
   * end, no name, a wrong number_count, two numbers of one name, a value that is not finite, a reserved word that is
   * not 0. */
  int32_t (*add)(const camd_host* host, const camd_event* event);
} camd_events;

/* ---- camd.cameras/1: cameras that come and go while an instance runs. Without it a reload that adds or removes a
 * camera makes a new instance; with it the instance, its counters and its open files stay. */

#define CAMD_EXTENSION_CAMERAS "camd.cameras/1"

/* What a plug-in may offer. `index` is camd_frame.camera_index: a camera keeps it as long as it runs, and one that
 * comes later may get that of one that has gone. [beside] is a thread that is none of [post]: the call may run beside
 * process(), so it touches nothing that process() does, and may take its time. */
typedef struct camd_plugin_cameras {
  size_t struct_size;
  /* [beside] Makes what the plug-in needs for one more camera, its file say. *camera, which is NULL on entry, may stay
   * NULL. Another code than CAMD_OK refuses the reload. */
  int32_t (*open)(void* instance, int32_t index, const char* name, void** camera, camd_error* error);
  /* [post] Puts `camera` into its place and returns what was there, NULL for nothing. With NULL the place is empty from
   * now on. Before the first frame of a camera, or after its last. Returns at once and cannot fail. */
  void* (*exchange)(void* instance, int32_t index, void* camera);
  /* [beside] Finishes and frees what exchange() returned, or what open() made and nobody needs. Not for those that are
   * in their place at destroy: destroy looks after them. */
  int32_t (*close)(void* instance, void* camera, camd_error* error);
} camd_plugin_cameras;

/* ---- camd.stateless/1: cameras that do not wait for one another. Calls of one instance never overlap, so while it
 * works on a frame of one camera, frames of the others wait. A plug-in that keeps nothing from one frame to the next
 * says so: where it runs in camd's own process, camd then makes a few instances of the entry and gives a frame to any
 * that is free. Their counters add up. The plug-in leaves the same results whichever instance has a frame. */

#define CAMD_EXTENSION_STATELESS "camd.stateless/1"

/* What a plug-in may offer. */
typedef struct camd_plugin_stateless {
  size_t struct_size;
} camd_plugin_stateless;

/* ---- camd.reopen/1: files that somebody has renamed or removed (log rotation) */

#define CAMD_EXTENSION_REOPEN "camd.reopen/1"

/* What a plug-in may offer. */
typedef struct camd_plugin_reopen {
  size_t struct_size;
  /* [post] camd has got SIGUSR1: whatever the instance has open for writing, it opens anew under the configured name.
   * Never beside process(), and frames wait for it: what takes long is begun here and ended later. A failure is logged,
   * and the instance goes on with what it had. */
  int32_t (*reopen)(void* instance, camd_error* error);
} camd_plugin_reopen;

/* ---- camd.outlet/1: what became of the messages of a plug-in that sends them elsewhere (event `outlet`) */

#define CAMD_EXTENSION_OUTLET "camd.outlet/1"
#define CAMD_MAX_OUTLET_ROWS 4096
#define CAMD_MAX_OUTLET_DROPS 16

typedef struct camd_outlet_drop {
  const char* reason; /* named as a counter is, at most CAMD_COUNTER_NAME_BYTES with the NUL */
  uint64_t count;
} camd_outlet_drop;

/* The messages of one camera since the start. taken = acknowledged + waiting + spooled + all that is dropped. */
typedef struct camd_outlet_row {
  const char* camera;    /* "": cameras that have gone */
  uint64_t taken;        /* handed to the outlet, or found on disk at the start */
  uint64_t acknowledged; /* the other side has them */
  uint64_t waiting;      /* in memory, sent or not */
  uint64_t spooled;      /* on disk, sent or not */
  int32_t dropped_count; /* 0..CAMD_MAX_OUTLET_DROPS */
  uint32_t reserved;     /* 0 */
  const camd_outlet_drop* dropped;
} camd_outlet_row;

/* What camd offers. */
typedef struct camd_outlet {
  size_t struct_size;
  /* [any] until destroy has returned. Copies the rows; they replace those of the call before. In sample() and in
   * destroy() is often enough. CAMD_ERROR_INVALID: a row does not add up, two rows of one camera, a wrong name or
   * count; CAMD_ERROR_FULL: more than CAMD_MAX_OUTLET_ROWS. Nothing changes then, and `error` says why. */
  int32_t (*report)(const camd_host* host, const camd_outlet_row* rows, int32_t count, camd_error* error);
} camd_outlet;

/* ---- camd.check/1: mistakes in a configuration, found before anything is made. `camd check` asks, and so does every
 * start and every reload before create(). camd tells all mistakes of all plug-ins at once, each with its place in the
 * file. Without it a mistake is known when create() fails. */

#define CAMD_EXTENSION_CHECK "camd.check/1"

/* What a plug-in is asked, and whom it tells. camd makes it; it is valid until check() returns. */
typedef struct camd_check {
  size_t struct_size;
  const char* config_json; /* as for create() */
  const char* card_json;   /* as in camd_model */
  int32_t camera_count;
  const char* const* camera_names; /* those of the configuration, in its order */
  /* [setup] One mistake. `key` is where, below `config:`, with dots ("zones.0.points"); "" for all of it. `message` is
   * one line: what is wrong, what is allowed, how to mend it. */
  void (*mistake)(const struct camd_check* check, const char* key, const char* message);
  /* [setup] A key that the plug-in does not read. `known` are those that it reads there, without dots: camd names them,
   * and the one that was meant. */
  void (*unknown_key)(const struct camd_check* check, const char* key, const char* const* known, int32_t known_count);
  /* [setup] A path that this instance alone may write: a file, a folder, or a pattern of the plug-in's own. camd
   * refuses another instance that names the same one. `key` is the key that it comes from. */
  void (*claim)(const struct camd_check* check, const char* key, const char* path);
} camd_check;

/* What a plug-in may offer. */
typedef struct camd_plugin_check {
  size_t struct_size;
  /* [setup] Tells `check` all mistakes and all claims. Leaves no trace: it makes no file, starts no thread, keeps
   * nothing. CAMD_OK where it could look, whatever it found; another code and a message where it could not. */
  int32_t (*check)(const camd_check* check, camd_error* error);
} camd_plugin_check;

/* The symbol that a plug-in exports: CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void); */
typedef const camd_plugin* (*camd_plugin_entry)(void);

#ifdef __cplusplus
}
#endif

#endif /* CAMD_PLUGIN_H_ */
