"""Reservations: the first job that finds no room is not passed for ever by those that would fit. Pure.

Where every job of a fleet has a time limit, the end of what runs is bounded, and so is the start of the job that waits:
others start before it only where that bound does not move. Elsewhere nothing bounds an end: there a job may be passed a
fixed number of times, and then one machine is kept for it until it has emptied enough.

Both hold for each set of series by itself, so that a job that waits for eight GPUs of one series keeps none of another
idle; where a job lacks nothing but CPUs or memory, whoever takes them passes it. They are about single machines: a
cluster's own queue does this for jobs of several.
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from starforge.contract.executor import FleetView, GpuState, NodeView, NoRoom, PlacementAsk, Target
from starforge.contract.ids import AttemptId
from starforge.hardware.series import matches
from starforge_console.domain.claims import UNKNOWN_HOLDER, give_back
from starforge_console.domain.job import JobInFlight, QueuedJob
from starforge_console.domain.reconcile import LIMIT_SLACK_S, START_DEADLINE_S

PASSED_AT_MOST: Final = 16
"""How often a job may be passed where nothing bounds its start."""

Place = Callable[[PlacementAsk, FleetView], Target | NoRoom]
"""How a kind of backend places: pure."""


class Release(NamedTuple):
    """At `at` (Unix seconds), at the latest, `attempt` has given back what it holds on `node`."""

    at: float
    node: str
    attempt: AttemptId


class Head(NamedTuple):
    """The first job that waits for what several want, and the machine that it is to start on.

    It starts at `at` (Unix seconds) or before; None where nothing bounds the end of what runs.
    """

    ask: PlacementAsk
    job: QueuedJob
    node: str
    at: float | None


def bound_place(max_runtime_s: float | None, grace_s: float) -> float | None:
    """How long an attempt of such a job may hold its place, in seconds from its dequeue; None where nothing says."""
    return None if max_runtime_s is None else START_DEADLINE_S + _bound_run(max_runtime_s, grace_s)


def list_releases(in_flight: Iterable[JobInFlight], fleet: str, now: float) -> list[Release]:
    """By when the jobs of `fleet` give back what they hold, the first one first; one without a limit is missing."""
    return sorted(
        Release(max(now, _end_of(job, job.max_runtime_s)), job.attempt.target.node, job.attempt.id)
        for job in in_flight
        if job.attempt.target.fleet == fleet and job.max_runtime_s is not None
    )


def find_start(
    ask: PlacementAsk, view: FleetView, releases: Iterable[Release], place: Place
) -> tuple[str, float] | None:
    """The machine on which `ask` finds room first, and by when; None where no such end makes room.

    `releases` come in the order of their times. `ask` has no room in `view` as it is.
    """
    nodes = {node.name: node for node in view.nodes}
    for release in releases:
        if release.node not in nodes:
            continue
        alone = give_back(replace(view, nodes=(nodes[release.node],)), release.node, release.attempt)
        nodes[release.node] = alone.nodes[0]
        if isinstance(place(ask, alone), Target):
            return release.node, release.at
    return None


def find_node_to_keep(ask: PlacementAsk, view: FleetView, place: Place) -> str | None:
    """The machine that would take `ask` if the jobs on it ended, and that has most of it free already; ties by name."""
    able = [node for node in view.nodes if isinstance(place(ask, replace(view, nodes=(_empty(node),))), Target)]
    return min(able, key=lambda node: (-_count_free(ask, node), node.name)).name if able else None


@dataclass(slots=True)
class FleetReservations:
    """What of one fleet is promised in a pass. `releases` is None where its jobs need no limit."""

    place: Place
    releases: list[Release] | None
    heads: list[Head] = field(default_factory=list)

    def promise(self, ask: PlacementAsk, job: QueuedJob, view: FleetView) -> Head | None:
        """What `job`, which has no room in `view`, is promised; None where it is not first, or can hope for nothing."""
        if any(_compete(head.ask, ask, view) for head in self.heads):
            return None
        found = find_start(ask, view, self.releases, self.place) if self.releases is not None else None
        node = found[0] if found is not None else find_node_to_keep(ask, view, self.place)
        if node is None:
            return None
        head = Head(ask, job, node, None if found is None else found[1])
        self.heads.append(head)
        return head

    def list_passed(self, ask: PlacementAsk, view: FleetView, name: str) -> list[Head]:
        """Those without a bounded start that `ask` passes when it starts on the machine `name`.

        It passes those that could use its GPUs, and those that lack nothing there but CPUs or memory.
        """
        freed = replace(view, nodes=tuple(replace(node, held={}) for node in view.nodes if node.name == name))
        return [
            head
            for head in self.heads
            if head.at is None and (_compete(head.ask, ask, view) or isinstance(self.place(head.ask, freed), Target))
        ]

    def find_delayed(self, after: FleetView, node: str, attempt: AttemptId, until: float) -> Head | None:
        """Whose start would be later if `attempt`, which `after` has on `node`, stayed there until `until`."""
        bounded = [(head, head.at) for head in self.heads if head.at is not None]
        if not bounded:
            return None
        releases = sorted([*(self.releases or ()), Release(until, node, attempt)])
        for head, at in bounded:
            found = find_start(head.ask, after, releases, self.place)
            if found is None or found[1] > at:
                return head
        return None

    def note_start(self, node: str, attempt: AttemptId, until: float) -> None:
        """`attempt` holds its place on `node` until `until` from now on."""
        if self.releases is not None and until < math.inf:
            self.releases = sorted([*self.releases, Release(until, node, attempt)])


def _end_of(job: JobInFlight, max_runtime_s: float) -> float:
    attempt, run_s = job.attempt, _bound_run(max_runtime_s, job.grace_s)
    if attempt.started_at is not None:
        return attempt.started_at + run_s
    return attempt.dequeued_at + START_DEADLINE_S + run_s


def _bound_run(max_runtime_s: float, grace_s: float) -> float:
    return max_runtime_s + grace_s + LIMIT_SLACK_S


def _compete(one: PlacementAsk, other: PlacementAsk, view: FleetView) -> bool:
    """Whether some GPU of the fleet would do for both; jobs without GPUs compete among themselves."""
    mine, theirs = _list_series(one), _list_series(other)
    if not mine or not theirs:
        return not mine and not theirs
    present = {gpu.series for node in view.nodes for gpu in node.gpus}
    return any(_fits(mine, series) and _fits(theirs, series) for series in present)


def _list_series(ask: PlacementAsk) -> set[str | None]:
    return {pool.series for pool in ask.pools if pool.gpus_per_node}


def _fits(wanted: Collection[str | None], series: str | None) -> bool:
    return any(matches(one, series) for one in wanted)


def _empty(node: NodeView) -> NodeView:
    """The machine once the jobs of this console there have ended; of others nobody here knows when they do."""
    others = {gpu.attempt for gpu in node.gpus if gpu.why == UNKNOWN_HOLDER}
    gpus = tuple(
        replace(gpu, state=GpuState.FREE) if gpu.state is GpuState.HELD and gpu.attempt not in others else gpu
        for gpu in node.gpus
    )
    return replace(node, gpus=gpus, held={one: what for one, what in node.held.items() if one in others})


def _count_free(ask: PlacementAsk, node: NodeView) -> int:
    wanted = _list_series(ask)
    return sum(gpu.state is GpuState.FREE and _fits(wanted, gpu.series) for gpu in node.gpus)
