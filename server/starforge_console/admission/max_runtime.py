"""Gate `max_runtime`: fleets that take only jobs with a time limit, so that the start of those that wait is bounded."""

from starforge.contract.api import RefusalView
from starforge.said.sentence import say
from starforge_console.admission.gate import Snapshot, Submission, Verdict


class MaxRuntimeGate:
    """Asks for a time limit where every fleet that the job may go to requires one."""

    name = "max_runtime"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether some fleet takes the job with or without a limit."""
        named = submission.spec.spec.placement.fleet
        fleets = [one.fleet for one in snapshot.fleets if named in {None, one.fleet.name}]
        strict = [fleet.name for fleet in fleets if fleet.requires_limit]
        against, limit_s = ", ".join(f"fleet {name}" for name in strict), submission.spec.spec.lifecycle.max_runtime_s
        if not strict:
            return Verdict(message=say("admission.limit_unasked"))
        if limit_s is not None:
            return Verdict(against=against, message=say("admission.limit", s=f"{limit_s:g}"))
        if len(strict) < len(fleets):
            return Verdict(against=against, message=say("admission.unlimited", fleets=against))
        is_one = len(strict) == 1
        refusal = RefusalView(
            code="max_runtime_required",
            gate=self.name,
            what=say("refusal.unlimited"),
            why=say("refusal.unlimited_why", fleets=against)
            if is_one
            else say("refusal.unlimited_why_all", fleets=against),
            next_step=say("refusal.unlimited_next") if named is None else say("refusal.unlimited_next_fleet"),
        )
        return Verdict(against=against, refusals=(refusal,))
