"""Replaces several files as one: each new content is on disk before the first old one goes."""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from starforge.errors import ProjectError


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Give every file its new content; where one cannot have it, every file is as it was.

    Raises:
        ProjectError: the disk refuses; names the file.

    """
    staged: list[tuple[Path, Path]] = []
    kept: dict[Path, bytes | None] = {}
    try:
        for path, content in contents.items():
            kept[path] = path.read_bytes() if path.is_file() else None
            staged.append((_stage(path, content), path))
        for fresh, path in staged:
            fresh.replace(path)
    except OSError as error:
        _put_back(kept, contents)
        raise ProjectError(
            f"{error.filename or 'a file'} cannot be written",
            why=f"{error.strerror}; nothing was changed",
            next_step="look at the folder's rights and at the room on the disk, then repeat",
        ) from error
    finally:
        for fresh, _ in staged:
            fresh.unlink(missing_ok=True)


def _stage(path: Path, content: bytes) -> Path:
    """The content in a file beside `path`, with that one's mode."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _put_back(kept: Mapping[Path, bytes | None], contents: Mapping[Path, bytes]) -> None:
    for path, content in kept.items():
        with contextlib.suppress(OSError):
            if path.exists() and path.read_bytes() == contents[path]:
                path.unlink() if content is None else path.write_bytes(content)
