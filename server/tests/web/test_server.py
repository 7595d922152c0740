import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette

from server.tests.web.serving import serving
from server.tests.web.support import ConsoleUnderTest
from starforge_console.accounts.throttle import FAILURES_AT_ONCE
from starforge_console.errors import SettingsError
from starforge_console.settings.console import HttpSettings
from starforge_console.web.server import Listening, serve

ENOUGH_S = 30


def test_both_listen_on_ports_that_the_machine_chose(console: ConsoleUnderTest) -> None:
    with serving(console) as served:
        assert served.ports.api_port != served.ports.ingest_port
        with served.client() as client:
            assert client.get("/healthz").status_code == 200
        with socket.create_connection(("127.0.0.1", served.ports.ingest_port), ENOUGH_S):
            pass


def test_whoever_sends_too_much_hears_so_and_not_a_broken_connection(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann") | {"Content-Type": "application/json"}
    with serving(console) as served, served.client(headers) as client:
        for _ in range(3):
            answer = client.post("/api/v1/jobs", content=b" " * (5 << 20))
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def _guess_until_slowed_down(client: httpx2.Client, *forwarded: str) -> httpx2.Response:
    """What comes once it is slowed down; each guess says that it comes for the next of `forwarded`."""
    for number in range(20 * FAILURES_AT_ONCE):
        answer = _guess(client, forwarded[number % len(forwarded)])
        if answer.status_code == 429:
            return answer
    raise AssertionError("every guess was answered")


def _guess(client: httpx2.Client, forwarded: str) -> httpx2.Response:
    headers = {"Authorization": "Bearer sfp_guess", "X-Forwarded-For": forwarded}
    return client.get("/api/v1/whoami", headers=headers)


def test_nobody_says_for_somebody_else_where_a_request_comes_from(console: ConsoleUnderTest) -> None:
    """A new made-up address for each guess would never be slowed down."""
    made_up = [f"192.0.2.{number}" for number in range(250)]
    with serving(console) as served, served.client() as client:
        slowed = _guess_until_slowed_down(client, *made_up)
    assert slowed.json()["title"] == "too many failed sign-ins from 127.0.0.1"


def test_a_proxy_that_is_named_is_believed(console: ConsoleUnderTest) -> None:
    with serving(console, HttpSettings(trusted_proxies="192.0.2.0/24, 127.0.0.1")) as served, served.client() as client:
        slowed = _guess_until_slowed_down(client, "203.0.113.1")
        assert slowed.json()["title"] == "too many failed sign-ins from 203.0.113.1"
        assert _guess(client, "203.0.113.2").status_code == 401


@pytest.mark.parametrize("told", ["unknown", "_hidden", "<b>somebody</b>", "2001:db8::zz", "999.0.0.1"])
def test_what_a_proxy_says_that_is_no_address_is_nobodys(console: ConsoleUnderTest, told: str) -> None:
    with serving(console, HttpSettings(trusted_proxies="127.0.0.1")) as served, served.client() as client:
        slowed = _guess_until_slowed_down(client, told)
    assert slowed.json()["title"] == "too many failed sign-ins from 127.0.0.1"


def test_a_proxy_may_say_an_address_of_ipv6(console: ConsoleUnderTest) -> None:
    with serving(console, HttpSettings(trusted_proxies="127.0.0.1")) as served, served.client() as client:
        slowed = _guess_until_slowed_down(client, "made up, 2001:db8::7")
    assert slowed.json()["title"] == "too many failed sign-ins from 2001:db8::7"


@pytest.mark.parametrize("proxies", ["*", "everybody", "127.0.0.1;::1"])
def test_not_everybody_can_be_trusted(proxies: str) -> None:
    with pytest.raises(ValueError, match="trusted_proxies"):
        HttpSettings(trusted_proxies=proxies)


def test_an_address_that_is_taken_is_named_with_its_setting(console: ConsoleUnderTest) -> None:
    async def try_to_serve(port: int) -> None:
        http = HttpSettings(listen="127.0.0.1:0", ingest_listen=f"127.0.0.1:{port}")
        await serve(console.app, Starlette(), http, _nothing, asyncio.Event())

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError, match="FORGE_INGEST_LISTEN"):
        asyncio.run(try_to_serve(taken.getsockname()[1]))


def test_what_fails_when_both_listen_ends_them_and_is_raised(console: ConsoleUnderTest) -> None:
    async def fail(_ports: Listening) -> None:
        raise SettingsError("no room for jobs")

    async def try_to_serve() -> None:
        http = HttpSettings(listen="127.0.0.1:0", ingest_listen="127.0.0.1:0")
        await serve(console.app, Starlette(), http, fail, asyncio.Event())

    with pytest.raises(SettingsError, match="no room for jobs"):
        asyncio.run(asyncio.wait_for(try_to_serve(), ENOUGH_S))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_an_exit_code_of_the_programs_own(tmp_path: Path, number: signal.Signals) -> None:
    program = textwrap.dedent("""
        import asyncio, pathlib, sys
        from starlette.applications import Starlette
        from starforge_console.settings.console import HttpSettings
        from starforge_console.web.server import serve
        from server.tests.web.support import build_console, close_console

        async def main(console):
            async def ready(ports):
                print("ready", flush=True)
            http = HttpSettings(listen="127.0.0.1:0", ingest_listen="127.0.0.1:0")
            await serve(console.app, Starlette(), http, ready, asyncio.Event())

        console = build_console(pathlib.Path(sys.argv[1]))
        asyncio.run(main(console))
        close_console(console)
        print("ended", flush=True)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        rest, _ = process.communicate(timeout=ENOUGH_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest) == (0, "ended\n")


async def _nothing(_ports: Listening) -> None:
    pass
