"""The real commands on a real PostgreSQL that goes away and comes back, and a backup that moves a console there."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import psycopg
import pytest

from e2e.support.console import ConsoleProcess, find_free_port, wait_for
from server.tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer()
    yield started
    started.close()


@pytest.fixture
def url(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    name = f"c{abs(hash(request.node.name)) % 10**9}"
    with psycopg.connect(_url_of(server, "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0")
    return _url_of(server, name)


@pytest.fixture
def console(tmp_path: Path, url: str) -> Iterator[ConsoleProcess]:
    made = make_console(tmp_path, FORGE_DATABASE_URL=url)
    yield made
    made.close()


def make_console(folder: Path, **settings: str) -> ConsoleProcess:
    """Jobs run on machines that join, so that no engine is needed here."""
    return ConsoleProcess(
        folder,
        str(folder / "no-engine.sock"),
        {"FORGE_DEFAULT_FLEET_KIND": "node", "FORGE_JOB_UID": "0", "FORGE_JOB_GID": "0", **settings},
    )


def run(console: ConsoleProcess, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    program = Path(console.environment["PATH"].split(":")[0]) / "starforge-console"
    environment = console.environment | settings
    return subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def health(console: ConsoleProcess) -> int:
    try:
        console.get("/healthz")
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def begins_sign_in(console: ConsoleProcess) -> bool:
    """Whether a request went well that the console writes into its ledger."""
    body = json.dumps({"client_id": "sf of ann on laptop"}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{console.url}/api/v1/device/code", data=body, headers=headers)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - the same
            return bool(answer.status == HTTPStatus.OK)
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        return False


def test_a_console_is_set_up_serves_and_outlasts_a_restart_of_its_server(
    console: ConsoleProcess, server: PostgresServer
) -> None:
    console.init()
    token = console.token("--scopes", "read,submit,admin")
    assert console.get("/api/v1/jobs", token)["items"] == []
    assert not (console.folder / "state" / "ledger.db").exists()
    server.stop(signal.SIGQUIT)
    assert health(console) == 503
    server.start()
    wait_for(lambda: health(console) == 200, "the console to find its server again")
    # It leads as before: what a crash leaves behind is no other console.
    wait_for(lambda: begins_sign_in(console), "the console to write again")
    assert console.process is not None
    assert console.process.poll() is None
    made = console.token()  # a command of another process
    assert console.get("/api/v1/jobs", made)["items"] == []
    console.restart()
    assert console.get("/api/v1/jobs", token)["items"] == []


def test_a_second_console_on_one_database_is_refused_and_its_url_shows_nowhere(
    console: ConsoleProcess, tmp_path: Path, url: str
) -> None:
    console.init()
    secret = f"{url}&password=hunter2"
    (tmp_path / "other").mkdir(mode=0o700)
    ports = {"FORGE_LISTEN": f"127.0.0.1:{find_free_port()}", "FORGE_INGEST_LISTEN": f"127.0.0.1:{find_free_port()}"}
    done = run(console, "serve", FORGE_CONSOLE_STATE_DIR=str(tmp_path / "other"), FORGE_DATABASE_URL=secret, **ports)
    assert done.returncode == 2
    assert "another console leads the database" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr + console.read_log()
    assert health(console) == 200


def test_a_console_that_lost_its_lead_to_another_one_ends(console: ConsoleProcess, url: str) -> None:
    console.init()
    assert console.process is not None
    with psycopg.connect(url, autocommit=True) as connection:
        # As if another console had led between two sessions of this one.
        connection.execute("SELECT nextval('ledger.leaders')")
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    for _ in range(2):  # one finds its session gone, the next one that it leads no more
        console.sf("secret", "set", "A_SECRET", typed="x", may_fail=True)
    wait_for(lambda: console.process is not None and console.process.poll() is not None, "it to end")
    assert "another console leads" in console.read_log()


def test_a_console_moves_from_sqlite_to_a_server_by_a_backup(tmp_path: Path, url: str) -> None:
    old = make_console(tmp_path / "old")
    try:
        old.init()
        token = old.token("--scopes", "read,submit,admin")
        install = old.get("/api/v1/meta", token)
        taken = run(old, "backup", str(tmp_path / "backup"), "--json")
        assert taken.returncode == 0, taken.stderr
        assert json.loads(taken.stdout)["gaps"] == []
    finally:
        old.close()
    new = make_console(tmp_path / "new", FORGE_DATABASE_URL=url, FORGE_STORAGE_ROOT=str(tmp_path / "old" / "storage"))
    try:
        brought = run(new, "restore", str(tmp_path / "backup"))
        assert brought.returncode == 0, brought.stderr
        assert "nothing starts until every machine has told" in brought.stderr
        again = run(new, "restore", str(tmp_path / "backup"))
        assert again.returncode == 2
        assert "set up here already" in again.stderr
        new.start()
        assert new.get("/api/v1/meta", token) == install
        assert new.get("/api/v1/jobs", token)["items"] == []
    finally:
        new.close()


def _url_of(server: PostgresServer, name: str) -> str:
    return f"postgresql:///{name}?host={server.folder}&user=starforge"
