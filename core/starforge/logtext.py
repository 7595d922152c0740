"""What others wrote, raw log bytes and texts, as text that is safe to show on a terminal and on a page.

In a log, colours stay where they are wanted and every other escape sequence goes; carriage returns and tabs stay. In
both, other control characters become visible signs, and what reorders, hides or is no text the replacement character.
"""

import codecs
import re
from typing import Final

_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_ESCAPE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, clipboard, links
    r"|\x1b[ -/]*[0-Z\\`-~]"  # two characters and more
)
_UNFINISHED: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
_LONGEST_ESCAPE: Final = 4096
RESET: Final = "\x1b[0m"
"""What ends every colour."""

_KEPT: Final = {"\n", "\t", "\r"}
_VISIBLE: Final = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _KEPT} | {0x7F: "\u2421"}
_HIDDEN: Final = dict.fromkeys(
    [*range(0x80, 0xA0), 0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
)
_SIGNS: Final = _VISIBLE | _HIDDEN
_TEXT_SIGNS: Final = _SIGNS | {
    ord("\r"): "\u240d",
    **dict.fromkeys([0x2028, 0x2029, *range(0xD800, 0xE000)], "\ufffd"),
}
_LINE_SIGNS: Final = _TEXT_SIGNS | {ord("\n"): "\u240a", ord("\t"): "\u2409"}


def clean(text: str) -> str:
    """A text that somebody else wrote, as it may be shown: line ends and tabs stay, nothing else moves a cursor."""
    return text.translate(_TEXT_SIGNS)


def clean_line(text: str) -> str:
    """`clean`, and line ends and tabs too become visible signs: a name or a path stays one line."""
    return text.translate(_LINE_SIGNS)


class LogText:
    """Turns the bytes of one log into text, piece by piece: a sequence may be cut anywhere between two pieces."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._is_painted = False

    def feed(self, content: bytes) -> str:
        """The text of `content`; the beginning of an escape sequence is held until its end comes."""
        text = self._held + self._decoder.decode(content)
        unfinished = _UNFINISHED.search(text)
        self._held = ""
        if unfinished and len(text) - unfinished.start() <= _LONGEST_ESCAPE:
            self._held = text[unfinished.start() :]
            text = text[: unfinished.start()]
        return self._clean(text)

    def finish(self) -> str:
        """The text of what was held, and the end of every colour."""
        text = self._clean(self._held + self._decoder.decode(b"", final=True))
        self._held = ""
        reset = RESET if self._is_painted else ""
        self._is_painted = False
        return text + reset

    def _clean(self, text: str) -> str:
        out, at = [], 0
        for found in _ESCAPE.finditer(text):
            out.append(text[at : found.start()].translate(_SIGNS))
            at = found.end()
            if self._colour and _SGR.fullmatch(found[0]):
                out.append(found[0])
                self._is_painted = True
        out.append(text[at:].translate(_SIGNS))
        return "".join(out)
