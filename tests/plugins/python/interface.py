"""Uses what a plug-in in Python is given, behind faults.py, and fails a frame in which anything is not as it has to be."""

import os

import numpy as np

frames = 0
assert os.environ["OPENBLAS_NUM_THREADS"] == "1"


def setup(config, model):
    assert config == {"keep": 0.5}, config
    assert (model.path, model.card, model.cameras) == ("fake.onnx", {}, ["door"])
    assert [str(spec) for spec in model.outputs] == ["out float32 [1, 4]"], model.outputs


def outputs(model):
    return {"outputs": ["out"], "picture": True, "detections": 600}


def refuses_to_write(array):
    try:
        array[...] = 0
    except ValueError:
        return True
    return False


def process(frame, tensors, results):
    global frames
    frames += 1
    assert (frame.camera, frame.camera_index, frame.sequence) == ("door", 0, frames - 1)
    assert (frame.width, frame.height, frame.format, frame.damaged, frame.incomplete) == (8, 2, "BGR", False, False)
    picture = frame.picture
    assert picture.shape == (2, 8, 3) and picture[1, 2].tolist() == [30, 31, 32] and refuses_to_write(picture)
    assert [plane.shape for plane in frame.planes] == [(2, 24)] and refuses_to_write(frame.planes[0])

    assert len(tensors) == 1 and tensors["out"] is tensors[0] and tensors.input is None
    assert tensors[0].shape == (1, 4) and tensors[0].dtype == np.float32 and refuses_to_write(tensors[0])

    (event,) = results.events
    assert (event.name, event.zone, event.numbers) == ("seen", "gate", {"speed": 1.5})
    (found,) = results
    assert (found.class_name, found.score, list(found.box)) == ("thing", 0.25, [1, 2, 3, 4])
    assert found.keypoints.tolist() == [[5, 6]]
    found.track_id = 7
    assert results.array["track_id"].tolist() == [7]  # an object is a view of the list
    results.array["score"] = 0.75  # and the array is, too
    assert results[0].score == 0.75 and results[-1].track_id == 7
    low = results.add(score=0.25, class_id=1)
    results.add(score=0.5, class_id=2, class_name="added", text="\u00e9", box=[5, 6, 7, 8])
    assert len(results) == 3 and low.class_id == 1
    results.keep(results.array["score"] >= 0.5)
    assert results.array["class_id"].tolist()[1:] == [2] and results[1].text == "\u00e9"
    assert results.event("kept", track_id=7, count=len(results))
    assert [one.name for one in results.events] == ["seen", "kept"]
    if frames == 2:
        results.clear()


def finish():
    raise RuntimeError(f"finished after {frames} frames")
