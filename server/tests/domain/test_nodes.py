from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge_console.domain.nodes import (
    AWAY_AFTER_S,
    LONGEST_NAME,
    NodeFacts,
    NodeState,
    NodeStatus,
    decide_standing,
    explain_unreachable,
    name_node,
)

HEARD = NodeFacts(heard_s=1.0, reach="")
NEVER = NodeFacts(heard_s=None, reach=None)
SILENT = NodeFacts(heard_s=AWAY_AFTER_S + 1, reach="")


@pytest.mark.parametrize(
    ("hostname", "name"),
    [
        ("gpu7", "gpu7"),
        ("GPU7.cluster.example.org", "gpu7"),
        ("gpu_7", "gpu-7"),
        ("-gpu--7-", "gpu-7"),
        ("机器", "node"),
        ("", "node"),
        ("...", "node"),
        ("x" * 60, "x" * 40),
    ],
)
def test_a_name_derives_from_the_hosts_first_label(hostname: str, name: str) -> None:
    assert name_node(hostname, set()) == name


def test_a_taken_name_gets_the_next_number_and_stays_within_its_length() -> None:
    assert name_node("gpu7", {"gpu7", "gpu7-2"}) == "gpu7-3"
    assert name_node("x" * 60, {"x" * 40}) == "x" * 38 + "-2"


@given(st.lists(st.text(max_size=60), max_size=20))
def test_names_are_always_fresh_and_well_formed(hostnames: list[str]) -> None:
    taken: set[str] = set()
    for hostname in hostnames:
        name = name_node(hostname, taken)
        assert name not in taken
        assert 0 < len(name) <= LONGEST_NAME
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert name.strip("-") == name
        taken.add(name)


@pytest.mark.parametrize(
    ("advertise", "joined_from", "suspects"),
    [
        ("192.168.9.2:7070", "203.0.113.5", True),
        ("[fd00::7]:7070", "2001:db8::1", True),
        ("10.0.0.7:7070", "10.0.0.7", False),
        ("10.0.0.7:7070", "::ffff:10.0.0.7", False),
        ("gpu7.example.org:7070", "203.0.113.5", False),
        ("10.0.0.7:7070", "unknown", False),
        ("10.0.0.7:7070", "", False),
    ],
)
def test_address_translation_is_suspected_where_the_join_came_from_another_address(
    advertise: str, joined_from: str, *, suspects: bool
) -> None:
    explained = explain_unreachable("timed out", advertise, joined_from)
    assert explained.startswith("timed out")
    assert ("NAT?" in explained) is suspects
    assert explain_unreachable("", advertise, joined_from) == ""


@pytest.mark.parametrize(
    ("facts", "status", "why", "is_silent"),
    [
        (HEARD, NodeStatus.READY, "", False),
        (replace(HEARD, heard_s=AWAY_AFTER_S), NodeStatus.READY, "", False),
        (replace(HEARD, unfit="no engine"), NodeStatus.UNFIT, "no engine", False),
        (replace(HEARD, wanted=NodeState.DRAINING, drained_why="a fan"), NodeStatus.DRAINING, "a fan", False),
        (replace(HEARD, wanted=NodeState.DRAINING, unfit="no engine"), NodeStatus.DRAINING, "", False),
        (replace(HEARD, reach="refused"), NodeStatus.UNREACHABLE, "unreachable from console: refused", True),
        (replace(HEARD, reach="refused", wanted=NodeState.DRAINING), NodeStatus.UNREACHABLE, "refused", True),
        (replace(HEARD, reach=None), NodeStatus.JOINING, "has not called it yet", False),
        (replace(HEARD, two_daemons=True), NodeStatus.SUPERSEDED, "two daemons with one identity", False),
        (replace(HEARD, two_daemons=True, reach="refused"), NodeStatus.SUPERSEDED, "two daemons", True),
        (SILENT, NodeStatus.AWAY, "no heartbeat for 31 s", True),
        (replace(SILENT, wanted=NodeState.DRAINING), NodeStatus.AWAY, "no heartbeat for 31 s", True),
        (replace(SILENT, two_daemons=True), NodeStatus.AWAY, "no heartbeat for 31 s", True),
        (NEVER, NodeStatus.JOINING, "no heartbeat was heard since the console started", True),
        (replace(NEVER, reach="refused"), NodeStatus.JOINING, "started; refused", True),
        (replace(HEARD, wanted=NodeState.LOST), NodeStatus.LOST, "marked lost", True),
        (replace(SILENT, wanted=NodeState.LOST), NodeStatus.LOST, "marked lost", True),
        (replace(HEARD, wanted=NodeState.REMOVED), NodeStatus.REMOVED, "removed from the fleet", False),
    ],
)
def test_a_node_stands_as_the_first_thing_says_that_keeps_jobs_away(
    facts: NodeFacts, status: NodeStatus, why: str, *, is_silent: bool
) -> None:
    standing = decide_standing(facts)
    assert (standing.status, standing.is_silent) == (status, is_silent)
    assert why in standing.why
    assert bool(standing.refusal) == (status is not NodeStatus.READY)


@pytest.mark.parametrize(
    ("why", "refusal"),
    [
        ("drained", "draining: it takes no new jobs"),
        ("a fan is broken", "draining: it takes no new jobs (a fan is broken)"),
    ],
)
def test_why_a_node_drains_is_said_where_nobody_sees_its_status(why: str, refusal: str) -> None:
    assert decide_standing(replace(HEARD, wanted=NodeState.DRAINING, drained_why=why)).refusal == refusal
