"""A console whose engine never answers, so that its jobs wait, on either database."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess
from server.tests.backup.support import KINDS
from server.tests.databases import empty_place
from starforge_console.ledger.place import Server

Make = Callable[..., ConsoleProcess]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Where the ledger lies: `sqlite` or `postgres`."""
    return str(request.param)


@pytest.fixture
def make(tmp_path: Path, kind: str) -> Iterator[Make]:
    """Makes a console of that name, with its database, which is not set up yet; all share one storage."""
    made: list[ConsoleProcess] = []

    def _make(name: str, **settings: str) -> ConsoleProcess:
        folder = tmp_path / name
        place = empty_place(folder / "state" / "ledger.db") if kind == "postgres" else None
        url = {"FORGE_DATABASE_URL": place.url.reveal()} if isinstance(place, Server) else {}
        console = ConsoleProcess(
            folder,
            str(folder / "no-engine.sock"),
            {
                "FORGE_STORAGE_ROOT": str(tmp_path / "storage"),
                "FORGE_JOB_UID": "0",
                "FORGE_JOB_GID": "0",
                "FORGE_IMAGE_RESOLVE": "off",
                **url,
                **settings,
            },
        )
        made.append(console)
        return console

    yield _make
    for console in made:
        console.close()
