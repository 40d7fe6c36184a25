"""Tensors as process() sees them, and DLPack's way to hand them to PyTorch, CuPy or NumPy without a copy.

torch.from_dlpack(tensors[0]) and np.from_dlpack(tensors[0]) are views of the same memory, on the host and on a GPU. What
is exported is read-only: DLPack 1.0 says so to those who ask for it (`max_version`); the older form cannot, so who
writes through that ends the process. Like all of a frame's tensors, a view is valid until process() returns.
https://dmlc.github.io/dlpack/latest/python_spec.html and c_api.html say what the structs and the capsule are.
"""

import ctypes

import numpy as np

from camd_abi import DLDataType, DLDevice, DLTensor

CPU, CUDA = 1, 2
READ_ONLY = 1
VERSION = (1, 0)
KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class ManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


# By their address: what an export keeps alive until its consumer calls the deleter.
_exported = {}


@Deleter
def _delete(address):
    _exported.pop(address, None)


# Functions of our own: argument types that others set on ctypes.pythonapi are not ours.
_api = ctypes.PyDLL(None)
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


# A capsule that nobody has consumed is deleted with its name unchanged. It has no references left, so its address is all
# that may be touched.
@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _end_capsule(capsule):
    for name in (b"dltensor", b"dltensor_versioned"):
        if _api.PyCapsule_IsValid(capsule, name):
            _delete_of(_api.PyCapsule_GetPointer(capsule, name))


def _delete_of(address):
    _exported.pop(address, None)


def export(owner, address, shape, strides, dtype, device, versioned):
    """A capsule with a view of `owner`'s memory; `strides` in elements."""
    managed = (ManagedTensorVersioned if versioned else ManagedTensor)()
    dimensions = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    steps = (ctypes.c_int64 * max(len(shape), 1))(*strides)
    tensor = managed.tensor
    tensor.data, tensor.device, tensor.ndim = address, DLDevice(*device), len(shape)
    tensor.dtype = DLDataType(KINDS[dtype.kind], dtype.itemsize * 8, 1)
    tensor.shape = ctypes.cast(dimensions, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _delete
    if versioned:
        managed.major, managed.minor = VERSION
        managed.flags = READ_ONLY
    at = ctypes.addressof(managed)
    _exported[at] = (managed, dimensions, steps, owner)
    return _api.PyCapsule_New(at, b"dltensor_versioned" if versioned else b"dltensor", _end_capsule)


def checked(own_device, max_version, dl_device, copy):
    """Whether the consumer knows versions. What cannot be done is a BufferError, as the array API has it."""
    if copy:
        raise BufferError("camd's tensors are exported without a copy: copy the view")
    if dl_device is not None and tuple(map(int, dl_device)) != own_device:
        raise BufferError(f"the tensor is on DLPack device {own_device}, not {tuple(map(int, dl_device))}")
    return max_version is not None and max_version[0] >= VERSION[0]


class HostTensor(np.ndarray):
    """A NumPy array that DLPack exports although it is read-only."""

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self.flags.writeable or self.dtype.kind not in KINDS:
            return super().__dlpack__()
        versioned = checked((CPU, 0), max_version, dl_device, copy)
        strides = [step // self.itemsize for step in self.strides]
        return export(self, self.ctypes.data, self.shape, strides, self.dtype, (CPU, 0), versioned)

    def __dlpack_device__(self):
        return CPU, 0


class DeviceTensor:
    """A tensor on a GPU: torch.from_dlpack(), cupy.from_dlpack() and cupy.asarray() see it. What process() begins on the
    GPU, on any stream, is waited for when it returns."""

    def __init__(self, address, shape, dtype, device):
        self._address, self._device = address, device
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    def __repr__(self):
        return f"DeviceTensor({self.dtype} {list(self.shape)} on GPU {self._device})"

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        # Its values are there before process() is called, so there is nothing that a stream would wait for.
        versioned = checked((CUDA, self._device), max_version, dl_device, copy)
        strides = [int(np.prod(self.shape[i + 1 :], dtype=np.int64)) for i in range(len(self.shape))]
        return export(self, self._address, self.shape, strides, self.dtype, (CUDA, self._device), versioned)

    def __dlpack_device__(self):
        return CUDA, self._device

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, True),
            "strides": None,
            "version": 3,
        }
