"""Checks where the model and the data are: what can be known of it without a network."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from starforge.contract.canonical import Json
from starforge.recipes.columns import HEAD_BYTES, advise, explain_unfit, find_columns, list_wanted
from starforge.recipes.faults import Fault, Place
from starforge.recipes.model import Recipe

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_DATA_FILES: Final = tuple(
    f"{ending}{packed}"
    for ending in (".jsonl", ".json", ".csv", ".txt", ".arrow", ".parquet")
    for packed in ("", ".gz", ".zst", ".xz", ".bz2")
)
_HUB: Final = re.compile(r"hf://[^\s/@]+/[^\s/@]+(@\S+)?")
_LIKE_HUB: Final = re.compile(r"(?:hf:)?(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(?:@[\w./-]+)?)", re.ASCII)


class Named(NamedTuple):
    """A setting that names a model or data, its value, and where it was written."""

    key: str
    value: str
    place: Place


def find_data_fault(root: Path, folder: str, named: Named) -> Fault | None:
    """What is wrong with a model or data that the experiment in `folder` (below the project's `root`) names."""
    key, value, place = named
    scheme = _SCHEME.match(value)
    if scheme is not None:
        return _check_address(scheme[1], named)
    if is_elsewhere(value):
        return None
    path = PurePosixPath(value)
    if ".." in path.parts:
        message = f"{key} is {value}, which leads out of the project"
        return Fault("data_outside", message, place, "name a path below the project's folder, without '..'")
    if (root / path).exists():
        return None
    hint = "paths count from the project's folder"
    like_hub = _LIKE_HUB.fullmatch(value)
    if (root / folder / path).exists():
        hint = f"write {os.path.normpath(f'{folder}/{value}')}: paths count from the project's folder"
    elif like_hub and not (root / path.parts[0]).exists() and not value.endswith(_DATA_FILES):
        hint = f"did you mean hf://{like_hub['repo']}? A path counts from the project's folder"
    return Fault("data_missing", f"{key} is {value}, and the project holds no such path", place, hint)


def find_format_fault(named: Named, wanted: Sequence[str]) -> Fault | None:
    """What is wrong with a data file whose ending is known and none of those that the method reads."""
    key, value, place = named
    if value.endswith(tuple(wanted)) or not value.endswith(_DATA_FILES):
        return None
    shown = ", ".join(wanted)
    return Fault("data_format", f"{key} is {value}, and this method reads {shown} alone", place, "convert it first")


def find_columns_fault(root: Path, named: Named, recipe: Recipe, values: Mapping[str, Json]) -> Fault | None:
    """What the rows of a data file in the project lack for the method; None also where that cannot be told for sure."""
    key, value, place = named
    wanted = [] if is_elsewhere(value) else list_wanted(recipe, values)
    if not wanted or not (root / value).is_file():
        return None
    try:
        with (root / value).open("rb") as file:
            found = find_columns(value, file.read(HEAD_BYTES))
    except OSError:  # who packs it says so
        return None
    why = explain_unfit(wanted, found)
    return Fault("data_columns", f"{key} is {value}, and {why}", place, advise(recipe)) if why else None


def find_data_warning(named: Named) -> Fault | None:
    """What cannot be known here of data that lies on the machines."""
    key, value, place = named
    if not value.startswith("/"):
        return None
    message = f"{key} is {value}, a path of the machines: whether it is there shows when the job is placed"
    return Fault("data_unchecked", message, place)


def is_elsewhere(value: str) -> bool:
    """Whether data lies outside of the workspace: on the machines, or at a hub."""
    return value.startswith("/") or _SCHEME.match(value) is not None


def _check_address(scheme: str, named: Named) -> Fault | None:
    key, value, place = named
    if scheme != "hf":
        message = f"{key} is {value}, and nothing reads {scheme}: addresses"
        return Fault("data_scheme", message, place, "name a path, or hf://OWNER/NAME@REVISION")
    if not _HUB.fullmatch(value):
        return Fault("data_address", f"{key} is {value}", place, "write hf://OWNER/NAME@REVISION")
    return None
