"""The Python side of camd's worker processes: what a plug-in sees, and the loop that calls it.

camd-plugin starts this file with the interpreter that the configuration names. It talks to camd through camd_worker.so,
a library of plain C functions beside it, by ctypes. Tensors, pictures and the list of detections are NumPy views of
memory that camd shares; nothing is copied. What a plug-in may not change is read-only.
"""

import ctypes
import importlib.util
import json
import os
import re
import sys
import threading
import time
import traceback

try:
    import numpy as np
except ImportError:
    sys.exit(
        f"plug-in in Python: {sys.executable} has no NumPy: install it there (pip install numpy), or name another "
        "interpreter with `python:`"
    )

from camd_abi import DETECTION, MAX_KEYPOINTS, CEvent, load_library
from camd_dlpack import CUDA, DeviceTensor, HostTensor

CREATE, OUTPUTS, PROCESS, REOPEN, DESTROY, CHECK = 1, 2, 3, 4, 9, 14
MISTAKE, UNKNOWN_KEY, CLAIM = range(3)
OK, FAILED, FULL = 0, 2, 3
NONE, HOST, DEVICE = 0, 2, 3
DEFAULT_DETECTIONS = 512
LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG = range(4)


def numpy_type(dtype):
    """The NumPy type of a DLPack type; bfloat16, which NumPy has not got, comes as uint16."""
    kinds = {0: "i", 1: "u", 2: "f", 4: "u"}
    if dtype.lanes != 1 or dtype.code not in kinds:
        raise TypeError(f"a tensor of DLPack type {dtype.code}, {dtype.bits} bits, {dtype.lanes} lanes")
    return np.dtype(f"{kinds[dtype.code]}{dtype.bits // 8}")


def memory(address, size_bytes):
    return (ctypes.c_char * size_bytes).from_address(address)


def read_only(address, shape, dtype, strides=None):
    if strides is None:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    else:
        size = sum((n - 1) * s for n, s in zip(shape, strides)) + dtype.itemsize
    view = np.ndarray(shape, dtype, buffer=memory(address, max(size, 1)), strides=strides)
    view.flags.writeable = False
    return view


class Spec:
    """A tensor of the model: its name, shape and NumPy type."""

    def __init__(self, spec):
        self.name = spec.name.decode("utf-8", "replace")
        self.shape = tuple(spec.shape[i] for i in range(spec.ndim))
        self.dtype = numpy_type(spec.dtype)

    def __repr__(self):
        return f"{self.name} {self.dtype} {list(self.shape)}"


class Model:
    """What setup() and outputs() are told: path, input, outputs, card (a dict) and the cameras' names."""

    def __init__(self, model):
        self.path = model.path.decode("utf-8", "surrogateescape")
        self.input = Spec(model.input)
        self.outputs = [Spec(model.outputs[i]) for i in range(model.output_count)]
        self.card = json.loads(model.card_json or b"{}")
        self.cameras = [model.camera_names[i].decode("utf-8", "replace") for i in range(model.camera_count)]
        self.channels_last = bool(model.channels_last)

    def index(self, output):
        """The place of an output, by its name or its number."""
        names = [spec.name for spec in self.outputs]
        if isinstance(output, str):
            if output in names:
                return names.index(output)
            raise ValueError(f"outputs(): the model has no output '{output}', it has {', '.join(names)}")
        place = int(output)
        if 0 <= place < len(names):
            return place
        raise ValueError(f"outputs(): the model has no output {place}, it has {len(names)}")


FORMATS = ("BGR", "RGB", "NV12", "I420", "YUY2", "GRAY8")


class Frame:
    """What is known of one frame. `picture` is its picture, `planes` what the camera delivered."""

    def __init__(self, frame):
        self._frame = frame
        self.camera = frame.camera.decode("utf-8", "replace")
        self.camera_index = frame.camera_index
        self.width, self.height = frame.width, frame.height
        self.sequence = frame.sequence
        self.captured_mono_ns, self.arrived_mono_ns = frame.captured_mono_ns, frame.arrived_mono_ns
        self.captured_unix_ns = frame.captured_unix_ns
        self.captured_uncertainty_ns = frame.captured_uncertainty_ns
        self.damaged, self.incomplete = bool(frame.flags & 1), bool(frame.flags & 2)

    @property
    def scale(self):
        """Network pixel = source pixel * scale + offset, for x and y."""
        return self._frame.scale_x, self._frame.scale_y

    @property
    def offset(self):
        return self._frame.offset_x, self._frame.offset_y

    @property
    def format(self):
        """BGR, RGB, NV12, I420, YUY2 or GRAY8; None without a picture."""
        return FORMATS[self._frame.picture.contents.format] if self._frame.picture else None

    @property
    def planes(self):
        """The picture's planes as they are, read-only, without a copy: rows x bytes of a row."""
        if not self._frame.picture:
            return []
        picture = self._frame.picture.contents
        per_sample = {0: 3, 1: 3, 4: 2}.get(picture.format, 1)
        views = []
        for i in range(picture.plane_count):
            plane = picture.planes[i]
            width = plane.width * (2 if picture.format == 2 and i == 1 else per_sample)
            views.append(read_only(plane.data, (plane.height, width), np.dtype("u1"), (plane.stride_bytes, 1)))
        return views

    @property
    def picture(self):
        """The picture as H x W x 3 bytes, blue first, read-only; None where outputs() did not ask for it. A view where
        the camera delivers BGR or RGB; made anew with each use from other formats."""
        planes = self.planes
        if not planes:
            return None
        kind = self.format
        if kind in ("BGR", "RGB"):
            rows = planes[0]
            view = np.lib.stride_tricks.as_strided(
                rows, (self.height, self.width, 3), (rows.strides[0], 3, 1), writeable=False
            )
            return view if kind == "BGR" else view[:, :, ::-1]
        if kind == "GRAY8":
            made = np.repeat(planes[0][: self.height, : self.width, None], 3, axis=2)
        else:
            made = self._from_ycbcr(kind, planes)
        made.flags.writeable = False
        return made

    def _from_ycbcr(self, kind, planes):
        height, width = self.height, self.width
        if kind == "YUY2":
            pairs = planes[0].reshape(planes[0].shape[0], -1)
            y = pairs[:, 0::2]
            cb, cr = np.repeat(pairs[:, 1::4], 2, axis=1), np.repeat(pairs[:, 3::4], 2, axis=1)
        else:
            y = planes[0]
            cb, cr = (planes[1][:, 0::2], planes[1][:, 1::2]) if kind == "NV12" else (planes[1], planes[2])
            cb, cr = (np.repeat(np.repeat(plane, 2, axis=0), 2, axis=1) for plane in (cb, cr))
        y, cb, cr = (plane[:height, :width].astype(np.float32) for plane in (y, cb, cr))
        picture = self._frame.picture.contents
        cb, cr = cb - 128, cr - 128
        if not picture.full_range:
            y, cb, cr = (y - 16) * (255 / 219), cb * (255 / 224), cr * (255 / 224)
        # ITU-R BT.709 and BT.601.
        red, blue = (1.5748, 1.8556) if picture.bt709 else (1.402, 1.772)
        green = (0.1873, 0.4681) if picture.bt709 else (0.344136, 0.714136)
        made = np.stack((y + blue * cb, y - green[0] * cb - green[1] * cr, y + red * cr), axis=2)
        return np.clip(np.rint(made), 0, 255).astype(np.uint8)


class Tensors:
    """The outputs that outputs() asked for, by number or name; others are None. `input` is the network's input."""

    def __init__(self, tensors, names):
        self._names = names
        self._views = [self._view(tensors, i) for i in range(tensors.output_count)]
        self.input = self._of(tensors.input)

    @classmethod
    def _view(cls, tensors, i):
        device = tensors.device_outputs[i]
        return cls._of(device if device else tensors.outputs[i])

    @staticmethod
    def _of(pointer):
        if not pointer or not pointer.contents.data:
            return None
        tensor = pointer.contents
        shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        address, dtype = tensor.data + tensor.byte_offset, numpy_type(tensor.dtype)
        if tensor.device.device_type == CUDA:
            return DeviceTensor(address, shape, dtype, tensor.device.device_id)
        return read_only(address, shape, dtype).view(HostTensor)

    def __len__(self):
        return len(self._views)

    def __iter__(self):
        return iter(self._views)

    def __getitem__(self, output):
        return self._views[self._names.index(output) if isinstance(output, str) else output]


class Detection:
    """One detection of the list: reading and setting an attribute reads and sets the list's element."""

    __slots__ = ("_record",)

    def __init__(self, record):
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name):
        record = object.__getattribute__(self, "_record")
        if name in ("class_name", "text"):
            return bytes(record[name]).decode("utf-8", "replace")
        if name == "keypoints":
            return record["keypoints"][: int(record["keypoint_count"])]
        try:
            value = record[name]
        except (KeyError, ValueError):
            raise AttributeError(f"a detection has no '{name}'") from None
        return value.item() if np.ndim(value) == 0 else value

    def __setattr__(self, name, value):
        record = self._record
        if name in ("class_name", "text"):
            room = DETECTION[name].itemsize - 1
            record[name] = value.encode("utf-8")[:room].decode("utf-8", "ignore").encode("utf-8")
        elif name == "keypoints":
            points = np.asarray(value, np.float32).reshape(-1, 2)
            if len(points) > MAX_KEYPOINTS:
                raise ValueError(f"a detection has at most {MAX_KEYPOINTS} keypoints")
            record["keypoints"][: len(points)] = points
            record["keypoint_count"] = len(points)
        elif name in ("track_id", "class_id", "score", "box"):
            record[name] = value
        else:
            raise AttributeError(f"a detection has no '{name}'")

    def __repr__(self):
        return f"{self.class_name or self.class_id} {self.score:.2f} {[round(float(v), 1) for v in self.box]}"


class Event:
    """What happened in a frame."""

    def __init__(self, event):
        self.name = event.name.decode("utf-8", "replace")
        self.zone = event.zone.decode("utf-8", "replace")
        self.track_id = event.track_id
        self.numbers = {
            event.numbers[i].name.decode("utf-8", "replace"): event.numbers[i].value
            for i in range(event.number_count)
        }


class Results:
    """The frame's list of detections. `array` is all of it as a structured array, without a copy; iterating gives one
    object for each."""

    def __init__(self, worker, instance, results, all_items):
        self._worker, self._instance, self._results, self._all = worker, instance, results, all_items

    @property
    def array(self):
        return self._all[: self._results.count]

    def __len__(self):
        return self._results.count

    def __iter__(self):
        return (Detection(self._all[i]) for i in range(self._results.count))

    def __getitem__(self, i):
        count = self._results.count
        if not -count <= i < count:
            raise IndexError(f"there are {count} detections")
        return Detection(self._all[i % count])

    def add(self, **fields):
        """Adds a detection and returns it; None where the list is full."""
        count = self._results.count
        if count == self._results.capacity:
            return None
        self._all[count] = np.zeros((), DETECTION)
        made = Detection(self._all[count])
        for name, value in fields.items():
            setattr(made, name, value)
        self._results.count = count + 1
        return made

    def keep(self, which):
        """Keeps those detections for which `which`, a mask or numbers, says so."""
        kept = self.array[np.asarray(which)].copy()
        self._all[: len(kept)] = kept
        self._results.count = len(kept)

    def clear(self):
        self._results.count = 0

    def event(self, name, zone="", track_id=0, **numbers):
        """Notes that something has happened. False where the frame has as many events as it can have."""
        event = CEvent(struct_size=ctypes.sizeof(CEvent), track_id=track_id, number_count=len(numbers))
        if len(numbers) > 8:
            raise ValueError("an event has at most 8 numbers")
        event.name, event.zone = name.encode("utf-8")[:47], zone.encode("utf-8")[:47]
        for place, (number, value) in enumerate(numbers.items()):
            event.numbers[place].name = number.encode("utf-8")[:23]
            event.numbers[place].value = value
        code = self._worker.camd_worker_add_event(self._instance, ctypes.byref(event))
        if code not in (OK, FULL):
            raise ValueError(f"event '{name}': it needs a name and finite numbers")
        return code == OK

    @property
    def events(self):
        worker, instance = self._worker, self._instance
        return [
            Event(worker.camd_worker_event(instance, i).contents)
            for i in range(worker.camd_worker_event_count(instance))
        ]


class Check:
    """Whom check() tells what is wrong with a configuration. `card` is the model's card, `cameras` their names."""

    def __init__(self, worker, handle):
        self._worker, self._handle = worker, handle
        self.card = json.loads(worker.camd_worker_card(handle) or b"{}")
        self.cameras = [
            worker.camd_worker_camera(handle, i).decode("utf-8", "replace")
            for i in range(worker.camd_worker_camera_count(handle))
        ]

    def _say(self, kind, key, text):
        parts = (str(part).encode("utf-8", "surrogateescape").replace(b"\0", b" ") for part in (key, text))
        self._worker.camd_worker_say(self._handle, kind, *parts)

    def mistake(self, key, message):
        """What is wrong at config.KEY; dots go deeper, "" is all of it."""
        self._say(MISTAKE, key, message)

    def unknown_key(self, key, known):
        """A key that is not read; `known` are those that are."""
        self._say(UNKNOWN_KEY, key, "")
        for one in known:
            self._worker.camd_worker_say_known(self._handle, str(one).encode("utf-8", "replace"))

    def claim(self, key, path):
        """A path that this entry alone may write."""
        self._say(CLAIM, key, os.fspath(path))


def one_line(error):
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    denied = ""
    if isinstance(error, PermissionError) and error.filename is not None:
        folder = os.path.dirname(os.fspath(error.filename)) or "."
        denied = f" (it is confined: allow: [\"files: {folder}/\"])"
    elif isinstance(error, PermissionError):
        denied = " (it is confined: allow: [network])"
    elif isinstance(error, FileNotFoundError) and "No usable temporary directory" in text:  # tempfile's words
        denied = f" (it is confined: allow: [\"files: {os.environ.get('TMPDIR', '/tmp').rstrip('/')}/\"])"
    return " ".join(text.split()) + denied


class Instance:
    """One plug-in: a module, and the loop that does what camd orders."""

    MOST_PREPARED = 1024

    def __init__(self, worker, handle):
        self._worker, self._handle = worker, handle
        self._module = None
        self._names = []
        self._prepared = {}
        self._told = 0.0  # when a traceback was logged

    def serve(self):
        worker, handle = self._worker, self._handle
        steps = {
            CHECK: self._check,
            CREATE: self._create,
            OUTPUTS: self._outputs,
            PROCESS: self._process,
            REOPEN: self._reopen,
            DESTROY: self._destroy,
        }
        while True:
            order = worker.camd_worker_next(handle)
            try:
                steps[order]()
            except BaseException as error:  # exit() too: a plug-in does not end its process
                self._tell(order)
                worker.camd_worker_answer(handle, FAILED, one_line(error).encode("utf-8", "replace"))
            else:
                worker.camd_worker_answer(handle, OK, None)
            if order == DESTROY:
                return

    def _tell(self, order):
        now = time.monotonic()
        if order == PROCESS and now - self._told < 1:
            return
        self._told = now
        self._worker.camd_worker_log(LOG_ERROR, traceback.format_exc().strip().encode("utf-8", "replace"))

    def _call(self, name, *arguments):
        function = getattr(self._module, name, None)
        return function(*arguments) if function is not None else None

    def _path(self):
        return self._worker.camd_worker_plugin(self._handle).decode("utf-8", "surrogateescape")

    def _check(self):
        path = self._path()
        with open(path, "rb") as file:
            source = file.read()
        compile(source, path, "exec")
        # What cannot have a check() is not run: its imports may take seconds.
        if re.search(rb"\bcheck\b|import\s*\*", source) is None:
            return
        check = getattr(self._load(path), "check", None)
        if callable(check):
            config = json.loads(self._worker.camd_worker_config(self._handle))
            check(config, Check(self._worker, self._handle))

    def _load(self, path):
        stem = os.path.splitext(os.path.basename(path))[0]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location(stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _create(self):
        path = self._path()
        module = self._load(path)
        if not callable(getattr(module, "process", None)):
            raise TypeError("has no function process(frame, tensors, results)")
        self._module = module
        self._config = json.loads(self._worker.camd_worker_config(self._handle))
        version = str(getattr(module, "__version__", "")).encode("utf-8", "replace")
        self._worker.camd_worker_describe(
            self._handle, module.__name__.encode("utf-8", "replace"), version, int(hasattr(module, "reopen"))
        )

    def _outputs(self):
        model = Model(self._worker.camd_worker_model(self._handle).contents)
        self._names = [spec.name for spec in model.outputs]
        self._call("setup", self._config, model)
        wanted = self._call("outputs", model)
        if wanted is None:
            wanted = {}
        if not isinstance(wanted, dict):
            wanted = {"outputs": [wanted] if isinstance(wanted, (str, int)) else list(wanted)}
        unknown = set(wanted) - {"outputs", "device", "input", "picture", "detections"}
        if unknown:
            raise ValueError(
                f"outputs(): there is no '{unknown.pop()}', there are outputs, device, input, picture, detections"
            )
        needs = (ctypes.c_int32 * max(len(model.outputs), 1))()
        for output in wanted.get("outputs", ()):
            needs[model.index(output)] = HOST
        for output in wanted.get("device", ()):
            if needs[model.index(output)] == HOST:
                raise ValueError(f"outputs(): {output!r} is asked for on the host and on the device")
            needs[model.index(output)] = DEVICE
        self._worker.camd_worker_needs(
            self._handle,
            needs,
            HOST if wanted.get("input") else NONE,
            HOST if wanted.get("picture") else NONE,
            int(wanted.get("detections", DEFAULT_DETECTIONS)),
        )

    def _process(self):
        worker, handle = self._worker, self._handle
        number = worker.camd_worker_prepared(handle)
        tensors = self._prepared.get(number)
        if tensors is None:
            if len(self._prepared) >= self.MOST_PREPARED:
                self._prepared.clear()
            tensors = Tensors(worker.camd_worker_tensors(handle).contents, self._names)
            self._prepared[number] = tensors
        results = worker.camd_worker_results(handle).contents
        items = np.frombuffer(memory(results.items, results.capacity * DETECTION.itemsize), DETECTION)
        try:
            self._module.process(
                Frame(worker.camd_worker_frame(handle).contents), tensors, Results(worker, handle, results, items)
            )
        finally:
            problem = worker.camd_worker_finish_gpu_work(handle)
        if problem:
            raise RuntimeError(problem.decode("utf-8", "replace"))

    def _reopen(self):
        self._call("reopen")

    def _destroy(self):
        if self._module is not None:
            self._call("finish")


def main(library, name, confinement):
    worker = load_library(library)
    while True:
        handle = worker.camd_worker_accept(confinement.encode("utf-8", "replace"))
        if not handle:
            return 0
        threading.Thread(target=Instance(worker, handle).serve, name=name, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
