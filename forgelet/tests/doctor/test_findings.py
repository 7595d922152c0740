"""What the doctor makes of what it is told."""

import socket
import time

import pytest

from starforge_forgelet.doctor import check_clock
from starforge_forgelet.findings import Outcome
from starforge_forgelet.network_checks import check_port
from starforge_forgelet.state import NodeIdentity, Pulse

IDENTITY = NodeIdentity(
    node="n3",
    fleet="gpu",
    install="lab",
    server="https://forge",
    console_certificate="",
    advertise="10.0.0.3:7070",
    storage_root="/data",
    storage_id="x",
    ingest_url="http://forge:7081",
    heartbeat_s=10.0,
)


@pytest.mark.parametrize(
    ("skew_s", "state"),
    [
        (0.2, Outcome.OK),
        (-4.9, Outcome.OK),
        (61.0, Outcome.WARNING),
        (-61.0, Outcome.WARNING),
        (None, Outcome.NOT_CHECKED),
    ],
)
def test_the_clock_is_compared_as_the_last_heartbeat_found_it(skew_s: float | None, state: Outcome) -> None:
    assert check_clock(Pulse(skew_s=skew_s)).state is state


def test_a_console_that_does_not_reach_the_machine_keeps_jobs_away_and_not_another_version() -> None:
    pulse = Pulse(heard_at=time.time(), reachable=False, trouble="the console does not reach this machine: timed out")
    assert check_port(IDENTITY, pulse, 7070).state is Outcome.FAILED
    assert check_port(IDENTITY, pulse, 7070, lenient=True).state is Outcome.WARNING


def test_without_a_daemon_the_port_has_to_be_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        taken = check_port(IDENTITY, Pulse(heard_at=time.time() - 3600), port)
        assert (taken.state, f"something listens on port {port}" in taken.message) == (Outcome.FAILED, True)
    assert check_port(IDENTITY, None, port).state is Outcome.OK
