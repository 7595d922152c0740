"""Makes one line of a log fit to be shown: decoded by itself, colours as names, everything else that acts removed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from starforge.logtext import RESET, clean
from starforge.logtext.decoding import decode
from starforge.logtext.records import Record
from starforge.logtext.styles import SGR_CODES, change_style

_ESCAPE: Final = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, clipboard, links
    r"|\x1b[ -/]*[0-Z\\`-~]"  # two characters and more
)
_CUT_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*)?\Z")
_NULS: Final = re.compile("\0{9,}")
_PLAIN: Final = re.compile(rb"[\t\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line in one style, which are names of `styles.STYLES`.

    With `omitted_bytes` it stands for so much of the line that is not shown.
    """

    text: str
    style: tuple[str, ...] = ()
    omitted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is shown, with its number and where it begins in the log."""

    number: int
    offset: int
    spans: tuple[Span, ...]
    is_ended: bool = True

    @property
    def text(self) -> str:
        """The line without colours."""
        return self.spans[0].text if len(self.spans) == 1 else "".join(span.text for span in self.spans)

    @property
    def omitted_bytes(self) -> int:
        """How many bytes of it are not shown."""
        return sum(span.omitted_bytes for span in self.spans)


def render_record(record: Record) -> Line:
    """The line as it is shown; what was left out of it is named in its place."""
    if not record.omitted_bytes:
        return Line(record.number, record.offset, render_bytes(record.head), record.is_ended)
    marker = f" [starforge: {record.omitted_bytes} bytes of this line are left out, see sf job logs --raw] "
    spans = (
        *render_bytes(record.head, cut_end=True),
        Span(marker, (), record.omitted_bytes),
        *render_bytes(record.tail, cut_begin=True),
    )
    return Line(record.number, record.offset, spans, record.is_ended)


def render_bytes(raw: bytes, *, cut_begin: bool = False, cut_end: bool = False) -> tuple[Span, ...]:
    """One state of a line as spans; `cut_begin` and `cut_end` say where it may begin or end inside a character."""
    if _PLAIN.fullmatch(raw):
        return (Span(raw.decode("ascii")),)
    text = decode(raw, cut_begin=cut_begin, cut_end=cut_end)
    if cut_end:
        text = _CUT_ESCAPE.sub("", text)
    if "\x1b" not in text:
        return (Span(_clean(text)),)
    return tuple(_paint(text)) or (Span(""),)


def paint_line(line: Line, *, colour: bool) -> str:
    """The line for a terminal: with `colour` its styles as sequences, which end with it."""
    if not colour or not any(span.style for span in line.spans):
        return line.text
    return "".join(_paint_span(span) for span in line.spans)


def _clean(text: str) -> str:
    if "\b" in text:
        text = _rub_out(text)
    return clean(_NULS.sub(lambda run: f"\u2400\u00d7{len(run[0])}", text))


def _rub_out(text: str) -> str:
    """What a terminal shows of backspaces: the sign before each is gone; one that has none before it is kept."""
    out: list[str] = []
    for sign in text:
        if sign == "\b" and out and out[-1] != "\b":
            out.pop()
        else:
            out.append(sign)
    return "".join(out)


def _paint(text: str) -> Iterator[Span]:
    """The text in spans; erasing a line takes away what stood in it, going to its beginning what is written over."""
    spans: list[Span] = []
    style: tuple[str, ...] = ()
    at, is_over = 0, False
    for found in [*_ESCAPE.finditer(text), None]:
        part = _clean(text[at : found.start() if found else len(text)])
        if part:
            spans = [] if is_over else spans
            is_over = False
            spans.append(Span(part, style))
        if found is None:
            break
        at = found.end()
        match found[2]:
            case "m":
                style = change_style(style, found[1])
            case "K" if found[1] == "2":
                spans = []
            case "G" if found[1] in ("", "0", "1"):
                is_over = True
    yield from _join(spans)


def _join(spans: list[Span]) -> Iterator[Span]:
    at = 0
    while at < len(spans):
        end = at + 1
        while end < len(spans) and spans[end].style == spans[at].style:
            end += 1
        yield Span("".join(span.text for span in spans[at:end]), spans[at].style)
        at = end


def _paint_span(span: Span) -> str:
    if not span.style or not span.text:
        return span.text
    codes = ";".join(str(SGR_CODES[name]) for name in span.style)
    return f"\x1b[{codes}m{span.text}{RESET}"
