"""Tells from the figures that a training printed that its loss stopped being a number and stayed so."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starforge.diagnosis.lines import Line

FEWEST: Final = 3
"""So many steps in a row, up to the last, must be without a usable loss."""

_NUMBER: Final = r"['\"]?([-+]?(?:nan|inf(?:inity)?|[\d.]+(?:e[-+]?\d+)?))\b['\"]?"
_LOSS: Final = re.compile(
    rf"(?:^|[\s,{{|\[/(_])['\"]?(?:(?:lm|train|training|pg|policy|actor|"
    rf"total|step)[ _/]?)?loss['\"]?\s{{0,3}}[:=]?\s{{0,3}}{_NUMBER}",
    re.IGNORECASE,
)
_GRADIENT: Final = re.compile(rf"['\"]?grad(?:ient)?[_ ]norm['\"]?\s{{0,3}}[:=]?\s{{0,3}}{_NUMBER}", re.IGNORECASE)
_STEP: Final = re.compile(
    r"^\s{0,8}\{['\"]|^\s{0,8}\[?(?:step|iter|iteration|epoch|"
    r"global_step|train)\b|^step:\d+ - |\biteration +\d+/ *\d+ \|",
    re.IGNORECASE,
)
_SUMMARY: Final = re.compile(r"['\"](?:train_runtime|eval_loss|eval_runtime)['\"]")


@dataclass(frozen=True, slots=True)
class _Step:
    index: int
    is_broken: bool
    is_worthless: bool


def find_broken_loss(lines: Sequence[Line]) -> int | None:
    """The index of the line from which on no step had a usable loss, to the end; None where the loss is a number.

    A gradient that overflows now and then, as mixed precision does, is none of this.
    """
    steps = [step for index, line in enumerate(lines) if (step := _read_step(index, line))]
    run: list[_Step] = []
    for step in reversed(steps):
        if not step.is_broken:
            break
        run.append(step)
    if len(run) < FEWEST or not all(step.is_worthless for step in run[:FEWEST]):
        return None
    return run[-1].index


def _read_step(index: int, line: Line) -> _Step | None:
    text = line.text or line.bar
    if "loss" not in text and "Loss" not in text:
        return None
    if not (line.bar or _STEP.search(text)) or _SUMMARY.search(text):
        return None
    found = _LOSS.search(text)
    if found is None:
        return None
    loss = found[1].lower()
    gradient = _GRADIENT.search(text)
    is_lost = _is_no_number(loss)
    is_overflown = gradient is not None and _is_no_number(gradient[1].lower())
    return _Step(index, is_lost or is_overflown, is_lost or (is_overflown and _is_zero(loss)))


def _is_no_number(text: str) -> bool:
    return "nan" in text or "inf" in text


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0.0
    except ValueError:  # several points
        return False
