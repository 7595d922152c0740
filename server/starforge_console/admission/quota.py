"""Gate `quota`: the limits of the user and of the user's team.

What could never start under a limit is refused; what is only over it now waits in the queue.
"""

from starforge.contract.api import RefusalView
from starforge.wording import count_of
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.domain.pools import build_pools
from starforge_console.domain.quota import Holder, find_never
from starforge_console.domain.waiting import describe_waiting


class QuotaGate:
    """Asks for room under every limit that binds the user."""

    name = "quota"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the job could ever start, and whether it could now."""
        user_id, pools = submission.account.user_id, build_pools(submission.spec)
        limits = snapshot.usage.quotas.list_limits(user_id)
        if not limits:
            return Verdict(message="no limit")
        against = "; ".join(f"{holder}: {limit}" for holder, limit in limits)
        never = [(holder, find_never(limit, pools)) for holder, limit in limits]
        refusals = tuple(self._refuse(holder, why) for holder, why in never if why)
        if refusals:
            return Verdict(against=against, refusals=refusals)
        holds = snapshot.usage.find_holds(user_id, pools)
        if holds:
            return Verdict(against=against, warnings=(f"it waits in the queue: {describe_waiting(holds)}",))
        used = ", ".join(
            f"{holder} holds {count_of(sum(one.gpus for one in snapshot.usage.held_by(holder)), 'GPU')}"
            for holder, _ in limits
        )
        return Verdict(against=against, message=used)

    def _refuse(self, holder: Holder, why: str) -> RefusalView:
        return RefusalView(
            code="quota_never",
            gate=self.name,
            what=f"the quota of {holder} never lets this start",
            why=why,
            next_step="ask for what it allows, or an administrator for more",
        )
