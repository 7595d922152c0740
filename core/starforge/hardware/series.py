"""GPU name, as the driver tells it, to the series of the hardware registry.

Only exact names and listed aliases: a name that is not here has no series, and nothing is guessed from memory size.
"""

import re
from types import MappingProxyType
from typing import Final

_NAMES: Final = {
    "h20": ("H20",),
    "h100": ("H100 80GB HBM3", "H100 SXM5 80GB", "H100"),
    "h100-pcie": ("H100 PCIe",),
    "h100-nvl": ("H100 NVL",),
    "h200": ("H200", "H200 SXM"),
    "h200-nvl": ("H200 NVL",),
    "h800": ("H800",),
    "h800-pcie": ("H800 PCIe",),
    "gh200": ("GH200 480GB", "GH200 120GB"),
    "b200": ("B200",),
    "b300": ("B300", "B300 SXM6 AC"),
    "gb200": ("GB200",),
    "gb300": ("GB300",),
    "a100": ("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-SXM-64GB"),
    "a100-pcie": ("A100-PCIE-40GB", "A100 80GB PCIe"),
    "a800": ("A800-SXM4-40GB", "A800-SXM4-80GB"),
    "a800-pcie": ("A800 80GB PCIe", "A800-PCIE-80GB"),
    "a10": ("A10",),
    "a10g": ("A10G",),
    "a16": ("A16",),
    "a30": ("A30",),
    "a40": ("A40",),
    "a2": ("A2",),
    "l4": ("L4",),
    "l20": ("L20",),
    "l40": ("L40",),
    "l40s": ("L40S",),
    "v100": ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB", "Tesla V100-SXM3-32GB"),
    "v100-pcie": ("Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"),
    "t4": ("Tesla T4", "T4"),
    "p100": ("Tesla P100-PCIE-16GB", "Tesla P100-PCIE-12GB", "Tesla P100-SXM2-16GB"),
    "rtx-a6000": ("RTX A6000",),
    "rtx-6000-ada": ("RTX 6000 Ada Generation",),
    "rtx-pro-6000": (
        "RTX PRO 6000 Blackwell Workstation Edition",
        "RTX PRO 6000 Blackwell Server Edition",
        "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    ),
    "rtx-3090": ("GeForce RTX 3090",),
    "rtx-3090-ti": ("GeForce RTX 3090 Ti",),
    "rtx-4090": ("GeForce RTX 4090",),
    "rtx-4090-d": ("GeForce RTX 4090 D",),
    "rtx-5090": ("GeForce RTX 5090",),
    "rtx-5090-d": ("GeForce RTX 5090 D",),
}

_VENDOR: Final = re.compile(r"^nvidia\s+", re.IGNORECASE)


def find_series(gpu_name: str) -> str | None:
    """The series of a GPU that calls itself `gpu_name`, or None when the name is not known.

    Letter case, a leading "NVIDIA" and repeated spaces do not matter; everything else does.
    """
    return SERIES_BY_NAME.get(_fold(gpu_name))


def _fold(gpu_name: str) -> str:
    return " ".join(_VENDOR.sub("", gpu_name.strip()).lower().split())


SERIES_BY_NAME: Final = MappingProxyType({_fold(name): series for series, names in _NAMES.items() for name in names})
"""Folded GPU name -> series."""
