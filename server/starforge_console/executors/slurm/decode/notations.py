"""Slurm's own notations: lists of hosts, generic resources, wait statuses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SIGNAL_BITS: Final = 0x7F
_SIGNALLED: Final = 128
_MOST_HOSTS: Final = 100_000
_RANGES: Final = re.compile(r"\[([^\]]*)\]")
_RANGE: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_INDICES: Final = re.compile(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")
_NO_HOSTS: Final = frozenset({"(null)", "N/A", "None assigned"})
_GRES: Final = re.compile(
    r"(?P<name>[^:,(]+)(?::(?P<type>[^:,(]+))??(?::(?P<count>[0-9]{1,6}))?(?:\((?P<more>[^)]*)\))?$"
)


@dataclass(frozen=True, slots=True)
class Gres:
    """Generic resources of one type. `indices` is None where the notation does not tell which."""

    name: str
    type: str
    count: int
    indices: tuple[int, ...] | None


def expand_hosts(text: str) -> tuple[str, ...]:
    """The hosts of a list such as `n[1-3,07],login`, in its order; none for words such as the accounting's for none."""
    if text in _NO_HOSTS:
        return ()
    return tuple(host for part in _split(text) for host in _expand(part))


def parse_gres(text: str) -> tuple[Gres, ...]:
    """What a text such as `gpu:h200:4(IDX:0-2,5),shard:8(S:0)` names; "(null)" and "N/A" name nothing."""
    found = []
    for part in _split(text.removeprefix("gres:")):
        match = _GRES.match(part.removeprefix("gres:").removeprefix("gres/").strip())
        if match is None or match["name"] in {"N/A", "null"}:
            continue
        count = 1 if match["count"] is None else int(match["count"])
        found.append(Gres(match["name"], match["type"] or "", count, _read_indices(match["more"] or "")))
    return tuple(found)


def decode_status(status: int) -> int:
    """A wait status as a shell tells it: the code, or 128 and the signal."""
    signal = status & _SIGNAL_BITS
    return _SIGNALLED + signal if signal else status >> 8


def tell_signal(number: int) -> int:
    """The code that a shell gives to a signal."""
    return _SIGNALLED + number


def _read_indices(more: str) -> tuple[int, ...] | None:
    listed = more.partition("IDX:")[2]
    if not listed or not _INDICES.fullmatch(listed):
        return None
    return tuple(int(one) for part in listed.split(",") for one in _count(part))


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand outside of brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "[(") - (letter in ")]")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    if part:
        yield part


def _expand(part: str) -> Iterator[str]:
    match = _RANGES.search(part)
    if match is None:
        yield part
        return
    names = [number for piece in match[1].split(",") for number in _count(piece)]
    for number in names[:_MOST_HOSTS]:
        yield from _expand(part[: match.start()] + number + part[match.end() :])


def _count(piece: str) -> Iterator[str]:
    """The numbers of `3` or `08-11`, with the zeros they were written with; what is no range stands for itself."""
    match = _RANGE.fullmatch(piece)
    if match is None:
        yield piece
        return
    first, last = match.groups()
    for number in range(int(first), min(int(last), int(first) + _MOST_HOSTS) + 1):
        yield str(number).zfill(len(first))
