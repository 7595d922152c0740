"""Gate `topology`: some fleet of the asked kind could ever run the job, were it empty.

A fleet whose machines do not answer is no reason to refuse: not knowing is a warning.
"""

from dataclasses import dataclass

from starforge.contract.api import RefusalView
from starforge.contract.executor import FleetView, NodeView
from starforge.contract.jobspec import JobSpec, Pool
from starforge.recipes.faults import describe_nearest
from starforge_console.admission.gate import FleetState, Snapshot, Submission, Verdict


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one fleet says: `refused` for ever, `unknown` until it answers, or neither."""

    fleet: str
    refused: str = ""
    unknown: str = ""


class TopologyGate:
    """Asks for a fleet that is large enough."""

    name = "topology"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the job could ever be placed."""
        asked = submission.spec.spec.placement.fleet
        states = [state for state in snapshot.fleets if asked is None or state.fleet.name == asked]
        if not states:
            return Verdict(refusals=(self._refuse_no_fleet(asked, snapshot),))
        answers = [_ask(state, submission.spec) for state in states]
        able = [answer.fleet for answer in answers if not answer.refused and not answer.unknown]
        unsure = [answer for answer in answers if answer.unknown]
        against = f"fleets {', '.join(answer.fleet for answer in answers)}"
        if able:
            return Verdict(against=against, message=f"fits {', '.join(able)}")
        if unsure:
            warnings = tuple(f"fleet {answer.fleet}: {answer.unknown}" for answer in unsure)
            return Verdict(against=against, warnings=warnings)
        return Verdict(against=against, refusals=tuple(self._refuse(answer) for answer in answers))

    def _refuse(self, answer: _Answer) -> RefusalView:
        return RefusalView(
            code="never_fits",
            gate=self.name,
            what=f"fleet {answer.fleet} can never run this",
            why=answer.refused,
            next_step="ask for less, or name another fleet",
        )

    def _refuse_no_fleet(self, asked: str | None, snapshot: Snapshot) -> RefusalView:
        if asked is None:
            what, next_step = "this console has no fleet", "ask an administrator to create one"
        else:
            what = f"there is no fleet {asked!r}"
            next_step = describe_nearest(asked, [state.fleet.name for state in snapshot.fleets])
        return RefusalView(code="fleet_unknown", gate=self.name, what=what, next_step=next_step)


def _ask(state: FleetState, spec: JobSpec) -> _Answer:
    name, pools = state.fleet.name, spec.spec.resources.pools
    if state.capabilities is None:
        return _Answer(name, unknown=f"no backend of kind {state.fleet.kind} is served yet")
    if len(pools) > 1 and not state.capabilities.pools:
        return _Answer(name, refused=f"a fleet of kind {state.fleet.kind} runs one pool, and {len(pools)} are asked")
    nodes = sum(pool.nodes for pool in pools)
    if nodes > 1 and not state.capabilities.multi_node:
        return _Answer(
            name, refused=f"a fleet of kind {state.fleet.kind} runs a job on one node, and {nodes} are asked"
        )
    if state.view is None:
        return _Answer(name, unknown="its machines have not answered yet, so it is not known whether the job fits")
    return _ask_view(state.view, pools)


def _ask_view(view: FleetView, pools: tuple[Pool, ...]) -> _Answer:
    for pool in pools:
        reasons = [_why_not(node, pool) for node in view.nodes]
        possible = [node for node, reason in zip(view.nodes, reasons, strict=True) if not reason]
        doubts = [node.gpus_unknown for node in possible if pool.gpus_per_node and node.gpus_unknown]
        if len(possible) >= pool.nodes + len(doubts):
            continue
        if len(possible) >= pool.nodes:
            return _Answer(view.fleet, unknown=f"it is not known whether pool {pool.name} fits: {doubts[0]}")
        why = _describe(pool, view, reasons)
        if view.complete:
            return _Answer(view.fleet, refused=why)
        return _Answer(view.fleet, unknown=f"{why}; some machines did not answer ({view.why_not or 'no reason known'})")
    return _Answer(view.fleet)


def _describe(pool: Pool, view: FleetView, reasons: list[str]) -> str:
    if not view.nodes:
        return "it has no machine"
    nearest = next((reason for reason in reasons if reason), "")
    if pool.nodes > 1 and "" in reasons:
        return f"pool {pool.name} asks for {pool.nodes} nodes, and {reasons.count('')} could take a share of it"
    return f"pool {pool.name}: {nearest}"


def _why_not(node: NodeView, pool: Pool) -> str:
    """Why the node could not hold one share of the pool even if it were empty; empty text when it could, or may."""
    gpus = sum(1 for gpu in node.gpus if pool.series is None or gpu.series == pool.series)
    if gpus < pool.gpus_per_node and not node.gpus_unknown:
        kind = f"{pool.series} GPUs" if pool.series else "GPUs"
        return f"{pool.gpus_per_node} {kind} are asked, and {node.name} has {gpus}"
    if pool.cpus is not None and pool.cpus > node.cpus:
        return f"{pool.cpus:g} CPUs are asked, and {node.name} has {node.cpus:g}"
    if pool.memory_bytes is not None and pool.memory_bytes > node.memory_bytes:
        return f"{pool.memory_bytes} bytes of memory are asked, and {node.name} has {node.memory_bytes}"
    return ""
