"""What a node may say of itself: everything of it is kept, counted with and shown to others. Pure."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from starforge.contract.ids import parse_attempt_id
from starforge.contract.wire import NodeReport
from starforge.errors import InputError
from starforge_console.ledger.nodes import LARGEST

NAME_CHARACTERS: Final = 255
MOST_GPUS: Final = 256
_TEXT_CHARACTERS: Final = 16 << 10
_MEND: Final = "mend or upgrade the forgelet there"


def check_report(report: NodeReport) -> None:
    """Raises InputError for a report that holds what no machine has: others reckon with it and look at it."""
    names = {"version": report.version, "boot": report.boot}
    if report.view is not None:
        if len(report.view.gpus) > MOST_GPUS:
            raise InputError(f"node {report.node} tells of {len(report.view.gpus)} GPUs", next_step=_MEND)
        for gpu in report.view.gpus:
            names |= {f"name of GPU {gpu.index}": gpu.name, f"UUID of GPU {gpu.index}": gpu.uuid}
    for what, text in names.items():
        check_name(f"the {what} of node {report.node}", text)
    for attempt in (*report.attempts, *(report.view.held if report.view is not None else ())):
        parse_attempt_id(attempt)
    for value in _walk(msgspec.to_builtins(report)):
        if isinstance(value, str) and len(value) > _TEXT_CHARACTERS:
            raise InputError(f"node {report.node} tells a text of {len(value)} characters", next_step=_MEND)
        if isinstance(value, int | float) and not 0 <= value < LARGEST:
            raise InputError(f"node {report.node} tells a number that is no amount: {value!r:.40}", next_step=_MEND)


def check_name(what: str, text: str) -> None:
    """Raises InputError unless `text` can stand in a line of a page or of a log."""
    if len(text) > NAME_CHARACTERS or not text.isprintable():
        raise InputError(f"{what} cannot be used", why="it is too long or holds control signs")


def _walk(value: Any) -> Iterator[Any]:  # noqa: ANN401 - what JSON holds
    """Every text and number in `value`, keys included."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield key
            yield from _walk(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _walk(below)
    else:
        yield value
