"""A fleet in virtual time, for the tests of decisions: machines, jobs that hold what they were given, and passes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starforge.contract.executor import FleetView, GpuState, GpuView, NodeView
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.launch import PoolRequest
from starforge.contract.states import Reason
from starforge_console.domain.claims import claim, give_back
from starforge_console.domain.fair_share import Share
from starforge_console.domain.job import QueuedJob
from starforge_console.domain.placement import place_on_one_node
from starforge_console.domain.quota import Usage
from starforge_console.domain.reservation import Release
from starforge_console.domain.schedule import Snapshot, Start, Waits, decide_queue

GIB = 1 << 30
FLEET = "f"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
POOLS: dict[tuple[int, str | None], tuple[PoolRequest, ...]] = {}


def pools_of(gpus: int, series: str | None = None) -> tuple[PoolRequest, ...]:
    """One machine with so many GPUs; the same object each time, as the ledger gives it."""
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=gpus, series=series, cpus=1.0, memory_bytes=GIB)
    return POOLS.setdefault((gpus, series), (pool,))


def job_id(number: int) -> JobId:
    """The id of the job with this number; ids go in the order of the numbers."""
    digits = [LETTERS[number // 26**place % 26] for place in reversed(range(9))]
    return JobId("j" + "".join(digits))


def queued(number: int, gpus: int, series: str | None = None, **changes: Any) -> QueuedJob:
    """A job that was submitted at the second `number`."""
    job = QueuedJob(
        id=job_id(number),
        version=1,
        fleet=None,
        priority=0,
        submitted_at=float(number),
        reason=Reason.ADMITTED,
        queued_at=float(number),
        number=1,
        pools=pools_of(gpus, series),
    )
    return job._replace(**changes)


def build_node(name: str, gpus: int, series: str = "h200") -> NodeView:
    """A machine with so many free GPUs."""
    views = tuple(
        GpuView(uuid=f"GPU-{name}-{index}", index=index, name="", series=series, memory_bytes=None, state=GpuState.FREE)
        for index in range(gpus)
    )
    return NodeView(name=name, gpus=views, cpus=512.0, memory_bytes=4096 * GIB)


@dataclass
class Fleet:
    """One fleet and its queue. `limited`: every job has a time limit."""

    view: FleetView
    limited: bool = False
    now: float = 0.0
    queue: dict[JobId, QueuedJob] = field(default_factory=dict)
    running: dict[AttemptId, tuple[QueuedJob, str, float, float]] = field(default_factory=dict)
    """Job, machine, when it ends, and by when it must have ended."""
    waits: dict[JobId, Waits] = field(default_factory=dict)

    @classmethod
    def of(cls, *nodes: NodeView, limited: bool = False) -> "Fleet":
        """A fleet of these machines."""
        return cls(FleetView(fleet=FLEET, nodes=nodes), limited)

    def snapshot(self, usage: Usage | None = None, shares: Mapping[int, Share] | None = None) -> Snapshot:
        """All that a pass decides on now."""
        releases = sorted(Release(until, node, attempt) for attempt, (_, node, _, until) in self.running.items())
        return Snapshot(
            queued=list(self.queue.values()),
            views={FLEET: self.view},
            place={FLEET: place_on_one_node},
            now=self.now,
            releases={FLEET: releases} if self.limited else {},
            usage=usage or Usage(),
            shares=shares or {},
            name_attempt=lambda job, number: AttemptId(f"{job}-{number}-000000"),
        )

    def run_pass(self, lasts_s: Callable[[QueuedJob], float]) -> Sequence[Start]:
        """One pass; a job that starts holds its place for `lasts_s`, at most as long as its limit says."""
        starts = []
        self.waits = {}
        for decision in decide_queue(self.snapshot()):
            if isinstance(decision, Waits):
                self.waits[decision.job.id] = decision
                continue
            job, attempt, target, passed = decision
            starts.append(decision)
            assert count_free(self.view, target.node, job) >= job.pools[0].gpus_per_node, "GPUs given away twice"
            self.view = claim(self.view, target, attempt, job.pools)
            bound = float("inf") if job.lasts_s is None else job.lasts_s
            self.running[attempt] = (job, target.node, self.now + min(bound, lasts_s(job)), self.now + bound)
            del self.queue[job.id]
            for one in passed:
                self.queue[one.id] = replace_passed(self.queue[one.id])
        return starts

    def advance(self) -> bool:
        """Go to the next end of a job; False when nothing runs."""
        if not self.running:
            return False
        self.now = min(ends for _, _, ends, _ in self.running.values())
        for attempt, (_, node, ends, _) in list(self.running.items()):
            if ends <= self.now:
                self.view = give_back(self.view, node, attempt)
                del self.running[attempt]
        return True


def replace_passed(job: QueuedJob) -> QueuedJob:
    """The job after one more has passed it."""
    return job._replace(passed=job.passed + 1)


def count_free(view: FleetView, name: str, job: QueuedJob) -> int:
    """How many GPUs the machine has free for the job."""
    (node,) = [one for one in view.nodes if one.name == name]
    wanted = job.pools[0].series
    return sum(gpu.state is GpuState.FREE and wanted in {None, gpu.series} for gpu in node.gpus)


def drain(view: FleetView, name: str, why: str) -> FleetView:
    """The view with a machine that takes nothing."""
    nodes = tuple(replace(node, accepts=False, why_not=why) if node.name == name else node for node in view.nodes)
    return replace(view, nodes=nodes)
