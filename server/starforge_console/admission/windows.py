"""Gate `windows`: when fleet, team and profiles may run. It refuses nothing: windows are changed while jobs wait."""

from starforge.said.sentence import say
from starforge_console.admission.gate import Snapshot, Submission, Verdict
from starforge_console.domain.opening import Asker, describe_instant
from starforge_console.domain.pools import build_pools


class WindowsGate:
    """Asks when the job may start."""

    name = "windows"

    def check(self, submission: Submission, snapshot: Snapshot) -> Verdict:
        """Pure: whether the job may start now, later, or never as the windows are."""
        windows, lifecycle = snapshot.windows, submission.spec.spec.lifecycle
        fleet, pools = submission.spec.spec.placement.fleet, build_pools(submission.spec)
        user_id, served = submission.account.user_id, [one.fleet.name for one in snapshot.fleets]
        bound = list(windows.bind(user_id, pools, fleet))
        if fleet is None:
            bound += [one for name in served for one in windows.bind_fleet(name)]
        if not bound:
            return Verdict(message=say("admission.none_binds"))
        against = ", ".join(str(one.of) for one in bound)
        start = windows.find_start(Asker(user_id, fleet, pools, lifecycle.grace_s), served, snapshot.now)
        if start is None:
            never = say("admission.never_opens", windows=against, s=f"{lifecycle.grace_s:g}")
            return Verdict(against=against, warnings=(never,))
        if start > snapshot.now:
            when = describe_instant(start, bound[0].window.zone)
            return Verdict(against=against, warnings=(say("admission.waits_closed", windows=against, at=when),))
        return Verdict(against=against, message=say("admission.open"))
