import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, event

from server.tests.web.lives import run_to_end
from server.tests.web.support import ConsoleUnderTest, submit


@pytest.fixture
def speakers() -> Iterator[set[str]]:
    """The names of the threads that spoke SQL."""
    seen: set[str] = set()

    def note(*_arguments: object) -> None:
        seen.add(threading.current_thread().name)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_no_route_speaks_sql_on_the_event_loops_thread(console: ConsoleUnderTest, speakers: set[str]) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    run_to_end(console, job)
    client = console.client(headers)
    speakers.clear()
    for path in ("", "/events", "/log", "/metrics", "/metrics/loss", "/outputs"):
        client.get(f"/api/v1/jobs/{job}{path}")
    client.get("/api/v1/jobs")
    client.get("/healthz")
    console.local_client().get("/metrics")
    client.post(f"/api/v1/jobs/{job}/stop", json={})
    client.post(f"/signin/{console.add_sign_in_code('bob')}")
    assert client.delete(f"/api/v1/jobs/{job}").status_code == 204
    submit(console, headers)
    client.post("/api/v1/tokens/revoke-self")
    assert {name.split("_")[0] for name in speakers} == {
        "ledger-reader",
        "ledger-writer",
        "series-reader",
        "series-writer",
    }
