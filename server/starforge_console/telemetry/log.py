"""The console's own log: one entry a line on standard error, as text or JSON, and never with a secret in it."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Final, TextIO

import structlog
from structlog.typing import Processor

from starforge_console.settings.console import LogFormat

HIDDEN: Final = "***"
_SECRET_NAMES: Final = re.compile(r"token|password|passwd|secret|authorization|cookie|api_?key", re.IGNORECASE)
_SECRET_TEXTS: Final = re.compile(r"\b(sf[a-z]_)[A-Za-z0-9_-]{16,}|(?<=/signin/)[A-Za-z0-9_-]{16,}|(?<=Bearer )\S+")


def set_up_log(log_format: LogFormat, level: str, stream: TextIO | None = None) -> None:
    """Write this process's log to `stream` (standard error), entries of `level` and above.

    What libraries say through the standard library's logging takes the same way, from `warning` on.
    """
    out = stream if stream is not None else sys.stderr
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    finish: list[Processor] = [
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        hide_secrets,
        _renderer(log_format, out),
    ]
    structlog.configure(
        processors=[*shared, *finish],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(threshold, logging.WARNING))


def hide_secrets(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The entry without what looks like a secret, by the name of a value or by its text."""
    return {name: HIDDEN if _SECRET_NAMES.search(name) else _without_secrets(value) for name, value in entry.items()}


def _renderer(log_format: LogFormat, out: TextIO) -> Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)


def _without_secrets(value: object) -> object:
    if isinstance(value, str):
        return _SECRET_TEXTS.sub(lambda match: (match[1] or "") + HIDDEN, value)
    if isinstance(value, dict):
        return {
            name: HIDDEN if _SECRET_NAMES.search(str(name)) else _without_secrets(member)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(member) for member in value]
    return value
