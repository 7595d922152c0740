"""Versions and ranges as PEP 440 writes them: whether an installed version lies in a range."""

from __future__ import annotations

import re
from typing import Any, Optional, Tuple

_VERSION = re.compile(
    r"""^\s*v?
    (?:(?P<epoch>\d+)!)?
    (?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?
    (?:-(?P<post_n1>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n2>\d*))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
    \s*$""",
    re.VERBOSE | re.IGNORECASE,
)
_CLAUSE = re.compile(r"^\s*(===|==|!=|~=|>=|<=|>|<)\s*(.+?)\s*$")
_PRE_NAMES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_LOWEST = (-1,)
_HIGHEST = (9,)


class RangeError(ValueError):
    """A version or a range that PEP 440 does not know."""


class Version:
    """One version; `public` and `whole` are keys that order as PEP 440 says, without and with the local part."""

    def __init__(self, text: str) -> None:
        match = _VERSION.match(text)
        if match is None:
            raise RangeError(f"{text!r} is no PEP 440 version")
        parts = match.groupdict()
        self.epoch = int(parts["epoch"] or 0)
        self.release = tuple(int(number) for number in parts["release"].split("."))
        self.pre = _read_pre(parts["pre"], parts["pre_n"])
        self.post = _read_number(parts["post"] or parts["post_n1"], parts["post_n1"] or parts["post_n2"])
        self.dev = _read_number(parts["dev"], parts["dev_n"])
        self.local = _read_local(parts["local"])
        self.public = self._build_key()
        self.whole = (self.public, self.local)

    def base(self) -> Tuple[Any, ...]:
        """Epoch and release, without trailing zeros."""
        return (self.epoch, _trim(self.release))

    def _build_key(self) -> Tuple[Any, ...]:
        final = ("",) if self.post is None and self.dev is not None else ("z",)
        pre: Tuple[Any, ...] = final if self.pre is None else self.pre
        post = _LOWEST if self.post is None else (self.post,)
        dev = _HIGHEST if self.dev is None else (0, self.dev)
        return (*self.base(), pre, post, dev)


def is_in_range(version: str, specifier: str) -> bool:
    """Say whether `version` satisfies every clause of `specifier`; an empty one takes any.

    Raises RangeError when either is not PEP 440. Pre-releases count as what they are: 2.6.0a0 is below 2.6.
    """
    clauses = [clause for clause in specifier.split(",") if clause.strip()]
    return all(_satisfies(version, clause) for clause in clauses)


def _satisfies(version: str, clause: str) -> bool:
    match = _CLAUSE.match(clause)
    if match is None:
        raise RangeError(f"{clause!r} is no PEP 440 range: write an operator and a version, such as >=1.9")
    operator, wanted = match.groups()
    if operator == "===":
        return version.strip().lower() == wanted.lower()
    found = Version(version)
    if operator in ("==", "!="):
        return _is_equal(found, wanted) == (operator == "==")
    if operator == "~=":
        return _is_compatible(found, Version(wanted))
    return _is_ordered(found, operator, Version(wanted))


def _is_equal(found: Version, wanted: str) -> bool:
    if wanted.endswith(".*"):
        prefix = Version(wanted[:-2])
        padded = found.release + (0,) * len(prefix.release)
        return found.epoch == prefix.epoch and padded[: len(prefix.release)] == prefix.release
    other = Version(wanted)
    return found.whole == other.whole if other.local else found.public == other.public


def _is_compatible(found: Version, wanted: Version) -> bool:
    if len(wanted.release) < 2:  # noqa: PLR2004 - the rule of PEP 440: ~=1 says nothing
        raise RangeError("~= needs at least two numbers, such as ~=1.4")
    prefix = wanted.release[:-1]
    padded = found.release + (0,) * len(prefix)
    return found.epoch == wanted.epoch and found.public >= wanted.public and padded[: len(prefix)] == prefix


def _is_ordered(found: Version, operator: str, wanted: Version) -> bool:
    if operator == ">=":
        return found.public >= wanted.public
    if operator == "<=":
        return found.public <= wanted.public
    is_final = wanted.pre is None and wanted.dev is None and wanted.post is None
    same_final = is_final and found.base() == wanted.base()
    if operator == "<":
        return found.public < wanted.public and not (same_final and (found.pre is not None or found.dev is not None))
    return found.public > wanted.public and not (same_final and found.post is not None)


def _trim(release: Tuple[int, ...]) -> Tuple[int, ...]:
    numbers = list(release)
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _read_pre(name: Optional[str], number: Optional[str]) -> Optional[Tuple[str, int]]:
    if not name:
        return None
    return (_PRE_NAMES.get(name.lower(), name.lower()), int(number or 0))


def _read_number(present: Optional[str], number: Optional[str]) -> Optional[int]:
    return int(number or 0) if present else None


def _read_local(text: Optional[str]) -> Tuple[Tuple[int, str], ...]:
    pieces = re.split(r"[-_.]", text.lower()) if text else []
    return tuple((int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces)
