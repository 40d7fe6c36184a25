"""Does the harm that its configuration names, at one frame; others get one detection and one event."""

import ctypes
import os
import signal
import threading


def setup(config, model):
    global how, at, camera
    how, at, camera = config.get("how", ""), config.get("at", -1), config.get("camera")
    if how == "refuse":
        raise ValueError("config: no")


def outputs(model):
    if how == "wrong_output":
        return ["nowhere"]
    return {"outputs": [0], "picture": how == "picture"}


def process(frame, tensors, results):
    values = tensors[0]
    if frame.sequence == at and camera in (None, frame.camera):
        if how == "throw":
            raise ValueError("no good")
        if how == "write":
            values[0, 0] = 1
        if how == "open":
            open(os.path.join(os.path.dirname(__file__), "never.txt"), "w")
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
