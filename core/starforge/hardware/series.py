"""GPU name, as the driver tells it, to the series of the hardware registry, and which series a job's wish admits.

Only exact names and listed aliases: a name that is not here has no series, and nothing is guessed from memory size,
which an H20 and a GH200 share. Source of the names: the table of product names in the README of NVIDIA's open kernel
modules, and for what is newer than that table (Blackwell, GB10, GH200 144G) listings that `nvidia-smi` printed.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ALIASES: Final = {
    "h100-sxm": ("H100 80GB HBM3", "H100 SXM5 80GB"),
    # The driver gives this name to more than one form: only the family is known.
    "h100": ("H100",),
    "h800-sxm": ("H800",),
    "gh200-96gb": ("GH200 480GB", "GH200 120GB"),
    "gh200-144gb": ("GH200 144G HBM3e",),
    "h200": ("H200", "H200 SXM"),
    "b300": ("B300", "B300 SXM6 AC"),
    "a100-pcie-80gb": ("A100 80GB PCIe", "A100-PCIE-80GB"),
    "a800-80gb": ("A800-SXM4-80GB", "A800"),
    "a800-40gb": ("A800-SXM4-40GB",),
    "a800-pcie-80gb": ("A800 80GB PCIe", "A800 80GB PCIe LC", "A800-PCIE-80GB"),
    "v100-sxm2-32gb": ("Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB-LS"),
    "t4": ("Tesla T4", "T4"),
    "rtx-pro-6000": (
        "RTX PRO 6000 Blackwell",
        "RTX PRO 6000 Blackwell Workstation Edition",
        "RTX PRO 6000 Blackwell Server Edition",
        "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    ),
    "rtx-4000-sff-ada": ("RTX 4000 SFF Ada Generation",),
    "titan-x-pascal": ("TITAN X (Pascal)",),
}
"""Series whose label is not simply the name in small letters."""

_PLAIN: Final = (
    # Data centre
    *("H100 PCIe", "H100 NVL", "H800 PCIe", "H800 NVL", "H200 NVL", "H20", "H20-3e"),
    *("B100", "B200", "GB200", "GB300", "GB10"),
    *("A100-SXM4-40GB", "A100-SXM4-80GB", "A100-SXM-64GB", "A100-PCIE-40GB", "A800 40GB Active"),
    *("A10", "A10G", "A10M", "A16", "A2", "A30", "A40", "L2", "L4", "L20", "L40", "L40S", "L40G"),
    *("Tesla V100-SXM2-16GB", "Tesla V100-SXM3-32GB", "Tesla V100-PCIE-16GB", "Tesla V100-PCIE-32GB"),
    *("Tesla V100S-PCIE-32GB", "Tesla V100-DGXS-16GB", "Tesla V100-DGXS-32GB", "Tesla V100-FHHL-16GB"),
    *("Tesla P100-PCIE-12GB", "Tesla P100-PCIE-16GB", "Tesla P100-SXM2-16GB", "Tesla P4", "Tesla P40"),
    *("Tesla M40", "Tesla M60", "Tesla K80"),
    # Workstation
    *("RTX PRO 2000 Blackwell", "RTX PRO 4000 Blackwell", "RTX PRO 4500 Blackwell", "RTX PRO 5000 Blackwell"),
    *("RTX 2000 Ada Generation", "RTX 4000 Ada Generation", "RTX 4500 Ada Generation", "RTX 5000 Ada Generation"),
    *("RTX 5880 Ada Generation", "RTX 6000 Ada Generation"),
    *("RTX A2000", "RTX A2000 12GB", "RTX A4000", "RTX A4500", "RTX A5000", "RTX A5500", "RTX A6000"),
    *("Quadro RTX 4000", "Quadro RTX 5000", "Quadro RTX 6000", "Quadro RTX 8000", "Quadro GV100", "Quadro GP100"),
    *("TITAN RTX", "TITAN V", "TITAN Xp"),
    # Consumer
    *("GeForce RTX 5060", "GeForce RTX 5060 Ti", "GeForce RTX 5070", "GeForce RTX 5070 Ti", "GeForce RTX 5080"),
    *("GeForce RTX 5090", "GeForce RTX 5090 D", "GeForce RTX 5090 D v2"),
    *("GeForce RTX 4060", "GeForce RTX 4060 Ti", "GeForce RTX 4070", "GeForce RTX 4070 SUPER"),
    *("GeForce RTX 4070 Ti", "GeForce RTX 4070 Ti SUPER", "GeForce RTX 4080", "GeForce RTX 4080 SUPER"),
    *("GeForce RTX 4090", "GeForce RTX 4090 D"),
    *("GeForce RTX 3050", "GeForce RTX 3060", "GeForce RTX 3060 Ti", "GeForce RTX 3070", "GeForce RTX 3070 Ti"),
    *("GeForce RTX 3080", "GeForce RTX 3080 Ti", "GeForce RTX 3090", "GeForce RTX 3090 Ti"),
    *("GeForce RTX 2060", "GeForce RTX 2060 SUPER", "GeForce RTX 2070", "GeForce RTX 2070 SUPER"),
    *("GeForce RTX 2080", "GeForce RTX 2080 SUPER", "GeForce RTX 2080 Ti"),
    *("GeForce GTX 1070", "GeForce GTX 1070 Ti", "GeForce GTX 1080", "GeForce GTX 1080 Ti"),
    *(
        "GeForce GTX 1650",
        "GeForce GTX 1650 SUPER",
        "GeForce GTX 1660",
        "GeForce GTX 1660 SUPER",
        "GeForce GTX 1660 Ti",
    ),
)
"""Names that are their own label, but for the brand and the generation."""

_SILENT_WORDS: Final = frozenset({"geforce", "tesla", "generation", "blackwell"})

FAMILIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "h100": frozenset({"h100", "h100-sxm", "h100-pcie", "h100-nvl"}),
        "h800": frozenset({"h800-sxm", "h800-pcie", "h800-nvl"}),
        "gh200": frozenset({"gh200-96gb", "gh200-144gb"}),
        "a100": frozenset({"a100-sxm4-40gb", "a100-sxm4-80gb", "a100-sxm-64gb", "a100-pcie-40gb", "a100-pcie-80gb"}),
        "a100-40gb": frozenset({"a100-sxm4-40gb", "a100-pcie-40gb"}),
        "a100-80gb": frozenset({"a100-sxm4-80gb", "a100-pcie-80gb"}),
        "a100-sxm4": frozenset({"a100-sxm4-40gb", "a100-sxm4-80gb"}),
        "a100-pcie": frozenset({"a100-pcie-40gb", "a100-pcie-80gb"}),
        "a800": frozenset({"a800-40gb", "a800-80gb", "a800-pcie-80gb", "a800-40gb-active"}),
        "v100": frozenset(
            {
                *("v100-sxm2-16gb", "v100-sxm2-32gb", "v100-sxm3-32gb", "v100-pcie-16gb", "v100-pcie-32gb"),
                *("v100s-pcie-32gb", "v100-dgxs-16gb", "v100-dgxs-32gb", "v100-fhhl-16gb"),
            }
        ),
        "p100": frozenset({"p100-pcie-12gb", "p100-pcie-16gb", "p100-sxm2-16gb"}),
    }
)
"""What a job may ask for instead of one series, and the series that meet it."""

_VENDOR: Final = re.compile(r"^nvidia\s+", re.IGNORECASE)


class SeriesRegistry:
    """The built-in names and those that an administrator added. A built-in name keeps its series."""

    def __init__(self, extra: Mapping[str, str] | None = None) -> None:
        """`extra`: GPU name, as the driver tells it, to its series, which may be a new one."""
        added = {_fold(name): series for name, series in (extra or {}).items()}
        self._by_name: Mapping[str, str] = MappingProxyType({**added, **SERIES_BY_NAME})

    @property
    def families(self) -> Mapping[str, frozenset[str]]:
        """Family to its series."""
        return FAMILIES

    def find(self, name: str) -> str | None:
        """The series of a GPU that calls itself `name`, or None when the name is not known.

        Letter case, a leading "NVIDIA" and repeated spaces do not matter; everything else does.
        """
        return self._by_name.get(_fold(name))

    def matches(self, asked: str | None, series: str | None) -> bool:
        """See the function of this name."""
        return matches(asked, series)


def find_series(gpu_name: str) -> str | None:
    """The series of a GPU by the built-in names alone; see `SeriesRegistry.find`."""
    return SERIES_BY_NAME.get(_fold(gpu_name))


def matches(asked: str | None, series: str | None) -> bool:
    """Whether a GPU of `series` meets a wish for `asked`: the same series, or one of the family of that name.

    Asking for None takes any GPU; a GPU whose series is not known meets no other wish.
    """
    if asked is None:
        return True
    return series is not None and (series == asked or series in FAMILIES.get(asked, frozenset()))


def _fold(gpu_name: str) -> str:
    return " ".join(_VENDOR.sub("", gpu_name.strip()).lower().split())


def _label(name: str) -> str:
    return "-".join(word for word in name.lower().split() if word not in _SILENT_WORDS)


SERIES_BY_NAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{_fold(name): _label(name) for name in _PLAIN},
        **{_fold(name): series for series, names in _ALIASES.items() for name in names},
    }
)
"""Folded GPU name to series."""
