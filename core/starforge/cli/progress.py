"""A progress bar on stderr; nothing at all when that is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_SMALL_BYTES: Final = 8 << 20


@contextmanager
def show_progress(what: str, total_bytes: int) -> Iterator[Callable[..., object]]:
    """A function to call with the bytes just done, or with the bytes done so far and in all.

    What is done in an instant draws no bar.
    """
    if total_bytes < _SMALL_BYTES or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console  # noqa: PLC0415 - only where it draws
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415 - as above

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total_bytes)

    def advance(done: int, total: int | None = None) -> None:
        bar.start()  # with the first step: what turns out to be done already draws nothing
        if total is None:
            bar.advance(task, done)
        else:
            bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bar.stop()
