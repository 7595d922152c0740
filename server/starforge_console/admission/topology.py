"""Gate `topology`: some fleet of the asked kind could ever run the job, were it empty.

A fleet whose machines do not answer is no reason to refuse: not knowing is a warning.
"""

from collections.abc import Sequence

from starforge.contract.api import RefusalView
from starforge.contract.launch import PoolRequest
from starforge.said.sentence import say
from starforge.wording import describe_nearest
from starforge_console.admission.gate import FleetState, Snapshot, Submission, Verdict
from starforge_console.domain.placement import Fit, decide_fit
from starforge_console.domain.pools import build_pools


class TopologyGate:
    """Asks for a fleet that is large enough."""

    name = "topology"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the job could ever be placed."""
        asked = submission.spec.spec.placement.fleet
        states = [state for state in snapshot.fleets if asked is None or state.fleet.name == asked]
        if not states:
            return Verdict(refusals=(self._refuse_no_fleet(asked, snapshot),))
        pools = build_pools(submission.spec)
        answers = dict(_ask(state, pools) for state in states)
        able = [fleet for fleet, fit in answers.items() if fit == Fit()]
        unsure = {fleet: fit.unknown for fleet, fit in answers.items() if fit.unknown}
        against = f"fleets {', '.join(answers)}"
        if able:
            return Verdict(against=against, message=say("admission.fits", fleets=", ".join(able)))
        if unsure:
            warnings = tuple(say("admission.fleet", fleet=fleet, why=why) for fleet, why in unsure.items())
            return Verdict(against=against, warnings=warnings)
        return Verdict(against=against, refusals=tuple(self._refuse(*answer) for answer in answers.items()))

    def _refuse(self, fleet: str, fit: Fit) -> RefusalView:
        return RefusalView(
            code="never_fits",
            gate=self.name,
            what=say("refusal.fits", fleet=fleet),
            why=fit.never,
            next_step=say("refusal.fits_next"),
        )

    def _refuse_no_fleet(self, asked: str | None, snapshot: Snapshot) -> RefusalView:
        if asked is None:
            what: str = say("refusal.no_fleet")
            next_step: str = say("refusal.no_fleet_next")
        else:
            what = say("refusal.fleet_unknown", name=repr(asked))
            next_step = describe_nearest(asked, [state.fleet.name for state in snapshot.fleets])
        return RefusalView(code="fleet_unknown", gate=self.name, what=what, next_step=next_step)


def _ask(state: FleetState, pools: Sequence[PoolRequest]) -> tuple[str, Fit]:
    if state.capabilities is None:
        return state.fleet.name, Fit(unknown=say("admission.no_backend", kind=state.fleet.kind))
    return state.fleet.name, decide_fit(pools, state.view, state.capabilities)
