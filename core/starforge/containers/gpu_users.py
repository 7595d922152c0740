"""Whose processes use the GPUs: each process is in one of our containers, outside all of them, or not known.

The labels of containers alone say what is allocated; this only finds what labels cannot know of.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FIELDS: Final = ("gpu_uuid", "pid")

_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A process on a GPU. `container` is its container's id, empty outside any, None when nobody can say."""

    pid: str
    container: str | None


@dataclass(frozen=True, slots=True)
class Stranger:
    """A GPU is used by what is no container of ours; `known` is False when it might be one after all."""

    known: bool
    why: str


def read_users(text: str, proc: Path) -> dict[str, tuple[GpuUser, ...]] | None:
    """Per UUID who uses it, from `--query-compute-apps=gpu_uuid,pid`; None when a line cannot be understood.

    `proc` is where the machine's processes are shown (/proc).
    """
    users: dict[str, tuple[GpuUser, ...]] = {}
    for line in text.splitlines():
        if not line.strip() or line.strip().lower().startswith("no running processes"):
            continue
        uuid, comma, pid = (part.strip() for part in line.partition(","))
        if not comma or "," in pid:
            return None
        users[uuid] = (*users.get(uuid, ()), GpuUser(pid, find_container(pid, proc)))
    return users


def find_container(pid: str, proc: Path) -> str | None:
    """The id of the container that process `pid` runs in; empty outside any, None when that cannot be read.

    A process that has just ended cannot be told from one that is hidden from us: both are None, until the next look.
    """
    if not pid.isdigit():
        return None
    try:
        groups = (proc / pid / "cgroup").read_text()
    except (OSError, ValueError):
        return None
    if not groups.strip():
        return None
    found = _CONTAINER.findall(groups)
    return found[-1] if found else ""


def find_stranger(users: Collection[GpuUser], ours: Collection[str]) -> Stranger | None:
    """Who uses a GPU beside the containers `ours`, or None. Somebody who is known comes before who is not. Pure."""
    outside = [user for user in users if user.container is not None and user.container not in ours]
    if outside:
        user = outside[0]
        place = f"in container {user.container[:12]}, which has no job here" if user.container else "in no container"
        return Stranger(known=True, why=f"process {user.pid} uses it, {place}")
    unknown = [user for user in users if user.container is None]
    if unknown:
        return Stranger(known=False, why=f"process {unknown[0].pid} uses it, and nobody can say whose it is")
    return None


NOBODY: Final[Mapping[str, tuple[GpuUser, ...]]] = {}
