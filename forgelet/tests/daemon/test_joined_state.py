"""What a join leaves of the epoch that was there before."""

from dataclasses import replace
from pathlib import Path

import pytest

from starforge.trust.certificates import make_identity
from starforge_forgelet.state import Epoch, NodeIdentity, NodeState

IDENTITY = NodeIdentity(
    node="n1",
    fleet="lab",
    install="0123456789ab",
    server="http://127.0.0.1:1",
    console_certificate="",
    advertise="127.0.0.1:2",
    storage_root="/s",
    storage_id="x",
    ingest_url="http://127.0.0.1:3",
    heartbeat_s=10.0,
)


@pytest.mark.parametrize(
    ("told", "kept"),
    [(7, Epoch(number=7)), (5, Epoch(number=5, nonce="open")), (0, Epoch(number=5, nonce="open"))],
    ids=["a copy took a newer one", "its own is the newest", "an older console tells none"],
)
def test_who_joins_again_follows_the_newest_epoch_that_was_given_away(tmp_path: Path, told: int, kept: Epoch) -> None:
    state = NodeState(tmp_path / "state")
    pem = make_identity("n1").pem
    state.write_identity(IDENTITY, pem, 0)
    state.write_epoch(Epoch(number=5, nonce="open"))
    state.write_identity(IDENTITY, pem, 0, told)
    assert state.load_epoch() == kept


def test_another_node_begins_with_the_epoch_that_it_is_told(tmp_path: Path) -> None:
    state = NodeState(tmp_path / "state")
    state.write_identity(IDENTITY, make_identity("n1").pem, 0)
    state.write_epoch(Epoch(number=5))
    state.write_identity(replace(IDENTITY, node="n2"), make_identity("n2").pem, 0, 0)
    assert state.load_epoch() == Epoch()
