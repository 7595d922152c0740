"""Where `sf` shows the bytes of a log: as safe text, as they are, or not at all."""

import re
import sys
import unicodedata
from typing import Final, Protocol

import click

from starforge.cli.output import find_width, has_colour, warn
from starforge.logtext.reading import LogText

_ERASE_LINE: Final = "\r\x1b[2K"
_SGR: Final = re.compile(r"\x1b\[[0-9;]*m")
_TAB_CELLS: Final = 8


class LogWriter(Protocol):
    """Where log bytes are shown."""

    def write(self, content: bytes) -> None:
        """Show the next bytes of the present attempt."""

    def leave_out(self, begin: int, end: int) -> None:
        """Say that the bytes from `begin` to `end` of the present attempt are not to be had."""

    def break_line(self) -> None:
        """Make room for a line of another kind, where a person looks at both."""

    def finish(self) -> None:
        """Show what was held back; the next bytes are another log's."""


class TextLog:
    """Shows a log as safe text on stdout, line by line; on a terminal also the line that has no end yet."""

    def __init__(self, rank: int | None = None) -> None:
        """With `rank`, only what it wrote is shown."""
        self._text = LogText(colour=has_colour(), rank=rank)
        self._shown = ""

    def write(self, content: bytes) -> None:
        """Show the next bytes of the present attempt."""
        whole = self._text.feed(content)
        width = find_width()
        tail = "" if width is None else _fit(self._text.peek(), width - 1)
        if not whole and tail == self._shown:
            return
        self._show((_ERASE_LINE if self._shown else "") + whole + tail)
        self._shown = tail

    def leave_out(self, begin: int, end: int) -> None:
        """Say so in a line of its own."""
        self.finish()
        self._show(f"[starforge: bytes {begin} to {end} of this log are not at the console]\n")

    def break_line(self) -> None:
        """Leave the line that has no end yet as it stands, and begin below it; a pipe gets the log alone."""
        if self._shown:
            self._show("\n")
            self._shown = ""

    def finish(self) -> None:
        """Show the last line even if it has no end."""
        text = self._text.finish()
        self._show((_ERASE_LINE if self._shown else "") + text)
        self._shown = ""

    def _show(self, text: str) -> None:
        if text:
            click.echo(text, nl=False, color=True)


class RawLog:
    """Writes a log's bytes to stdout as they are."""

    def write(self, content: bytes) -> None:
        """Write the next bytes."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    def leave_out(self, begin: int, end: int) -> None:
        """Say so beside the bytes, which stay those of the job alone."""
        warn(f"bytes {begin} to {end} of this log are not at the console: they are left out here")

    def break_line(self) -> None:
        """Add nothing to the job's own bytes."""

    def finish(self) -> None:
        """Nothing is ever held back."""


class NoLog:
    """Shows nothing: for a caller that waits for the end alone."""

    def write(self, content: bytes) -> None:
        """Show nothing."""

    def leave_out(self, begin: int, end: int) -> None:
        """Show nothing."""

    def break_line(self) -> None:
        """Show nothing."""

    def finish(self) -> None:
        """Show nothing."""


def _fit(text: str, cells: int) -> str:
    """As much of `text` as a terminal shows in so many cells; where it is cut it has no colours."""
    plain, room = _SGR.sub("", text), cells
    for at, sign in enumerate(plain):
        room -= 2 if unicodedata.east_asian_width(sign) in "WF" else _TAB_CELLS if sign == "\t" else 1
        if room < 0:
            return plain[:at]
    return text
