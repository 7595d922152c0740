"""The port of a machine's daemon: its own console is let in by certificate, and a stranger reads nothing there."""

import contextlib
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.security.routes import Spot, list_forgelet_routes
from e2e.support.engines import PrivateEngine
from e2e.support.farm import Farm, Machine, farm
from starforge.contract.wire import INSTALL_HEADER
from starforge.trust.certificates import make_identity
from starforge_forgelet.state import NodeState

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]  # the first test waits for what all of them look at

SPOTS = list_forgelet_routes()
PEOPLE = {"Authorization": "Bearer sfp_" + "x" * 43}
STRANGER = Path(__file__).with_name("stranger.py")
_ANSWER_S = 20.0


@pytest.fixture(scope="module")
def fleet(machine: PrivateEngine, folder: Path) -> Iterator[Farm]:
    with farm(folder, [machine]) as made:
        yield made


@pytest.fixture(scope="module")
def node(fleet: Farm) -> Machine:
    return fleet.machines[0]


@pytest.fixture(scope="module")
def credentials(node: Machine, folder: Path) -> dict[str, Path | None]:
    """Keys with their certificates that strangers may come with."""
    foreign = folder / "foreign.pem"
    foreign.write_text(make_identity("starforge-console").pem)
    return {"no certificate": None, "a certificate of the same name": foreign, "the machine's own": node_key(node)}


def node_key(node: Machine) -> Path:
    return NodeState(node.state_dir).key_file


def console_key(fleet: Farm) -> Path:
    (key,) = Path(fleet.console.environment["FORGE_CONSOLE_STATE_DIR"]).glob("*.pem")
    return key


@pytest.mark.parametrize("spot", SPOTS, ids=str)
def test_nobody_but_its_console_is_let_in(
    fleet: Farm, node: Machine, credentials: dict[str, Path | None], spot: Spot
) -> None:
    install = NodeState(node.state_dir).load_identity().install
    headers = {**PEOPLE, INSTALL_HEADER: install}
    heard = {name: ask(node, spot, key, headers) for name, key in credentials.items()}
    assert heard == {name: [] for name in credentials}
    assert ask(node, spot, console_key(fleet), headers)[0] in {200, 400, 404, 409}
    assert ask(node, spot, console_key(fleet), {**PEOPLE, INSTALL_HEADER: "another"})[0] == 404


def test_plain_text_is_answered_with_nothing(node: Machine) -> None:
    heard = bytes.fromhex(send("plain", node))
    assert b"HTTP" not in heard
    assert len(heard) <= 7, "an alert of TLS at the most"


def test_what_it_shows_of_itself_in_the_handshake_names_nothing(node: Machine) -> None:
    raw = bytes.fromhex(send("certificate", node)).lower()
    assert raw
    identity = NodeState(node.state_dir).load_identity()
    names = (identity.node, identity.fleet, identity.install, socket.gethostname(), "starforge", "forgelet")
    assert [name for name in names if name.encode().lower() in raw] == []


def test_the_consoles_port_takes_a_machines_word_only_with_its_key(fleet: Farm, node: Machine) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", fleet.console.port, timeout=_ANSWER_S)
    with contextlib.closing(connection):
        for verb in ("epoch", "heartbeat"):
            headers = {**PEOPLE, "Authorization": f"Bearer {fleet.token}"}
            connection.request("POST", f"/api/v1/nodes/{node.name}/{verb}", b"{}", headers)
            answer = connection.getresponse()
            told = answer.read().decode()
            assert 400 <= answer.status < 500, told


def ask(node: Machine, spot: Spot, key: Path | None, headers: dict[str, str]) -> Any:  # noqa: ANN401 - a JSON answer
    """Status, headers and body of the answer; nothing when the connection was ended without one."""
    words = {"method": spot.method, "path": spot.path, "key": None if key is None else str(key), "headers": headers}
    return send("ask", node, **words)


def send(do: str, node: Machine, **words: object) -> Any:  # noqa: ANN401 - a JSON answer
    """What a process of a stranger's hears from the machine."""
    order = json.dumps({"do": do, "address": [node.engine.address, node.port], **words})
    done = subprocess.run([sys.executable, STRANGER], input=order, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
