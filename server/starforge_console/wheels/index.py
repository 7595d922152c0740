"""The wheelhouse as it lies on the disk: which wheels are there, and which of them one kind of machine installs."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from starforge import __version__
from starforge.errors import NotFound
from starforge_console.wheels.lock import Pin, choose_pins
from starforge_console.wheels.targets import TARGETS, Target

FOLDER: Final = "wheelhouse"
OWN: Final = ("starforge-core", "starforge-forgelet")
"""Our own packages of a machine; their digests are in no lock, for they are built after it."""
INSTALLER: Final = "pip"
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """One file. `digest` is its SHA-256; `project` is the normalised name."""

    path: Path
    project: str
    version: str
    tags: frozenset[Tag]
    digest: str
    size_bytes: int


class WheelIndex:
    """The wheels in one folder. A file is read once, and again when its size or time changes. Safe for threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, int, int], Wheel] = {}
        self._lock = Lock()

    def list_wheels(self) -> Sequence[Wheel]:
        """What is there now, by name; nothing where there is no folder."""
        with self._lock:
            known: dict[tuple[str, int, int], Wheel] = {}
            for entry in self._scan():
                status = entry.stat()
                key = (entry.name, status.st_size, status.st_mtime_ns)
                wheel = self._known.get(key) or _read_wheel(Path(entry.path), status.st_size)
                if wheel is not None:
                    known[key] = wheel
            self._known = known
            return sorted(known.values(), key=lambda wheel: wheel.path.name)

    def find_wheel(self, name: str) -> Wheel | None:
        """The file of that name."""
        return next((wheel for wheel in self.list_wheels() if wheel.path.name == name), None)

    def _scan(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder) as entries:
                return [entry for entry in entries if entry.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []


@dataclass(frozen=True, slots=True)
class Selection:
    """What one kind of machine installs, and what of it is not there."""

    target: Target
    chosen: Mapping[str, Wheel]
    missing: tuple[str, ...]


def select_wheels(wheels: Sequence[Wheel], pins: Sequence[Pin], target: Target) -> Selection:
    """For each of `pins` that `target` needs, and for our own packages, the wheel that suits it best. Pure.

    A file whose digest the release does not name is as good as missing.
    """
    ranks = {tag: rank for rank, tag in reversed(list(enumerate(target.list_tags())))}
    chosen: dict[str, Wheel] = {}
    missing: list[str] = []
    for pin in (*choose_pins(pins, target), *(Pin(name, __version__, "", frozenset()) for name in OWN)):
        fitting = [wheel for wheel in wheels if _fits(wheel, pin) and wheel.tags & ranks.keys()]
        if fitting:
            chosen[pin.name] = min(fitting, key=lambda wheel: min(ranks[tag] for tag in wheel.tags & ranks.keys()))
        else:
            missing.append(f"{pin.name} {pin.version}")
    return Selection(target, chosen, tuple(missing))


def build_lock_text(selection: Selection) -> str:
    """What a machine of that kind installs, as a file of requirements; the head names the release and pip's wheel.

    Raises:
        NotFound: not everything is there; it says what to run on the console.

    """
    if selection.missing:
        raise NotFound(
            f"the wheelhouse has no wheels for Python {selection.target.python} on {selection.target.arch}",
            why=_tell_missing(selection.missing),
            next_step=f"on the console run: {build_add_command(selection.target)}",
        )
    installer = selection.chosen[INSTALLER]
    rest = [wheel for name, wheel in selection.chosen.items() if name != INSTALLER]
    lines = [
        f"# {OWN[-1]} {__version__}",
        f"# {installer.path.name} {installer.digest}",
        *(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.digest}" for wheel in rest),
    ]
    return "\n".join(lines) + "\n"


def explain_unsupplied(wheels: Sequence[Wheel], pins: Sequence[Pin]) -> str:
    """Why no machine of any kind can install forgelet from here; empty when one kind can. Pure."""
    if not all(select_wheels(wheels, pins, target).missing for target in TARGETS):
        return ""
    return (
        "the console has no wheels of forgelet for any machine, so that the line would stop there: on the console run"
        f" '{build_add_command(TARGETS[0])}' with the Python and the architecture of the machines"
    )


def build_add_command(target: Target) -> str:
    """What an administrator runs to supply `target`."""
    return f"starforge-console wheelhouse add --python {target.python} --arch {target.arch}"


def _fits(wheel: Wheel, pin: Pin) -> bool:
    same = (wheel.project, wheel.version) == (pin.name, pin.version)
    return same and (pin.name in OWN or wheel.digest in pin.digests)


def _tell_missing(missing: Sequence[str]) -> str:
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return f"missing: {', '.join(missing[:_SHOWN])}{more}"


def _read_wheel(path: Path, size_bytes: int) -> Wheel | None:
    """The wheel at `path`; None for what is none, or has gone meanwhile."""
    try:
        project, version, _build, tags = parse_wheel_filename(path.name)
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except (InvalidWheelFilename, OSError):
        return None
    return Wheel(path=path, project=project, version=str(version), tags=tags, digest=digest, size_bytes=size_bytes)
