"""An event "sums" for each frame: a checksum of the bits of all outputs, exact, so that those of any other frame give
another. {"where": "host" | "torch" | "device", "as": "NAME"}: the event's zone is the name. The same as bad/sums.cpp.

With "torch" PyTorch reads them by DLPack on the host, with "device" on the GPU, and computes there."""

import numpy as np

PRIME = 2147483647


def setup(config, model):
    global where, zone
    where, zone = config["where"], config["as"]
    if where != "host":
        global torch
        import torch


def outputs(model):
    return {"device" if where == "device" else "outputs": [spec.name for spec in model.outputs]}


def sum_in_numpy(tensor):
    bits = tensor.reshape(-1).view(f"i{tensor.dtype.itemsize}").astype(np.int64)
    return int((bits * (np.arange(bits.size) % 251 + 1)).sum())


def sum_in_torch(tensor):
    values = torch.from_dlpack(tensor)
    address = tensor.__cuda_array_interface__["data"][0] if where == "device" else tensor.ctypes.data
    if values.is_cuda != (where == "device") or values.data_ptr() != address:
        raise RuntimeError(f"PyTorch sees {values.device} at {values.data_ptr():#x}, not {tensor}")
    bits = values.reshape(-1).view({2: torch.int16, 4: torch.int32}[values.element_size()]).to(torch.int64)
    places = torch.arange(bits.numel(), device=bits.device) % 251 + 1
    return int((bits * places).sum().item())


def process(frame, tensors, results):
    total, sum_of = 0, sum_in_numpy if where == "host" else sum_in_torch
    for tensor in tensors:
        total = (total * 31 + sum_of(tensor) % PRIME) % PRIME
    if not results.event("sums", zone=zone, sums=total, sequence=frame.sequence, camera=frame.camera_index):
        raise RuntimeError("no room for an event")
