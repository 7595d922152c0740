"""The line that says what a job waits for: at once when it changes, now and then when only its numbers do."""

import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import Final

import click

from starforge.cli.output import has_colour, join_lines, paint

_NUMBERS: Final = re.compile(r"[0-9][0-9.,]*")
_TERMINAL_PAUSE_S: Final = 5.0
_PIPE_PAUSE_S: Final = 30.0
_CLEAR: Final = "\r\x1b[K"


class WaitingLine:
    """Shows what a job waits for on stderr: a terminal's line is written over, elsewhere each is a line of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._in_place = sys.stderr.isatty()
        self._shown = ""
        self._shown_at = 0.0
        self._is_open = False

    def show(self, state: str, text: str) -> None:
        """Take what is told now; shown or not, as it differs from what is shown."""
        line = f"── {state}: {join_lines(text)}"
        if line == self._shown:
            return
        is_same_but_numbers = _shape(line) == _shape(self._shown)
        pause_s = _TERMINAL_PAUSE_S if self._in_place else _PIPE_PAUSE_S
        if is_same_but_numbers and self._clock() - self._shown_at < pause_s:
            return
        if not is_same_but_numbers:
            self.leave()
        self._shown, self._shown_at = line, self._clock()
        self._write(line)

    def leave(self) -> None:
        """Let what comes next begin a line of its own."""
        if self._is_open:
            click.echo(err=True)
        self._is_open = False

    def _write(self, line: str) -> None:
        colour = has_colour(err=True)
        if not self._in_place:
            click.echo(paint(line, "cyan", colour=colour), err=True)
            return
        fitting = line[: shutil.get_terminal_size().columns - 1]
        click.echo(_CLEAR + paint(fitting, "cyan", colour=colour), nl=False, err=True, color=True)
        self._is_open = True


def _shape(line: str) -> str:
    return _NUMBERS.sub("#", line)
