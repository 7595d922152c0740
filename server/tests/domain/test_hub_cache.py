"""Which fetched models may go: the least recently used, no more than needed, and never what a job reads."""

from hypothesis import given
from hypothesis import strategies as st

from starforge_console.domain.hub_cache import ABANDONED_S, SnapshotFacts, SnapshotId, decide_snapshots

NOW = 1e9
NOTHING: frozenset[SnapshotId] = frozenset()


def snapshot(name: str, size: int, ago_s: float = 0.0, *, is_whole: bool = True) -> SnapshotFacts:
    found = SnapshotId("model", f"a/{name}", "1" * 40)
    return SnapshotFacts(id=found, bytes=size, used_at=NOW - ago_s, is_whole=is_whole)


def names(snapshots: list[SnapshotFacts], in_use: frozenset[SnapshotId], limit: int | None) -> list[str]:
    return [going.snapshot.id.repo for going in decide_snapshots(snapshots, in_use, limit, NOW)]


def test_the_least_recently_used_go_until_the_rest_fits() -> None:
    there = [snapshot("new", 40, 10), snapshot("old", 40, 1000), snapshot("older", 40, 2000)]
    assert names(there, NOTHING, 80) == ["a/older"]
    assert names(there, NOTHING, 79) == ["a/older", "a/old"]
    assert names(there, NOTHING, 120) == []
    (going,) = decide_snapshots(there, NOTHING, 80, NOW)
    assert going.why == "the cache holds 40 B too much, and no job used it for 33 min 20 s"


def test_what_jobs_read_stays_whatever_the_limit_is() -> None:
    old, new = snapshot("old", 40, 1000), snapshot("new", 40, 10)
    assert names([old, new], frozenset([old.id]), 40) == ["a/new"]
    assert names([old, new], frozenset([old.id, new.id]), 0) == []


def test_without_a_limit_only_abandoned_fetches_go() -> None:
    there = [
        snapshot("whole", 40, ABANDONED_S * 2),
        snapshot("begun", 40, ABANDONED_S, is_whole=False),
        snapshot("under-way", 40, ABANDONED_S - 1, is_whole=False),
    ]
    assert names(there, NOTHING, None) == ["a/begun"]
    assert names(there, frozenset([there[1].id]), None) == []


@given(
    st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1e6), st.booleans(), st.booleans()), max_size=12),
    st.integers(0, 500),
)
def test_no_more_goes_than_has_to_and_nothing_that_is_in_use(
    rows: list[tuple[int, float, bool, bool]], limit: int
) -> None:
    there = [snapshot(str(n), size, ago_s, is_whole=whole) for n, (size, ago_s, whole, _) in enumerate(rows)]
    in_use = frozenset(one.id for one, (_, _, _, used) in zip(there, rows, strict=True) if used)
    going = [one.snapshot for one in decide_snapshots(there, in_use, limit, NOW)]
    assert not in_use & {one.id for one in going}
    kept = [one for one in there if one not in going]
    whole = [one for one in going if one.is_whole]
    if sum(one.bytes for one in kept) > limit:
        assert all(one.id in in_use or not one.is_whole for one in kept)
    if whole:  # without the last of them there would be too much
        assert sum(one.bytes for one in kept) + whole[-1].bytes > limit
    newest_gone = max((one.used_at for one in whole), default=0.0)
    assert all(one.used_at >= newest_gone for one in kept if one.is_whole and one.id not in in_use)
