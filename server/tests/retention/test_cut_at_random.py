"""Random jobs, and passes that are cut at a random step: nothing that anybody needs goes, and nothing is left half."""

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from server.tests.retention.yard import Yard, open_yard
from server.tests.web.support import WORKSPACE
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.states import Reason
from starforge.runner.checkpoints import find_committed
from starforge_console.blobs.places import locate_blob, locate_incoming
from starforge_console.domain.retention import Removal
from starforge_console.ledger.removals import list_unfinished
from starforge_console.retention import disk as disk_module
from starforge_console.retention.disk import Disk

KEPT = 3


class CutOff(BaseException):
    """The process ends here."""


@dataclass(frozen=True, slots=True)
class CutDisk(Disk):
    """A disk below which the process ends before its n-th change, as kill -9 would end it."""

    left: list[int] = field(default_factory=list)

    def remove(self, one: Removal) -> None:
        self._step()
        if one.kind.value == "checkpoint":
            self._move_aside(one)
            self._step()
        for place in self._places(one):
            self._step()
            disk_module._remove(place)

    def take_blob_aside(self, digest: Digest) -> Path | None:
        self._step()
        aside = super(CutDisk, self).take_blob_aside(digest)
        self._step()
        return aside

    def _step(self) -> None:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise CutOff


@dataclass
class World:
    """Jobs of a yard, and what of them must stay as it is."""

    yard: Yard
    chance: random.Random
    untouchable: list[JobId] = field(default_factory=list)
    others: list[AttemptId] = field(default_factory=list)

    def fill(self) -> None:
        for _ in range(self.chance.randint(3, 6)):
            steps = self.chance.sample(range(1, 30), self.chance.randint(0, 7))
            job, attempt = self.yard.start()
            for step in steps:
                self.yard.commit(attempt, step)
            kind = self.chance.choice(["running", "ended", "failed", "parent"])
            if kind == "running":
                self.untouchable.append(job)
                continue
            reason = Reason.EXITED_NONZERO if kind == "failed" else Reason.EXITED_ZERO
            self.yard.finish(job, attempt, reason)
            if kind == "parent":
                self.yard.start_from(job)
                self.untouchable.append(job)
            else:
                self.others.append(attempt)

    def snapshot(self) -> dict[str, bytes]:
        """Every file of the jobs that must stay as they are, and of everybody's outputs."""
        roots = [self.yard.storage.run(job) for job in self.untouchable]
        roots += [self.yard.out(JobId(attempt.split("-")[0])) for attempt in self.others]
        return {str(path): path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()}

    def resumable(self) -> dict[AttemptId, list[int]]:
        """The steps that a resume would look at first, of each ended attempt."""
        found = {}
        for attempt in self.others:
            marks = find_committed(str(self.yard.layout(attempt).checkpoints))
            found[attempt] = [mark.step for mark in marks[:KEPT]]
        return found


@pytest.mark.parametrize("seed", range(8))
def test_a_pass_that_is_cut_anywhere_loses_nothing_and_is_brought_to_its_end(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with open_yard(tmp_path) as yard:
        world = World(yard, chance)
        world.fill()
        orphan = locate_blob(tmp_path / "storage", digest_bytes(b"nobody's"))
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_bytes(b"nobody's")
        yard.later(100)
        before, resumable = world.snapshot(), world.resumable()
        whole = yard.collector._parts.disk
        cuts = 0
        while cuts < 60:
            cut = CutDisk(whole.storage, whole.logs_dir, [chance.randint(0, 4)])
            object.__setattr__(yard.collector._parts, "disk", cut)
            try:
                outcome = asyncio.run(yard.collector.collect("ada"))
            except CutOff:
                cuts += 1
                assert world.snapshot() == before
                assert world.resumable() == resumable
                continue
            if not outcome.items and not outcome.more:
                break
        object.__setattr__(yard.collector._parts, "disk", whole)
        asyncio.run(yard.collector.collect("ada"))
        assert world.snapshot() == before
        assert world.resumable() == resumable
        assert not orphan.exists()
        assert locate_blob(tmp_path / "storage", digest_bytes(WORKSPACE)).read_bytes() == WORKSPACE
        assert list(locate_incoming(tmp_path / "storage").glob("removing-*")) == []
        assert yard.console.ledger.read_now(lambda c: list_unfinished(c, 100)) == []
        for attempt in world.others:
            layout = yard.layout(attempt)
            assert [one.name for one in layout.kept.iterdir()] == ["ckpt"]
            assert not (layout.root / "work").exists()
            assert len(list(layout.checkpoints.iterdir())) <= KEPT
        assert asyncio.run(yard.collector.collect("ada")).items == []
