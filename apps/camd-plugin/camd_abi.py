"""The interface's structs (plugins/camd_plugin.h) as ctypes and NumPy see them, and the functions of camd_worker.so."""

import ctypes

import numpy as np

MAX_KEYPOINTS = 32

# camd_detection, field by field (plugins/camd_plugin.h).
DETECTION = np.dtype(
    [
        ("track_id", np.uint64),
        ("class_id", np.int32),
        ("score", np.float32),
        ("box", np.float32, 4),
        ("class_name", "S48"),
        ("text", "S64"),
        ("keypoint_count", np.int32),
        ("keypoints", np.float32, (MAX_KEYPOINTS, 2)),
        ("reserved", np.uint32, 11),
    ]
)
assert DETECTION.itemsize == 448, DETECTION.itemsize

c_void_p, c_char_p, c_int32, c_int64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class CSpec(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("ndim", c_int32),
        ("shape", ctypes.POINTER(c_int64)),
        ("dtype", DLDataType),
    ]


class CModel(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("path", c_char_p),
        ("input", CSpec),
        ("output_count", c_int32),
        ("outputs", ctypes.POINTER(CSpec)),
        ("card_json", c_char_p),
        ("camera_count", c_int32),
        ("camera_names", ctypes.POINTER(c_char_p)),
        ("channels_last", c_int32),
    ]


class CPlane(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("stride_bytes", c_int32), ("width", c_int32), ("height", c_int32)]


class CPicture(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("format", c_int32),
        ("bt709", c_int32),
        ("full_range", c_int32),
        ("plane_count", c_int32),
        ("planes", CPlane * 3),
    ]


class CFrame(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("camera", c_char_p),
        ("camera_index", c_int32),
        ("width", c_int32),
        ("height", c_int32),
        ("sequence", ctypes.c_uint64),
        ("captured_mono_ns", c_int64),
        ("arrived_mono_ns", c_int64),
        ("captured_unix_ns", c_int64),
        ("scale_x", ctypes.c_float),
        ("scale_y", ctypes.c_float),
        ("offset_x", ctypes.c_float),
        ("offset_y", ctypes.c_float),
        ("picture", ctypes.POINTER(CPicture)),
        ("captured_uncertainty_ns", c_int64),
        ("flags", ctypes.c_uint32),
    ]


class CTensors(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("output_count", c_int32),
        ("outputs", ctypes.POINTER(ctypes.POINTER(DLTensor))),
        ("device_outputs", ctypes.POINTER(ctypes.POINTER(DLTensor))),
        ("input", ctypes.POINTER(DLTensor)),
        ("stream", c_void_p),
    ]


class CResults(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("capacity", c_int32),
        ("count", c_int32),
        ("items", c_void_p),
    ]


class CNumber(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 24), ("value", ctypes.c_double)]


class CEvent(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("track_id", ctypes.c_uint64),
        ("name", ctypes.c_char * 48),
        ("zone", ctypes.c_char * 48),
        ("reserved", ctypes.c_uint32),
        ("number_count", c_int32),
        ("numbers", CNumber * 8),
    ]


def load_library(path):
    library = ctypes.CDLL(path)
    for name, result, arguments in (
        ("accept", c_void_p, [c_char_p]),
        ("next", ctypes.c_uint32, [c_void_p]),
        ("answer", None, [c_void_p, c_int32, c_char_p]),
        ("plugin", c_char_p, [c_void_p]),
        ("config", c_char_p, [c_void_p]),
        ("reloads", ctypes.c_uint32, [c_void_p]),
        ("card", c_char_p, [c_void_p]),
        ("camera_count", c_int32, [c_void_p]),
        ("camera", c_char_p, [c_void_p, c_int32]),
        ("say", None, [c_void_p, c_int32, c_char_p, c_char_p]),
        ("say_known", None, [c_void_p, c_char_p]),
        ("describe", None, [c_void_p, c_char_p, c_char_p, ctypes.c_int]),
        ("model", ctypes.POINTER(CModel), [c_void_p]),
        ("needs", None, [c_void_p, ctypes.POINTER(c_int32), c_int32, c_int32, c_int32]),
        ("prepared", ctypes.c_uint32, [c_void_p]),
        ("frame", ctypes.POINTER(CFrame), [c_void_p]),
        ("tensors", ctypes.POINTER(CTensors), [c_void_p]),
        ("finish_gpu_work", c_char_p, [c_void_p]),
        ("results", ctypes.POINTER(CResults), [c_void_p]),
        ("event_count", c_int32, [c_void_p]),
        ("event", ctypes.POINTER(CEvent), [c_void_p, c_int32]),
        ("add_event", c_int32, [c_void_p, ctypes.POINTER(CEvent)]),
        ("log", None, [c_int32, c_char_p]),
    ):
        function = getattr(library, "camd_worker_" + name)
        function.restype, function.argtypes = result, arguments
    return library
