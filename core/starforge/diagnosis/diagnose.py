"""Diagnoses a log: reads its window, finds what rules know, chooses the cause, and says how sure that is."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from starforge.diagnosis import exits
from starforge.diagnosis.answer import Category, Confidence, Diagnosis, Ending, KnownExit, Spot
from starforge.diagnosis.choose import Chosen, choose, find_first_unknown, find_unknown
from starforge.diagnosis.hits import Hit, find_hits
from starforge.diagnosis.lines import Line, read_lines
from starforge.diagnosis.numbers import find_broken_loss
from starforge.diagnosis.progress import find_survived
from starforge.diagnosis.ranks import find_suspect, move_to_report
from starforge.diagnosis.rule import Weight
from starforge.diagnosis.rules.book import RULES
from starforge.diagnosis.tracebacks import Traceback, find_tracebacks
from starforge.diagnosis.window import Window, iterate_pieces, read_window
from starforge.logtext import clean_line

SHOWN_CHARACTERS: Final = 500
_FACT_CHARACTERS: Final = 200
_UNKNOWN_EXIT: Final = KnownExit()


def diagnose(content: bytes | Iterable[bytes], known: KnownExit = _UNKNOWN_EXIT) -> Diagnosis:
    """Why the training with this log failed; the category `unknown` where nothing tells.

    `content` is the log, whole or in pieces, of any bytes; the time is linear in its length, and never does it raise.
    An exit code of 0 leaves a single question: whether the loss stayed a number.
    """
    return diagnose_window(read_window(iterate_pieces(content) if isinstance(content, bytes) else content), known)


def diagnose_window(window: Window, known: KnownExit = _UNKNOWN_EXIT) -> Diagnosis:
    """`diagnose`, of what is left or was read of a log."""
    settled = exits.find_settled(known)
    if settled is not None and settled is not exits.KERNEL_KILLED:
        return exits.answer(settled)
    lines = list(read_lines(window.lines))
    if known.code == 0:
        return _diagnose_success(lines)
    passed = 0 if not window.gap else _index_after(lines, window.lines[window.gap - 1].number)
    return _diagnose_failure(lines, known, passed)


def _diagnose_success(lines: Sequence[Line]) -> Diagnosis:
    broken = find_broken_loss(lines)
    if broken is None:
        return exits.answer(exits.SUCCEEDED)
    return exits.answer(exits.LOSS_BROKEN, _spot(lines[broken]))


def _diagnose_failure(lines: Sequence[Line], known: KnownExit, gap: int) -> Diagnosis:
    hits = find_hits(lines, RULES)
    tracebacks = find_tracebacks(lines)
    survived = max(gap, find_survived(lines))
    chosen = choose(lines, hits, tracebacks, survived)
    if known.ending is Ending.OUT_OF_MEMORY:
        return _diagnose_kill(chosen, known)
    if chosen is not None and not _is_refuted(chosen, known):
        return _build(lines, chosen, known)
    unknown = [one for one in find_unknown(hits, tracebacks) if one.begin >= survived]
    return _diagnose_rest(lines, unknown, known)


def _diagnose_kill(chosen: Chosen | None, known: KnownExit) -> Diagnosis:
    told = chosen is not None and chosen.hit.rule.category is Category.HOST_OOM
    spot = _spot(chosen.hit.line) if chosen is not None and told else None
    is_sure = known.code == exits.SIGKILL_CODE or told
    return exits.answer(exits.KERNEL_KILLED, spot, Confidence.SURE if is_sure else Confidence.LIKELY)


def _is_refuted(chosen: Chosen, known: KnownExit) -> bool:
    """Whether the log suspects memory where the kernel's own counter says that nothing was killed for it."""
    rule = chosen.hit.rule
    return known.kernel_killed is False and rule.category is Category.HOST_OOM and rule.weight is Weight.KILL


def _diagnose_rest(lines: Sequence[Line], unknown: Sequence[Traceback], known: KnownExit) -> Diagnosis:
    by_code = exits.find_by_code(known)
    if by_code is not None and not unknown:
        return exits.answer(by_code)
    if not unknown:
        broken = find_broken_loss(lines)
        if broken is not None:
            return exits.answer(exits.LOSS_BROKEN, _spot(lines[broken]), Confidence.LIKELY)
    failed = find_first_unknown(unknown)
    if failed is None or failed.error is None:
        return exits.answer(exits.UNKNOWN)
    line = lines[failed.error]
    return replace(exits.answer(exits.UNKNOWN, _spot(line)), rank=line.rank)


def _build(lines: Sequence[Line], chosen: Chosen, known: KnownExit) -> Diagnosis:
    hit, rule = move_to_report(chosen.hit, chosen.together, lines), chosen.hit.rule
    facts = {
        name: clean_line(text[:_FACT_CHARACTERS]) for name, text in hit.match.groupdict().items() if text is not None
    }
    return Diagnosis(
        kind=rule.kind,
        category=rule.category,
        summary=rule.summary.format_map(facts),
        advice=rule.advice.format_map(facts),
        confidence=_temper(chosen, known),
        spot=_spot(hit.line, hit),
        rank=find_suspect(hit, chosen.together, lines),
        retryable=rule.retryable,
        facts=MappingProxyType(facts),
    )


def _temper(chosen: Chosen, known: KnownExit) -> Confidence:
    """An exception ends a process with a code of its own: killed or crashed, it may have ended of something else."""
    is_by_signal = known.code in {exits.SIGKILL_CODE, 139}
    if is_by_signal and chosen.confidence is Confidence.SURE and chosen.hit.rule.weight is Weight.CAUSE:
        return Confidence.LIKELY
    return chosen.confidence


def _spot(line: Line, hit: Hit | None = None) -> Spot:
    text = line.text or line.bar
    begin = 0 if hit is None else max(0, min(hit.match.start() - 100, len(text) - SHOWN_CHARACTERS))
    return Spot(text=clean_line(text[begin : begin + SHOWN_CHARACTERS]).strip(), number=line.number, offset=line.offset)


def _index_after(lines: Sequence[Line], number: int) -> int:
    return next((index for index, line in enumerate(lines) if line.number > number), len(lines))
