"""The GPU of this machine, asked of the driver's own library. Nothing else asks whether there is one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

_LIBRARY = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The first device: its name, such as `NVIDIA H200`, and its architecture, such as `sm_90`."""

    name: str
    arch: str


def find_gpu() -> Gpu | None:
    """The GPU that programs of this process would run on; None where there is no driver or no device."""
    try:
        driver = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    count, device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    asked: tuple[Callable[[], int], ...] = (
        lambda: driver.cuInit(0),
        lambda: driver.cuDeviceGetCount(ctypes.byref(count)),
        lambda: driver.cuDeviceGet(ctypes.byref(device), 0),
        lambda: driver.cuDeviceGetName(name, len(name), device),
        lambda: driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device),
        lambda: driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device),
    )
    if any(ask() != 0 for ask in asked) or count.value < 1:
        return None
    return Gpu(name.value.decode("utf-8", "replace"), f"sm_{major.value}{minor.value}")
