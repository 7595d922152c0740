"""GPUs as the container sees them: how many, and how busy, through the vendor's library where it is there."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

_CORE_SENSOR = 0  # NVML_TEMPERATURE_GPU
_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dri/renderD*", "/dev/davinci[0-9]*", "/dev/accel/accel*")


class Nvml:
    """The NVIDIA management library, opened once; `devices` is empty where it is missing or does not answer."""

    def __init__(self) -> None:
        self._library: Any = None
        self.devices: List[Any] = []
        try:
            import ctypes  # noqa: PLC0415 - a minimal Python may lack it

            self._ctypes = ctypes
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except (ImportError, OSError):
            return
        if library.nvmlInit_v2() == 0:
            self._library = library
            self.devices = self._open_devices()

    def sample(self) -> List[Dict[str, Optional[float]]]:
        """Give how busy, full, hungry and hot each device is; None where the device does not tell."""
        return [self._sample_one(device) for device in self.devices]

    def _open_devices(self) -> List[Any]:
        count = self._ctypes.c_uint(0)
        if self._library.nvmlDeviceGetCount_v2(self._ctypes.byref(count)) != 0:
            return []
        devices = []
        for index in range(count.value):
            device = self._ctypes.c_void_p()
            if self._library.nvmlDeviceGetHandleByIndex_v2(index, self._ctypes.byref(device)) == 0:
                devices.append(device)
        return devices

    def _sample_one(self, device: Any) -> Dict[str, Optional[float]]:  # noqa: ANN401 - an opaque handle
        busy = (self._ctypes.c_uint * 2)()
        memory = (self._ctypes.c_ulonglong * 3)()  # total, free, used
        knows_busy = self._library.nvmlDeviceGetUtilizationRates(device, busy) == 0
        knows_memory = self._library.nvmlDeviceGetMemoryInfo(device, memory) == 0
        return {
            "utilization_percent": busy[0] if knows_busy else None,
            "memory_used_bytes": memory[2] if knows_memory else None,
            "power_w": self._ask("nvmlDeviceGetPowerUsage", device, scale=1000),
            "temperature_celsius": self._ask("nvmlDeviceGetTemperature", device, _CORE_SENSOR),
        }

    def _ask(self, name: str, *given: Any, scale: int = 1) -> Optional[float]:  # noqa: ANN401 - C arguments
        """Give the one number that the function tells; None where the library has no such function."""
        function = getattr(self._library, name, None)
        number = self._ctypes.c_uint(0)
        if function is None or function(*given, self._ctypes.byref(number)) != 0:
            return None
        return float(number.value / scale)


def find_visible_gpus(nvml: Nvml) -> int:
    """Count the usable GPUs: by the library, else by the device files, within CUDA_VISIBLE_DEVICES."""
    import glob  # noqa: PLC0415 - most plans do not ask

    count = len(nvml.devices) or max(len(glob.glob(pattern)) for pattern in _DEVICE_FILES)
    narrowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if narrowed is None or narrowed == "all":
        return count
    return min(count, len([name for name in narrowed.split(",") if name.strip() and name.strip() != "-1"]))
