"""Many requests of every route, fitting and unfit: more than the inner loop has time for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from schemathesis import GenerationMode

from server.tests.web.fuzzing import Walk
from server.tests.web.lives import begin, run_to_end
from server.tests.web.serving import serving
from server.tests.web.support import ConsoleUnderTest, build_console, close_console, submit

EXAMPLES = 60
pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def lone_console(tmp_path: Path) -> Iterator[ConsoleUnderTest]:
    built = build_console(tmp_path)
    try:
        yield built
    finally:
        close_console(built)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["that-fit", "that-do-not"])
@pytest.mark.parametrize("role", ["member", "admin"])
def test_however_many_requests_come_none_meets_a_fault(
    lone_console: ConsoleUnderTest, mode: GenerationMode, role: str
) -> None:
    headers = lone_console.add_user("ann", role)
    ended, running = submit(lone_console, headers), submit(lone_console, headers)
    run_to_end(lone_console, ended)
    begin(lone_console, running)
    with serving(lone_console) as served:
        walk = Walk(f"http://127.0.0.1:{served.ports.api_port}", headers, (ended, running))
        walk.run(mode, EXAMPLES)
    assert walk.statuses
