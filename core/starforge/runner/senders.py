"""Who sent a signal: somebody inside of the container, which is the job itself, or its engine and machine."""

from __future__ import annotations

import os
from typing import Optional

_FIRST_NAMESPACE = "pid:[4026531836]"  # the kernel's constant for the machine's own process ids
# Codes of which the kernel does not let a sender make up the id: kill, tgkill, and the kernel itself.
_TRUE_CODES = (0, -6, 0x80)
_MOST_GENERATIONS = 1000


def decide_is_inside(pid: int, code: int, runner: int, *, owns_namespace: bool) -> Optional[bool]:
    """Say whether the sender is the job; None where only its ancestry tells.

    A process outside of our namespace has the id 0 here. Where the namespace is the container's, 1 is its init and any
    other process the job's. A code that allows a made-up id is only used by programs that want to hide.
    """
    if code not in _TRUE_CODES:
        return True
    if pid in (0, 1):
        return False
    if owns_namespace:
        return pid != runner
    return None


def is_from_job(pid: int, code: int) -> bool:
    """Say whether a signal came from the job. An id that cannot be looked up any more counts as outside."""
    inside = decide_is_inside(pid, code, os.getpid(), owns_namespace=_owns_namespace())
    return is_descendant(pid, os.getpid()) if inside is None else inside


def is_descendant(pid: int, root: int) -> bool:
    """Say whether a process descends from `root`, zombies included."""
    for _ in range(_MOST_GENERATIONS):
        parent = _find_parent(pid)
        if parent is None or parent == 0:
            return False
        if parent == root:
            return True
        pid = parent
    return False


def _owns_namespace() -> bool:
    if 1 not in (os.getpid(), os.getppid()):
        return False
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_NAMESPACE
    except OSError:
        return os.getpid() == 1


def _find_parent(pid: int) -> Optional[int]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]) if len(fields) > 1 else None
