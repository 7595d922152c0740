"""Whose windows bind a job, what a pass of the queue makes of them, and what is said of a closing."""

import pytest

from server.tests.domain.fleet_model import build_node, job_id, pools_of, queued
from starforge.contract.executor import FleetView
from starforge.contract.launch import PoolRequest
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.opening import (
    Asker,
    KeptWindow,
    OpenNow,
    WindowKind,
    WindowOf,
    Windows,
    find_closing,
    list_closed,
    name_profiles,
)
from starforge_console.domain.placement import place_on_one_node
from starforge_console.domain.schedule import Snapshot, Start, Waits, decide_queue
from starforge_console.domain.window_syntax import parse_window
from starforge_console.scheduler.windows import build_wish

NOON = 1_783_332_000.0
"""Monday, 6 July 2026, 10:00 UTC: noon in Berlin."""
HOUR_S = 3600.0
CPU = (PoolRequest(name="main", nodes=1, gpus_per_node=0),)


def keep(kind: WindowKind, name: str, *spans: str, goes_on: bool = True) -> KeptWindow:
    return KeptWindow(WindowOf(kind, name), parse_window("Europe/Berlin", spans), goes_on=goes_on)


DAYS, NIGHTS = "mon-fri 08:00-20:00", "mon-fri 20:00-08:00"


def pass_over(windows: Windows, *jobs: QueuedJob) -> tuple[list[Start | Waits], OpenNow]:
    """A pass over two fleets of one machine each."""
    views = {name: FleetView(fleet=name, nodes=(build_node(f"{name}1", 8),)) for name in ("a", "b")}
    now = OpenNow(windows, views, NOON)
    snapshot = Snapshot(
        queued=jobs,
        views=views,
        place=dict.fromkeys(views, place_on_one_node),
        explain_hold=now.explain_hold,
        find_closed=now.find_closed,
    )
    return list(decide_queue(snapshot)), now


@pytest.mark.parametrize(
    ("pools", "names"),
    [
        (CPU, {"cpu"}),
        (pools_of(1), {"any"}),
        (pools_of(1, "h200"), {"h200"}),
        (pools_of(1, "h100-sxm"), {"h100-sxm", "h100"}),
        ((*pools_of(1, "h200"), *CPU), {"h200", "cpu"}),
    ],
)
def test_a_jobs_profiles_are_what_it_asks_for_with_their_families(
    pools: tuple[PoolRequest, ...], names: set[str]
) -> None:
    assert name_profiles(pools) >= names
    assert name_profiles(pools) & {"cpu", "any", "h200", "h100-sxm", "h100"} == names


def test_a_job_is_bound_by_its_fleet_its_team_and_its_profiles_alone() -> None:
    kept = (
        *(keep("fleet", "a", DAYS), keep("fleet", "b", DAYS), keep("team", "ml", DAYS), keep("team", "a", DAYS)),
        *(keep("profile", "h200", DAYS), keep("profile", "any", DAYS)),
    )
    windows = Windows(kept, {1: "ml", 2: None})
    assert [str(one.of) for one in windows.bind(1, pools_of(1, "h200"), "a")] == ["fleet a", "team ml", "profile h200"]
    assert [str(one.of) for one in windows.bind(2, pools_of(1), None)] == ["profile any"]


def test_a_job_that_names_no_fleet_goes_to_one_that_is_open() -> None:
    windows = Windows((keep("fleet", "a", NIGHTS),))
    (free, named), now = pass_over(windows, queued(0, 1), queued(1, 1, fleet="a"))
    assert isinstance(free, Start)
    assert free.target.fleet == "b"
    assert isinstance(named, Waits)
    assert "the window of fleet a: is closed: it may start Mon 2026-07-06 20:00 Europe/Berlin" in named.text
    assert now.next_start == NOON + 8 * HOUR_S


def test_where_every_fleet_is_closed_a_job_waits_for_the_first_that_opens() -> None:
    windows = Windows((keep("fleet", "a", NIGHTS), keep("fleet", "b", "mon-fri 18:00-20:00")))
    (wait,), now = pass_over(windows, queued(0, 1))
    assert isinstance(wait, Waits)
    assert [reason.places for reason in wait.reasons] == [("the window of fleet a",), ("the window of fleet b",)]
    assert now.next_start == NOON + 6 * HOUR_S


def test_a_closed_profile_holds_its_jobs_and_lets_others_pass() -> None:
    windows = Windows((keep("profile", "h200", NIGHTS),))
    (held, free), _ = pass_over(windows, queued(0, 1, "h200"), queued(1, 1))
    assert isinstance(held, Waits)
    assert isinstance(free, Start)
    assert free.job.id == job_id(1)


def test_the_longer_the_grace_the_earlier_a_fleet_is_closed_for_a_job() -> None:
    windows = Windows((keep("fleet", "a", "mon-fri 08:00-12:10"), keep("fleet", "b", "mon-fri 08:00-12:10")))
    short, long = queued(0, 1, grace_s=30.0), queued(1, 1, grace_s=600.0)
    decided, _ = pass_over(windows, long, short)
    waits = {one.job.id: one for one in decided if isinstance(one, Waits)}
    assert set(waits) == {long.id}
    assert "closes Mon 2026-07-06 12:10 Europe/Berlin, and a job begins to end 600 s before that" in waits[long.id].text


def test_when_a_job_may_start_is_when_all_its_windows_are_open() -> None:
    windows = Windows((keep("fleet", "a", NIGHTS), keep("team", "ml", "mon-fri 06:00-18:00")), {1: "ml"})
    asker = Asker(1, "a", pools_of(1), 30.0)
    assert windows.find_start(asker, ("a",), NOON) == NOON + 18 * HOUR_S
    anywhere = asker._replace(fleet=None)
    assert windows.find_start(anywhere, ("a", "b"), NOON) == NOON
    assert windows.find_start(anywhere, (), NOON) == NOON


def test_a_closing_begins_with_the_first_window_that_closes_less_the_grace() -> None:
    bound = (keep("fleet", "a", DAYS), keep("team", "ml", "mon-fri 08:00-14:00"))
    assert find_closing(bound, NOON, 300.0) == NOON + 2 * HOUR_S - 300
    assert list_closed(bound, NOON + 2 * HOUR_S - 301, 300.0) == ()
    assert list_closed(bound, NOON + 2 * HOUR_S - 300, 300.0) == bound[1:]
    assert find_closing((keep("fleet", "a", "mon-sun 00:00-24:00"),), NOON, 300.0) is None
    assert find_closing((), NOON, 300.0) is None


def test_a_wish_says_what_closes_and_what_becomes_of_the_job() -> None:
    fleet, team = keep("fleet", "a", NIGHTS), keep("team", "ml", NIGHTS, goes_on=False)
    wished = build_wish((fleet,), NOON + 8 * HOUR_S)
    assert (wished.goes_on, wished.goes_on_at) == (True, NOON + 8 * HOUR_S)
    assert wished.note == "the window of fleet a closes: the job goes on Mon 2026-07-06 20:00 Europe/Berlin"
    for closed, start in (((fleet, team), NOON), ((fleet,), None)):
        stays = build_wish(closed, start)
        assert (stays.goes_on, stays.goes_on_at) == (False, None)
        assert "stays stopped" in stays.note
