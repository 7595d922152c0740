"""Gate `backend`: a backend that can be asked beforehand would take the job.

One that cannot be asked, or does not answer, says nothing.
"""

from starforge.contract.api import RefusalView
from starforge.said.sentence import say
from starforge_console.admission.gate import FleetState, Snapshot, Submission, Verdict


class BackendGate:
    """Asks for a fleet whose backend does not refuse the job."""

    name = "backend"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: what the backends said."""
        asked = submission.spec.spec.placement.fleet
        states = [state for state in snapshot.fleets if asked is None or state.fleet.name == asked]
        refusing = [state for state in states if state.refusal]
        if not refusing:
            return Verdict()
        against = f"fleets {', '.join(state.fleet.name for state in states)}"
        if len(refusing) == len(states):
            return Verdict(against=against, refusals=tuple(map(self._refuse, refusing)))
        warnings = tuple(say("admission.fleet", fleet=one.fleet.name, why=one.refusal) for one in refusing)
        return Verdict(against=against, warnings=warnings)

    def _refuse(self, state: FleetState) -> RefusalView:
        return RefusalView(
            code="backend_refuses",
            gate=self.name,
            what=say("refusal.backend", fleet=state.fleet.name),
            why=state.refusal,
            next_step=say("refusal.backend_next"),
        )
