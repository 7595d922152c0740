"""Removes a folder that a job wrote to, however deep it is nested and wherever its links lead."""

import os
import secrets
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 3
"""A folder may be written to while it is emptied, but not for ever."""


class RemovalCut(Exception):
    """It was no longer wanted before its end; what is left lies where it lay."""


def remove_tree(folder: Path, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Remove `folder` and everything in it; links are removed, not followed, and no other file system is entered.

    A folder inside of it is first moved up into `folder` and emptied there: so the depth costs neither a path nor a
    descriptor a level. What was not removed when this raises lies below `folder` still.

    Raises:
        RemovalCut: `is_wanted`, which is asked before each file, said no.
        FileNotFoundError: there is no such folder.
        OSError: something cannot be removed.

    """
    top = os.open(folder, _FOLDER)
    try:
        _empty(top, is_wanted)
    finally:
        os.close(top)
    folder.rmdir()


def _empty(top: int, is_wanted: Callable[[], bool]) -> None:
    prefix, moved = f".removing-{secrets.token_hex(8)}", 0
    waiting = deque((name, _TRIES) for name in _remove_files(top, is_wanted))
    while waiting:
        name, tries = waiting.popleft()
        inner = os.open(name, _FOLDER, dir_fd=top)
        try:
            for nested in _remove_files(inner, is_wanted):
                moved += 1
                os.rename(nested, f"{prefix}-{moved}", src_dir_fd=inner, dst_dir_fd=top)
                waiting.append((f"{prefix}-{moved}", _TRIES))
        finally:
            os.close(inner)
        try:
            os.rmdir(name, dir_fd=top)
        except OSError:
            if tries <= 1:
                raise
            waiting.append((name, tries - 1))


def _remove_files(folder: int, is_wanted: Callable[[], bool]) -> list[str]:
    """Remove everything but the folders, and name those."""
    folders: list[str] = []
    for name in os.listdir(folder):
        if not is_wanted():
            raise RemovalCut
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            folders.append(name)
        except FileNotFoundError:  # somebody else was faster
            continue
    return folders
