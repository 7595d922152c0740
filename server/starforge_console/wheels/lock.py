"""The lock that the release ships: every package that forgelet needs anywhere, with version, marker and digests."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from packaging.markers import Marker

from starforge.errors import Bug
from starforge_console.wheels.targets import Target

LOCK_FILE: Final = "forgelet.lock"

_ENTRY: Final = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]+?))?\s*\\?$")
_DIGEST: Final = re.compile(r"^\s+--hash=sha256:([0-9a-f]{64})\s*\\?$")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package at one version. `digests` are the SHA-256 digests of its files; `marker` says where it is needed."""

    name: str
    version: str
    marker: str
    digests: frozenset[str]

    def is_needed(self, target: Target) -> bool:
        """Whether `target` needs it."""
        return not self.marker or Marker(self.marker).evaluate(dict(target.build_environment()))


def load_release_lock() -> tuple[Pin, ...]:
    """The lock of this release."""
    return parse_lock(files("starforge_console.wheels").joinpath(LOCK_FILE).read_text(encoding="utf-8"))


def choose_pins(pins: Sequence[Pin], target: Target) -> tuple[Pin, ...]:
    """Those of `pins` that `target` needs."""
    return tuple(pin for pin in pins if pin.is_needed(target))


def parse_lock(text: str) -> tuple[Pin, ...]:
    """The pins in a file of requirements with digests. Raises Bug: the file comes with the release."""
    pins: list[Pin] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if entry := _ENTRY.match(line):
            pins.append(Pin(entry["name"], entry["version"], entry["marker"] or "", frozenset()))
        elif (digest := _DIGEST.match(line)) and pins:
            last = pins[-1]
            pins[-1] = Pin(last.name, last.version, last.marker, last.digests | {digest[1]})
        else:
            raise Bug(f"line {number} of {LOCK_FILE} is no pin: {line!r}", next_step="install the console anew")
    return tuple(pins)
