"""Which fetched models and datasets may go when there are more of them than are to be kept. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from starforge.wording import describe_bytes, describe_duration
from starforge_console.domain.inputs import HubKind

ABANDONED_S: Final = 7 * 86_400.0
"""The beginning of a fetch that no job wants any more is kept this long: somebody may submit again."""

RESUMABLE_S: Final = 14 * 86_400.0
"""So long after its end a job that did not succeed counts as one that may be resumed, and its inputs as in use."""


class SnapshotId(NamedTuple):
    """One repository at one commit."""

    kind: HubKind
    repo: str
    commit: str

    def __str__(self) -> str:
        return f"{self.kind} {self.repo}@{self.commit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """A snapshot on the storage. `used_at` is when an attempt was last given it; `is_whole`: its fetch has ended."""

    id: SnapshotId
    bytes: int
    used_at: float
    is_whole: bool = True


class Goes(NamedTuple):
    """A snapshot that may go, and why."""

    snapshot: SnapshotFacts
    why: str


def decide_snapshots(
    snapshots: Iterable[SnapshotFacts], in_use: frozenset[SnapshotId], limit_bytes: int | None, now: float
) -> Sequence[Goes]:
    """What may go so that at most `limit_bytes` stay (None: as many as there are), least recently used first.

    What is in `in_use` never goes, even if that alone is more than the limit. What a fetch left half done goes first,
    once nobody has gone on with it for `ABANDONED_S`, whatever the limit says.
    """
    found = sorted(snapshots, key=lambda one: (one.used_at, one.id))
    left = [one for one in found if not _is_abandoned(one, in_use, now)]
    gone = [one for one in found if _is_abandoned(one, in_use, now)]
    going = [Goes(one, "the rest of a fetch that no job waits for") for one in gone]
    over = 0 if limit_bytes is None else sum(one.bytes for one in left) - limit_bytes
    for one in left:
        if over <= 0:
            break
        if one.id in in_use or not one.is_whole:
            continue
        ago = describe_duration(max(0.0, now - one.used_at))
        going.append(Goes(one, f"the cache holds {describe_bytes(over)} too much, and no job used it for {ago}"))
        over -= one.bytes
    return going


def _is_abandoned(one: SnapshotFacts, in_use: frozenset[SnapshotId], now: float) -> bool:
    return not one.is_whole and one.id not in in_use and now - one.used_at >= ABANDONED_S
