"""A machine that cannot even be called, for its certificate or the console's key: it alone is not reached."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from forgelet.tests.support.daemons import find_free_port
from starforge.contract.ids import AttemptId
from starforge.contract.wire import NodeReport
from starforge.trust.certificates import make_identity
from starforge_console.domain.nodes import NodeState
from starforge_console.executors.node.directory import KnownNode
from starforge_console.executors.node.fleet import NodeExecutor
from starforge_console.executors.node.link import LinkSettings

CERTIFICATE = make_identity("n").certificate


class Machines:
    """A directory of machines that nobody answers at."""

    def __init__(self, certificates: Mapping[str, str]) -> None:
        address = f"127.0.0.1:{find_free_port()}"
        self.known = {
            name: KnownNode(
                name=name,
                fleet="gpu",
                advertise=address,
                certificate=certificate,
                standing=NodeState.ACTIVE,
                fence=0,
                heard_at=time.monotonic(),
            )
            for name, certificate in certificates.items()
        }

    def nodes(self, fleet: str) -> Sequence[KnownNode]:
        assert fleet == "gpu"
        return list(self.known.values())

    async def locate(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, KnownNode]:
        assert not attempts
        return {}

    def note_reach(self, name: str, why: str) -> bool:
        self.known[name] = replace(self.known[name], reach=why)
        return True

    def note_report(self, name: str, report: NodeReport) -> None:
        raise AssertionError(f"{name} sends heartbeats: {report}")

    def subscribe(self, fleet: str, wake: Callable[[], None]) -> Callable[[], None]:
        assert (fleet, callable(wake)) == ("gpu", True)
        return lambda: None


def greet(machines: Machines, key_file: Path) -> None:
    """Start the fleet, which calls every machine, and end it."""

    async def _greet() -> None:
        executor = NodeExecutor("gpu", machines, LinkSettings(install="i", key_file=key_file), lambda _name: None)
        try:
            await executor.start(lambda: None)
        finally:
            await executor.close()

    asyncio.run(_greet())


@pytest.mark.parametrize(
    "certificate",
    ["", "no certificate", f"\u00e9{CERTIFICATE}", f"{CERTIFICATE}-----BEGIN CERTIFICATE-----\nAA==\n-----END"],
)
def test_a_certificate_that_cannot_be_used_spoils_no_other_machine(tmp_path: Path, certificate: str) -> None:
    key_file = tmp_path / "key.pem"
    key_file.write_text(make_identity("console").pem)
    machines = Machines({"n1": certificate, "n2": CERTIFICATE})
    greet(machines, key_file)
    assert "its certificate" in str(machines.known["n1"].reach)
    assert "connection refused" in str(machines.known["n2"].reach)


def test_a_console_whose_key_is_gone_starts_and_says_so_at_every_machine(tmp_path: Path) -> None:
    machines = Machines({"n1": CERTIFICATE})
    greet(machines, tmp_path / "gone.pem")
    assert str(tmp_path / "gone.pem") in str(machines.known["n1"].reach)
