"""The port that jobs report to: an attempt's own token opens it, and a stranger learns nothing there."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.badinput.yard import Yard
from e2e.security.knocking import Knock, Street
from e2e.security.people import Caller, People, Stolen
from e2e.security.routes import Spot, list_ingest_routes
from e2e.support.console import wait_for
from starforge import __version__
from starforge_console.ledger.database import Database

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # the first test waits for what all of them look at

SPOTS = list_ingest_routes()
WAIT_FOR_GO = 'while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done'
PROBED = ("/", "/healthz", "/metrics", "/api/v1/meta", "/api/ingest/v1", "/openapi.json", "/.git/config")


@dataclass(frozen=True, slots=True)
class Port:
    """The port, everybody without an attempt's token, and one with it."""

    street: Street
    strangers: list[Caller]
    attempt: Caller
    words: tuple[str, ...]
    """What a stranger may not read."""


@pytest.fixture(scope="module")
def port(yard: Yard) -> Iterator[Port]:
    job = yard.begin(WAIT_FOR_GO)
    yard.probe.wait_state(job, "RUNNING")
    token = yard.ingest_token(job)
    ended = yard.begin("exit 0")
    old = yard.ingest_token(ended)
    yard.probe.wait_end(ended)
    spent = {"Authorization": f"Bearer {old}"}
    beat = "/api/ingest/v1/heartbeat"
    street = Street(yard.console.ingest_port)
    wait_for(lambda: street.knock("POST", beat, spent).status == 410, "the ended attempt's token to end", 15)
    ledger = Database(Path(yard.console.environment["FORGE_CONSOLE_STATE_DIR"]) / "ledger.db", "ledger")
    people = People(ledger, time.time(), Stolen(token[:-1], "sfj_none", "none", "sfw_none"))
    strangers = [*people.come_to_the_api(), *people.come_to_the_pages()]
    strangers.append(Caller("an attempt that has ended", spent, status=410))
    own = Caller("the attempt", {"Authorization": f"Bearer {token}"})
    words = (__version__, "ada", job, ended, socket.gethostname())
    yield Port(street, strangers, own, words)
    ledger.close()


@pytest.mark.parametrize("spot", SPOTS, ids=str)
def test_nobody_but_an_attempt_is_let_in(port: Port, spot: Spot) -> None:
    path = spot.path.replace("{stream}", "log")
    told = {one.name: (one.status, port.street.knock(spot.method, path, one.headers)) for one in port.strangers}
    wrong = {name: knock.status for name, (status, knock) in told.items() if knock.status not in {401, status}}
    assert wrong == {}
    assert [name for name, (_, knock) in told.items() if knock.status == 401 and tells(port, knock)] == []
    assert port.street.knock(spot.method, path, port.attempt.headers).status in {200, 422}


@pytest.mark.parametrize("path", PROBED)
def test_whoever_looks_around_learns_nothing(port: Port, path: str) -> None:
    knock = port.street.knock("GET", path, {})
    assert knock.status == 404
    assert tells(port, knock) == []
    assert set(knock.headers) <= {"content-length", "content-type", "date"}


def tells(port: Port, knock: Knock) -> list[str]:
    text = f"{knock.headers} {knock.body.decode()}".lower()
    return [word for word in (*port.words, "starforge", "uvicorn", "python") if word.lower() in text]
