"""Finds the lines of a log that rules know, fast: a rule is only tried where its literal text stands."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from starforge.diagnosis.lines import Line
from starforge.diagnosis.rule import Pattern, Rule

_NARROWEST: Final = 60
"""Characters: a shorter line was not broken by a terminal."""
_PIECES: Final = 4
"""So many lines of a terminal after the first are read as one with it."""
_LINES_ABOVE: Final = 12
_HEADER: Final = "Traceback (most recent call last):"
_NAMED: Final = re.compile(r"\b(?:[A-Za-z_]\w{0,60}\.){0,8}\w{0,60}(?:Error|Exception): ")


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a rule knows. `index` is its place among the lines."""

    index: int
    rule: Rule
    match: re.Match[str]
    line: Line


def find_hits(lines: Sequence[Line], rules: Sequence[Rule]) -> list[Hit]:
    """At most one hit a line, by the first rule in order that knows it."""
    text = "\n".join(line.text for line in lines)
    joined = text.replace("\n", "")
    live = [
        (pattern, rule)
        for rule in rules
        for pattern in rule.patterns
        if pattern.needle in text or pattern.needle in joined
    ]
    if not live:
        return []
    found = [_try(lines, index, line.text, live) for index, line in enumerate(lines)]
    broken = _find_broken(lines)
    for index in sorted(broken):
        if found[index + 1] is None:
            found[index] = _choose_particular(found[index], _try_broken(lines, index, broken, live))
    return [hit for hit in found if hit is not None]


def _find_broken(lines: Sequence[Line]) -> frozenset[int]:
    """Lines that a terminal broke: several end in the same column, and the next one begins with the rest of a word."""
    widths = Counter(line.width for line in lines if line.width >= _NARROWEST)
    return frozenset(
        index
        for index, (line, following) in enumerate(pairwise(lines))
        if widths[line.width] > 1 and following.text and not following.text[0].isspace() and following.stream == ""
    )


def _try_broken(
    lines: Sequence[Line], index: int, broken: frozenset[int], live: Sequence[tuple[Pattern, Rule]]
) -> Hit | None:
    end = index + 1
    while end in broken and end - index < _PIECES:
        end += 1
    first = lines[index].text
    hit = _try(lines, index, "".join(line.text for line in lines[index : end + 1]), live)
    return hit if hit is not None and hit.match.start() < len(first) < hit.match.end() else None


def _choose_particular(alone: Hit | None, joined: Hit | None) -> Hit | None:
    """The hit of the joined line where the first piece alone told nothing, or the same less exactly."""
    if alone is None or (joined is not None and joined.rule.category is alone.rule.category):
        return joined or alone
    return alone


def _try(lines: Sequence[Line], index: int, text: str, live: Sequence[tuple[Pattern, Rule]]) -> Hit | None:
    line = lines[index]
    for pattern, rule in live:
        if pattern.needle not in text or (found := _find(pattern, text, is_loud=line.is_loud)) is None:
            continue
        if rule.above is None or _stands_above(lines, index, rule.above):
            return Hit(index, rule, found, line)
    return None


def _find(pattern: Pattern, text: str, *, is_loud: bool) -> re.Match[str] | None:
    if pattern.is_logged:
        return pattern.regex.search(text) if is_loud else None
    if not pattern.is_error:
        return pattern.regex.search(text)
    found = pattern.regex.match(text)
    if found is None and is_loud:  # a logger put words of its own before the exception
        named = _NAMED.search(text)
        found = pattern.regex.match(text, named.start()) if named else None
    return found


def _stands_above(lines: Sequence[Line], index: int, wanted: re.Pattern[str]) -> bool:
    """Whether one of the few lines above, of the same traceback where there is one, holds it."""
    for line in reversed(lines[max(0, index - _LINES_ABOVE) : index]):
        if wanted.search(line.text):
            return True
        if line.text.startswith(_HEADER):
            break
    return False
