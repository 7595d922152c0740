"""`sf log render`: what the page of a job and `sf job logs` show for raw bytes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import click

from starforge.cli.log_writers import TextLog
from starforge.cli.output import json_option
from starforge.errors import InputError
from starforge.logtext.levels import find_level
from starforge.logtext.reading import LineReader
from starforge.logtext.render import Line

_PIECE_BYTES: Final = 1 << 16


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--rank", type=click.IntRange(0), metavar="N", help="Only what this rank wrote.")
@json_option
def render(file: Path, rank: int | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show raw log bytes as the page of a job and `sf job logs` would.

    FILE is `-` for standard input. Each line is decoded by itself, of a progress
    bar its last state is shown, of a very long line the beginning and the end;
    colours stay on a terminal, and every other sequence is removed.

    \b
    JSON: {lines: [{number, offset, text, level, omitted_bytes}], bytes}
    level is "", "warn", "err" or "gap"; offset is where the line begins.
    """
    pieces = _read(file)
    if as_json:
        _print_json(pieces, rank)
        return
    log = TextLog(rank)
    for piece in pieces:
        log.write(piece)
    log.finish()


def _read(file: Path) -> Iterator[bytes]:
    """The file piece by piece. Raises InputError."""
    try:
        with click.open_file(str(file), "rb") as opened:
            yield from _pieces(opened)
    except OSError as error:
        raise InputError(
            f"{file} cannot be read", why=error.strerror or str(error), next_step="name a file, or - for standard input"
        ) from error


def _pieces(opened: IO[bytes]) -> Iterator[bytes]:
    while piece := opened.read(_PIECE_BYTES):
        yield piece


def _print_json(pieces: Iterator[bytes], rank: int | None) -> None:
    """One document, written as it is read: a log may be longer than the memory."""
    reader, size_bytes, before = LineReader(rank=rank), 0, ""
    click.echo('{"lines": [', nl=False)
    for piece in pieces:
        size_bytes += len(piece)
        for line in reader.feed(piece):
            click.echo(before + json.dumps(_describe(line)), nl=False)
            before = ", "
    last = reader.finish()
    if last is not None:
        click.echo(before + json.dumps(_describe(last)), nl=False)
    click.echo(f'], "bytes": {size_bytes}}}')


def _describe(line: Line) -> dict[str, str | int]:
    text = line.text
    level = find_level(text)
    return {
        "number": line.number,
        "offset": line.offset,
        "text": text,
        "level": level,
        "omitted_bytes": line.omitted_bytes,
    }
