"""Quotas: the numbers, the words, and that no start ever leads over a limit."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starforge.contract.launch import PoolRequest
from starforge_console.domain.gpu_hours import HOUR_S, Span, measure_all
from starforge_console.domain.quota import GIB, Holder, Limit, Member, Quotas, Usage, count_gpus, find_never
from starforge_console.domain.waiting import describe_waiting

ANN, BOB, EVE = 1, 2, 3
MEMBERS = {ANN: Member("ann", "ml"), BOB: Member("bob", "ml"), EVE: Member("eve", None)}
USERS = st.sampled_from([ANN, BOB, EVE])
LIMITS = st.builds(
    lambda gpus, jobs: Limit(gpus=gpus, jobs=jobs),
    st.none() | st.integers(0, 12),
    st.none() | st.integers(0, 4),
)
HOLDERS = [Holder("user", "ann"), Holder("user", "bob"), Holder("user", "eve"), Holder("team", "ml")]


def pools(gpus: int, series: str | None = "h200", nodes: int = 1) -> tuple[PoolRequest, ...]:
    return (PoolRequest(name="main", nodes=nodes, gpus_per_node=gpus, series=series),)


def quotas(**limits: Limit) -> Quotas:
    """Limits of `user_ann`, `team_ml` and the like."""
    named = {Holder(*name.split("_")): limit for name, limit in limits.items()}  # type: ignore[arg-type]  # as named
    return Quotas(limits=named, members=MEMBERS)


def say(found: Quotas, held: list[tuple[int, str, int]], user: int, gpus: int) -> str:
    holds = Usage(found, held).find_holds(user, pools(gpus))
    return describe_waiting(holds) if holds else ""


def test_a_user_without_a_limit_waits_for_nothing() -> None:
    assert say(Quotas(), [(ANN, "j1", 8)], ANN, 64) == ""
    assert say(quotas(user_bob=Limit(gpus=0)), [(ANN, "j1", 8)], ANN, 64) == ""


def test_who_holds_what_and_what_would_free_it_is_said() -> None:
    held = [(ANN, "jaa", 4), (BOB, "jbb", 8), (EVE, "jcc", 100)]
    assert say(quotas(team_ml=Limit(gpus=16)), held, ANN, 8) == (
        "quota of team ml: 12 of 16 GPUs in use (jbb of bob: 8 GPUs; jaa of ann: 4 GPUs), 8 asked for: "
        "it can start once 4 of them are given back"
    )


def test_running_jobs_count_whether_or_not_they_have_gpus() -> None:
    found = quotas(user_ann=Limit(jobs=2))
    assert say(found, [(ANN, "j1", 0)], ANN, 0) == ""
    assert "2 of 2 jobs running" in say(found, [(ANN, "j1", 0), (ANN, "j2", 1)], ANN, 0)


def test_a_limit_of_gpus_keeps_no_job_without_gpus() -> None:
    assert say(quotas(user_ann=Limit(gpus=1)), [(ANN, "j1", 1)], ANN, 0) == ""


def test_the_limits_of_user_and_team_are_both_told() -> None:
    found = quotas(user_ann=Limit(jobs=1), team_ml=Limit(gpus=1))
    holds = Usage(found, [(ANN, "j1", 1)]).find_holds(ANN, pools(1))
    assert [hold.places for hold in holds] == [("quota of user ann",), ("quota of team ml",)]


@pytest.mark.parametrize(
    ("limit", "asked", "told"),
    [
        (Limit(gpus=4), pools(4), ""),
        (Limit(gpus=4), pools(3, nodes=2), "6 GPUs asked for, and at most 4"),
        (Limit(gpus=0), pools(1), "1 GPU asked for, and at most 0"),
        (Limit(jobs=0), pools(0), "no job may run"),
        (Limit(gpu_hours=0), pools(1), "no GPU-hours may be used"),
        (Limit(gpu_hours=0), pools(0), ""),
        (Limit(gpu_hours=1), pools(8), ""),
        (Limit(series=frozenset({"l40s"})), pools(1), "h200 GPUs are asked for, and allowed are l40s"),
        (Limit(series=frozenset({"l40s"})), pools(1, None), "name one of them"),
        (Limit(series=frozenset({"l40s"})), pools(0), ""),
        (Limit(series=frozenset({"h100"})), pools(1, "h100-sxm"), ""),
        (Limit(series=frozenset({"h100"})), pools(1, "h100"), ""),
        (Limit(series=frozenset({"h100-sxm"})), pools(1, "h100"), "h100 GPUs are asked for"),
        (Limit(series=frozenset({"h100-sxm", "h100-pcie", "h100-nvl"})), pools(1, "h100"), ""),
        (Limit(storage_gib=0), pools(0), "nothing may be held on the storage"),
        (Limit(storage_gib=1), pools(8), ""),
        (Limit(profiles=frozenset({"cpu", "l40s"})), pools(1), "profile h200 is asked for, and allowed are cpu, l40s"),
        (Limit(profiles=frozenset({"cpu", "l40s"})), pools(0), ""),
        (Limit(profiles=frozenset({"l40s"})), pools(0), "profile cpu is asked for, and allowed are l40s"),
        (Limit(profiles=frozenset({"l40s"})), pools(1, None), "profile any is asked for"),
        (Limit(profiles=frozenset({"any"})), pools(1, None), ""),
        (Limit(profiles=frozenset({"any"})), pools(1), "profile h200 is asked for"),
        (Limit(profiles=frozenset({"h100"})), pools(1, "h100-sxm"), ""),
        (Limit(profiles=frozenset({"h100-sxm"})), pools(1, "h100"), "profile h100 is asked for"),
        (Limit(profiles=frozenset({"any"}), series=frozenset({"l40s"})), pools(1, None), "name one of them"),
        (Limit(profiles=frozenset({"h200"}), series=frozenset({"l40s"})), pools(1), "h200 GPUs are asked for"),
        (Limit(profiles=frozenset()), pools(0), "allowed are none"),
        (Limit(profiles=frozenset({"cpu"})), (*pools(0), *pools(2)), "profile h200 is asked for"),
    ],
)
def test_what_no_wait_could_ever_mend_is_told_apart(limit: Limit, asked: tuple[PoolRequest, ...], told: str) -> None:
    why = find_never(limit, asked)
    assert told in why
    assert bool(why) == bool(told)


NOW = 1_800_000_000.0
"""08:00 UTC."""


def used(gpus: int, since_h: float, until_h: float | None, user: int = ANN) -> Span:
    """GPUs held from so many hours ago until so many hours ago; None: still."""
    return Span(user, "jaa", gpus, NOW - since_h * HOUR_S, None if until_h is None else NOW - until_h * HOUR_S)


@pytest.mark.parametrize(
    ("most", "spans", "told"),
    [
        (12, [used(1, 20, 9)], ""),
        (12, [used(1, 20, 8)], "12 of 12 GPU-hours of the last 24 hours used: it can start once 0.1"),
        (12, [used(2, 20, 13.75)], "12.5 of 12 GPU-hours of the last 24 hours used: it can start once 0.6 of them"),
        (12, [used(2, 20, 13.75)], "have come free, by 12:15 UTC"),
        (1, [used(1, 2, 1)], "1 of 1 GPU-hour of the last 24 hours used"),
        (150, [used(8, 24, 5)], "152 of 150 GPU-hours of the last 24 hours used: it can start once 3 of them"),
        (2000, [used(100, 24, 3.5)], "2050 of 2000 GPU-hours of the last 24 hours used: it can start once 60 of them"),
        (12, [used(1, 30, None)], "and what runs uses as much as comes free (jaa of ann: 1 GPU)"),
        (12, [used(1, 20, 8, EVE)], ""),
        (12, [used(1, 20, 8, BOB)], "quota of team ml: 12 of 12"),
    ],
)
def test_how_many_hours_are_used_and_when_some_come_free_is_told(most: int, spans: list[Span], told: str) -> None:
    usage = Usage(quotas(team_ml=Limit(gpu_hours=most)), spans=spans, now=NOW)
    holds = usage.find_holds(ANN, pools(1))
    assert told in describe_waiting(holds) if told else not holds
    assert not usage.copy().find_holds(ANN, pools(0)), "what asks for no GPU uses no GPU-hours"
    assert usage.copy().find_holds(ANN, pools(1)) == holds


@given(most=st.integers(1, 5), stored=st.dictionaries(USERS, st.integers(0, 6)), user=USERS, gpus=st.integers(0, 2))
def test_no_start_ever_comes_while_storage_is_full(most: int, stored: dict[int, int], user: int, gpus: int) -> None:
    found = quotas(user_ann=Limit(storage_gib=most), team_ml=Limit(storage_gib=most + 1))
    held = {one: GIB * count for one, count in stored.items()}
    usage = Usage(found, stored=held)
    full = [
        holder
        for holder, limit in found.list_limits(user)
        if sum(size for one, size in held.items() if holder in MEMBERS[one].holders) >= (limit.storage_gib or 0) * GIB
    ]
    assert [hold.places for hold in usage.copy().find_holds(user, pools(gpus))] == [
        (f"quota of {one}",) for one in full
    ]


def test_how_much_is_stored_and_what_frees_it_is_told() -> None:
    usage = Usage(quotas(team_ml=Limit(storage_gib=2)), stored={ANN: 2 * GIB, BOB: GIB // 2, EVE: 9 * GIB})
    assert describe_waiting(usage.find_holds(ANN, pools(0))) == (
        "quota of team ml: 2.5 GiB of 2 GiB on the storage held: it can start once 512.0 MiB of it are freed; "
        "'sf quota' names the runs that hold it, and 'sf job delete' frees what one that has ended holds"
    )
    assert usage != Usage(quotas(team_ml=Limit(storage_gib=2)), stored={ANN: GIB}), "what is freed ends a rest"
    just = Usage(quotas(team_ml=Limit(storage_gib=2)), stored={ANN: 2 * GIB - 1, EVE: GIB})
    assert not just.find_holds(ANN, pools(8))


def test_the_text_of_a_wait_stays_the_same_for_minutes() -> None:
    spans = [used(1, 30, 10), used(1, 10, None)]
    limited = quotas(user_ann=Limit(gpu_hours=12))
    said = {describe_waiting(Usage(limited, spans=spans, now=NOW + s).find_holds(ANN, pools(1))) for s in range(240)}
    assert len(said) <= 2


@given(
    most=st.integers(1, 40),
    spans=st.lists(st.builds(used, st.integers(1, 8), st.integers(0, 48), st.none() | st.just(0), USERS), max_size=6),
    user=USERS,
)
def test_no_start_ever_comes_once_the_hours_are_used(most: int, spans: list[Span], user: int) -> None:
    found = quotas(user_ann=Limit(gpu_hours=most), team_ml=Limit(gpu_hours=2 * most))
    holds = Usage(found, spans=spans, now=NOW).find_holds(user, pools(1))
    over = [
        holder
        for holder, limit in found.list_limits(user)
        if measure_all([one for one in spans if holder in MEMBERS[one.user_id].holders], NOW)
        >= (limit.gpu_hours or 0) * HOUR_S
    ]
    assert [hold.places for hold in holds] == [(f"quota of {holder}",) for holder in over]


@given(
    limits=st.dictionaries(st.sampled_from(HOLDERS), LIMITS),
    running=st.lists(st.tuples(USERS, st.integers(0, 8)), max_size=6),
    queue=st.lists(st.tuples(USERS, st.integers(0, 8)), max_size=20),
)
def test_no_start_ever_leads_over_a_limit(
    limits: dict[Holder, Limit], running: list[tuple[int, int]], queue: list[tuple[int, int]]
) -> None:
    held = [(user, f"r{number}", gpus) for number, (user, gpus) in enumerate(running)]
    usage = Usage(Quotas(limits=limits, members=MEMBERS), held)
    gpus, jobs = _count(held)
    for number, (user, asked) in enumerate(queue):
        if usage.find_holds(user, pools(asked)):
            continue
        usage.take(user, f"q{number}", asked)
        for holder in MEMBERS[user].holders:
            gpus[holder] += asked
            jobs[holder] += 1
            limit = limits.get(holder, Limit())
            assert limit.gpus is None or asked == 0 or gpus[holder] <= limit.gpus
            assert limit.jobs is None or jobs[holder] <= limit.jobs


@given(limits=st.dictionaries(st.sampled_from(HOLDERS), LIMITS), user=USERS, asked=st.integers(0, 12))
def test_what_is_not_refused_for_ever_may_start_when_nothing_runs(
    limits: dict[Holder, Limit], user: int, asked: int
) -> None:
    found = Quotas(limits=limits, members=MEMBERS)
    never = any(find_never(limit, pools(asked)) for _, limit in found.list_limits(user))
    assert bool(Usage(found).find_holds(user, pools(asked))) == never


def _count(held: list[tuple[int, str, int]]) -> tuple[Counter[Holder], Counter[Holder]]:
    gpus, jobs = Counter[Holder](), Counter[Holder]()
    for user, _, count in held:
        for holder in MEMBERS[user].holders:
            gpus[holder] += count
            jobs[holder] += 1
    assert count_gpus(pools(2, nodes=3)) == 6
    return gpus, jobs
