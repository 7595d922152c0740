"""Imports structlog without what it would import for terminals and the console never uses."""

import sys
from typing import Final

_UNUSED: Final = "rich"


def load_structlog() -> None:
    """Import structlog as it is imported where rich is not installed; rich itself can be imported afterwards.

    structlog takes it for tracebacks in colours alone, which this console writes plainly. It costs 3 MB of memory and a
    tenth of a start. Nothing happens where either of them is there already.
    """
    if _UNUSED in sys.modules or "structlog" in sys.modules:
        return
    sys.modules[_UNUSED] = None  # type: ignore[assignment]  # None keeps a module from being found
    try:
        import structlog  # noqa: F401, PLC0415 - to be found by everybody who imports it later
    finally:
        del sys.modules[_UNUSED]
