"""Which version of the REST API is spoken: the newest that both sides know."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from starforge.errors import BackendUnreachable
from starforge.said.sentence import say
from starforge_console.executors.slurm.decode.family import Family
from starforge_console.executors.slurm.decode.plain import Plain
from starforge_console.executors.slurm.decode.structured import Structured

FAMILIES: Final[Mapping[str, Family]] = {
    "v0.0.37": Plain(),
    "v0.0.38": Plain(),
    "v0.0.40": Structured(),
    "v0.0.41": Structured(),
    "v0.0.42": Structured(),
    "v0.0.43": Structured(),
    "v0.0.44": Structured(),
}
"""v0.0.39 is left out: its forms lie between the two families, and no cluster was there to learn them from."""

_PATH: Final = re.compile(r"/(slurm|slurmdb)/(v\d+\.\d+\.\d+)/")


class UnknownVersions(BackendUnreachable):
    """The daemon serves no version that this console speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What is spoken with one daemon. `accounting` is the version of its accounting routes, empty where it has none."""

    version: str
    family: Family
    accounting: str = ""


def choose_dialect(paths: Iterable[str]) -> Dialect:
    """The newest version that is served under `paths`. Raises UnknownVersions with all that were offered."""
    offered: dict[str, set[str]] = {"slurm": set(), "slurmdb": set()}
    for path in paths:
        if match := _PATH.match(path):
            offered[match[1]].add(match[2])
    spoken = sorted(offered["slurm"] & FAMILIES.keys(), key=_order)
    if not spoken:
        raise UnknownVersions(
            say("slurm.versions", offered=_list(offered["slurm"]), spoken=_list(FAMILIES)),
            next_step=say("slurm.versions_next"),
        )
    version = spoken[-1]
    accounting = version if version in offered["slurmdb"] and isinstance(FAMILIES[version], Structured) else ""
    return Dialect(version=version, family=FAMILIES[version], accounting=accounting)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def _list(versions: Iterable[str]) -> str:
    return ", ".join(sorted(versions, key=_order)) or say("slurm.no_version")
