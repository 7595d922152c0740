"""Words that messages are put together from: counts with nouns, sizes, lengths of time, sentences, the nearest name."""

from collections.abc import Iterable
from typing import Final, NamedTuple

TIME_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
"""The units of a length of time, each with its seconds, largest first."""

_SIZE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024
_NAMES_LISTED: Final = 40
_NAMES_OF_A_LONG_LIST: Final = 5
_LEFT_OUT: Final = " [\u2026] "
_ROUNDED_UP: Final = _STEP - 0.05
_FIRST_DAY: Final = -62_135_510_400.0
_LAST_DAY: Final = 253_402_214_400.0


def count_of(count: int, noun: str) -> str:
    """`1 fault`, `2 faults`: a count with its noun, whose plural takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def describe_bytes(count: float) -> str:
    """`1023 B`, `5.0 MiB`: a size in the binary unit that suits it."""
    if count < _STEP:
        return f"{count:.0f} B"
    size, *larger = count / _STEP, *_SIZE_UNITS
    while size >= _ROUNDED_UP and len(larger) > 1:
        size /= _STEP
        del larger[0]
    return f"{size:.1f} {larger[0]}"


def describe_duration(seconds: float) -> str:
    """`41 s`, `12 min 44 s`, `2 d 5 h`: a length of time in at most two units that follow one another."""
    return " ".join(f"{count} {unit}" for count, unit in split_duration(seconds))


def split_duration(seconds: float, at_most: int = 2) -> list[tuple[int, str]]:
    """How many of which of `TIME_UNITS`: the largest that is full, and those `at_most` that follow it and are not zero.

    The time is rounded down to whole seconds, and below a second it is 0 s.
    """
    left = max(0, int(seconds))
    first = next((place for place, (_, size) in enumerate(TIME_UNITS) if left >= size), len(TIME_UNITS) - 1)
    parts = []
    for unit, size in TIME_UNITS[first : first + at_most]:
        count, left = divmod(left, size)
        parts.append((count, unit))
    return [part for part in parts if part[0]] or parts[:1]


def is_in_calendar(at: float) -> bool:
    """Whether a date can be written for these Unix seconds in every zone: within the years 1 to 9999."""
    return _FIRST_DAY <= at <= _LAST_DAY


def join_sentences(*parts: str) -> str:
    """The parts that say something, one after the other, each but the last with its full stop or question mark."""
    said = [part for part in parts if part]
    ended = [part if part.endswith((".", "?", "!")) else f"{part}." for part in said[:-1]]
    return " ".join([*ended, *said[-1:]])


def cut_middle(text: str, most: int) -> str:
    """`text` in at most `most` characters (16 or more): of a longer one its beginning and its end."""
    if len(text) <= most:
        return text
    half = (most - len(_LEFT_OUT)) // 2
    return f"{text[:half]}{_LEFT_OUT}{text[-half:]}"


class Nearest(NamedTuple):
    """The names to tell somebody of who wrote none of the `known` many; `meant` is one that is much like theirs."""

    meant: str | None
    names: list[str]
    known: int


def find_nearest(word: str, known: Iterable[str]) -> Nearest:
    """All names of a short list, or those of a long one that are nearest to `word`."""
    import difflib  # noqa: PLC0415 - only who made a mistake pays for it

    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return Nearest(near[0], near, len(names))
    if len(names) <= _NAMES_LISTED:
        return Nearest(None, names, len(names))
    return Nearest(None, difflib.get_close_matches(word, names, n=_NAMES_OF_A_LONG_LIST, cutoff=0.0), len(names))


def describe_nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest of the known names, otherwise the list of them; of a long one the nearest."""
    found = find_nearest(word, known)
    if found.meant is not None:
        return f"did you mean {found.meant!r}?"
    if len(found.names) == found.known:
        return f"known here: {', '.join(found.names)}" if found.names else ""
    return f"nearest of the {found.known} that are known here: {', '.join(found.names)}"
