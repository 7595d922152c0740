"""The attempt's ports on the host's network."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from core.tests.runner.support.attempt import Attempt
from starforge.contract import capsule as contract

PLAN = contract.Plan(argv=(), ports={"MASTER_PORT": 0, "OTHER_PORT": 2})
SHOW = "import json, os; print(json.dumps([os.environ.get(n) for n in ('MASTER_PORT', 'OTHER_PORT', 'THIRD_PORT')]))"


@contextmanager
def listening(address: str, port: int) -> Iterator[None]:
    """Somebody who listens at a port of this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, port), family=family):
        yield


def find_free_base() -> int:
    """A port with free ones behind it, away from those that the kernel hands out to whoever asks for any."""
    base = 20_000 + os.getpid() * 16 % 8_000
    while any(is_taken(port) for port in range(base, base + 3)):
        base += 3
    return base


def is_taken(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False


def test_on_the_hosts_network_the_plans_variables_name_ports_of_the_attempts_block(attempt: Attempt) -> None:
    base = find_free_base()
    attempt.environment = {"FORGE_PORT_BASE": str(base), "MASTER_PORT": "29500"}
    assert attempt.python(SHOW, plan=PLAN).run() == 0, attempt.log()
    assert json.loads(attempt.log()) == [str(base), str(base + 2), None]


def test_elsewhere_every_port_is_left_as_it_is(attempt: Attempt) -> None:
    attempt.environment = {"MASTER_PORT": "29500"}
    assert attempt.python(SHOW, plan=PLAN).run() == 0
    assert json.loads(attempt.log()) == ["29500", None, None]


def test_what_a_plan_says_itself_goes_before_the_block(attempt: Attempt) -> None:
    plan = contract.Plan(argv=(), ports={"MASTER_PORT": 0}, env={"MASTER_PORT": "1234"})
    attempt.environment = {"FORGE_PORT_BASE": str(find_free_base())}
    assert attempt.python(SHOW, plan=plan).run() == 0
    assert json.loads(attempt.log()) == ["1234", None, None]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])  # noqa: S104 - a stranger's, not ours
def test_a_port_that_is_taken_is_refused_before_anything_runs_and_named(attempt: Attempt, address: str) -> None:
    base = find_free_base()
    port = base + 2
    with listening(address, port):
        attempt.environment = {"FORGE_PORT_BASE": str(base)}
        assert attempt.python(SHOW, plan=PLAN).run() == contract.EXIT_PORT_TAKEN
    record = attempt.record()
    assert (record.reason, record.started_at) == ("port_taken", None)
    assert record.message is not None
    assert f"port {port} (OTHER_PORT) of the machine is taken" in record.message
    assert record.message.encode() in attempt.log()


def test_a_port_beside_the_plans_own_may_be_taken(attempt: Attempt) -> None:
    base = find_free_base()
    with listening("127.0.0.1", base + 1):
        attempt.environment = {"FORGE_PORT_BASE": str(base)}
        assert attempt.python(SHOW, plan=PLAN).run() == 0


@pytest.mark.parametrize("base", ["x", "-1", "0", "65534", "99999", "²"])
def test_a_base_that_is_no_port_is_refused(attempt: Attempt, base: str) -> None:
    attempt.environment = {"FORGE_PORT_BASE": base}
    assert attempt.python(SHOW, plan=PLAN).run() == contract.EXIT_REQUIREMENTS
    assert repr(base) in str(attempt.record().message)
