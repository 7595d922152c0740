"""Which process failed first, where the log tells; and which of two reports about one process to believe."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from starforge.diagnosis.hits import Hit
from starforge.diagnosis.lines import Line

WATCHDOG: Final = "nccl_watchdog"
WORKER_KILLED: Final = "worker_killed"

_AGENT_TIME: Final = re.compile(r"[EW](\d\d)(\d\d) ")
_REPORT_TIME: Final = re.compile(r"\s*time {1,8}: \d{4}-(\d\d)-(\d\d)_")
_REPORT_RANK: Final = re.compile(r"\s*rank {1,8}: (\d{1,5})")
_REPORT_CODE: Final = re.compile(r"\s*exitcode {1,4}: -9 ")
_SEQUENCE: Final = re.compile(r"\[Rank (\d{1,5})\].{0,200}?WorkNCCL\(SeqNum=(\d{1,12})", re.IGNORECASE)


def find_suspect(hit: Hit, together: Sequence[Hit], lines: Sequence[Line]) -> int | None:
    """The rank that failed first; None where the log does not tell."""
    if hit.rule.kind == WATCHDOG:
        return _find_straggler([one.line.text for one in together if one.rule.kind == WATCHDOG])
    named = hit.match.groupdict().get("rank")
    if named is not None:
        return int(named)
    if hit.rule.kind == WORKER_KILLED:
        return _find_reported_rank(hit, lines)
    return hit.line.rank


def move_to_report(hit: Hit, together: Sequence[Hit], lines: Sequence[Line]) -> Hit:
    """The launcher's report instead of its agent's line, where that line is of another day than the failure."""
    agent_time = _AGENT_TIME.match(hit.line.text)
    if hit.rule.kind != WORKER_KILLED or agent_time is None:
        return hit
    for other in together:
        if other.rule.kind == WORKER_KILLED and _REPORT_CODE.match(other.line.text):
            time = _find_above(lines, other.index, _REPORT_TIME)
            if time is not None and time.groups() != agent_time.groups():
                return replace(other)
    return hit


def _find_straggler(texts: Sequence[str]) -> int | None:
    """The only rank that is behind all others in the order of collectives."""
    furthest: dict[int, int] = {}
    for text in texts:
        if found := _SEQUENCE.search(text):
            rank, sequence = int(found[1]), int(found[2])
            furthest[rank] = max(sequence, furthest.get(rank, 0))
    if len(furthest) < 2:  # noqa: PLR2004 - behind takes two
        return None
    lowest, second = sorted(furthest.values())[:2]
    behind = [rank for rank, sequence in furthest.items() if sequence == lowest]
    return behind[0] if lowest < second else None


def _find_reported_rank(hit: Hit, lines: Sequence[Line]) -> int | None:
    found = _find_above(lines, hit.index, _REPORT_RANK)
    return int(found[1]) if found else None


def _find_above(lines: Sequence[Line], index: int, wanted: re.Pattern[str]) -> re.Match[str] | None:
    for line in reversed(lines[max(0, index - 6) : index]):
        if found := wanted.match(line.text):
            return found
    return None
