"""Lines of a log without what others put around them: who wrote it, when, colours, and progress bars before it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from starforge.diagnosis.window import RawLine

MATCHED_CHARACTERS: Final = 4096
"""Of a line so many characters at its beginning and at its end are compared with rules."""
_STATES_KEPT: Final = 3
_PREFIXES: Final = 6
"""A pod, a time, an actor, a logger and a rank may all stand before one line."""

_ANSI: Final = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[@-_]")
_REPEATED: Final = re.compile(r" ?\[repeated \d+x across cluster\].{0,400}$")
_STREAMS: Final = (
    re.compile(r"\[(?P<who>pod/[\w.-]+(?:/[\w.-]+)?)\] ?"),
    re.compile(r"\[(?P<who>\d+,\d+)\]<std(?:out|err)>: ?"),
    re.compile(r"\[(?P<who>(?:rank|default|worker|trainer|RANK )\d{1,5}(?:\|\d+)?)\]: ?"),
    re.compile(r"\((?P<who>[A-Za-z_][\w.<>:-]{0,80}(?: rank=\d+| \w{1,40})?(?: pid=\d+)(?:, ip=[\w.:]+)?)\) ?"),
    re.compile(r"\((?P<who>raylet|gcs_server|autoscaler|pid=\d+)(?:, ip=[\w.:]+)?\) ?"),
)
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? (?:(?:stdout|stderr) [FP] )?"
)
_TASK: Final = re.compile(r" {0,3}(?P<who>\d{1,5}): ?")
_TASK_OF_RANK: Final = re.compile(r" {0,3}\d{1,5}: ?(?=\[(?:rank|default)\d{1,5}\]:)")
"""A task's number before the mark of its rank, which says the same."""
_LOGGED: Final = re.compile(
    r"(?P<level>ERROR|CRITICAL|FATAL|WARNING|INFO|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,80}\] ?"
    r"|(?P<level2>ERROR|CRITICAL|FATAL) {2,8}(?! )"
    r"|(?P<level3>ERROR|CRITICAL|WARNING|INFO):[\w.]{1,80}:"
    r"|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\]?[ |:-]{0,5}"
    r"\[?(?P<level4>ERROR|CRITICAL|FATAL|WARNING|INFO|DEBUG)\]?[ |:-]{1,12}(?:\[[^\]]{1,80}\] ?){0,4}"
    r"|\[(?P<level5>ERROR|WARNING|INFO)\|[^\]]{1,120}\](?: ?[\d-]{10} [\d:,]{8,14})?(?: >>)? "
)
_LOGURU_PLACE: Final = re.compile(r"[\w.<>]{1,80}:[\w<>]{1,80}:\d{1,6} - ")
_BAR: Final = re.compile(r"\d{1,3}%\|[^|]{0,400}\| {0,8}[\d.,]{1,15}[kMGT]?/[\d.,]{1,15}[kMGT]?i?B? \[[^\]]{0,400}\]")
_RANK: Final = re.compile(r"(?:rank|RANK |default|trainer|worker|rank=)(\d{1,5})")
_REPORTED: Final = re.compile(r"  traceback {1,3}: (?=Traceback \(most recent call last\):)")
"""What stands before a worker's traceback in the report of its launcher, which indents the rest of it."""
_REPORT_INDENT: Final = "  "
_LEVELS: Final = ("level", "level2", "level3", "level4", "level5")
_LOUD: Final = frozenset({"ERROR", "CRITICAL", "FATAL"})


@dataclass(frozen=True, slots=True)
class Line:
    """What a program wrote in one line.

    `stream` names the process that wrote it where the line says so, "" otherwise. `is_loud`: a logger called it an
    error. `bar`: the progress bar that stood before it, or was all of it. `width`: how long it was with all of that.
    """

    number: int
    offset: int
    text: str
    stream: str = ""
    is_loud: bool = False
    bar: str = ""
    width: int = 0

    @property
    def rank(self) -> int | None:
        """The rank that the stream names."""
        found = _RANK.search(self.stream)
        return int(found[1]) if found else None


def read_lines(raw: Iterable[RawLine]) -> Iterator[Line]:
    """The lines in order; one that carriage returns wrote over gives its first and its last states."""
    decoded = [(line, _decode(line.content)) for line in raw]
    is_labelled = _are_labelled([text for _, text in decoded])
    report = False
    for line, text in decoded:
        for state in _split_states(text):
            stripped = _strip(line, state, len(text), is_labelled=is_labelled)
            if found := _REPORTED.match(stripped.text):
                report, stripped = True, replace(stripped, text=stripped.text[found.end() :])
            elif report and stripped.text.startswith(_REPORT_INDENT):
                stripped = replace(stripped, text=stripped.text.removeprefix(_REPORT_INDENT))
            else:
                report = report and not stripped.text
            yield stripped


def _decode(content: bytes) -> str:
    text = content.decode("utf-8", errors="replace")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if len(text) > 2 * MATCHED_CHARACTERS and "\r" not in text:
        text = f"{text[:MATCHED_CHARACTERS]} ... {text[-MATCHED_CHARACTERS:]}"
    return text.replace("\x00", "")


def _are_labelled(texts: list[str]) -> bool:
    """Whether a launcher put the number of the task before every line, as `srun --label` does."""
    filled = [text for text in texts if text.strip()]
    return len(filled) >= 2 and sum(1 for text in filled if _TASK.match(text)) * 10 >= len(filled) * 9  # noqa: PLR2004 - two lines, nine of ten


def _split_states(text: str) -> list[str]:
    if "\r" not in text:
        return [text]
    states = [state for state in text.split("\r") if state.strip()]
    if len(states) > _STATES_KEPT:
        states = [states[0], *states[-_STATES_KEPT:]]
    return [state[: 2 * MATCHED_CHARACTERS] for state in states]


def _strip(raw: RawLine, text: str, width: int, *, is_labelled: bool) -> Line:
    stream = ""
    if found := _TASK_OF_RANK.match(text):
        text = text[found.end() :]
    elif is_labelled and (found := _TASK.match(text)):
        text, stream = text[found.end() :], f"rank{found['who']}"
    for _ in range(_PREFIXES):
        stripped, who = _strip_once(text)
        if stripped is text:
            break
        text, stream = stripped, f"{stream} {who}".strip() if who else stream
    bar = ""
    if "%|" in text and (bar_found := _BAR.search(text)):
        bar, text = text[: bar_found.end()], text[bar_found.end() :].lstrip(" ,:")
    text, is_loud = _strip_logger(text)
    if "[repeated " in text:
        text = _REPEATED.sub("", text)
    return Line(raw.number, raw.offset, text.rstrip(), stream, is_loud, bar, width)


def _strip_once(text: str) -> tuple[str, str]:
    first = text[:1]
    if first.isdigit() and (found := _TIME.match(text)):
        return text[found.end() :], ""
    if first in "[(":
        for pattern in _STREAMS:
            if found := pattern.match(text):
                return text[found.end() :], found["who"]
    return text, ""


def _strip_logger(text: str) -> tuple[str, bool]:
    if text[:1] not in "EWICDF[2":
        return text, False
    found = _LOGGED.match(text)
    if found is None:
        return text, False
    level = next(found[name] for name in _LEVELS if found[name] is not None)
    rest = text[found.end() :]
    place = _LOGURU_PLACE.match(rest)
    return rest[place.end() :] if place else rest, level in _LOUD
