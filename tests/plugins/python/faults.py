"""Does the harm that its configuration names, at one frame; others get one detection and one event."""

import ctypes
import gc
import os
import signal
import tempfile
import threading

import camd_dlpack
import numpy as np


def setup(config, model):
    global how, at, camera
    how, at, camera = config.get("how", ""), config.get("at", -1), config.get("camera")
    if how == "refuse":
        raise ValueError("config: no")


def outputs(model):
    if how == "wrong_output":
        return ["nowhere"]
    if how == "device":
        return {"device": [0]}
    return {"outputs": [0], "picture": how == "picture"}


def read_by_dlpack(tensor):
    """What a consumer on the GPU would see: device, address and shape, out of a capsule as DLPack 1.0 has it."""
    capsule = tensor.__dlpack__(max_version=(1, 0))
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = camd_dlpack.ManagedTensorVersioned.from_address(get(capsule, b"dltensor_versioned"))
    seen = managed.tensor
    assert (seen.device.device_type, seen.device.device_id) == tensor.__dlpack_device__() == (2, 0)
    assert managed.flags == camd_dlpack.READ_ONLY and (managed.major, managed.minor) == (1, 0)
    assert [seen.shape[i] for i in range(seen.ndim)] == list(tensor.shape) == [1, 4]
    assert tensor.__cuda_array_interface__["data"] == (seen.data, True)
    return ctypes.c_float.from_address(seen.data).value


def process(frame, tensors, results):
    values = tensors[0]
    if how == "device":
        results.add(score=read_by_dlpack(values))
        return
    if how == "dlpack":
        view = np.from_dlpack(values)
        assert view.ctypes.data == values.ctypes.data and not view.flags.writeable
        assert np.from_dlpack(values[0, 1:3]).tolist() == values[0, 1:3].tolist()
        del view, values
        gc.collect()
        results.add(score=tensors[0][0, 0], class_id=len(camd_dlpack._exported))
        return
    if how == "torch":
        import torch

        view = torch.from_dlpack(values)
        assert view.data_ptr() == values.ctypes.data and list(view.shape) == list(values.shape)
        part = torch.from_dlpack(values[0, 1:3])
        assert part.data_ptr() == view[0, 1:3].data_ptr() and part.tolist() == view[0, 1:3].tolist()
        score = float(view[0, 0])
        del view, part, values
        gc.collect()
        results.add(score=score, class_id=len(camd_dlpack._exported))
        return
    if frame.sequence == at and camera in (None, frame.camera):
        if how == "throw":
            raise ValueError("no good")
        if how == "write":
            values[0, 0] = 1
        if how == "open":
            open(os.path.join(os.path.dirname(__file__), "never.txt"), "w")
        if how == "temporary":
            tempfile.TemporaryFile()
        if how == "exit":
            raise SystemExit(0)
        if how == "os_exit":
            os._exit(0)
        if how == "abort":
            os.abort()
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "flood":
            results._results.count = 1 << 30
            return
        if how == "memory":
            kept = []
            while True:
                kept.append(bytearray(8 << 20))
        if how == "threads":
            while True:
                threading.Thread(target=threading.Event().wait, daemon=True).start()
        if how == "crash":
            ctypes.string_at(0)
        if how == "hang":
            while True:
                pass
        if how == "fork":
            os.fork()
    made = results.add(class_id=os.getpid(), score=values.flat[0], class_name="thing", box=[1, 2, 3, 4])
    made.keypoints = [[5, 6]]
    if how == "picture":
        made.text = f"{frame.format} {frame.picture.shape} {frame.picture[0, 1]}"
    results.event("seen", zone="gate", speed=1.5)
