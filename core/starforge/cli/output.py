"""What `sf` prints: JSON, tables, notes and errors. Results go to stdout, everything else to stderr.

Texts come from jobs, machines and users: everything here but JSON shows them as text that does nothing to a terminal.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from starforge.errors import StarForgeError
from starforge.logtext import clean, clean_line

json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")

_INDENT: Final = "        "
_GAP: Final = "  "
_MIN_WIDTH: Final = 8


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print `value` as JSON: one document, sorted as given, readable when a person looks at it."""
    import json  # noqa: PLC0415 - not for every command

    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_error(error: StarForgeError, *, as_json: bool) -> None:
    """Say what happened, why, and what to do next, on stderr; with `as_json` also as `{error: {...}}` on stdout."""
    click.echo(render_error(error, colour=has_colour(err=True)), err=True)
    if as_json:
        members = {"code": error.code, "what": error.what, "why": error.why, "next_step": error.next_step}
        refusals = [refusal.model_dump() for refusal in getattr(error, "refusals", ())]
        print_json({"error": {**members, "refusals": refusals}})


def render_error(error: StarForgeError, *, colour: bool) -> str:
    """The error as up to three parts, which stand below one another."""
    lines = [f"{paint('error:', 'red', colour=colour)}  {_indent(error.what)}"]
    if error.why:
        lines.append(f"{paint('why:', 'yellow', colour=colour)}    {_indent(error.why)}")
    if error.next_step:
        lines.append(f"{paint('next:', 'green', colour=colour)}   {_indent(error.next_step)}")
    return "\n".join(lines)


def join_lines(text: str) -> str:
    """`text` as one line that is safe to show."""
    return clean(" ".join(text.split()))


def say(text: str, *, err: bool = False) -> None:
    """Say a part of the result, or with `err` something beside it, in one colour."""
    click.echo(clean(text), err=err)


def note(text: str) -> None:
    """Say something beside the result."""
    click.echo(paint(clean(text), "cyan", colour=has_colour(err=True)), err=True)


def warn(text: str) -> None:
    """Say something that deserves attention, beside the result."""
    click.echo(f"{paint('warning:', 'yellow', colour=has_colour(err=True))} {clean(text)}", err=True)


def render_table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Columns that are as wide as they must be; the last one is cut to fit `width` (None: nothing is cut)."""
    lines = [headers, *([clean_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in lines) for column in range(len(headers))]
    if width is not None:
        widths[-1] = max(_MIN_WIDTH, min(widths[-1], width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)))
    return "\n".join(
        _GAP.join(_fit(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in lines
    )


def render_row(label: str, text: str, width: int | None) -> str:
    """`text` beside `label`; what does not fit `width` goes on below it, every word whole (None: one line)."""
    text = join_lines(text)
    if width is None or len(label) + len(text) <= width:
        return f"{label}{text}".rstrip()
    import textwrap  # noqa: PLC0415 - not for every command

    room = max(width - len(label), _MIN_WIDTH)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return label + f"\n{' ' * len(label)}".join(lines)


def render_text(label: str, text: str) -> str:
    """`text` beside `label` with its own lines, which stand below one another: a poem or code stays what it is."""
    indent = " " * len(label)
    first, *rest = clean(text.rstrip().replace("\r\n", "\n")).split("\n")
    return "\n".join(line.rstrip() for line in (label + first, *(indent + line for line in rest)))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal; piped, nothing is cut."""
    click.echo(render_table(headers, rows, find_width()))


def describe_time(at: float) -> str:
    """A moment (Unix seconds) in this machine's time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def find_width() -> int | None:
    """The terminal's width in columns; None when stdout is no terminal."""
    if not sys.stdout.isatty():
        return None
    import shutil  # noqa: PLC0415 - not for every command

    return shutil.get_terminal_size().columns


def paint(text: str, colour_name: str, *, colour: bool) -> str:
    """`text` in a colour, or as it is."""
    return click.style(text, fg=colour_name) if colour else text


def has_colour(*, err: bool = False) -> bool:
    """Whether colours may be written: to a terminal, and NO_COLOR is not set."""
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _indent(text: str) -> str:
    return clean(text).replace("\n", "\n" + _INDENT)


def _fit(cell: str, size: int) -> str:
    return cell.ljust(size) if len(cell) <= size else cell[: size - 1] + "…"
