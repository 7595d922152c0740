"""Chooses, among all lines that rules know, the one that tells the cause: the consequences of a cause never win.

A line counts when nothing shows that the program went on after it. In one process the last error ended it; among
several processes the first to fail made the others fail. An error that no rule knows, and that came after all that is
known, leaves the cause open; so does one of another process that came before what is only seen of others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starforge.diagnosis.answer import Category, Confidence
from starforge.diagnosis.hits import Hit
from starforge.diagnosis.lines import Line
from starforge.diagnosis.rule import Weight
from starforge.diagnosis.tracebacks import Traceback


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A hit that is believed, and how far. `together`: all that are believed."""

    hit: Hit
    confidence: Confidence
    together: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hit with the traceback that it ends, if it does. `is_open`: something unknown happened close to it."""

    hit: Hit
    within: Traceback | None
    is_open: bool = False


def choose(lines: Sequence[Line], hits: Sequence[Hit], tracebacks: Sequence[Traceback], survived: int) -> Chosen | None:
    """The hit that tells the cause; None where nothing does. Of lines before index `survived` the training went on."""
    unknown = find_unknown(hits, tracebacks)
    candidates = [
        kept for hit in hits if (kept := _keep(Candidate(hit, _within(hit, tracebacks)), lines, unknown, survived))
    ]
    if not candidates:
        return None
    weight = min(_weigh(candidate.hit) for candidate in candidates)
    best = [candidate for candidate in candidates if _weigh(candidate.hit) == weight]
    first = _first_to_fail(best, weight)
    first = _first_of_its_kind(first, best)
    if _is_seen_of_others(first.hit) and _find_earlier(first, unknown, lines, survived):
        return None
    confidence = first.hit.rule.confidence
    if first.is_open and confidence is Confidence.SURE:
        confidence = Confidence.LIKELY
    return Chosen(hit=first.hit, confidence=confidence, together=tuple(one.hit for one in candidates))


def find_unknown(hits: Sequence[Hit], tracebacks: Sequence[Traceback]) -> list[Traceback]:
    """Tracebacks that end in an error which no rule knows, of chains in which none does."""
    known = {chain for hit in hits if (within := _within(hit, tracebacks)) for chain in [within.chain]}
    return [one for one in tracebacks if one.error is not None and not one.is_summary and one.chain not in known]


def find_first_unknown(unknown: Sequence[Traceback]) -> Traceback | None:
    """The last error of the process that failed first, of errors that no rule knows."""
    last_by_stream = {one.stream: one for one in unknown}
    return min(last_by_stream.values(), key=lambda one: one.begin, default=None)


def _is_seen_of_others(hit: Hit) -> bool:
    """Whether it may be what a process sees, or is made to do, because another one failed."""
    rule = hit.rule
    return rule.weight >= Weight.SYMPTOM or (rule.weight is Weight.KILL and rule.category is Category.STOPPED)


def _find_earlier(candidate: Candidate, unknown: Sequence[Traceback], lines: Sequence[Line], survived: int) -> bool:
    """Whether another process failed before it of what no rule knows."""
    begin = candidate.hit.index if candidate.within is None else candidate.within.begin
    for one in unknown:
        if not survived <= one.begin < begin:
            continue
        is_other = one.stream != candidate.hit.line.stream
        if is_other or (candidate.within is not None and _are_close(one, candidate.within, lines)):
            return True
    return False


def _weigh(hit: Hit) -> Weight:
    return hit.rule.weight


def _within(hit: Hit, tracebacks: Sequence[Traceback]) -> Traceback | None:
    for one in tracebacks:
        if one.begin > hit.index:
            return None
        if hit.index < one.end and one.stream == hit.line.stream and one.error is not None and hit.index >= one.error:
            return one
    return None


def _keep(candidate: Candidate, lines: Sequence[Line], unknown: Sequence[Traceback], survived: int) -> Candidate | None:
    hit = candidate.hit
    later = [one for one in unknown if one.begin > hit.index and one.stream == hit.line.stream]
    if hit.rule.explains is not None:
        last = _last_error(lines, unknown)
        if last is not None and not hit.rule.explains.search(last):
            return None
        return replace(candidate, is_open=last is not None)
    if hit.index < survived:
        return None
    if not later:
        return candidate
    if candidate.within is not None and _are_close(candidate.within, later[0], lines):
        return replace(candidate, is_open=True)
    return None


def _last_error(lines: Sequence[Line], unknown: Sequence[Traceback]) -> str | None:
    for one in reversed(unknown):
        if one.error is not None:
            return lines[one.error].text
    return None


def _are_close(earlier: Traceback, later: Traceback, lines: Sequence[Line]) -> bool:
    """Whether two processes that share a stream failed one right after the other: no other word stands between."""
    if earlier.error is None:
        return False
    return all(not line.text for line in lines[earlier.error + 1 : later.begin])


def _first_to_fail(best: Sequence[Candidate], weight: Weight) -> Candidate:
    if weight not in {Weight.CAUSE, Weight.PROOF}:
        return best[0]
    last_by_stream: dict[str, Candidate] = {}
    for candidate in best:
        held = last_by_stream.get(candidate.hit.line.stream)
        if held is None or not _belong_together(held, candidate):
            last_by_stream[candidate.hit.line.stream] = candidate
    return min(last_by_stream.values(), key=lambda candidate: candidate.hit.index)


def _belong_together(earlier: Candidate, later: Candidate) -> bool:
    """Whether the later one comes of the earlier: of one chain of exceptions, or the traceback of what a line told."""
    if earlier.within is None or later.within is None:
        return earlier.hit.rule.category is later.hit.rule.category
    return earlier.within.chain == later.within.chain


def _first_of_its_kind(chosen: Candidate, best: Sequence[Candidate]) -> Candidate:
    category = chosen.hit.rule.category
    return next(candidate for candidate in best if candidate.hit.rule.category is category)
