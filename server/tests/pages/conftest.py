"""A console for each test, closed after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tests.web.support import ConsoleUnderTest, build_console, close_console


@pytest.fixture
def console(tmp_path: Path) -> Iterator[ConsoleUnderTest]:
    built = build_console(tmp_path)
    try:
        yield built
    finally:
        close_console(built)
