"""What a registry asks for before it answers: its WWW-Authenticate, read. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_SCHEME: Final = re.compile(r"\s*,?\s*([A-Za-z][A-Za-z0-9._~+-]*)(?=\s|,|$)\s*(?!=)")
_PARAMETER: Final = re.compile(r'\s*,?\s*([A-Za-z][A-Za-z0-9_-]*)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,"]+)')
_LONGEST: Final = 8192


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to sign in. `scheme` is in lower case, and so are the names of its parameters."""

    scheme: str
    parameters: Mapping[str, str]


def choose_challenge(headers: Sequence[str]) -> Challenge | None:
    """The way to sign in that is taken: a token where one can be had, else name and password; None for any other."""
    offered = [challenge for header in headers for challenge in parse_challenges(header)]
    by_scheme = {challenge.scheme: challenge for challenge in reversed(offered)}
    return by_scheme.get("bearer") or by_scheme.get("basic")


def parse_challenges(header: str) -> Iterator[Challenge]:
    """The challenges of one header, in turn; what cannot be read ends the list."""
    text, at = header[:_LONGEST], 0
    while (scheme := _SCHEME.match(text, at)) is not None:
        at, parameters = scheme.end(), dict[str, str]()
        while (found := _PARAMETER.match(text, at)) is not None:
            parameters.setdefault(found[1].lower(), _unquote(found[2]))
            at = found.end()
        yield Challenge(scheme[1].lower(), parameters)


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
