"""Which of a job's curves say most: the order in which a terminal and a page choose what to draw first."""

import re
from collections.abc import Mapping
from typing import Final

from starforge.contract.capsule import SYSTEM_METRICS

_TELLING: Final = ("loss", "reward", "acc", "score", "perplexity", "grad_norm", "lr")
"""Words that a key's part begins with, the most telling first."""
_PARTS: Final = re.compile(r"[/_.\-]")
_TRAINING: Final = "train"


def sort_keys(points: Mapping[str, int], primary: str | None = None) -> list[str]:
    """The keys of curves, given how many points each has, the most telling first.

    `primary`, the metric by which runs of the job's method are compared, comes first wherever it was reported. Values
    that were reported once are no curves and come last. Else a loss comes before a reward, and so on; of two alike the
    one that is named so and no more, or of the training itself, and at last the one whose name sorts first. What the
    runner measured of the machine comes last of all.
    """
    return sorted(points, key=lambda key: (key != primary, is_of_system(key), points[key] <= 1, *_rank(key)))


def is_of_system(key: str) -> bool:
    """Whether the curve is one of how busy the machine was, and not of the training."""
    return key.startswith(SYSTEM_METRICS)


def _rank(key: str) -> tuple[int, bool, bool, str]:
    name = key.lower()
    parts = [part for part in _PARTS.split(name) if part]
    found = next((rank for rank, word in enumerate(_TELLING) if _holds(name, word)), len(_TELLING))
    plain = found < len(_TELLING) and set(parts) <= {_TRAINING, *_PARTS.split(_TELLING[found])}
    return found, not plain, _TRAINING not in parts[:1], key


def _holds(name: str, word: str) -> bool:
    return re.search(rf"(?:^|[/_.\-]){word}", name) is not None
