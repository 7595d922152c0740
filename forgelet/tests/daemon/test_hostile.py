"""What a stranger, or a console gone wrong, sends to the daemon: it is refused by name, and the machine stays heard."""

import contextlib
import json
import resource
import socket
from pathlib import Path

import httpx2
import pytest

from core.tests.containers.builders import make_request, wait_until
from forgelet.tests.support.daemons import Daemon, console_client, wait_for_epoch
from forgelet.tests.support.registrar import INSTALL, Registrar
from starforge.contract.launch import Secret
from starforge.contract.wire import (
    FENCE_HEADER,
    HEALTH_PATH,
    INSTALL_HEADER,
    LAUNCH_PATH,
    LOGS_PATH,
    OBSERVE_PATH,
    SWEEP_PATH,
    decode_error,
    encode,
)
from starforge.errors import SpecError

pytestmark = pytest.mark.engine


def require_refused(answer: httpx2.Response) -> None:
    assert answer.status_code == 400, answer.text
    assert isinstance(decode_error(answer.content), SpecError)


@pytest.mark.parametrize("attempt", ["", "..", "/etc/passwd", "x" * 300, "a\0b"])
def test_no_attempt_without_the_form_of_one_is_looked_for(console: httpx2.Client, attempt: str) -> None:
    body = json.dumps({"wire": 1, "body": {"attempts": [attempt]}})
    require_refused(console.post(OBSERVE_PATH, content=body))


def test_a_message_beyond_all_bounds_is_refused(console: httpx2.Client, tmp_path: Path) -> None:
    require_refused(console.post(SWEEP_PATH, content=b" " * (17 << 20)))
    require_refused(console.post(SWEEP_PATH, content=b'{"wire":1,"body":' + b"[" * 100_000))
    request = encode(make_request(tmp_path, secrets={"A": Secret("hush")}))
    require_refused(console.post(LAUNCH_PATH, content=request.replace(b'"hush"', b"5")))
    require_refused(console.post(LAUNCH_PATH, content=request, headers={FENCE_HEADER: "1" * 5000}))
    assert console.get(HEALTH_PATH).status_code == 200


@pytest.mark.parametrize("cursor", ["x", "../..", "9" * 5000, "-1", "\u00e9"])
def test_a_cursor_that_was_never_given_is_no_crash(console: httpx2.Client, tmp_path: Path, cursor: str) -> None:
    request = make_request(tmp_path, "echo hello; exit 0")
    assert console.post(LAUNCH_PATH, content=encode(request)).status_code == 200
    answer = console.get(LOGS_PATH, params={"attempt": request.attempt, "cursor": cursor})
    assert answer.status_code in {200, 400}, answer.text


def test_strangers_who_connect_and_say_nothing_do_not_silence_the_machine(
    daemon: Daemon, registrar: Registrar, tmp_path: Path
) -> None:
    daemon.before = ("prlimit", "--nofile=256:4096")
    daemon.join(registrar.url, "gpu")
    daemon.start()
    wait_for_epoch(registrar, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft > 700, f"the test needs files of its own, and has {soft} of {hard}"
    with contextlib.ExitStack() as strangers:
        for _ in range(600):
            strangers.enter_context(socket.create_connection(("127.0.0.1", daemon.port), timeout=20))
        heard = len(registrar.reports)
        wait_until(lambda: len(registrar.reports) > heard + 5, "heartbeats beside the strangers", 20)
        headers = {INSTALL_HEADER: INSTALL, FENCE_HEADER: "0"}
        with console_client(registrar, daemon, tmp_path, **headers) as client:
            assert client.get(HEALTH_PATH).status_code == 200
        silent = socket.create_connection(("127.0.0.1", daemon.port), timeout=20)
        assert strangers.enter_context(silent).recv(1) == b""  # whoever says nothing is not kept
