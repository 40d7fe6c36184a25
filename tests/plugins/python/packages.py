"""What packages make of the same frame: OpenCV of the picture, PyTorch of a tensor, supervision of the list.

An event "packages" for each frame, its numbers exact, and beside each what NumPy makes of the same. Frame 2 loses
all detections but the largest, as supervision says."""

import cv2
import numpy as np
import supervision as sv
import torch


def outputs(model):
    return {"outputs": [0], "picture": True}


def process(frame, tensors, results):
    picture, values, found = frame.picture, tensors[0], results.array
    seen = sv.Detections(xyxy=sv.xywh_to_xyxy(found["box"]), confidence=found["score"], class_id=found["class_id"])
    grown = torch.from_dlpack(values)
    if grown.data_ptr() != values.ctypes.data:
        raise RuntimeError("PyTorch has a copy")
    results.event(
        "packages",
        blue_opencv=cv2.split(picture)[0].astype(np.int64).sum(),
        blue=picture[:, :, 0].astype(np.int64).sum(),
        best_torch=grown.amax(),
        best=values.max(),
        area_supervision=seen.area.sum(),
        area=(found["box"][:, 2] * found["box"][:, 3]).sum(),
        count=len(seen),
    )
    if frame.sequence == 2:
        results.keep(seen.area == seen.area.max())
