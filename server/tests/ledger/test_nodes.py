"""Numbers that daemons send are compared and set; nothing of a refused one is kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from server.tests.ledger.builders import open_ledger
from starforge.contract.launch import Network
from starforge.contract.registration import Superseded
from starforge.errors import NotFound, Refused
from starforge_console.domain.nodes import NodeState
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import Fleet, add_fleet
from starforge_console.ledger.heartbeats import join_by_token
from starforge_console.ledger.join_tokens import NewJoinToken, add_join_token, use_join_token
from starforge_console.ledger.nodes import (
    LARGEST,
    Beat,
    NodeRow,
    add_node,
    find_node,
    list_nodes,
    load_node,
    note_heartbeat,
    raise_fence,
    take_epoch,
)

ROW = NodeRow(
    name="n1",
    fleet="gpu",
    hostname="n1",
    advertise="10.0.0.1:7070",
    certificate="a certificate",
    version="0.1.0",
    joined_at=1.0,
    joined_from="10.0.0.1",
)
BEAT = Beat(epoch=1, counter=1, fence=0, version="0.1.0", report=b"{}")


def prepare(ledger: Database) -> None:
    fleet = Fleet(name="gpu", kind="node", network=Network.BRIDGE, user=None)
    ledger.write_now(lambda c: add_fleet(c, fleet, 1.0))
    ledger.write_now(lambda c: add_node(c, ROW))


def test_a_node_is_read_as_it_was_kept(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        prepare(ledger)
        assert ledger.read_now(list_nodes) == [ROW]
        assert ledger.read_now(lambda c: list_nodes(c, "another")) == []
        assert ledger.read_now(lambda c: find_node(c, "n2")) is None


@pytest.mark.parametrize("have", [-1, LARGEST, LARGEST + 1])
def test_an_epoch_that_nobody_can_have_is_not_followed(tmp_path: Path, have: int) -> None:
    with open_ledger(tmp_path) as ledger:
        prepare(ledger)
        assert ledger.write_now(lambda c: take_epoch(c, "n1", have, "a")) == Superseded(superseded_by=0)
        assert ledger.read_now(lambda c: find_node(c, "n1")) == ROW


def test_an_epoch_sets_the_counter_back_and_ends_the_old_certificate(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        prepare(ledger)
        taken = ledger.write_now(lambda c: take_epoch(c, "n1", 0, "a"))
        assert isinstance(taken, NodeRow)
        assert (taken.epoch, taken.counter, taken.epoch_nonce) == (1, 0, "a")
        with pytest.raises(NotFound):
            ledger.write_now(lambda c: take_epoch(c, "n2", 0, "a"))


@pytest.mark.parametrize(
    "beat",
    [
        replace(BEAT, epoch=0),
        replace(BEAT, epoch=2),
        replace(BEAT, counter=0),
        replace(BEAT, counter=5),
        replace(BEAT, counter=LARGEST),
    ],
)
def test_a_heartbeat_of_another_epoch_or_of_a_counter_that_was_keeps_nothing(tmp_path: Path, beat: Beat) -> None:
    with open_ledger(tmp_path) as ledger:
        prepare(ledger)
        ledger.write_now(lambda c: take_epoch(c, "n1", 0, "a"))
        ledger.write_now(lambda c: note_heartbeat(c, load_node(c, "n1"), replace(BEAT, counter=5), 2.0))
        before = ledger.read_now(lambda c: find_node(c, "n1"))
        assert ledger.write_now(lambda c: note_heartbeat(c, load_node(c, "n1"), beat, 3.0)) is None
        assert ledger.read_now(lambda c: find_node(c, "n1")) == before


def test_a_fence_number_only_rises_and_is_always_above_what_the_daemon_knows(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        prepare(ledger)
        ledger.write_now(lambda c: take_epoch(c, "n1", 0, "a"))
        heard = ledger.write_now(lambda c: note_heartbeat(c, load_node(c, "n1"), replace(BEAT, fence=7), 2.0))
        assert heard is not None
        assert (heard.fence, heard.fence_seen) == (7, 7)
        lost = ledger.write_now(lambda c: raise_fence(c, load_node(c, "n1"), NodeState.LOST))
        assert (lost.state, lost.fence) == (NodeState.LOST, 8)
        lower = ledger.write_now(
            lambda c: note_heartbeat(c, load_node(c, "n1"), replace(BEAT, counter=2, fence=3), 3.0)
        )
        assert lower is not None
        assert (lower.state, lower.fence, lower.fence_seen) == (NodeState.LOST, 8, 3)


def test_a_token_lets_in_exactly_as_many_as_it_says_and_a_failed_join_costs_nothing(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        prepare(ledger)
        new = NewJoinToken(hash="h", fleet="gpu", uses=2, created_by="ada", expires_at=100.0)
        ledger.write_now(lambda c: add_join_token(c, new, 1.0))
        with pytest.raises(Refused, match="expired"):
            ledger.write_now(lambda c: use_join_token(c, "h", "gpu", 100.0))
        with pytest.raises(Refused, match="not for fleet"):
            ledger.write_now(lambda c: join_by_token(c, "h", replace(ROW, fleet="another"), 2.0))
        names = [ledger.write_now(lambda c: join_by_token(c, "h", ROW, 2.0)).name for _ in range(2)]
        assert names == ["n1-2", "n1-3"]
        with pytest.raises(Refused, match="used up"):
            ledger.write_now(lambda c: join_by_token(c, "h", ROW, 2.0))
        assert [row.name for row in ledger.read_now(list_nodes)] == ["n1", "n1-2", "n1-3"]
