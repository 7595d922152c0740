"""The files of logs that a series names: copied as far as it names them, and compared with what it says of them."""

import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from starforge_console.backup.manifest import Gap
from starforge_console.ledger.contents import LogRange

_BLOCK_BYTES: Final = 1 << 20


Files = Iterable[tuple[str, Sequence[LogRange]]]
"""What a series names: each file with its ranges."""


def copy_logs(files: Files, source: Path, target: Path) -> None:
    """Copy `files` from one folder of logs to another; what is not there is left out.

    Files only grow while a console serves: what it acknowledged after the series was copied is not taken along.
    """
    for name, ranges in files:
        path = target / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        end = max(one.position + one.to_byte - one.from_byte for one in ranges)
        try:
            copy_file(source / name, path, end)
        except FileNotFoundError:
            continue


def find_gaps(files: Files, folder: Path, without: Collection[str]) -> Iterator[Gap]:
    """Every range that `folder` does not hold as it should, but those of attempts `without` a log."""
    for name, ranges in files:
        yield from _compare(folder / name, [one for one in ranges if one.attempt not in without])


def copy_file(source: Path, target: Path, size_bytes: int | None = None) -> None:
    """Copy a file durably, its first bytes alone where they are counted. Raises OSError."""
    left = size_bytes
    with source.open("rb") as old, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as new:  # noqa: PTH123 - with its mode
        while block := old.read(_BLOCK_BYTES if left is None else min(_BLOCK_BYTES, left)):
            new.write(block)
            left = None if left is None else left - len(block)
        new.flush()
        os.fsync(new.fileno())


def _compare(path: Path, ranges: Sequence[LogRange]) -> Iterator[Gap]:
    if not ranges:
        return
    try:
        with path.open("rb") as file:
            for one in ranges:
                why = _find_fault(one, os.pread(file.fileno(), one.to_byte - one.from_byte, one.position))
                if why:
                    yield _build_gap(one, why)
    except OSError as error:
        yield from (_build_gap(one, error.strerror or str(error)) for one in ranges)


def _find_fault(one: LogRange, content: bytes) -> str:
    if len(content) < one.to_byte - one.from_byte:
        return "the file ends before it"
    return "" if zlib.crc32(content) == one.crc else "its checksum is another one"


def _build_gap(one: LogRange, why: str) -> Gap:
    return Gap(attempt=one.attempt, stream=one.stream, from_byte=one.from_byte, to_byte=one.to_byte, why=why)
