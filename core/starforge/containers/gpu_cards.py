"""One GPU as a listing shows it, and whether it can be given to a job: values and one pure rule."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Why(StrEnum):
    """Why a GPU is not offered."""

    MIG_ENABLED = "mig_enabled"
    """It is cut into parts; neither it nor a part is a whole GPU."""
    INTEGRATED = "integrated_gpu_unsupported"
    """Part of a small board's own chip, without a UUID that an engine could select."""
    REQUIRES_RESET = "requires_reset"
    ERR = "err"
    """The driver failed to read it."""
    QUARANTINED = "quarantined"
    """Its memory has failed, or what decides about it cannot be read."""
    FOREIGN = "foreign"
    """A process outside our containers uses it."""


class ErrorCode(StrEnum):
    """What is wrong with a listing, or with a GPU that it could not show."""

    DUPLICATE_INDEX = "duplicate_index"
    DUPLICATE_UUID = "duplicate_uuid"
    MISSING_COLUMNS = "missing_columns"
    GPU_LOST = "gpu_lost"
    GPU_HANDLE = "gpu_handle"
    NVML_MISMATCH = "nvml_mismatch"
    NVML_UNKNOWN = "nvml_unknown"
    NVML_LIBRARY = "nvml_library"
    NO_DEVICES = "no_devices"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    PROBE_TIMEOUT = "probe_timeout"


ONE_GPU_ALONE: Final = frozenset({ErrorCode.GPU_LOST, ErrorCode.GPU_HANDLE})
"""Errors that concern one GPU and say nothing against the others."""


@dataclass(frozen=True, slots=True)
class GpuError:
    """An error for people, and the PCI address of the GPU where it is known."""

    code: ErrorCode
    message: str
    bus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU of a listing. `uuid` is None in a listing that shows none; `memory_mib` None is "not known", never 0.

    `why` is None for one that can be given to a job; `detail` says in words what `why` says in one.
    """

    index: int | None
    uuid: str | None
    name: str
    memory_mib: int | None = None
    slot: str = ""
    why: Why | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing showed, lowest index first. `unread` are lines that nobody could read."""

    cards: tuple[Card, ...] = ()
    errors: tuple[GpuError, ...] = ()
    unread: tuple[str, ...] = ()
    driver: str = ""


UUID: Final = re.compile(r"(?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
BUS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)

NO_FACTS: Final[Mapping[str, str]] = MappingProxyType({})

_COUNT: Final = re.compile(r"[0-9]{1,18}")
_SILENT: Final = frozenset({"", "n/a", "not supported", "not available", "no data", "not found"})
_RESET: Final = re.compile(r"requires? (?:a )?reset|reset required", re.IGNORECASE)
_LOST: Final = re.compile(r"gpu is lost", re.IGNORECASE)
_FAILED: Final = re.compile(r"err!|unknown error|gpu is lost", re.IGNORECASE)
_INTEGRATED: Final = re.compile(r"\((?:nvgpu|nvhost|tegra)\)|\b(?:Orin|Xavier|Thor|Tegra|Jetson)\b", re.IGNORECASE)
_ASKS_FOR_RESET: Final = (
    "reset_status.reset_required",
    "reset_status.drain_and_reset_recommended",
    "retired_pages.pending",
    "remapped_rows.pending",
)
_RECOVERY: Final = "gpu_recovery_action"
_UNCORRECTED: Final = "ecc.errors.uncorrected.volatile.total"
_REMAP_FAILURE: Final = "remapped_rows.failure"
_MIG: Final = "mig.mode.current"


def parse_count(cell: str) -> int | None:
    """The whole number that `cell` is, in plain digits and of a length that a driver would print; else None."""
    return int(cell) if _COUNT.fullmatch(cell) else None


def says_nothing(cell: str) -> bool:
    """Whether the driver says that it has no value: "[N/A]" and its kin are neither zero nor an error."""
    return cell.strip("[] ").lower() in _SILENT


def is_lost(cells: Iterable[str]) -> bool:
    """Whether one of the GPU's values says that the GPU has fallen off the bus."""
    return any(_LOST.search(cell) for cell in cells)


def has_failed(cells: Iterable[str]) -> bool:
    """Whether the driver failed to read one of the GPU's values."""
    return any(_FAILED.search(cell) for cell in cells)


def decide_why(
    name: str, uuid: str | None, cells: Iterable[str], facts: Mapping[str, str] = NO_FACTS
) -> tuple[Why | None, str]:
    """Why the GPU is not offered, with words for it, or None. Pure.

    `cells` is all that the listing says of the GPU, `facts` the part of it whose field names are known.
    """
    cells = list(cells)
    if _INTEGRATED.search(name) or (uuid and not uuid.startswith("GPU-")):
        return Why.INTEGRATED, "it is part of a small board's own chip"
    if any(_RESET.search(cell) for cell in cells):
        return Why.REQUIRES_RESET, "the driver says that it requires a reset"
    failed = next((match for cell in cells if (match := _FAILED.search(cell))), None)
    if failed:
        return Why.ERR, f"the driver says {failed[0]} where a value belongs"
    return _decide_by_facts(facts)


def _decide_by_facts(facts: Mapping[str, str]) -> tuple[Why | None, str]:
    for field in _ASKS_FOR_RESET:
        if facts.get(field, "").lower() in {"yes", "1"}:
            return Why.REQUIRES_RESET, f"{field} is {facts[field]}"
    action = facts.get(_RECOVERY, "")
    if action.lower() != "none" and not says_nothing(action):
        needs_reset = "reset" in action.lower() or "reboot" in action.lower()
        return (Why.REQUIRES_RESET if needs_reset else Why.QUARANTINED), f"the driver asks for: {action}"
    mig = facts.get(_MIG, "")
    if mig.lower().startswith("enabled"):
        return Why.MIG_ENABLED, "it is cut into MIG parts"
    if not mig.lower().startswith("disabled") and not says_nothing(mig):
        return Why.QUARANTINED, f"its MIG mode cannot be read: {mig}"
    return _decide_by_memory(facts)


def _decide_by_memory(facts: Mapping[str, str]) -> tuple[Why | None, str]:
    """Errors that memory could not correct stay counted until a reset; a failed remapping means a broken GPU."""
    errors = facts.get(_UNCORRECTED, "")
    if parse_count(errors):
        return Why.QUARANTINED, f"{errors} uncorrected memory errors since the driver was loaded"
    if facts.get(_REMAP_FAILURE, "").lower() in {"yes", "1"}:
        return Why.QUARANTINED, "memory rows could not be remapped"
    return None, ""
