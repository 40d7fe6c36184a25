"""Runs a plug-in of camd (lib/camd_plugin_NAME.so) from Python, through its C interface, plugins/camd_plugin.h. For
measurements: one camera, and of the extensions events alone."""

from __future__ import annotations

import ctypes as c
import json
import sys
from pathlib import Path

ROOM = 512  # detections of a frame


class Plane(c.Structure):
    _fields_ = [("data", c.c_void_p), ("stride_bytes", c.c_int32), ("width", c.c_int32), ("height", c.c_int32)]


class Picture(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("format", c.c_int), ("bt709", c.c_int32), ("full_range", c.c_int32), ("plane_count", c.c_int32),
                ("planes", Plane * 3)]  # fmt: skip


class Host(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("version", c.c_char_p), ("log", c.c_void_p), ("now", c.c_void_p), ("extension", c.c_void_p),
                ("reloads", c.c_uint32)]  # fmt: skip


class Spec(c.Structure):
    _fields_ = [("name", c.c_char_p), ("ndim", c.c_int32), ("shape", c.c_void_p), ("dtype", c.c_uint8 * 4)]


class Model(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("path", c.c_char_p), ("input", Spec), ("output_count", c.c_int32), ("outputs", c.c_void_p),
                ("card", c.c_char_p), ("camera_count", c.c_int32), ("camera_names", c.POINTER(c.c_char_p)), ("channels_last", c.c_int32)]  # fmt: skip


class Needs(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("outputs", c.c_void_p), ("input", c.c_int), ("picture", c.c_int), ("detections", c.c_int32)]


class PluginFrame(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("camera", c.c_char_p), ("camera_index", c.c_int32), ("width", c.c_int32), ("height", c.c_int32),
                ("sequence", c.c_uint64), ("captured_mono_ns", c.c_int64), ("arrived_mono_ns", c.c_int64), ("captured_unix_ns", c.c_int64),
                ("scale", c.c_float * 2), ("offset", c.c_float * 2), ("picture", c.c_void_p), ("uncertainty_ns", c.c_int64)]  # fmt: skip


class Tensors(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("output_count", c.c_int32), ("outputs", c.c_void_p), ("device_outputs", c.c_void_p),
                ("input", c.c_void_p), ("stream", c.c_void_p)]  # fmt: skip


class Detection(c.Structure):
    _fields_ = [("track_id", c.c_uint64), ("class_id", c.c_int32), ("score", c.c_float), ("box", c.c_float * 4), ("class_name", c.c_char * 48),
                ("text", c.c_char * 64), ("keypoint_count", c.c_int32), ("keypoints", c.c_float * 64), ("reserved", c.c_uint32 * 11)]  # fmt: skip


class Results(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("capacity", c.c_int32), ("count", c.c_int32), ("items", c.POINTER(Detection))]


class Error(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("message", c.c_char * 512)]


CREATE = c.CFUNCTYPE(c.c_int32, c.POINTER(Host), c.c_char_p, c.POINTER(c.c_void_p), c.POINTER(Error))
OUTPUTS = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(Model), c.POINTER(Needs), c.POINTER(Error))
PROCESS = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(PluginFrame), c.POINTER(Tensors), c.POINTER(Results), c.POINTER(Error))
DESTROY = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(Error))
LOG = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)
NOW = c.CFUNCTYPE(c.c_int64, c.c_void_p)
EXTENSION = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_char_p)


class Table(c.Structure):
    _fields_ = [("abi", c.c_uint32), ("struct_size", c.c_uint32), ("name", c.c_char_p), ("version", c.c_char_p), ("description", c.c_char_p),
                ("create", CREATE), ("outputs", OUTPUTS), ("process", PROCESS), ("destroy", DESTROY)]  # fmt: skip


class Number(c.Structure):
    _fields_ = [("name", c.c_char * 24), ("value", c.c_double)]


class Event(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("track_id", c.c_uint64), ("name", c.c_char * 48), ("zone", c.c_char * 48), ("reserved", c.c_uint32),
                ("number_count", c.c_int32), ("numbers", Number * 8)]  # fmt: skip


COUNT = c.CFUNCTYPE(c.c_int32, c.c_void_p)
GET = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_int32)
ADD = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(Event))


class Events(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("count", COUNT), ("get", GET), ("add", ADD)]


class Plugin:
    """One instance. `events` are those of the last frame: name, zone, and numbers by name."""

    def __init__(self, library: Path, config: dict):
        loaded = c.CDLL(str(library))
        loaded.camd_plugin_v1.restype = c.POINTER(Table)
        self._table = loaded.camd_plugin_v1().contents
        self.events: list[tuple[str, str, dict[str, float]]] = []
        # ctypes does not keep what a pointer leads to.
        self._offered = Events(c.sizeof(Events), COUNT(lambda _host: 0), GET(lambda _host, _index: None), ADD(self._add))
        self._kept = (LOG(lambda _host, _level, message: print(message.decode(), file=sys.stderr)), NOW(lambda _host: 0),
                      EXTENSION(lambda _host, name: c.addressof(self._offered) if name == b"camd.events/1" else None))  # fmt: skip
        self._host = Host(c.sizeof(Host), b"measure", *(c.cast(f, c.c_void_p) for f in self._kept), 0)
        self._error, self._instance = Error(c.sizeof(Error)), c.c_void_p()
        self._check(self._table.create(self._host, json.dumps(config).encode(), self._instance, self._error))
        names = (c.c_char_p * 1)(b"camera")
        model = Model(struct_size=c.sizeof(Model), path=b"", card=b"{}", camera_count=1, camera_names=names)
        self._check(self._table.outputs(self._instance, model, Needs(c.sizeof(Needs)), self._error))
        self._items = (Detection * ROOM)()

    def _add(self, _host: int, event: object) -> int:
        told = event.contents  # type: ignore[attr-defined]
        numbers = {n.name.decode(): n.value for n in told.numbers[: told.number_count]}
        self.events.append((told.name.decode(), told.zone.decode(), numbers))
        return 0

    def _check(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(self._error.message.decode())

    def process(self, frame: PluginFrame, detections: list[Detection]) -> list[Detection]:
        """The detections after the plug-in; valid until the next call."""
        self.events.clear()
        frame.struct_size, frame.camera = c.sizeof(PluginFrame), b"camera"
        self._items[: len(detections)] = detections
        results = Results(c.sizeof(Results), ROOM, len(detections), self._items)
        self._check(self._table.process(self._instance, frame, Tensors(struct_size=c.sizeof(Tensors)), results, self._error))
        return self._items[: results.count]

    def finish(self) -> None:
        self._check(self._table.destroy(self._instance, self._error))
