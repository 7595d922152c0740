"""`sf windows` and `sf admin window`: what is sent, and how windows and their edges are shown."""

import json
from typing import Any

import pytest

from core.tests.cli.conftest import Sf
from core.tests.client.server import ConsoleState

pytestmark = pytest.mark.usefixtures("server")

PLACE = "/admin/windows"
LAB = {
    "kind": "fleet",
    "name": "lab",
    "zone": "Europe/Berlin",
    "open": ["mon-fri 20:00-08:00", "sat-sun 00:00-24:00"],
    "without": ["2026-12-24"],
    "goes_on": False,
    "is_open": False,
    "changes_at": 1_783_360_800.0,
    "set_by": "root",
    "set_at": 0.0,
    "lost": "",
}
EDGE = {
    "at": 1_783_360_800.0,
    "edge": "opens",
    "kind": "fleet",
    "name": "lab",
    "zone": "Europe/Berlin",
    "local": "Mon 2026-07-06 20:00",
}


def test_a_window_is_set_with_spans_and_dates(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"PUT {PLACE}/fleet/lab"] = LAB
    words = ("admin", "window", "set", "fleet", "lab", "--zone", "Europe/Berlin", "--open", "mon-fri 20:00-08:00")
    done = sf(*words, "--open", "sat,sun 00:00-24:00", "--except", "2026-12-24", "--no-continue")
    assert (done.code, done.out) == (0, "the window of fleet lab is closed until 2026-07-06 18:00 UTC\n")
    (sent,) = [seen.body for seen in state.seen if seen.method == "PUT"]
    assert json.loads(sent) == {
        "zone": "Europe/Berlin",
        "open": ["mon-fri 20:00-08:00", "sat,sun 00:00-24:00"],
        "without": ["2026-12-24"],
        "goes_on": False,
    }
    assert sf(*words, "--json").json == LAB


@pytest.mark.parametrize(
    "words",
    [("user", "ann", "--zone", "UTC", "--open", "mon 08:00-20:00"), ("fleet", "lab", "--zone", "UTC")],
)
def test_another_kind_or_no_span_is_refused_before_anything_is_sent(
    sf: Sf, state: ConsoleState, words: tuple[str, ...]
) -> None:
    assert sf("admin", "window", "set", *words).code == 2
    assert [seen for seen in state.seen if seen.path.startswith(PLACE)] == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "is closed until 2026-07-06 18:00 UTC"),
        ({"is_open": True}, "is open until 2026-07-06 18:00 UTC"),
        ({"is_open": True, "changes_at": None}, "is always open"),
        ({"changes_at": None}, "is closed, and never opens again"),
    ],
)
def test_windows_are_listed_with_how_they_are_now(
    sf: Sf, state: ConsoleState, changes: dict[str, Any], says: str
) -> None:
    state.answers[f"GET {PLACE}"] = {"items": [LAB | changes]}
    _, row = sf("admin", "window", "ls").out.splitlines()
    assert f"fleet lab  {says}  no " in row
    assert "mon-fri 20:00-08:00, sat-sun 00:00-24:00, except 1 date" in row
    assert sf("admin", "window", "ls", "--json").json == {"items": [LAB | changes]}


@pytest.mark.parametrize("words", [("windows",), ("admin", "window", "ls")])
def test_a_time_zone_that_vanished_is_told_with_what_to_do(sf: Sf, state: ConsoleState, words: tuple[str, ...]) -> None:
    lost = LAB | {"changes_at": None, "lost": "counts in a time zone that is gone: set the window anew"}
    state.answers[f"GET {PLACE}"] = {"items": [lost]}
    state.answers["GET /windows"] = {"windows": [lost], "edges": []}
    told = sf(*words)
    assert told.code == 0
    assert "is closed: its time zone is not known" in told.out + told.err
    assert "warning: the window of fleet lab counts in a time zone that is gone: set the window anew" in told.err


def test_a_window_is_removed(sf: Sf, state: ConsoleState) -> None:
    state.answers[f"DELETE {PLACE}/team/vision"] = {}
    assert sf("admin", "window", "rm", "team", "vision").out == "team vision has no window any more\n"
    told = sf("admin", "window", "rm", "team", "vision", "--json").json
    assert told == {"kind": "team", "name": "vision", "removed": True}


def test_the_next_edges_are_shown_in_local_time_and_utc(sf: Sf, state: ConsoleState) -> None:
    state.answers["GET /windows"] = {"windows": [LAB], "edges": [EDGE]}
    done = sf("windows")
    head, row = done.out.splitlines()
    assert head.split() == ["LOCAL", "ZONE", "UTC", "EDGE", "WINDOW"]
    assert row.split("  ") == ["Mon 2026-07-06 20:00", "Europe/Berlin", "2026-07-06 18:00", "opens", "fleet lab"]
    assert "fleet lab is closed until" in done.err
    assert sf("windows", "--json", "--edges", "3").json == {"windows": [LAB], "edges": [EDGE]}
    state.answers["GET /windows"] = {"windows": [], "edges": []}
    assert sf("windows").out == "there is no window: everything may run at any time\n"
    assert state.seen[-1].path.startswith("/windows")
