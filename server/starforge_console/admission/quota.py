"""Gate `quota`: the limits of the user and of the user's team.

What could never start under a limit is refused; what is only over it now waits in the queue.
"""

from starforge.contract.api import RefusalView
from starforge.said.sentence import say, say_list
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.domain.pools import build_pools
from starforge_console.domain.quota import Holder, find_never, say_gpus
from starforge_console.domain.waiting import describe_waiting


class QuotaGate:
    """Asks for room under every limit that binds the user."""

    name = "quota"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the job could ever start, and whether it could now."""
        user_id, pools = submission.account.user_id, build_pools(submission.spec)
        limits = snapshot.usage.quotas.list_limits(user_id)
        if not limits:
            return Verdict(message=say("admission.no_limit"))
        against = "; ".join(f"{holder}: {limit}" for holder, limit in limits)
        never = [(holder, find_never(limit, pools)) for holder, limit in limits]
        refusals = tuple(self._refuse(holder, why) for holder, why in never if why)
        if refusals:
            return Verdict(against=against, refusals=refusals)
        holds = snapshot.usage.find_holds(user_id, pools)
        if holds:
            return Verdict(against=against, warnings=(say("admission.waits", why=describe_waiting(holds)),))
        used = [
            say("admission.holds", holder=holder.said, gpus=say_gpus(sum(one.gpus for one in held)))
            for holder, held in ((holder, snapshot.usage.held_by(holder)) for holder, _ in limits)
        ]
        return Verdict(against=against, message=say_list("list.comma", used))

    def _refuse(self, holder: Holder, why: str) -> RefusalView:
        return RefusalView(
            code="quota_never",
            gate=self.name,
            what=say("refusal.quota", holder=holder.said),
            why=why,
            next_step=say("refusal.quota_next"),
        )
